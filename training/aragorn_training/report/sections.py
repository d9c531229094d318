"""Update the generated sections of the documents from the catalogue, result tables and checkpoint
metrics."""

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from aragorn.errors import InputError
from aragorn.paths import CHECKPOINT_DIR, PROJECT_DIR
from aragorn.pipeline.session import CheckpointStore
from aragorn.storage.atomic_files import write_atomic
from aragorn.storage.checkpoint_directory import METRICS, read_json
from aragorn.systems.catalogue import SYSTEMS
from aragorn_training.evaluation.evaluate import (
    COMPACT_MEASURES,
    HEADLINE_MEASURES,
    JUDGED,
    JUDGED_ONLY_NDCG,
    NDCG,
    TOUCHE_NDCG,
)
from aragorn_training.evaluation.significance import ALPHA, format_mark
from aragorn_training.evaluation.tables import order_best_first
from aragorn_training.formatting import DASH, format_value
from aragorn_training.report.published import RESULTS, load_published_numbers
from aragorn_training.report.results import list_checkpoints

BASELINE = "dirichlet"
# systems with which official runs, and on complete topics all systems, are compared
REFERENCES = (BASELINE, "fusion")
MEASURES = COMPACT_MEASURES  # of all systems
# protocols
NESTED = "nested"
HELD_OUT = "held-out"
SELECTED = "selected"
SUBMITTED = "submitted"
BEST_HEADERS = (f"{TOUCHE_NDCG} [95 % CI]", *HEADLINE_MEASURES[1:])
N_BEST = 6  # number of systems in the main README
NEURAL_FAMILIES = ("neural re-ranker", "neural, first stage", "dense")
WINNER = "ElrondKRun"  # official run of Touché 2021 with the highest official nDCG@5
MAP = "MAP@20"
RANKING_PLANS = ("word_networks", "gru", "bert_networks", "cedr_knrm")
SEEDS_PLAN = "seeds"  # whose results may be missing
PUBLISHED_ROWS = {  # network → row of table 4.2 of Entezari 2020
    "gru": "GRU",
    "drmm": "DRMM",
    "knrm": "KNRM",
    "conv_knrm": "CKNRM",
    "snrm": "SNRM",
    "vanilla_bert": "Vanilla BERT",
    "cedr_knrm": "KNRM BERT",
    "cedr_drmm": "DRMM BERT",
}
CANDIDATES = {  # heading → pool and rule of the negatives
    "collection, random": ("collection", "random"),
    "collection, least similar": ("collection", "least_similar"),
    "split, least similar": ("split", "least_similar"),
}
SPLIT_CANDIDATES = CANDIDATES["split, least similar"]
BERT_RERANKERS = ("vanilla_bert", "cedr_drmm", "cedr_knrm")
DEEPCT_MEASURES = ("R²", "MAP")
DEEPCT_BASELINES = ("linear in IDF", "best constant")
ENRICHMENTS = {  # file → names of the reported enrichments
    "enrichment_deepct.csv": ("none", "deepct"),
    "enrichment_targer.csv": ("targer_essays",),
}
ENRICHMENT_MEASURES = (*HEADLINE_MEASURES[:2], "Bpref")


def update_readmes(
    results: Path = RESULTS, checkpoints: Path = CHECKPOINT_DIR, root: Path = PROJECT_DIR
) -> None:
    """Update all generated sections of the READMEs below `root`; raise InputError if results are
    missing or malformed, or a section marker is missing."""
    for name, (file, format_section) in SECTIONS.items():
        _require_known_sections(root / file)
        source = checkpoints if name == "commands" else results
        replace_section(root / file, name, format_section(source))


def _require_known_sections(readme: Path) -> None:
    names = re.findall(r"<!-- ([\w-]+): generated -->", readme.read_text(encoding="utf-8"))
    if unknown_names := [name for name in names if name not in SECTIONS]:
        fix = "add it to SECTIONS in aragorn_training/report/sections.py"
        raise InputError(f"{readme}: unknown section {', '.join(unknown_names)}; {fix}")


def replace_section(readme: Path, name: str, content: str) -> None:
    """Replace the text between a section's markers, each of which must occur once."""
    text = readme.read_text(encoding="utf-8")
    begin = f"<!-- {name}: generated -->"
    end = f"<!-- end of {name} -->"
    if text.count(begin) != 1 or text.count(end) != 1:
        raise InputError(
            f"{readme}: a marker is missing or duplicate; restore {begin} and {end}, once each"
        )
    before = text.split(begin)[0]
    after = text.split(end)[1]
    write_atomic(readme, f"{before}{begin}\n\n{content}\n{end}{after}", b"")


