"""Write a self-contained HTML report on the runs of a directory."""

import base64
import json
import logging
import os
import shlex
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import pandas as pd

from aragorn.errors import InputError, escape_name, pluralise
from aragorn.io.dataset import Dataset
from aragorn.io.files import read_text
from aragorn.io.orders import Order
from aragorn.io.qrels import read_qrels
from aragorn.io.runs import find_run, read_run
from aragorn.pipeline.component import iter_components
from aragorn.pipeline.retrieval import Stage
from aragorn.progress import track
from aragorn.search.page import sanitise_value
from aragorn.storage.atomic_files import write_atomic
from aragorn.storage.checkpoint_directory import METRICS, PROVENANCE, read_json
from aragorn.storage.hashing import hash_input_files
from aragorn.storage.recorded_files import FINGERPRINT_FILE, read_record
from aragorn.systems.catalogue import CONCLUSION_BM25, SYSTEMS, get_stage_name, get_system
from aragorn.systems.enrichment import Enrichment
from aragorn.systems.lexical import LexicalStage
from aragorn.systems.quality_reranking import QualityRerankingStage
from aragorn_training.data.retrieval import DatasetRetrieval
from aragorn_training.evaluation import similarity as run_similarity
from aragorn_training.evaluation.evaluate import (
    BPREF,
    HEADLINE_MEASURES,
    evaluate_run,
)
from aragorn_training.evaluation.overlap import check_overlap, compute_overlap
from aragorn_training.evaluation.plots import plot_candidate_recall, plot_topic_differences
from aragorn_training.evaluation.significance import (
    bootstrap_means,
    compare_with_baseline,
    format_sample_size_warning,
)
from aragorn_training.fitting.learning_curve import plot
from aragorn_training.paths import REPORT_TEMPLATE
from aragorn_training.report.highlighting import (
    SHADE_LEVELS,
    MarkedDocument,
    ShadedDocument,
    mark_components,
    shade_terms,
)
from aragorn_training.tasks import find_task_spec

log = logging.getLogger(__name__)

TOP_K = 5  # number of documents per topic and system
# maximum number of characters of a premise in a topic's table; full texts follow the table
EXCERPT_LENGTH = 240
MEASURE = "nDCG@5"
FULL_TEXT_SYSTEM = "bm25_arguments"  # compared with BM25 over conclusions
CONCLUSION_SYSTEM = get_stage_name(CONCLUSION_BM25)
UNJUDGED_TREATMENTS = {
    "(judged_only=True)": "unjudged documents removed before the cut-off",
    "": "unjudged documents count as non-relevant",
}
OTHER_MEASURES = ("nDCG{}@10", "nDCG{}@25", "AP{}", "RR{}", "P{}@5", "Rprec{}")
JUDGED_MEASURES = ("Judged@5", "Judged@10")


@dataclass(frozen=True)
class TopicReport:
    """Contents of a topic's section: its query, statistics, highlighted documents, and top
    documents by system."""

    qid: str
    query: str
    mean: float  # mean of MEASURE over the systems
    relevant: int  # number of relevant documents
    retrieved: int  # number of relevant candidates
    best_system: str  # by MEASURE; "none" if all systems score 0
    expanded_queries: dict[str, str]  # terms and weights by system
    # one per enrichment: the top document of the best system with it
    highlights: list[ShadedDocument | MarkedDocument]
    rows: list[list[dict[str, Any] | None]]  # by rank, then system; None if the ranking is shorter
    documents: list[dict[str, str | None]]  # full texts of the documents in `rows`


