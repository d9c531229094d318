"""Write a self-contained HTML report on the runs of a directory."""

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

from submission.data.dataset import Input
from submission.data.qrels import read_qrels
from submission.data.ranking_order import Order
from submission.data.runs import read_run
from submission.errors import InputError
from submission.output.run_directory import RECORD, RUN_FILE
from submission.progress import progress
from submission.storage.artifact_store import read_record
from submission.storage.atomic_files import write_whole
from submission.storage.checkpoint_directory import METRICS, PROVENANCE, load_json
from submission.storage.hashing import input_hashes
from submission.systems.catalogue import CONCLUSIONS, SYSTEMS, find, name_of
from submission.systems.enrichment import Enrichment
from submission.systems.execution import Execution, Stage, walk
from submission.systems.lexical import Lexical
from submission.systems.quality_reranking import QualityReranking
from training.evaluation import similarity as run_similarity
from training.evaluation.evaluate import ALL, BPREF, CONDENSED, HEADLINES, evaluate_runs
from training.evaluation.overlap import overlap_of, require_overlap
from training.evaluation.plots import coverage_plot, differences_plot
from training.evaluation.significance import against_baseline, intervals, limits
from training.evaluation.tables import SHARES
from training.fitting.learning_curve import draw
from training.paths import REPORT
from training.report.highlighting import LEVELS, Marked, Shaded, marked, shaded
from training.tasks import task_of

log = logging.getLogger(__name__)

DOCUMENTS_SHOWN = 5  # documents per topic and system
EXCERPT = 240  # characters of a premise in the table; full text below it
MEASURE = "nDCG@5"
ARGUMENTS = "bm25_arguments"  # compared with bm25 over conclusions
CANDIDATES = name_of(CONCLUSIONS)
WAYS = {CONDENSED: "unjudged documents removed before the cut-off", ALL: "unjudged documents count as non-relevant"}
COLUMNS = ("nDCG@10", "nDCG@25", "MAP", "MRR", "P@5", "Rprec")


@dataclass(frozen=True)
class Topic:
    """Report data of a topic."""

    qid: str
    query: str
    mean: float  # mean measure over the systems
    relevant: int
    found: int  # relevant candidates
    best: str
    queries: dict[str, str]  # weighted terms of the expanded query by system
    pictures: list[Shaded | Marked]  # top document of one system per enrichment
    rows: list[list[dict[str, Any] | None]]  # by rank, then system
    texts: list[dict[str, str | None]]


def report(directory: Path, qrels_file: Path, execution: Execution, output: Path, order: Order = "auto") -> None:
    """Write a report on the runs of a directory.

    Args:
        directory: Directory written by `rank`: `<team>-<system>.txt` runs and run.txt, the primary run.
        qrels_file: Judgments; documents missing from the input are ignored.
        execution: Execution on the runs' input; its checkpoints' learning curves are shown.
        output: HTML file.
        order: Order of a topic's documents, see `in_order`.

    Raises:
        InputError: If there is no primary run, the input differs, a file is malformed, or there is no common topic.
        OutputError: If the report cannot be written.
    """
    source = execution.input
    files = {run_similarity.system(file.stem): file for file in sorted(directory.glob("*-*.txt"))}
    primary, [qrels_hash] = _primary(directory, files), input_hashes([qrels_file]).values()
    _refuse_other_input(directory, source)
    qrels = read_qrels(qrels_file, set(source.documents["docno"]))
    runs = {system: read_run(file, order) for system, file in files.items()}
    overlaps = [overlap_of(run, qrels, (system, qrels_file.name), (files[system], qrels_file)) for system, run in runs.items()]
    require_overlap(source, qrels, qrels_file.name)
    values = evaluate_runs(runs, qrels)
    systems = _best_first(runs, HEADLINES[0], values)
    runs = {system: runs[system] for system in systems}
    candidate_recall = _coverage(qrels, execution)
    topics = _topics(execution, qrels, runs, values, candidate_recall)
    html = _render(
        source.directory,
        directory=directory.resolve().name,
        qrels=qrels_file.name,
        corpus_note=source.note,
        n_judged=len(qrels),
        systems=systems,
        primary=primary,
        fitted_systems=[system for system in systems if _is_fitted(system, qrels_hash, execution)],
        overlaps=[overlap.line() for overlap in overlaps],
        sample_size_warning=limits(len(candidate_recall)),
        **_result_sections(systems, primary, values),
        **_ranking_sections(runs, qrels, candidate_recall),
        curves=_learning_curves(systems, execution.checkpoints.directory),
        topics=topics,
        hardest=sorted(topics, key=lambda topic: topic.mean),
    )
    write_whole(output, html)
    log.info("%s: %d systems, %d topics, %.1f MB", output, len(systems), len(topics), len(html.encode()) / 1e6)