def format_system_names(checkpoints: Path) -> str:
    """Format the names of the systems whose checkpoints all exist in `checkpoints` in one line."""
    store = CheckpointStore(checkpoints)
    names = [
        f"`{name}`"
        for name, system in SYSTEMS.items()
        if not system.stage.find_missing_checkpoints(store)
    ]
    return f"`SYSTEM`: {', '.join(names)}.\n"


def format_systems_table(results: Path = RESULTS) -> str:
    """Format the systems of the catalogue, with descriptions and checkpoint names."""
    rows = [
        [name, system.description, ", ".join(list_checkpoints(name))]
        for name, system in SYSTEMS.items()
    ]
    return _format_table(["system", "description", "checkpoints"], rows)


def format_results_tables(results: Path = RESULTS) -> str:
    """Format one table per year with all systems and official runs, see `order_best_first`."""
    tables = []
    for year, rows in _load_rows(results).items():
        header = [f"system ({year})", "family", "protocol", BEST_HEADERS[0], "n", *MEASURES[1:]]
        columns = ["name", "family", "protocol", "interval", "n", *MEASURES[1:]]
        cells = [[str(row[column]) for column in columns] for row in rows]
        tables.append(_format_table(header, cells))
    return "\n".join(tables)


def format_best_table(results: Path = RESULTS) -> str:
    """Format the N_BEST systems by nDCG@5-touche on the tuning year and WINNER, with their results
    on all years."""
    rows_by_year = _load_rows(results)
    *_, tuning_year = rows_by_year
    labels = [f"{NESTED if year == tuning_year else HELD_OUT} {year}" for year in rows_by_year]
    headers = [f"{label}: {name}" for label in labels for name in BEST_HEADERS]
    names = [*(row["system"] for row in rows_by_year[tuning_year][:N_BEST]), WINNER]
    table = []
    for name in names:
        # one row, or none, per year
        years = [
            next((row for row in rows if row["system"] == name), {})
            for rows in rows_by_year.values()
        ]
        first = next(filter(None, years))
        columns = ("interval", *HEADLINE_MEASURES[1:])
        cells = [row.get(column, DASH) for row in years for column in columns]
        table.append([first["name"], first["family"], *cells])
    header = ["system", "family", *headers]
    return f"{_format_table(header, table)}\n{_compare_with_winner(results)}\n"


def _compare_with_winner(results: Path) -> str:
    """Format the differences of fusion from WINNER, with p values, in a sentence."""
    tests = _read(results / "official_runs_significance.csv")
    rows = tests[(tests["baseline"] == "fusion") & (tests["system"] == WINNER)]
    by_measure = rows.set_index("measure").loc[[*HEADLINE_MEASURES]]
    differences = [
        f"{-row['difference']:+.3f} (p {row['p']:.3f})" for row in by_measure.to_dict("records")
    ]
    return (
        f"`{WINNER}` won Touché {rows['year'].iloc[0]}; its run is evaluated without the "
        "documents that our systems do not retrieve. Differences of `fusion` from it over common "
        "topics, in the order of the columns: "
        f"{', '.join(differences)}."
    )


def format_complete_topics_table(results: Path = RESULTS) -> str:
    """Format the results of all systems and official runs on the topics of which the excerpt has
    all judged documents, best nDCG@5 first, and describe topics and tests."""
    means = _read(results / "complete_topics.csv")
    values = means.pivot(index="system", columns="measure", values="mean")
    tests = _read(results / "complete_topics_significance.csv")
    tests = tests[tests["measure"] == NDCG]
    differences = {
        (row["baseline"], row["system"]): f"{row['difference']:+.3f} ({row['p']:.3f})"
        for row in tests.to_dict("records")
    }
    ranking = means[means["measure"] == NDCG].sort_values("mean", ascending=False, kind="stable")
    rows = []
    for row in ranking.to_dict("records"):
        name = row["system"]
        interval = f"{row['mean']:.3f} [{row['low']:.3f}, {row['high']:.3f}]"
        judged_means = [f"{values[measure][name]:.3f}" for measure in (JUDGED_ONLY_NDCG, JUDGED)]
        cells = [differences.get((baseline, name), DASH) for baseline in REFERENCES]
        rows.append([name, row["family"], interval, *judged_means, *cells])
    header = ["system", "family", f"{NDCG} [95 % CI]", JUDGED_ONLY_NDCG, JUDGED]
    header += [f"difference from {name} (p)" for name in REFERENCES]
    n_significant = int((tests["p_holm"] < ALPHA).sum())
    year = ranking["year"].iloc[0]
    return (
        f"{_format_table(header, rows)}\n"
        f"{_describe_complete_topics(results, year)} Differences are of {NDCG}, p values of the "
        "exact test and not corrected; below .05 after Holm's correction per column: "
        f"{n_significant or 'none'}. {_count_closer_systems(results, year)}\n"
    )