def write_report(
    directory: Path,
    qrels_file: Path,
    retrieval: DatasetRetrieval,
    output: Path,
    order: Order = "auto",
) -> None:
    """Write a report on the runs in a directory.

    Args:
        directory: Directory written by `rank`: `<team>-<system>.txt` runs and run.txt, the primary
            run.
        qrels_file: Judgments; those of documents that are not in the input are ignored.
        retrieval: DatasetRetrieval on the runs' input; its checkpoints' learning curves are included.
        output: HTML file.
        order: Fields that order a topic's documents, see `sort_ranking`.

    Raises:
        InputError: If a file is malformed or missing, the runs are on another input, or no topic is
            judged.
        OutputError: If the report cannot be written.
    """
    dataset = retrieval.dataset
    files = run_similarity.find_system_runs(directory)
    primary = _find_primary_system(directory, files)
    [qrels_hash] = hash_input_files([qrels_file]).values()
    _check_same_input(directory, dataset)
    qrels = read_qrels(qrels_file, set(dataset.documents["docno"]))
    runs = {system: read_run(file, order) for system, file in files.items()}
    overlaps = [
        compute_overlap(run, qrels, (name, qrels_file.name), (files[name], qrels_file))
        for name, run in runs.items()
    ]
    check_overlap(dataset, qrels, qrels_file.name)
    values = {name: evaluate_run(run, qrels) for name, run in runs.items()}
    systems = _sort_by_measure(runs, HEADLINE_MEASURES[0], values)
    runs = {system: runs[system] for system in systems}
    candidate_recall = _count_candidates(qrels, retrieval)
    topics = _build_topic_reports(retrieval, qrels, runs, values, candidate_recall)
    html = _render(
        dataset.paths,
        directory=escape_name(Path(os.path.realpath(directory)).name),
        qrels=escape_name(qrels_file.name),
        corpus_note=dataset.description,
        n_judged=len(qrels),
        systems=systems,
        primary=primary,
        fitted_systems=[
            system for system in systems if _is_fitted_to(system, qrels_hash, retrieval)
        ],
        overlaps=[overlap.format_summary() for overlap in overlaps],
        sample_size_warning=format_sample_size_warning(len(candidate_recall)),
        **_build_result_sections(systems, primary, values),
        **_compare_rankings(runs, qrels, candidate_recall),
        curves=_plot_learning_curves(systems, retrieval.session.checkpoints.directory),
        topics=topics,
        hardest=sorted(topics, key=lambda topic: topic.mean),
    )
    write_atomic(output, html)
    counts = f"{pluralise(len(systems), 'system')}, {pluralise(len(topics), 'topic')}"
    log.info("%s: %s, %.1f MB", output, counts, output.stat().st_size / 1e6)


def _render(inputs: Sequence[Path], **variables: Any) -> str:
    """Render the report's template as HTML; its `search` commands have the input paths `inputs`."""
    flags = [text for path in inputs for text in ("-i", str(path))]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(REPORT_TEMPLATE.parent), autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=jinja2.StrictUndefined, finalize=sanitise_value,
    )  # fmt: skip
    environment.filters["pluralise"] = pluralise
    environment.filters["command"] = lambda query: shlex.join(
        ["./run.sh", "search", *flags, "--", query]
    )
    return environment.get_template(REPORT_TEMPLATE.name).render(
        measure=MEASURE,
        columns=[name.format("") for name in OTHER_MEASURES],
        headlines=HEADLINE_MEASURES,
        top_k=TOP_K,
        shade_levels=SHADE_LEVELS,
        **variables,
    )


def _build_result_sections(
    systems: Sequence[str], primary: str, values: Mapping[str, pd.DataFrame]
) -> dict[str, Any]:
    """Build the template variables of the tables of measures, and of the plot of differences from
    the primary system."""
    baseline = values[primary][MEASURE]
    differences = {
        system: values[system][MEASURE] - baseline for system in systems if system != primary
    }
    return {
        "rows": _build_headline_rows(systems, primary, values),
        "results": [
            _build_measures_table(*treatment, systems, values)
            for treatment in UNJUDGED_TREATMENTS.items()
        ],
        "differences_plot": _encode_data_uri(plot_topic_differences(differences))
        if differences
        else None,
    }


def _compare_rankings(
    runs: Mapping[str, pd.DataFrame], qrels: pd.DataFrame, candidate_recall: pd.DataFrame
) -> dict[str, Any]:
    """Build the template variables of the candidates' recall, and of the comparisons of the
    rankings."""
    rankings = {system: run_similarity.select_top_docnos(run) for system, run in runs.items()}
    similarity = run_similarity.compute_similarity_tables(rankings)
    has_both_bm25_runs = {CONCLUSION_SYSTEM, FULL_TEXT_SYSTEM} <= set(runs)
    return {
        "candidate_recall": candidate_recall.to_dict("index"),
        "mean_recall": candidate_recall["retrieved"].sum() / candidate_recall["relevant"].sum(),
        "candidates_plot": _encode_data_uri(plot_candidate_recall(candidate_recall)),
        "conclusions_vs_full_text": _compare_with_full_text(qrels, rankings)
        if has_both_bm25_runs
        else [],
        "similarity": {
            name: {"image": _encode_data_uri(heat_map), "table": similarity[name].to_dict("index")}
            for name, heat_map in run_similarity.plot_heat_maps(similarity).items()
        },
    }


