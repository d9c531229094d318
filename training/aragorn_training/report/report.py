"""Write a self-contained HTML report on runs."""

import json
import logging
import shlex
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import vl_convert
from markupsafe import Markup

from aragorn.errors import pluralise
from aragorn.io import Order
from aragorn.io.dataset import Dataset
from aragorn.io.qrels import read_qrels
from aragorn.search.page import sanitise_value
from aragorn.storage.atomic_files import sha256_file, write_atomic
from aragorn_training.evaluation.evaluate import (
    HEADLINE_MEASURES,
    NDCG,
    evaluate_run,
    get_evaluated_topics,
)
from aragorn_training.evaluation.overlap import (
    check_overlap,
    compute_overlap,
    format_overlaps,
    list_docnos,
)
from aragorn_training.evaluation.significance import format_sample_size_warning
from aragorn_training.evaluation.similarity import split_name
from aragorn_training.formatting import create_environment
from aragorn_training.report.results import (
    SIMILARITIES,
    Evaluation,
    compare_systems,
    compute_recall,
    count_candidates,
    find_fitted,
    read_learning_curves,
)
from aragorn_training.report.runs import (
    find_baseline,
    find_candidates,
    find_runs,
    merge_runs,
    name_directories,
    name_systems,
    read_runs,
)
from aragorn_training.report.topics import TOP_K, Topic, describe_topics

log = logging.getLogger(__name__)

FOLDER = Path(__file__).parent
CODE = (FOLDER / "charts.js", FOLDER / "report.js")
VEGA_LITE = "6.4"  # version of the library that draws the charts
LOADER = "window.vegaEmbed = vegaEmbed;"


def write_report(
    directories: Sequence[Path],
    qrels_files: Mapping[str, Path],
    dataset: Dataset,
    checkpoints: Path,
    output: Path,
    baseline: str | None = None,
    order: Order = "auto",
) -> None:
    """Write a report on the runs of directories as an HTML file.

    Runs lose the documents that systems do not retrieve from the dataset, and judgments those that
    it lacks; the first qrels order the systems. Networks of `checkpoints` have learning curves. The
    other systems are tested against the `baseline` (None: the system of run.txt).

    Raises:
        InputError: If a file is malformed or missing, the runs are on another input, or no topic is
            judged.
        UsageError: If there is no run of the baseline.
        OutputError: If the report cannot be written.
    """
    run_files = find_runs(directories)
    baseline_file = find_baseline(run_files, baseline)
    docnos, retrievable_docnos = list_docnos(dataset)
    runs_by_file = read_runs(run_files, order, retrievable_docnos)
    names = name_systems(runs_by_file)
    baseline = names[baseline_file]
    runs = merge_runs(runs_by_file, names)
    files = {name: file for file, name in names.items()}
    candidates = find_candidates(names, baseline_file)
    evaluations = []
    overlaps = []
    for label, qrels_file in qrels_files.items():
        qrels = read_qrels(qrels_file, docnos)
        check_overlap(dataset, qrels, qrels_file.name)
        topics = {*get_evaluated_topics(qrels)}
        judged = {name: run for name, run in runs.items() if topics & {*run["qid"]}} or runs
        for name, run in judged.items():
            overlaps.append(compute_overlap(run, qrels, (name, label), (files[name], qrels_file)))
        values = {name: evaluate_run(run, qrels) for name, run in judged.items()}
        evaluations.append(Evaluation(label, qrels, values, baseline))
    systems = evaluations[0].sort_systems(list(runs))
    runs = {system: runs[system] for system in systems}
    sections = describe_topics(dataset, runs, evaluations)
    curves = read_learning_curves([split_name(files[name])[1] for name in systems], checkpoints)
    hashes = [sha256_file(file) for file in qrels_files.values()]
    html = _render(
        dataset,
        systems=systems,
        baseline=baseline,
        directories=[*name_directories(directories).values()],
        evaluations=evaluations,
        warning=format_sample_size_warning(evaluations[0].topics.shape[1]),
        fitted=[
            system
            for system in systems
            if find_fitted(split_name(files[system])[1], hashes, checkpoints)
        ],
        overlaps=format_overlaps(overlaps),
        topics=sections,
        candidates=candidates,
        **_collect_data(sections, runs, evaluations, candidates, curves),
    )
    write_atomic(output, html, rb"(?s).*<title>Report on ")
    counts = f"{pluralise(len(systems), 'system')}, {pluralise(len(sections), 'topic')}"
    log.info("%s: %s, %.1f MB", output, counts, output.stat().st_size / 1e6)


def _collect_data(
    topics: Sequence[Topic],
    runs: Mapping[str, pd.DataFrame],
    evaluations: Sequence[Evaluation],
    candidates: str | None,
    curves: pd.DataFrame,
) -> dict[str, Any]:
    """Collect the data of the charts, and the tables with the same figures."""
    systems = list(runs)
    qrels = pd.concat([evaluation.qrels for evaluation in evaluations])
    qrels = qrels.drop_duplicates(["qid", "docno"])
    sections = {
        topic.qid: (row, f"{topic.qid} {topic.title}") for row, topic in enumerate(topics, 1)
    }
    values = pd.concat([evaluation.list_values() for evaluation in evaluations])
    values = values[values["qid"].isin(sections)]
    values["number"], values["topic"] = zip(*values["qid"].map(sections), strict=True)
    recall = compute_recall(runs, qrels, evaluations)
    similarity = compare_systems(runs)
    tables = {"topics": values, "recall": recall, "similarity": similarity, "curves": curves}
    tables["candidates"] = count_candidates(runs, qrels, candidates)
    data = {name: json.loads(table.to_json(orient="records")) for name, table in tables.items()}
    clustered = list(similarity["system"].unique())
    data |= {"systems": systems, "clustered": clustered, "measure": NDCG}
    data["chosen"] = list(dict.fromkeys([systems[0], evaluations[0].baseline]))
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    matrices = {
        name: similarity.pivot(index="system", columns="other", values=name)
        for name in SIMILARITIES.values()
    }
    recall = recall.pivot(index="system", columns="depth", values="recall").reindex(systems)
    has_curves = len(curves) > 0
    return {
        "data": Markup(text),
        "recall": recall,
        "similarity": matrices,
        "has_curves": has_curves,
    }


@cache
def _bundle_library() -> str:
    """Bundle the library of the charts, which takes a second."""
    bundle: str = vl_convert.javascript_bundle(LOADER, VEGA_LITE)
    return bundle


def _render(dataset: Dataset, **variables: Any) -> str:
    """Render the template; its commands have the paths of the input."""
    environment = create_environment(__file__, autoescape=True, finalize=sanitise_value)
    flags = [text for path in dataset.paths for text in ("-i", str(path))]
    environment.filters["pluralise"] = pluralise
    environment.globals["command"] = lambda verb, *arguments: shlex.join(
        ["./run.sh", verb, *flags, *arguments]
    )
    return environment.get_template("report.html.jinja").render(
        corpus_note=dataset.description,
        headlines=HEADLINE_MEASURES,
        top_k=TOP_K,
        library=Markup(_bundle_library()),
        code=Markup("".join(file.read_text(encoding="utf-8") for file in CODE)),
        **variables,
    )