def _count_closer_systems(results: Path, year: int) -> str:
    """Format how many neural systems are closer to BASELINE over the complete topics."""
    distances = []
    for name in ("complete_topics", "systems"):
        table = _read(results / f"{name}.csv")
        table = table[(table["year"] == year) & (table["measure"] == NDCG)]
        means = table.set_index("system")["mean"]
        neural = table.loc[table["family"].isin(NEURAL_FAMILIES), "system"]
        distances.append(means[BASELINE] - means[neural])
    is_closer = distances[0] < distances[1]
    return (
        f"{is_closer.sum()} of {len(is_closer)} neural systems are closer to `{BASELINE}` than "
        "over all topics, or above it: part of their distance over all topics may be due to "
        "missing texts (untested)."
    )


def _describe_complete_topics(results: Path, year: int) -> str:
    """Format the complete topics of a year, and the largest share of another topic."""
    topics = _read(results / "collection_topics.csv")
    topics = topics[topics["qrels"] == year]
    is_complete = topics["judged"] == topics["in_input"]
    complete = topics[is_complete]
    incomplete = topics[~is_complete]
    share = (incomplete["in_input"] / incomplete["judged"]).max()
    qids = ", ".join(map(str, complete["qid"]))
    return (
        f"The excerpt has all judged documents of topics {qids} of {year} "
        f"({complete['judged'].sum()} judgments), and at most {100 * share:.0f} % of those of the "
        f"other {len(incomplete)}."
    )


def _load_rows(results: Path) -> dict[int, list[dict[Hashable, Any]]]:
    """Load the rows of each year: systems and official runs, see `order_best_first`. The tuning
    year, with nested or selected results, is last.

    A row has `system family protocol n mean`, and as text `name`, `interval` and a cell per
    measure, marked if significant against BASELINE and bold if the best of the year.
    """
    means = pd.concat([_read(results / f"{name}.csv") for name in ("systems", "official_runs")])
    official_tests = _read(results / "official_runs_significance.csv")
    official_tests = official_tests[official_tests["baseline"] == BASELINE]
    tests = pd.concat([_read(results / "systems_significance.csv"), official_tests])
    table = means.merge(tests[["system", "year", "measure", "difference", "p_holm"]], how="left")
    marks = list(map(format_mark, table["difference"], table["p_holm"]))
    text = table["mean"].map("{:.3f}".format)
    is_best = table["mean"] == table.groupby(["year", "measure"])["mean"].transform("max")
    table["cell"] = np.where(is_best, "**" + text + "**", text) + marks
    table["interval"] = (
        table["cell"] + table["low"].map(" [{:.3f}".format) + table["high"].map(", {:.3f}]".format)
    )
    table["name"] = table["system"].replace(BASELINE, f"*{BASELINE}*")
    cells = table.pivot(index=["year", "system"], columns="measure", values="cell").reset_index()
    rows = table[table["measure"] == TOUCHE_NDCG].drop(columns="measure").merge(cells)
    rows = rows.iloc[order_best_first(rows["mean"], rows["n"])]
    by_year = {
        int(str(year)): group.to_dict("records") for year, group in rows.groupby("year", sort=False)
    }
    is_tuning = {
        year: any(row["protocol"] in (NESTED, SELECTED) for row in group)
        for year, group in by_year.items()
    }
    return {year: by_year[year] for year in sorted(by_year, key=is_tuning.__getitem__)}