def _render(input_dir: Path, **variables: Any) -> str:
    """Fill the template of the report."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(REPORT.parent), autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    environment.filters["command"] = lambda query: shlex.join(["./run.sh", "search", "-i", str(input_dir), "--", query])
    return environment.get_template(REPORT.name).render(
        measure=MEASURE, columns=COLUMNS, headlines=HEADLINES, top_k=DOCUMENTS_SHOWN, shade_levels=LEVELS, **variables
    )


def _result_sections(systems: Sequence[str], primary: str, values: Mapping[str, pd.DataFrame]) -> dict[str, Any]:
    """Return the template variables of the measures and of the differences from the primary system."""
    baseline = values[primary][f"{MEASURE} all"]
    differences = {system: values[system][f"{MEASURE} all"] - baseline for system in systems if system != primary}
    return {
        "rows": _headlines(systems, primary, values),
        "results": [_results(treatment, description, systems, values) for treatment, description in WAYS.items()],
        "differences_plot": _image(differences_plot(differences)) if differences else None,
    }


def _ranking_sections(runs: Mapping[str, pd.DataFrame], qrels: pd.DataFrame, candidate_recall: pd.DataFrame) -> dict[str, Any]:
    """Return the template variables of the candidates and of the comparisons of rankings."""
    rankings = {system: run_similarity.lists(run) for system, run in runs.items()}
    similarity = run_similarity.similarities(rankings)
    return {
        "candidate_recall": candidate_recall.to_dict("index"),
        "mean_recall": candidate_recall["retrieved"].sum() / candidate_recall["relevant"].sum(),
        "candidates_plot": _image(coverage_plot(candidate_recall)),
        "conclusions_vs_full_text": _against(qrels, rankings) if {CANDIDATES, ARGUMENTS} <= set(runs) else [],
        "similarity": {
            name: {"image": _image(heat_map), "table": similarity[name].to_dict("index")}
            for name, heat_map in run_similarity.heat_maps(similarity).items()
        },
    }


def _primary(directory: Path, files: Mapping[str, Path]) -> str:
    """Return the system whose run equals run.txt."""
    file = directory / RUN_FILE
    content = file.read_bytes() if file.is_file() else None
    matches = [system for system, run_file in files.items() if run_file.read_bytes() == content]
    if not matches:
        raise InputError(
            f"{directory}: expected {RUN_FILE} to be a copy of one of the <team>-<system>.txt runs, as written by `rank`"
        )
    return matches[0]


def _is_fitted(system: str, judgments: str, execution: Execution) -> bool:
    """Return whether any checkpoint of a system was fitted or tuned to the qrels with this hash."""
    names = {part.checkpoint for part in walk(SYSTEMS[system].stage) if part.checkpoint} if system in SYSTEMS else set()
    records = [execution.checkpoints.directory / name / PROVENANCE for name in names]
    return any(judgments in record.read_text(encoding="utf-8") for record in records if record.is_file())


def _refuse_other_input(directory: Path, source: Input) -> None:
    try:
        input_fingerprint = read_record(directory / RECORD).decided_by["input"]
    except LookupError:
        log.warning("%s: no %s; cannot verify the runs' input", directory, RECORD)
        return
    if input_fingerprint != source.fingerprint:
        raise InputError(
            f"{directory}: the runs were created from another input than {source.directory}; pass their input with -i"
        )


def _best_first(systems: Iterable[str], measure: str, values: Mapping[str, pd.DataFrame]) -> list[str]:
    return sorted(systems, key=lambda system: -values[system][measure].fillna(0.0).mean())


def _headlines(systems: Sequence[str], primary: str, values: Mapping[str, pd.DataFrame]) -> list[dict[str, Any]]:
    """Build the rows of the nDCG@5 table: means, intervals and p values against the primary system."""
    tests = {measure: against_baseline({name: values[name][measure] for name in systems}, primary) for measure in HEADLINES}
    rows = []
    for system in systems:
        table, cells = values[system], []
        for measure, (mean, low, high) in zip(HEADLINES, intervals(table[[*HEADLINES]]).to_numpy().tolist(), strict=True):
            p = None if system == primary else tests[measure].loc[system, "randomisation (Holm)"]
            cells.append({"mean": mean, "low": low, "high": high, "p": p})
        shares = {name: table[name].mean() for name in SHARES}
        defined = int(table[HEADLINES[0]].notna().sum())
        rows.append({"system": system, "is_primary": system == primary, "cells": cells, "topics": defined, **shares})
    return rows


def _results(way: str, words: str, systems: Sequence[str], values: Mapping[str, pd.DataFrame]) -> dict[str, Any]:
    """Build the table of other measures for one treatment of unjudged documents, sorted by nDCG@5."""
    measures = [*(f"{name} {way}" for name in COLUMNS), BPREF]
    rows = [
        {"system": system, "means": [values[system][measure].mean() for measure in measures]}
        for system in _best_first(systems, f"{MEASURE} {way}", values)
    ]
    return {"treatment": way, "description": words, "rows": rows}


def _coverage(qrels: pd.DataFrame, execution: Execution) -> pd.DataFrame:
    """Count relevant documents and relevant candidates per topic."""
    relevant = qrels[qrels["rel"] > 0]
    candidates = execution.lists(CONCLUSIONS)[["qid", "docno"]]
    retrieved = relevant.merge(candidates, on=["qid", "docno"]).groupby("qid").size()
    table = pd.DataFrame({"relevant": relevant.groupby("qid").size(), "retrieved": retrieved}).fillna(0).astype(int)
    table["candidates"] = candidates.groupby("qid").size().reindex(table.index).fillna(0).astype(int)
    return table.loc[[qid for qid in execution.topics["qid"] if qid in table.index]]


def _queries(stage: Stage, execution: Execution) -> dict[str, str]:
    """Return the expanded queries by topic, terms sorted by weight; empty for stages without expansion."""
    if not isinstance(stage, Lexical) or stage.opened(execution.checkpoints).expansion is None:
        return {}
    queries = {}
    for qid, text in zip(execution.topics["qid"], execution.topics["query"], strict=True):
        ordered = sorted(stage.query(execution, text).items(), key=lambda pair: -pair[1])
        queries[qid] = ", ".join(f"{term} {weight:.2f}" for term, weight in ordered)
    return queries


def _pictures(runs: Mapping[str, pd.DataFrame], execution: Execution) -> dict[str, list[Shaded | Marked]]:
    """Highlight, per topic and enrichment, the top document of the best system with that enrichment."""
    best_systems: dict[Enrichment, tuple[str, Lexical]] = {}
    for system in runs:
        stage = SYSTEMS[system].stage if system in SYSTEMS else None
        if isinstance(stage, Lexical) and stage.enrichment is not None:
            best_systems.setdefault(stage.enrichment, (system, stage))
    highlights: dict[str, list[Shaded | Marked]] = defaultdict(list)
    for enrichment, (system, stage) in best_systems.items():
        highlight = marked if enrichment.opened(execution.checkpoints).enricher.parts else shaded
        tops = runs[system].groupby("qid", sort=False)["docno"].first()
        for qid, docno in progress(list(tops.items()), f"highlighting {enrichment.checkpoint}", "documents"):
            highlights[str(qid)].append(highlight(system, stage, enrichment, execution, docno))
    return highlights


def _against(qrels: pd.DataFrame, lists: Mapping[str, Mapping[str, list[str]]]) -> list[dict[str, Any]]:
    """Compare, per topic, the relevant documents that BM25 retrieves by conclusion and by full text."""
    rows = []
    for qid, group in qrels[qrels["rel"] > 0].groupby("qid", sort=False):
        relevant = set(group["docno"])
        conclusions, full_texts = (relevant & set(lists[system].get(str(qid), [])) for system in (CANDIDATES, ARGUMENTS))
        exclusive = {"conclusions": sorted(conclusions - full_texts), "full_texts": sorted(full_texts - conclusions)}
        rows.append({"qid": qid, "relevant": len(relevant), "both": len(conclusions & full_texts), **exclusive})
    return rows


def _extremes(shown: pd.DataFrame, systems: Iterable[str], execution: Execution) -> dict[tuple[str, str], str]:
    """Find each topic's highest and lowest argument `qid docno` by quality, if a system re-ranks by quality."""
    stages = [find(system).stage for system in systems if system in SYSTEMS]
    reranking = next((stage for stage in stages if isinstance(stage, QualityReranking)), None)
    if reranking is None:
        return {}
    scored = shown.assign(quality=reranking.quality.scores(execution, shown))
    by_topic = scored.sort_values(["qid", "quality", "docno"]).groupby("qid")
    extremes = {"lowest": by_topic.nth(0), "highest": by_topic.nth(-1)}
    return {pair: label for label, rows in extremes.items() for pair in zip(rows["qid"], rows["docno"], strict=True)}


