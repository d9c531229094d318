"""Tabulate the results of all systems: nested cross-validation on the tuning year, and held-out
results on test years."""

import logging
from collections.abc import Mapping, Sequence, Set
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from aragorn.errors import InputError
from aragorn.io.qrels import read_qrels
from aragorn.io.runs import read_run
from aragorn.options import option, parse_path
from aragorn.storage.archives import hash_input_files
from aragorn.storage.checkpoint_directory import read_provenance
from aragorn.systems.catalogue import SYSTEMS, get_system
from aragorn_training.data.retrieval import open_retrieval
from aragorn_training.evaluation import tables
from aragorn_training.evaluation.evaluate import BPREF, HEADLINE_MEASURES, evaluate_run
from aragorn_training.evaluation.overlap import exclude_documents, read_docnos
from aragorn_training.fusion.recipe import load_fusion_recipe
from aragorn_training.options import (
    CheckpointOptions,
    DeviceOptions,
    InputOptions,
    StudyOptions,
    output_option,
)
from aragorn_training.report.results import find_fitted, list_checkpoints
from aragorn_training.report.sections import BASELINE, HELD_OUT, MEASURES, NESTED, SELECTED
from aragorn_training.studies.results.nested import N_PARTITIONS, NestedTuning
from aragorn_training.tuning.grid import load_judged_topics

log = logging.getLogger(__name__)

FILE = ""
DIGITS = 6
YEAR = ("YEAR", "QRELS", "RUN_DIR")
TESTED_MEASURES = (*HEADLINE_MEASURES, BPREF)
# names of the columns of `evaluation.tables`
COLUMNS = {
    "qrels": "year",
    "run": "system",
    "n_topics": "n",
    "ci_low": "low",
    "ci_high": "high",
    "p_randomisation": "p",
    "p_randomisation_holm": "p_holm",
}
MEANS_COLUMNS = ("system", "family", "protocol", "year", "measure", "n", "mean", "low", "high")
TOPIC_COLUMNS = ("system", "protocol", "year", "qid")
TEST_COLUMNS = ("system", "year", "measure", "n", "difference", "p", "p_holm")
OFFICIAL_RUN = "official run"  # family
# the length exponent of its member snrm is selected on the tuning year
SELECTED_SYSTEMS = ("ensemble",)


class JudgedYear(NamedTuple):
    """Judgments of a year's topics, and the systems' runs of these topics."""

    year: str
    qrels: Path
    runs: Path  # directory of <team>-<system>.txt


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions, DeviceOptions, CheckpointOptions, InputOptions):
    """Options of the study; the input has the topics of the tuning year."""

    tuning: tuple[str, str, str] = option(
        metavar=YEAR,
        parse=str,
        nargs=3,
        help="year whose topics tune systems, its qrels, and the runs of untuned systems",
    )
    tests: tuple[tuple[str, str, str], ...] = option(
        MISSING,
        "--test",
        metavar=YEAR,
        parse=str,
        nargs=3,
        help="year that tunes nothing, its qrels, and the runs of all systems; repeatable",
    )
    systems: tuple[str, ...] = option(
        tuple(SYSTEMS),
        "--system",
        help="system to tabulate; repeatable (default: all; always with dirichlet)",
    )
    fusion: str = option("fusion", metavar="FUSION", help="recipe of the system fusion")
    exclude_ids: Path | None = option(
        None,
        metavar="FILE",
        help="file of docnos, one per line, to exclude from runs and qrels; "
        "writes systems_excluded.csv without nested results",
    )
    output: Path | None = output_option("directory of systems*.csv (default: WORK_DIR/results)")