def format_collection_table(results: Path = RESULTS) -> str:
    """Format the numbers of arguments, unconfirmed texts and judged documents by portal, with a
    summary in a sentence."""
    table = _read(results / "collection.csv").set_index("corpus")
    names = {
        column: column.replace("judged_", "judged ")
        for column in table.columns
        if re.fullmatch("judged_[0-9]+", column)
    }
    columns = {"arguments": "arguments", "searchable": "at least 15 words"}
    columns |= {"unconfirmed": "unconfirmed"} | names
    rows = [
        [str(corpus), *(f"{count:,}" for count in counts)]
        for corpus, counts in table[list(columns)][:-1].iterrows()
    ]
    total = table.iloc[-2]
    outside = table.iloc[-1]
    judged = [
        f"{total[column]:,} of {total[column] + outside[column]:,} judged documents of "
        f"{column[-4:]}"
        for column in names
    ]
    n_judged = sum(total[column.replace("judged_", "judged_unconfirmed_")] for column in names)
    mismatches = (
        f"{total['mismatched']:,} of {total['arguments']:,} ids are not the hash of their text"
    )
    unconfirmed = f"{n_judged} of the {total['unconfirmed']:,} unconfirmed texts are judged"
    summary = f"{mismatches}; {unconfirmed}. The excerpt has {' and '.join(judged)}."
    portals = _format_table(["portal", *columns.values()], rows)
    return f"{portals}\n{summary} {_format_exclusion(results)}\n"


def _format_exclusion(results: Path) -> str:
    """Format nDCG@5 of 2021 with and without the unconfirmed texts."""
    means, means_without = (
        _read(results / f"{name}.csv")
        .query("year == 2021 and measure == @NDCG")
        .set_index("system")["mean"]
        for name in ("systems", "systems_excluded")
    )
    changes = [
        f"{means_without[name]:.3f} instead of {means[name]:.3f} (`{name}`)"
        for name in ("fusion", "dirichlet")
    ]
    return (
        f"Without the unconfirmed texts, nDCG@5 of 2021 is {' and '.join(changes)}, and changes "
        f"by at most {(means_without - means).abs().max():.3f} for any system "
        "(`systems_excluded.csv`)."
    )


def format_fusion_table(results: Path = RESULTS) -> str:
    """Format the changes of nDCG@5 without each feature of the fusion and by other learners."""
    rows = []
    for file, column, prefix in (
        ("fusion_ablation_repeated", "removed_feature", "without "),
        ("fusion_learners", "learner", ""),
    ):
        table = _read(results / f"{file}.csv")
        changes = table[table["ci_low"].notna()]
        for name, values in changes.groupby(column, sort=False):
            cells = values.set_index("measure").loc[list(HEADLINE_MEASURES)].to_dict("records")
            interval = f"[{cells[0]['ci_low']:+.3f}, {cells[0]['ci_high']:+.3f}]"
            differences = [f"{cell['difference']:+.3f}{_format_mark(cell)}" for cell in cells]
            rows.append([f"{prefix}`{name}`", differences[0], interval, *differences[1:]])
    header = ["change", HEADLINE_MEASURES[0], "95 % interval", *HEADLINE_MEASURES[1:]]
    return _format_table(header, rows)


def format_enrichments_table(results: Path = RESULTS) -> str:
    """Format the results of retrieval models on original texts, with DeepCT and with TARGER."""
    rows = []
    for file, names in ENRICHMENTS.items():
        table = _read(results / file)
        table = table[table["topics"] == table["topics"].iloc[0]].set_index(
            ["retrieval_model", "enrichment", "measure"]
        )
        for model in table.index.unique("retrieval_model"):
            for name in names:
                cells = [table.loc[(model, name, measure)] for measure in ENRICHMENT_MEASURES]
                texts = [f"{cell['mean']:.3f}{_format_mark(cell)}" for cell in cells]
                rows.append([str(model), name, *texts])
    rows.sort(key=lambda row: row[0])
    return _format_table(["model", "enrichment", *ENRICHMENT_MEASURES], rows)


def format_students_table(results: Path = RESULTS) -> str:
    """Format the validation results of the bi-encoders of Augmented SBERT on args.me."""
    table = _read(results / "augmented_sbert_students.csv")
    measures = ["nDCG@10", "MRR@10", "recall@100"]
    table = table[table["nDCG@10"].notna()].fillna({"loss": "not trained", "training_pairs": ""})
    rows = [
        [loss, pairs, *(f"{value / 100:.3f}" for value in values)]
        for loss, pairs, *values in table[["loss", "training_pairs", *measures]].to_numpy()
    ]
    return _format_table(["loss", "training pairs", *measures], rows)