def _topics(
    execution: Execution,
    qrels: pd.DataFrame,
    runs: Mapping[str, pd.DataFrame],
    values: Mapping[str, pd.DataFrame],
    coverage: pd.DataFrame,
) -> list[Topic]:
    """Collect the report data of all evaluated topics."""
    source, grades = execution.input, dict(zip(zip(qrels["qid"], qrels["docno"], strict=True), qrels["rel"], strict=True))
    queries = {system: _queries(find(system).stage, execution) for system in runs if system in SYSTEMS}
    highlights = _pictures(runs, execution)
    top_documents = {
        system: dict(iter(run.groupby("qid").head(DOCUMENTS_SHOWN).groupby("qid"))) for system, run in runs.items()
    }
    documents = _texts_of(
        source, {docno for frames in top_documents.values() for top in frames.values() for docno in top["docno"]}
    )
    shown = pd.concat([top[["qid", "docno"]] for frames in top_documents.values() for top in frames.values()])
    shown = shown[shown["qid"].isin(coverage.index)].drop_duplicates(ignore_index=True)
    extremes = _extremes(shown, runs, execution)
    topics = []
    for qid, query in zip(source.topics["qid"], source.topics["query"], strict=True):
        if qid not in coverage.index:
            continue
        scores = {system: table.loc[qid, f"{MEASURE} all"] for system, table in values.items()}
        rows = [
            [_cell(top_documents[system].get(qid), rank, grades, extremes, documents, qid) for system in runs]
            for rank in range(DOCUMENTS_SHOWN)
        ]
        docnos = sorted({cell["docno"] for row in rows for cell in row if cell})
        texts = [
            {"docno": docno, "quality": extremes.get((qid, docno)), **documents.loc[docno, ["conclusion", "premise"]]}
            for docno in docnos
        ]
        topics.append(
            Topic(
                qid, query, float(np.mean(list(scores.values()))), int(coverage.loc[qid, "relevant"]),
                int(coverage.loc[qid, "retrieved"]), _best(scores),
                {system: by_topic[qid] for system, by_topic in queries.items() if by_topic.get(qid)},
                highlights.get(qid, []), rows, texts,
            )
        )  # fmt: skip
    return topics


