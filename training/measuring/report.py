"""report.html: what the runs of a directory are worth, in one file that needs no network and no scripts."""

from __future__ import annotations

import base64
import json
import logging
import shlex
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import pandas as pd

from submission.disk.files import write_whole
from submission.disk.fingerprint import input_hashes
from submission.disk.kept import read_record
from submission.disk.provenance import METRICS, PROVENANCE, load_json
from submission.errors import InputError
from submission.input.directory import Input
from submission.input.order import Order
from submission.input.qrels import read_qrels
from submission.input.runs import read_run
from submission.output.directory import RECORD, RUN_FILE
from submission.progress import progress
from submission.systems.catalogue import CONCLUSIONS, SYSTEMS, find, name_of
from submission.systems.enrichment import Enrichment
from submission.systems.execution import Execution, Stage, walk
from submission.systems.lexical import Lexical
from submission.systems.quality_reranking import QualityReranking
from training.fitting.curves import Curve, draw
from training.measuring import analysis
from training.measuring.evaluate import ALL, BPREF, CONDENSED, HEADLINES, evaluate_runs
from training.measuring.marking import Marked, marked
from training.measuring.overlap import overlap_of, require_overlap
from training.measuring.plots import coverage_plot, differences_plot
from training.measuring.results import SHARES
from training.measuring.shading import LEVELS, Shaded, shaded
from training.measuring.significance import against_baseline, intervals, limits
from training.paths import REPORT
from training.tasks import task_of

log = logging.getLogger(__name__)

DOCUMENTS_SHOWN = 5  # documents a topic and system
EXCERPT = 240  # characters of a premise in the table; the whole one is below it
MEASURE = "nDCG@5"
ARGUMENTS = "bm25_arguments"  # what bm25 over conclusions is held against
CANDIDATES = name_of(CONCLUSIONS)
WAYS = {CONDENSED: "unjudged documents dropped before a list is cut", ALL: "unjudged documents count as 0"}
COLUMNS = ("nDCG@10", "nDCG@25", "MAP", "MRR", "P@5", "Rprec")


@dataclass(frozen=True)
class Topic:
    """A topic in the report."""

    qid: str
    query: str
    mean: float  # of the measure over the systems, unjudged documents as 0
    relevant: int
    found: int  # of them among the candidates
    best: str
    queries: dict[str, str]  # the terms of an expanded query by system, their weights behind them
    pictures: list[Shaded | Marked]  # the first document of a system with an enrichment, one for each of these
    rows: list[list[dict[str, Any] | None]]  # by rank, then system
    texts: list[dict[str, str | None]]