def format_step_seconds(results: Path = RESULTS) -> str:
    """Format the measured minutes of the steps of `all`, by device, as a Markdown list."""
    table = _read(results / "step_seconds.csv").groupby("device", sort=False)
    lines = []
    for device, rows in table:
        pairs = rows[["step", "seconds"]].to_numpy()
        minutes = ", ".join(f"{step} {seconds / 60:.1f}" for step, seconds in pairs)
        lines.append(f"- {device}: {minutes}")
    return "\n".join(lines) + "\n"


def format_trials_table(results: Path = RESULTS) -> str:
    """Format validation and test results of the ranking trials, and those of Entezari 2020: a
    table per pool and rule of the negatives that select the checkpoint."""
    published = load_published_numbers("entezari_2020", "Table 4.2")
    has_seeds = (results / f"trials_{SEEDS_PLAN}.csv").exists()
    tables: dict[tuple[str, str], list[list[str]]] = {}
    for plan in (*RANKING_PLANS, SEEDS_PLAN) if has_seeds else RANKING_PLANS:
        test_results = _read_test_results(results, plan)
        table = _read(results / f"trials_{plan}.csv")
        selected = table[(table["row"] == SELECTED) & (table["measure"] == MAP)]
        keys = ["pool", "rule", "trial", "network"]
        for (pool, rule, trial, network), values in selected.groupby(keys, sort=False):
            n_seeds = str(values["seed"].nunique())
            score = _format_deviation(values["value"].mean() / 100, values["value"].std() / 100, 3)
            touche = [test_results.get((trial, name), DASH) for name in HEADLINE_MEASURES[:2]]
            theirs = float(published[PUBLISHED_ROWS[str(network)], MAP]) / 100
            row = [f"`{trial}`", n_seeds, score, f"{theirs:.3f}", *touche]
            tables.setdefault((str(pool), str(rule)), []).append(row)
    texts = []
    for candidates, rows in tables.items():
        kind = "" if candidates == SPLIT_CANDIDATES else f", {_describe_candidates(*candidates)}"
        columns = ["trial", "seeds", f"{MAP}{kind}", f"{MAP}, Entezari 2020"]
        texts.append(_format_table([*columns, *HEADLINE_MEASURES[:2]], rows))
    return "\n".join(texts)


def _read_test_results(results: Path, plan: str) -> dict[Hashable, str]:
    """Read the means of a plan's runs, NAME and NAME-seedN, as texts by trial and measure; those of
    SEEDS_PLAN, whose trials have the names of other plans', are in a separate file, if any."""
    file = results / (f"trials_{plan}_means.csv" if plan == SEEDS_PLAN else "trials_means.csv")
    if plan == SEEDS_PLAN and not file.exists():
        return {}
    table = _read(file)
    trials = table["run"].str.replace(r"-seed\d+$", "", regex=True)
    means = table.groupby([trials, "measure"])["mean"].agg(["mean", "std"])
    return {key: _format_deviation(mean, std, 3) for key, mean, std in means.itertuples()}


def _describe_candidates(pool: str, rule: str) -> str:
    """Format the negatives of validation, e.g. "the least similar of the split"."""
    return f"{'random negatives' if rule == 'random' else 'the least similar'} of the {pool}"


def _describe_selection(checkpoints: Path) -> str:
    """Format the negatives with which the stored networks were selected, in a sentence."""
    by_candidates: dict[tuple[str, str], list[str]] = {}
    for name in PUBLISHED_ROWS:
        metrics = read_json(checkpoints / name / METRICS)
        by_candidates.setdefault((metrics["pool"], metrics["rule"]), []).append(f"`{name}`")
    kinds = [
        _describe_candidates(*candidates)
        + (f" ({', '.join(names)})" if len(by_candidates) > 1 else "")
        for candidates, names in by_candidates.items()
    ]
    return f"The shipped checkpoints were selected with {' and '.join(kinds)}."


