"""Compare official runs with the systems, on all topics and on those that miss no document.

Runs of the whole corpus lose the documents that systems do not retrieve from the input.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from aragorn.errors import InputError, UsageError, abbreviate_list
from aragorn.io.qrels import read_qrels
from aragorn.options import argument, option
from aragorn_training.evaluation import tables
from aragorn_training.evaluation.evaluate import evaluate_run
from aragorn_training.evaluation.overlap import (
    count_judged_documents,
    find_complete_topics,
    read_collection,
    read_restricted_run,
)
from aragorn_training.options import (
    InputOptions,
    NamedPath,
    QrelsOptions,
    StudyOptions,
    index_files_by_name,
    output_option,
    parse_named_path,
)
from aragorn_training.report.published import RESULTS
from aragorn_training.report.sections import MEASURES, REFERENCES, SUBMITTED
from aragorn_training.studies.results import (
    COLUMNS,
    MEANS_COLUMNS,
    TEST_COLUMNS,
    TESTED_MEASURES,
    TOPIC_COLUMNS,
    label_rows,
)

log = logging.getLogger(__name__)

FILE = ""
DIGITS = 6

Values = Mapping[str, pd.DataFrame]  # MEASURES by topic, by name of system or run


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions, QrelsOptions, InputOptions):
    """Options of the study; the input has the collection of the systems."""

    runs: tuple[NamedPath, ...] = argument(
        type=parse_named_path,
        metavar="[NAME=]RUN",
        help="official TREC run (default name: file name without .txt, .gz etc.)",
    )
    year: str = option(metavar="YEAR", help="year of the topics in systems_per_topic.csv")
    results: Path = option(
        RESULTS, metavar="DIR", help="directory of systems_per_topic.csv, see `study results`"
    )
    output: Path | None = output_option(
        "directory of official_runs*.csv and complete_topics*.csv (default: WORK_DIR/results)"
    )


def run(options: Options) -> dict[str, pd.DataFrame]:
    """Evaluate official runs as `study results` evaluates systems, and compare both, see
    `tabulate_results`.

    Raises:
        InputError: If a run or the qrels have no document in common with the input, or the results
            of the systems are missing or of other judgments.
        UsageError: If a run has the name of a system.
    """
    files = index_files_by_name(options.runs, "run")
    systems, protocols = read_system_values(options.results, options.year)
    if clashes := sorted(systems.keys() & files.keys()):
        raise UsageError(f"runs named like systems: {abbreviate_list(clashes)}; use NAME=RUN")
    docnos, retrievable_docnos = read_collection(*options.inputs)
    qrels = read_qrels(options.qrels, docnos)
    runs = {}
    for name, file in files.items():
        run = read_restricted_run(file, "auto", retrievable_docnos)
        # rounded like the values of the systems, so that equal values remain equal
        runs[name] = evaluate_run(run, qrels, MEASURES).round(DIGITS)
    topics = next(iter(runs.values())).index
    for name, table in systems.items():
        if set(table.index) != set(topics):
            location = f"system {name}, {options.year}"
            reason = "other topics than those with a relevant document in input and qrels"
            fix = "use input and qrels of `study results`"
            raise InputError(options.results, location, reason, fix)
    counts = count_judged_documents(read_qrels(options.qrels), docnos)
    complete_topics = find_complete_topics(counts)
    complete = [qid for qid in complete_topics if qid in topics]
    if not complete:
        reason = "the input lacks judged documents of every topic"
        raise InputError(options.qrels, "", reason, "use an input with all of them")
    log.info("%d of %d topics miss no judged document", len(complete), len(topics))
    return tabulate_results(options.year, systems, runs, protocols, complete)


def read_system_values(results: Path, year: str) -> tuple[dict[str, pd.DataFrame], dict[str, str]]:
    """Read the values of each system on the topics of a year, and the protocol of each system;
    raise InputError if there are none."""
    file = results / "systems_per_topic.csv"
    try:
        table = pd.read_csv(file, dtype={"year": str, "qid": str})
        rows = table[table["year"] == year].set_index("qid")
        systems = {
            str(system): values[[*MEASURES]]
            for system, values in rows.groupby("system", sort=False)
        }
        protocols = dict(zip(rows["system"], rows["protocol"], strict=True))
    except (OSError, ValueError, KeyError) as error:
        raise InputError(file, "", f"not readable ({error!r})", "run `study results`") from None
    if missing := [name for name in REFERENCES if name not in systems]:
        reason = f"no values of {abbreviate_list(missing)} in {year}"
        raise InputError(file, "", reason, "run `study results` with these systems and this year")
    return systems, protocols


def tabulate_results(
    year: str,
    systems: Values,
    runs: Values,
    protocols: Mapping[str, str],
    complete_topics: Sequence[str],
) -> dict[str, pd.DataFrame]:
    """Tabulate official runs on all topics, and systems, among them REFERENCES, and runs on the
    topics of which the input has all judged documents.

    Returns:
        Tables by file name. `official_runs`, `official_runs_per_topic` and `complete_topics` have
        the columns of `systems` and `systems_per_topic`, see `study results`. The tests of
        `official_runs_significance` and `complete_topics_significance` have those of
        `systems_significance` and `baseline`, one of REFERENCES; Holm's correction is per baseline
        and measure over the other rows of the table.
    """
    everything = {**systems, **runs}
    complete = {name: table.loc[[*complete_topics]] for name, table in everything.items()}
    protocols_by_key = {(year, name): protocols.get(name, SUBMITTED) for name in everything}
    means = {
        "official_runs": tables.tabulate_means({year: runs}),
        "complete_topics": tables.tabulate_means({year: complete}),
    }
    per_topic = tables.tabulate_topics({year: runs})
    columns = [*TOPIC_COLUMNS, *MEASURES]
    results = {name: label_rows(means[name], protocols_by_key, MEANS_COLUMNS) for name in means}
    return results | {
        "official_runs_per_topic": label_rows(per_topic, protocols_by_key, columns),
        "official_runs_significance": tabulate_tests(year, runs, systems),
        "complete_topics_significance": tabulate_tests(year, complete, complete),
    }


def tabulate_tests(year: str, tested: Values, systems: Values) -> pd.DataFrame:
    """Test systems and runs against each of REFERENCES, see `tabulate_results`."""
    tests = {}
    for baseline in REFERENCES:
        values = {
            name: table[[*TESTED_MEASURES]]
            for name, table in {baseline: systems[baseline], **tested}.items()
        }
        tests[baseline] = tables.tabulate_significance({year: values}, baseline)
    table = pd.concat(tests, names=["baseline"]).reset_index().rename(columns=COLUMNS)
    return table[["baseline", *TEST_COLUMNS]]