def report(directory: Path, qrels_file: Path, execution: Execution, output: Path, order: Order = "auto") -> None:
    """Write a report on the runs of a directory.

    Args:
        directory: with `<team>-<system>.txt` runs, and run.txt, which is one of them and which the others are compared with, as
            `rank` writes them.
        qrels_file: the judgments; those of documents that the input does not have are left out.
        execution: on the input that the runs were made from; the learning curves of its checkpoints are shown.
        output: the HTML file.
        order: by what runs are ordered, see `in_order`.

    Raises:
        InputError: no runs, none of them run.txt, runs of another input, malformed files, no topic in common.
        OutputError: it cannot be written.
    """
    source = execution.input
    files = {analysis.system(file.stem): file for file in sorted(directory.glob("*-*.txt"))}
    primary, [judged_by] = _primary(directory, files), input_hashes([qrels_file]).values()
    _refuse_other_input(directory, source)
    qrels = read_qrels(qrels_file, set(source.documents["docno"]))
    runs = {system: read_run(file, order) for system, file in files.items()}
    overlaps = [overlap_of(run, qrels, (system, qrels_file.name), (files[system], qrels_file)) for system, run in runs.items()]
    require_overlap(source, qrels, qrels_file.name)
    values = evaluate_runs(runs, qrels)
    systems = _best_first(runs, HEADLINES[0], values)
    coverage = _coverage(qrels, execution)
    lists = {system: analysis.lists(run) for system, run in runs.items()}
    similarity = analysis.similarities({system: lists[system] for system in systems})
    queries = {system: _queries(find(system).stage, execution) for system in systems if system in SYSTEMS}
    pictures = _pictures({system: runs[system] for system in systems}, execution)
    topics = _topics(execution, qrels, {system: runs[system] for system in systems}, values, coverage, queries, pictures)
    baseline = values[primary][f"{MEASURE} all"]
    differences = {system: values[system][f"{MEASURE} all"] - baseline for system in systems if system != primary}
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(REPORT.parent), autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    environment.filters["command"] = lambda query: shlex.join(["./run.sh", "search", "-i", str(source.directory), "--", query])
    html = environment.get_template(REPORT.name).render(
        directory=directory.resolve().name,
        qrels=qrels_file.name,
        note=source.note,
        judged=len(qrels),
        measure=MEASURE,
        columns=COLUMNS,
        systems=systems,
        primary=primary,
        fitted=[system for system in systems if _is_fitted(system, judged_by, execution)],
        overlaps=[overlap.line() for overlap in overlaps],
        limits=limits(len(coverage)),
        headlines=HEADLINES,
        rows=_headlines(systems, primary, values),
        results=[_results(way, words, systems, values) for way, words in WAYS.items()],
        coverage=coverage.to_dict("index"),
        covered=coverage["found"].sum() / coverage["relevant"].sum(),
        coverage_plot=_image(coverage_plot(coverage)),
        against=_against(qrels, lists) if {CANDIDATES, ARGUMENTS} <= set(runs) else [],
        differences_plot=_image(differences_plot(differences)) if differences else None,
        similarity={
            name: {"image": _image(picture), "table": similarity[name].to_dict("index")}
            for name, picture in analysis.heat_maps(similarity).items()
        },
        curves={
            system: {"image": _image(draw(system, curve, found["log"])), "of": curve, **found}
            for system, (curve, found) in _logs(systems, execution.checkpoints.directory).items()
        },
        topics=topics,
        worst=sorted(topics, key=lambda topic: topic.mean),
        shown=DOCUMENTS_SHOWN,
        levels=LEVELS,
    )
    write_whole(output, html)
    log.info("%s: %d systems, %d topics, %.1f MB", output, len(systems), len(topics), len(html.encode()) / 1e6)


def _primary(directory: Path, files: Mapping[str, Path]) -> str:
    """The system whose run is run.txt."""
    file = directory / RUN_FILE
    own = file.read_bytes() if file.is_file() else None
    found = [system for system, one in files.items() if one.read_bytes() == own]
    if not found:
        raise InputError(
            f"{directory}: expected {RUN_FILE}, and that run among those named <team>-<system>.txt, as `rank` writes them"
        )
    return found[0]


def _is_fitted(system: str, judgments: str, execution: Execution) -> bool:
    """Tell whether any part of a system was fitted or tuned to the judgments with this hash."""
    names = {part.checkpoint for part in walk(SYSTEMS[system].stage) if part.checkpoint} if system in SYSTEMS else set()
    records = [execution.checkpoints.directory / name / PROVENANCE for name in names]
    return any(judgments in record.read_text(encoding="utf-8") for record in records if record.is_file())


def _refuse_other_input(directory: Path, source: Input) -> None:
    try:
        made_from = read_record(directory / RECORD).decided_by["input"]
    except LookupError:
        log.warning("%s: no %s that says from which input the runs are", directory, RECORD)
        return
    if made_from != source.fingerprint:
        raise InputError(f"{directory}: the runs were made from another input than {source.directory}; give theirs with -i")


def _best_first(systems: Iterable[str], measure: str, values: Mapping[str, pd.DataFrame]) -> list[str]:
    return sorted(systems, key=lambda system: -values[system][measure].fillna(0.0).mean())


def _headlines(systems: Sequence[str], primary: str, values: Mapping[str, pd.DataFrame]) -> list[dict[str, Any]]:
    """The table of nDCG@5 by its three definitions: means, intervals, and tests against the primary system."""
    tested = {measure: against_baseline({one: values[one][measure] for one in systems}, primary) for measure in HEADLINES}
    rows = []
    for system in systems:
        table, cells = values[system], []
        for measure, (mean, low, high) in zip(HEADLINES, intervals(table[[*HEADLINES]]).to_numpy().tolist(), strict=True):
            p = None if system == primary else tested[measure].loc[system, "randomisation (Holm)"]
            cells.append({"mean": mean, "low": low, "high": high, "p": p})
        shares = {name: table[name].mean() for name in SHARES}
        defined = int(table[HEADLINES[0]].notna().sum())
        rows.append({"system": system, "is_primary": system == primary, "cells": cells, "topics": defined, **shares})
    return rows