def _texts_of(source: Input, docnos: set[str]) -> pd.DataFrame:
    """Return the documents of the input with these docnos, indexed by docno."""
    documents = source.documents[source.documents["docno"].isin(docnos)].set_index("docno")
    unknown = sorted(docnos - set(documents.index))
    if unknown:
        raise InputError(
            f"{source.directory}: document {unknown[0]} of a run is not in the input; pass the runs' input with -i"
        )
    return documents


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
        "grade": labels.get((qid, row["docno"])),
        "quality": extremes.get((qid, row["docno"])),
        "conclusion": text["conclusion"],
        "premise": premise,
    }


def _learning_curves(systems: list[str], checkpoints: Path) -> dict[str, dict[str, Any]]:
    """Plot the learning curves of systems and enrichments, and return them with the metrics of their checkpoints."""
    curves = {}
    for system in systems:
        stage = SYSTEMS[system].stage if system in SYSTEMS else None
        names = {system: (stage.checkpoint if stage else None) or system}
        if isinstance(stage, Lexical) and stage.enrichment:
            names |= {stage.enrichment.checkpoint: stage.enrichment.checkpoint}
        for title, name in names.items():
            file = checkpoints / name / METRICS
            metrics = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
            if metrics.get("log"):
                curve = task_of(load_json(file.with_name(PROVENANCE))["recipe"]).curve
                curves[title] = {"image": _image(draw(title, curve, metrics["log"])), "settings": curve, **metrics}
    return curves


def _image(png: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(png).decode()