def format_candidates_table(results: Path = RESULTS, checkpoints: Path = CHECKPOINT_DIR) -> str:
    """Format MAP@20 of each scorer with three kinds of negatives, and that of Entezari 2020, with
    findings in sentences."""
    table = _read(results / "candidates.csv")
    values = table.pivot(index="scorer", columns=["pool", "rule"], values=MAP)
    published = load_published_numbers("entezari_2020", "Table 4.2")
    rows = []
    for scorer in table["scorer"].unique():
        ours = values.loc[scorer]
        cells = [format_value(ours.get(columns), 2) for columns in CANDIDATES.values()]
        row = PUBLISHED_ROWS.get(scorer)
        name, theirs = (f"`{scorer}`", published[row, MAP]) if row else (scorer, DASH)
        rows.append([name, *cells, theirs])
    measured = values.loc[[*BERT_RERANKERS, "encoder, untrained"]].dropna(axis=1)
    below = "; ".join(
        f"{heading}: {', '.join(f'{value:.2f}' for value in measured[columns])}"
        for heading, columns in CANDIDATES.items()
        if columns in measured
    )
    trials = _read(results / "trials_bert_networks.csv")
    published_rates = trials[(trials["row"] == SELECTED) & (trials["measure"] == MAP)]["value"]
    draws = _read(results / "negative_counts.csv").query("ties == 'docno'")
    scores = [
        _format_deviation(rows[MAP].mean(), rows[MAP].std(), 1)
        for _, rows in draws.groupby("sample_factor")
    ]
    networks = ", ".join(f"`{name}`" for name in BERT_RERANKERS)
    count = values.loc["-times used as a training negative", SPLIT_CANDIDATES]
    return (
        f"{_format_table(['MAP@20 (%)', *CANDIDATES, 'Entezari 2020'], rows)}\n"
        f"{_describe_selection(checkpoints)} The BERT re-rankers are below the cosine of "
        f"their encoder before fine-tuning ({networks}, encoder: {below}); with the published "
        f"epochs and rates and no frozen block, on a GPU, they have {published_rates.min():.2f} to "
        f"{published_rates.max():.2f} with the least similar of the split.\n\n"
        "The least similar premises of the collection are negatives in training, too. How seldom a "
        f"premise is one, without topic or text, has MAP@20 {scores[-1]} with them (five draws, "
        f"the first of them above), {scores[-2]} and {scores[-3]} with the least similar of a half "
        "and a quarter as many arguments (`study negative-counts`), and "
        f"{count:.2f} in the split, where each premise is the positive of one query.\n"
    )


def format_deepct_table(results: Path = RESULTS) -> str:
    """Format the validation results of the DeepCT networks and the MAP of the baselines."""
    table = _read(results / "trials_deepct.csv")
    rows = []
    for trial, values in table.groupby("trial", sort=False):
        cells = values[values["row"] != "curve"].set_index(["row", "measure"])["value"] / 100
        keys = [(SELECTED, name) for name in DEEPCT_MEASURES]
        keys += [(name, "MAP") for name in DEEPCT_BASELINES]
        rows.append([f"`{trial}`", *(format_value(cells[key]) for key in keys)])
    headers = [f"MAP, {name}" for name in DEEPCT_BASELINES]
    return _format_table(["network", *DEEPCT_MEASURES, *headers], rows)


def _read(file: Path) -> pd.DataFrame:
    try:
        return pd.read_csv(file)
    except (OSError, ValueError) as error:
        raise InputError(
            f"{file}: cannot read results ({error}); write them with `aragorn-training study`"
        ) from None


def _format_deviation(mean: float, deviation: float, digits: int) -> str:
    """Format a mean and, if there are several values, their standard deviation."""
    return format_value(mean, digits) + ("" if pd.isna(deviation) else f" ± {deviation:.{digits}f}")


def _format_mark(row: Mapping[Hashable, Any]) -> str:
    return format_mark(row["difference"], row["p_randomisation_holm"])


def _format_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(cells)} |" for cells in (header, *rows)]
    return "\n".join([lines[0], "|---" * len(header) + "|", *lines[1:]]) + "\n"


# document and formatter of each generated section
SECTIONS: dict[str, tuple[str, Callable[[Path], str]]] = {
    "best": ("README.md", format_best_table),
    "commands": ("submission/README.md", format_system_names),
    "systems": ("submission/aragorn/systems/README.md", format_systems_table),
    "candidates": ("training/README.md", format_candidates_table),
    "collection": ("training/README.md", format_collection_table),
    "steps": ("training/README.md", format_step_seconds),
    "results": ("training/results/README.md", format_results_tables),
    "complete": ("training/results/README.md", format_complete_topics_table),
    "fusion": ("training/aragorn_training/studies/README.md", format_fusion_table),
    "trials": ("training/aragorn_training/studies/README.md", format_trials_table),
    "enrichments": ("training/aragorn_training/studies/README.md", format_enrichments_table),
    "deepct": ("training/aragorn_training/studies/README.md", format_deepct_table),
    "students": ("training/aragorn_training/studies/README.md", format_students_table),
}