def run(options: Options) -> dict[str, pd.DataFrame]:
    """Evaluate systems, including BASELINE, on all years.

    On the tuning year, tuned systems are evaluated by nested cross-validation, unless documents are
    excluded; all other results are those of the given runs.

    Returns:
        Tables by file name. `systems`: `system family protocol year measure n mean low high`, with
        95 % bootstrap intervals. `systems_per_topic`: `system protocol year qid` and MEASURES.
        `systems_significance`: `system year measure n difference p p_holm`, tests against BASELINE
        by randomisation, Holm-corrected per year and measure over all systems. If documents are
        excluded, only `systems_excluded`, with the columns of `systems`.

    Raises:
        InputError: If a run is missing, or a held-out system's checkpoint was fitted to the year's
            judgments.
    """
    tuning, *tests = (
        JudgedYear(year, parse_path(qrels), parse_path(runs))
        for year, qrels, runs in [options.tuning, *options.tests]
    )
    selected_names = {BASELINE, *(get_system(name).name for name in options.systems)}
    names = [name for name in SYSTEMS if name in selected_names]
    recipe = load_fusion_recipe(options.fusion)
    excluded = read_docnos(options.exclude_ids) if options.exclude_ids else set[str]()
    years = ", ".join(test.year for test in tests)
    message = "Plan: %d systems; nested cross-validation on %s: %d partitions; runs of %s"
    log.info(message, len(names), tuning.year, N_PARTITIONS, years)
    protocols = {}
    values: dict[str, dict[str, pd.DataFrame]] = {}
    with open_retrieval(options, options.work_dir) as retrieval:
        judged = load_judged_topics({tuning.year: tuning.qrels}, retrieval)
        nested = NestedTuning(judged, recipe, retrieval)
        docnos = retrieval.collection.documents.read_all_docnos() - excluded
        for year in (*tests, tuning):
            qrels = read_qrels(year.qrels, docnos)
            for name in names:
                if year is not tuning or nested.get_tuning(name) is None:
                    table = _evaluate_system_run(year, name, qrels, excluded)
                    is_selected = year is tuning and name in SELECTED_SYSTEMS
                    protocol = SELECTED if is_selected else HELD_OUT
                elif not excluded:
                    table = nested.evaluate(name)
                    protocol = NESTED
                else:
                    continue
                if protocol == HELD_OUT:
                    require_held_out(name, year.qrels, options.checkpoint_dir)
                values.setdefault(year.year, {})[name] = table[[*MEASURES]]
                protocols[year.year, name] = protocol
    means = label_rows(tables.tabulate_means(values), protocols, MEANS_COLUMNS)
    if excluded:
        return {"systems_excluded": means}
    per_topic = label_rows(tables.tabulate_topics(values), protocols, [*TOPIC_COLUMNS, *MEASURES])
    return {
        "systems": means,
        "systems_per_topic": per_topic,
        "systems_significance": tabulate_significance(per_topic),
    }


def _evaluate_system_run(
    year: JudgedYear, system: str, qrels: pd.DataFrame, excluded: Set[str]
) -> pd.DataFrame:
    """Evaluate a system's run of a year without the excluded documents; return values by topic."""
    run = read_run(find_system_run(year.runs, system))
    if excluded:
        run = exclude_documents(run, excluded, f"{year.year}, {system}")
    return evaluate_run(run, qrels)


def label_rows(
    table: pd.DataFrame, protocols: Mapping[tuple[str, str], str], columns: Sequence[str]
) -> pd.DataFrame:
    """Add the protocol of year and system, and the family (of official runs: OFFICIAL_RUN); return
    the named columns."""
    table = table.reset_index().rename(columns=COLUMNS)
    keys = zip(table["year"], table["system"], strict=True)
    families = {name: system.stage.family for name, system in SYSTEMS.items()}
    return table.assign(
        protocol=[protocols[key] for key in keys],
        family=table["system"].map(families).fillna(OFFICIAL_RUN),
    )[[*columns]]


def tabulate_significance(per_topic: pd.DataFrame) -> pd.DataFrame:
    """Return the table `systems_significance` of `systems_per_topic`, see `run`."""
    values = {
        str(year): {
            str(system): table.set_index("qid")[[*TESTED_MEASURES]]
            for system, table in rows.groupby("system", sort=False)
        }
        for year, rows in per_topic.groupby("year", sort=False)
    }
    tests = tables.tabulate_significance(values, BASELINE).reset_index()
    return tests.rename(columns=COLUMNS)[[*TEST_COLUMNS]]


def find_system_run(directory: Path, system: str) -> Path:
    """Return the one run <team>-<system>.txt in a directory; InputError if it is not one."""
    files = sorted([*directory.glob(f"*-{system}.txt"), *directory.glob(f"*-{system}.txt.gz")])
    if len(files) != 1:
        command = f"`./run.sh -i INPUT -o {directory} --system {system}`"
        raise InputError(
            f"{directory}: {len(files)} runs <team>-{system}.txt; expected one; run {command}"
        )
    return files[0]


def require_held_out(system: str, qrels: Path, checkpoints: Path) -> None:
    """Raise InputError if the provenance of one of a system's checkpoints contains the qrels;
    CheckpointError if it has none."""
    for name in list_checkpoints(system):
        read_provenance(checkpoints / name)  # must exist
    if file := find_fitted(system, hash_input_files([qrels]).values(), checkpoints):
        raise InputError(
            f"{file}: contains {qrels.name}, so {system} is not held-out; use the qrels of another "
            "year"
        )