def _find_primary_system(directory: Path, files: Mapping[str, Path]) -> str:
    """Return the system whose run equals run.txt; raise InputError if there is none."""
    primary = find_run(directory)
    content = read_text(primary)
    matches = [system for system, file in files.items() if read_text(file) == content]
    if not matches:
        expected = "expected a copy of a <team>-<system>.txt run, as written by `rank`"
        raise InputError(primary, "", "no copy of another run", expected)
    return matches[0]


def _is_fitted_to(system: str, qrels_hash: str, retrieval: DatasetRetrieval) -> bool:
    """Return whether a checkpoint of the system was fitted or tuned to the qrels with this hash."""
    components = iter_components(SYSTEMS[system].stage) if system in SYSTEMS else ()
    files = [
        retrieval.session.checkpoints.directory / part.checkpoint / PROVENANCE
        for part in components
        if part.checkpoint
    ]
    return any(qrels_hash in file.read_text(encoding="utf-8") for file in files if file.is_file())


def _check_same_input(directory: Path, dataset: Dataset) -> None:
    try:
        input_fingerprint = read_record(directory / FINGERPRINT_FILE).inputs["input"]
    except LookupError:
        log.warning("%s: no %s; cannot verify the runs' input", directory, FINGERPRINT_FILE)
        return
    if input_fingerprint != dataset.fingerprint:
        raise InputError(
            f"{directory}: the runs are on another input than {dataset.name}; pass the runs' input with -i"
        )


def _sort_by_measure(
    systems: Iterable[str], measure: str, values: Mapping[str, pd.DataFrame]
) -> list[str]:
    return sorted(systems, key=lambda system: -values[system][measure].fillna(0.0).mean())


def _build_headline_rows(
    systems: Sequence[str], primary: str, values: Mapping[str, pd.DataFrame]
) -> list[dict[str, Any]]:
    """Build the rows of the nDCG@5 table: means, intervals, and p values of the tests against the
    primary system."""
    tests = {
        measure: compare_with_baseline({name: values[name][measure] for name in systems}, primary)[
            "p_randomisation_holm"
        ]
        for measure in HEADLINE_MEASURES
    }
    rows = []
    for system in systems:
        table = values[system]
        bounds = bootstrap_means(table[[*HEADLINE_MEASURES]]).to_dict("index")
        # p is None for the primary
        cells = [{**row, "p": tests[str(measure)].get(system)} for measure, row in bounds.items()]
        shares = {name: table[name].mean() for name in JUDGED_MEASURES}
        topic_count = int(table[HEADLINE_MEASURES[0]].notna().sum())
        rows.append(
            {
                "system": system,
                "is_primary": system == primary,
                "cells": cells,
                "topics": topic_count,
                **shares,
            }
        )
    return rows


def _build_measures_table(
    treatment: str, description: str, systems: Sequence[str], values: Mapping[str, pd.DataFrame]
) -> dict[str, Any]:
    """Build the table of OTHER_MEASURES and bpref for one treatment of unjudged documents, sorted
    by nDCG@5."""
    measures = [*(name.format(treatment) for name in OTHER_MEASURES), BPREF]
    rows = [
        {"system": system, "means": [values[system][measure].mean() for measure in measures]}
        for system in _sort_by_measure(systems, f"nDCG{treatment}@5", values)
    ]
    return {"treatment": treatment, "description": description, "rows": rows}


def _count_candidates(qrels: pd.DataFrame, retrieval: DatasetRetrieval) -> pd.DataFrame:
    """Count the `relevant` documents, `retrieved` relevant candidates and all `candidates` per
    topic, in input order."""
    relevant_docs = qrels[qrels["rel"] > 0]
    candidates = retrieval.rank(CONCLUSION_BM25)[["qid", "docno"]]
    retrieved_counts = relevant_docs.merge(candidates, on=["qid", "docno"]).groupby("qid").size()
    table = (
        pd.DataFrame(
            {"relevant": relevant_docs.groupby("qid").size(), "retrieved": retrieved_counts}
        )
        .fillna(0)
        .astype(int)
    )
    table["candidates"] = (
        candidates.groupby("qid").size().reindex(table.index).fillna(0).astype(int)
    )
    return table.loc[[qid for qid in retrieval.topics["qid"] if qid in table.index]]