def _results(way: str, words: str, systems: Sequence[str], values: Mapping[str, pd.DataFrame]) -> dict[str, Any]:
    """A table of the other measures by one way of counting what is unjudged, the best first by nDCG@5 so."""
    rows = [
        {"system": system, "figures": [values[system][name].mean() for name in (*(f"{one} {way}" for one in COLUMNS), BPREF)]}
        for system in _best_first(systems, f"{MEASURE} {way}", values)
    ]
    return {"way": way, "words": words, "rows": rows}


def _coverage(qrels: pd.DataFrame, execution: Execution) -> pd.DataFrame:
    """By topic: how many relevant documents the input has, and how many of them are candidates of the rankers."""
    relevant = qrels[qrels["rel"] > 0]
    candidates = execution.lists(CONCLUSIONS)[["qid", "docno"]]
    found = relevant.merge(candidates, on=["qid", "docno"]).groupby("qid").size()
    table = pd.DataFrame({"relevant": relevant.groupby("qid").size(), "found": found}).fillna(0).astype(int)
    table["candidates"] = candidates.groupby("qid").size().reindex(table.index).fillna(0).astype(int)
    return table.loc[[qid for qid in execution.topics["qid"] if qid in table.index]]


def _queries(stage: Stage, execution: Execution) -> dict[str, str]:
    """By topic, the terms of a stage's expanded query, the heaviest first; of a stage that expands none, nothing."""
    if not isinstance(stage, Lexical) or stage.opened(execution.checkpoints).expansion is None:
        return {}
    found = {}
    for qid, text in zip(execution.topics["qid"], execution.topics["query"], strict=True):
        ordered = sorted(stage.query(execution, text).items(), key=lambda pair: -pair[1])
        found[qid] = ", ".join(f"{term} {weight:.2f}" for term, weight in ordered)
    return found


def _pictures(runs: Mapping[str, pd.DataFrame], execution: Execution) -> dict[str, list[Shaded | Marked]]:
    """By topic, for each enrichment the first document of the first system that has it: its words shaded, or its parts."""
    first: dict[Enrichment, tuple[str, Lexical]] = {}
    for system in runs:
        stage = SYSTEMS[system].stage if system in SYSTEMS else None
        if isinstance(stage, Lexical) and stage.enrichment is not None:
            first.setdefault(stage.enrichment, (system, stage))
    found: dict[str, list[Shaded | Marked]] = defaultdict(list)
    for enrichment, (system, stage) in first.items():
        draws = marked if enrichment.opened(execution.checkpoints).enricher.parts else shaded
        tops = runs[system].groupby("qid", sort=False)["docno"].first()
        for qid, docno in progress(list(tops.items()), f"pictures of {enrichment.checkpoint}", "documents"):
            found[str(qid)].append(draws(system, stage, enrichment, execution, docno))
    return found


def _against(qrels: pd.DataFrame, lists: Mapping[str, Mapping[str, list[str]]]) -> list[dict[str, Any]]:
    """By topic, which relevant documents BM25 lists by conclusions alone, by whole arguments alone, and by both."""
    rows = []
    for qid, group in qrels[qrels["rel"] > 0].groupby("qid", sort=False):
        relevant = set(group["docno"])
        conclusions, arguments = (relevant & set(lists[system].get(str(qid), [])) for system in (CANDIDATES, ARGUMENTS))
        alone = {"conclusions": sorted(conclusions - arguments), "arguments": sorted(arguments - conclusions)}
        rows.append({"qid": qid, "relevant": len(relevant), "both": len(conclusions & arguments), **alone})
    return rows


def _extremes(shown: pd.DataFrame, systems: Iterable[str], execution: Execution) -> dict[tuple[str, str], str]:
    """Find the best and the worst of each topic's arguments `qid docno` by quality, where a system re-ranks by quality."""
    stages = [find(system).stage for system in systems if system in SYSTEMS]
    reordering = next((stage for stage in stages if isinstance(stage, QualityReranking)), None)
    if reordering is None:
        return {}
    judged = shown.assign(quality=reordering.quality.scores(execution, shown))
    by_topic = judged.sort_values(["qid", "quality", "docno"]).groupby("qid")
    ends = {"worst": by_topic.nth(0), "best": by_topic.nth(-1)}
    return {pair: word for word, own in ends.items() for pair in zip(own["qid"], own["docno"], strict=True)}