def _format_expanded_queries(stage: Stage, retrieval: DatasetRetrieval) -> dict[str, str]:
    """Format the expanded queries by qid, terms sorted by weight; return an empty dictionary if the
    stage has no expansion."""
    if (
        not isinstance(stage, LexicalStage)
        or stage.load_checkpoint(retrieval.session.checkpoints).expansion is None
    ):
        return {}
    queries = {}
    for qid, text in zip(retrieval.topics["qid"], retrieval.topics["query"], strict=True):
        sorted_terms = sorted(
            stage.build_query(retrieval.collection, text).items(), key=lambda pair: -pair[1]
        )
        queries[qid] = ", ".join(f"{term} {weight:.2f}" for term, weight in sorted_terms)
    return queries


def _highlight(
    runs: Mapping[str, pd.DataFrame], retrieval: DatasetRetrieval
) -> dict[str, list[ShadedDocument | MarkedDocument]]:
    """Highlight, per topic (qid) and enrichment, the top document of the best system with that
    enrichment."""
    best_systems: dict[Enrichment, tuple[str, LexicalStage]] = {}
    for system in runs:
        stage = SYSTEMS[system].stage if system in SYSTEMS else None
        if isinstance(stage, LexicalStage) and stage.enrichment is not None:
            best_systems.setdefault(stage.enrichment, (system, stage))
    highlights: dict[str, list[ShadedDocument | MarkedDocument]] = defaultdict(list)
    for enrichment, (system, stage) in best_systems.items():
        network = enrichment.load_checkpoint(retrieval.session.checkpoints).network
        highlight = mark_components if network.component_types else shade_terms
        top_docnos = runs[system].groupby("qid", sort=False)["docno"].first()
        for qid, docno in track(
            list(top_docnos.items()), f"highlighting {enrichment.checkpoint}", "documents"
        ):
            highlights[str(qid)].append(highlight(system, stage, enrichment, retrieval, docno))
    return highlights


def _compare_with_full_text(
    qrels: pd.DataFrame, rankings: Mapping[str, Mapping[str, list[str]]]
) -> list[dict[str, Any]]:
    """Compare, per topic, the relevant documents that BM25 retrieves by conclusion and by full
    text."""
    rows = []
    for qid, group in qrels[qrels["rel"] > 0].groupby("qid", sort=False):
        relevant_docnos = set(group["docno"])
        conclusions, full_texts = (
            relevant_docnos & set(rankings[system].get(str(qid), []))
            for system in (CONCLUSION_SYSTEM, FULL_TEXT_SYSTEM)
        )
        exclusive_docnos = {
            "conclusions": sorted(conclusions - full_texts),
            "full_texts": sorted(full_texts - conclusions),
        }
        rows.append(
            {
                "qid": qid,
                "relevant": len(relevant_docnos),
                "both": len(conclusions & full_texts),
                **exclusive_docnos,
            }
        )
    return rows


def _label_extremes(
    documents: pd.DataFrame, systems: Iterable[str], retrieval: DatasetRetrieval
) -> dict[tuple[str, str], str]:
    """Label the arguments (qid, docno) of highest and lowest quality per topic; empty if no system
    re-ranks by quality."""
    stages = [get_system(system).stage for system in systems if system in SYSTEMS]
    reranking = next((stage for stage in stages if isinstance(stage, QualityRerankingStage)), None)
    if reranking is None:
        return {}
    scored_documents = documents.assign(quality=reranking.quality.score(retrieval, documents))
    by_topic = scored_documents.sort_values(["qid", "quality", "docno"]).groupby("qid")
    extremes = {"lowest": by_topic.nth(0), "highest": by_topic.nth(-1)}
    return {
        pair: label
        for label, rows in extremes.items()
        for pair in zip(rows["qid"], rows["docno"], strict=True)
    }