def _topics(
    execution: Execution,
    qrels: pd.DataFrame,
    runs: Mapping[str, pd.DataFrame],
    values: Mapping[str, pd.DataFrame],
    coverage: pd.DataFrame,
    queries: Mapping[str, Mapping[str, str]],
    pictures: Mapping[str, list[Shaded | Marked]],
) -> list[Topic]:
    source, labels = execution.input, dict(zip(zip(qrels["qid"], qrels["docno"], strict=True), qrels["rel"], strict=True))
    tops = {system: dict(iter(run.groupby("qid").head(DOCUMENTS_SHOWN).groupby("qid"))) for system, run in runs.items()}
    wanted = {docno for by_topic in tops.values() for frame in by_topic.values() for docno in frame["docno"]}
    documents = source.documents[source.documents["docno"].isin(wanted)].set_index("docno")
    unknown = sorted(wanted - set(documents.index))
    if unknown:
        raise InputError(f"{source.directory}: has no document {unknown[0]}, which a run lists; give the runs' input with -i")
    shown = pd.concat([frame[["qid", "docno"]] for by_topic in tops.values() for frame in by_topic.values()])
    shown = shown[shown["qid"].isin(coverage.index)].drop_duplicates(ignore_index=True)
    extremes = _extremes(shown, runs, execution)
    result = []
    for qid, query in zip(source.topics["qid"], source.topics["query"], strict=True):
        if qid not in coverage.index:
            continue
        scores = {system: table.loc[qid, f"{MEASURE} all"] for system, table in values.items()}
        listed = {system: by_topic[qid] for system, by_topic in tops.items() if qid in by_topic}
        rows = [
            [_cell(listed.get(system), place, labels, extremes, documents, qid) for system in runs]
            for place in range(DOCUMENTS_SHOWN)
        ]
        docnos = sorted({cell["docno"] for row in rows for cell in row if cell})
        texts = [
            {"docno": docno, "quality": extremes.get((qid, docno)), **documents.loc[docno, ["conclusion", "premise"]]}
            for docno in docnos
        ]
        result.append(
            Topic(
                qid, query, float(np.mean(list(scores.values()))), int(coverage.loc[qid, "relevant"]),
                int(coverage.loc[qid, "found"]), _best(scores),
                {system: by_topic[qid] for system, by_topic in queries.items() if by_topic.get(qid)},
                pictures.get(qid, []), rows, texts,
            )
        )  # fmt: skip
    return result


def _best(scores: Mapping[str, float]) -> str:
    best = max(scores, key=lambda system: scores[system])
    return best if scores[best] > 0 else "none"


def _cell(
    listed: pd.DataFrame | None,
    place: int,
    labels: Mapping[tuple[str, str], int],
    extremes: Mapping[tuple[str, str], str],
    documents: pd.DataFrame,
    qid: str,
) -> dict[str, Any] | None:
    if listed is None or len(listed) <= place:
        return None
    row = listed.iloc[place]
    text = documents.loc[row["docno"]]
    premise = text["premise"] if len(text["premise"]) <= EXCERPT else text["premise"][:EXCERPT].rsplit(" ", 1)[0] + " …"
    return {
        "docno": row["docno"],
        "score": row["score"],
        "label": labels.get((qid, row["docno"])),
        "quality": extremes.get((qid, row["docno"])),
        "conclusion": text["conclusion"],
        "premise": premise,
    }


def _logs(systems: list[str], checkpoints: Path) -> dict[str, tuple[Curve, dict[str, Any]]]:
    """Read the metrics of systems, or of their enrichments, that have a training log, each with its task's curve."""
    logs = {}
    for system in systems:
        stage = SYSTEMS[system].stage if system in SYSTEMS else None
        names = {system: (stage.checkpoint if stage else None) or system}
        if isinstance(stage, Lexical) and stage.enrichment:
            names |= {stage.enrichment.checkpoint: stage.enrichment.checkpoint}
        for title, name in names.items():
            file = checkpoints / name / METRICS
            metrics = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
            if metrics.get("log"):
                recipe = load_json(file.with_name(PROVENANCE))["recipe"]
                logs[title] = task_of(recipe).curve, metrics
    return logs


def _image(png: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(png).decode()