def _build_topic_reports(
    retrieval: DatasetRetrieval, qrels: pd.DataFrame, runs: Mapping[str, pd.DataFrame], values: Mapping[str, pd.DataFrame],
    candidate_recall: pd.DataFrame,
) -> list[TopicReport]:  # fmt: skip
    """Build the section of each topic that has a relevant document, in input order."""
    dataset = retrieval.dataset
    grades = dict(zip(zip(qrels["qid"], qrels["docno"], strict=True), qrels["rel"], strict=True))
    queries = {
        system: _format_expanded_queries(get_system(system).stage, retrieval)
        for system in runs
        if system in SYSTEMS
    }
    highlights = _highlight(runs, retrieval)
    top_documents = {
        system: dict(iter(run.groupby("qid").head(TOP_K).groupby("qid")))
        for system, run in runs.items()
    }
    pairs = pd.concat(
        [top[["qid", "docno"]] for frames in top_documents.values() for top in frames.values()]
    )
    documents = _read_documents(dataset, set(pairs["docno"]))
    pairs = pairs[pairs["qid"].isin(candidate_recall.index)].drop_duplicates(ignore_index=True)
    extremes = _label_extremes(pairs, runs, retrieval)
    topics = []
    for qid, query in zip(dataset.topics["qid"], dataset.topics["query"], strict=True):
        if qid not in candidate_recall.index:
            continue
        scores = {system: table.loc[qid, MEASURE] for system, table in values.items()}
        rows = [
            [
                _build_cell(top_documents[system].get(qid), rank, grades, extremes, documents, qid)
                for system in runs
            ]
            for rank in range(TOP_K)
        ]
        docnos = sorted({cell["docno"] for row in rows for cell in row if cell})
        texts = [
            {
                "docno": docno,
                "quality": extremes.get((qid, docno)),
                **documents.loc[docno, ["conclusion", "premise"]],
            }
            for docno in docnos
        ]
        topics.append(
            TopicReport(
                qid, query, float(np.mean(list(scores.values()))), int(candidate_recall.loc[qid, "relevant"]),
                int(candidate_recall.loc[qid, "retrieved"]), _find_best_system(scores),
                {system: by_topic[qid] for system, by_topic in queries.items() if by_topic.get(qid)},
                highlights.get(qid, []), rows, texts,
            )
        )  # fmt: skip
    return topics


def _read_documents(dataset: Dataset, docnos: set[str]) -> pd.DataFrame:
    """Return the documents with these docnos, indexed by docno; raise InputError if one is not in
    the input."""
    documents = dataset.documents[dataset.documents["docno"].isin(docnos)].set_index("docno")
    unknown_docnos = sorted(docnos - set(documents.index))
    if unknown_docnos:
        raise InputError(
            f"{dataset.name}: document {unknown_docnos[0]} of a run is missing; pass the runs' input with -i"
        )
    return documents


def _find_best_system(scores: Mapping[str, float]) -> str:
    best_system = max(scores, key=lambda system: scores[system])
    return best_system if scores[best_system] > 0 else "none"


def _build_cell(
    ranking: pd.DataFrame | None, rank: int, grades: Mapping[tuple[str, str], int], extremes: Mapping[tuple[str, str], str],
    documents: pd.DataFrame, qid: str,
) -> dict[str, Any] | None:  # fmt: skip
    if ranking is None or len(ranking) <= rank:
        return None
    docno = str(ranking["docno"].iloc[rank])
    score = ranking["score"].iloc[rank]
    conclusion, premise = (
        str(documents.loc[docno, column]) for column in ("conclusion", "premise")
    )
    if len(premise) > EXCERPT_LENGTH:
        premise = premise[:EXCERPT_LENGTH].rsplit(" ", 1)[0] + " …"
    judgment = {"grade": grades.get((qid, docno)), "quality": extremes.get((qid, docno))}
    return {
        "docno": docno,
        "score": score,
        "conclusion": conclusion,
        "premise": premise,
        **judgment,
    }


def _plot_learning_curves(systems: list[str], checkpoints: Path) -> dict[str, dict[str, Any]]:
    """Plot the learning curves of systems and of their enrichments; return image, settings and
    metrics by title."""
    curves = {}
    for system in systems:
        stage = SYSTEMS[system].stage if system in SYSTEMS else None
        names = {system: (stage.checkpoint if stage else None) or system}  # checkpoint by title
        if isinstance(stage, LexicalStage) and stage.enrichment:
            names |= {stage.enrichment.checkpoint: stage.enrichment.checkpoint}
        for title, name in names.items():
            file = checkpoints / name / METRICS
            metrics = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
            if metrics.get("log"):
                curve = find_task_spec(read_json(file.with_name(PROVENANCE))["recipe"]).curve
                curves[title] = {
                    "image": _encode_data_uri(plot(title, curve, metrics["log"])),
                    "settings": curve,
                    **metrics,
                }
    return curves


def _encode_data_uri(png: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(png).decode()
