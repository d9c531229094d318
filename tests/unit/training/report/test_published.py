import re

import pandas as pd
import pytest

from aragorn.errors import InputError
from aragorn_training.published import PUBLISHED, RESULTS
from aragorn_training.report import published
from aragorn_training.report.published import (
    NOT_COMPARABLE,
    NOT_RUN,
    compare_figures,
    count_items_not_run,
    find_ours,
    judge,
    read_figures,
    read_results,
)
from aragorn_training.report.published_pages import PAGE, format_ours, write_published

ITEMS = {  # the tables and figures that the page must contain
    "augmented_sbert": [
        *(f"Table {index}" for index in (1, *range(3, 14))), *(f"Figure {index}" for index in (1, 4, 5, 6)),
    ],
    "entezari_2020": [
        "Table 3.1", "Figure 3.1", "Figure 3.2", "Section 3.2.5", "Figure 4.1", "Table 4.1", "Figures 4.2 to 4.9", "Table 4.2",
        "Table 4.2, published epochs and rates", "Table 4.2, random candidates", "Table 4.2, candidates",
        "Section 4.6, candidates", "Figure 4.11", "Section 4.5", "Table 4.3", "Table A.1",
    ],
    "entezari_voelske_2020": [
        "Table 1", "Table 2", "Official results, corpus version 1", "Figure 1", "Figure 3", "Section 5, candidates",
        "Section 3, duration of the inference",
    ],
    "hollatz_2022": [
        *(f"Table {index}" for index in ("3.1", "3.2", "4.1", "4.2")),
        "Figure 4.3", "Table 4.3", *(f"Table 5.{index}" for index in range(1, 16)),
        "Tables 5.4 to 5.15: gains", "Tables 5.4 to 5.15: TARGER",
    ],
    "tfr_bert": [
        "Table 1", "Table 3", "Table 4", "Maximum length", "Table 5, UKP Rank", "Table 5, IBM-ArgQ", "Table 5, other data sets",
    ],
}  # fmt: skip


KEY = ["publication", "item", "row", "measure"]


@pytest.fixture(scope="module")
def figures():
    return compare_figures()


def test_page_contains_all_items(figures):
    items = (
        figures.drop_duplicates(["publication", "item"]).groupby("publication")["item"].agg(list)
    )
    assert items.to_dict() == ITEMS


def test_pages_are_generated(tmp_path):
    write_published(tmp_path / "published.md")
    pages = {
        path.relative_to(tmp_path): path.read_text(encoding="utf-8")
        for path in tmp_path.rglob("*.md")
    }
    assert len(pages) == 6
    assert pages == {path: (RESULTS / path).read_text(encoding="utf-8") for path in pages}


def test_pages_have_each_published_figure_once(figures):
    for name, rows in figures.groupby("publication"):
        lines = (PUBLISHED / f"{name}.md").read_text(encoding="utf-8").splitlines()
        shown = {tuple(line.strip("| ").split(" | ")[:3]) for line in lines}
        assert {*rows[["row", "measure", "theirs"]].itertuples(index=False, name=None)} <= shown
    assert not figures.duplicated(KEY).any()


def test_reasons_are_printed_once_per_table():
    for page in PUBLISHED.glob("*.md"):
        for table in page.read_text(encoding="utf-8").split("\n## ")[1:]:
            numbers = re.findall(r"^\|.* \((\d+)\) \|$", table, re.MULTILINE)
            notes = re.findall(r"^- \((\d+)\) (.*\.)$", table, re.MULTILINE)
            assert [mark for mark, _ in notes] == [*dict.fromkeys(numbers)]
            assert len({text for _, text in notes}) == len(notes)


def test_pages_have_no_statement_that_was_refuted():
    text = "".join(path.read_text(encoding="utf-8") for path in (PAGE, *PUBLISHED.glob("*.md")))
    assert re.findall(r"\b(?:99|50) topics|an hour|between 5\.1|at most half an epoch", text) == []


def test_overview_begins_with_a_comparison_of_at_most_30_lines(figures):
    lines = PAGE.read_text(encoding="utf-8").partition("\n## ")[0].splitlines()
    table = [line.strip("| ").split(" | ") for line in lines if line.startswith("|")]
    assert len(table) <= 30
    rows = {row[0]: row[1:] for row in table[2:]}
    expected = ["MAP@20", "24.1", "10.04", "70.7 (features of topic and premise together)", "worse"]
    assert rows["GRU, split candidates"] == expected
    assert rows["BM25 over the same premises, untrained"][3] == "82.72 (random candidates)"
    assert rows["Touché's baseline"][1:3] == ["75.6", "72.98"]
    validation = figures[figures["measure"] == "MAP@20"].set_index(["item", "row"])
    published = "Table 4.2, published epochs and rates"
    random = "Table 4.2, random candidates"
    for system, key in {
        "KNRM, random candidates": (random, "KNRM: random, collection"),
        "BERT + DRMM, split candidates": (published, "DRMM BERT"),
        "SNRM, split candidates": (published, "SNRM"),
    }.items():
        figure = validation.loc[key].to_dict()
        assert rows[system][1:3] == [figure["theirs"], format_ours(figure)]
        assert rows[system][4] == figure["verdict"]
    table = pd.read_csv(RESULTS / "candidates.csv").query("pool == 'collection'")
    candidates = table[table["rule"] == "random"].set_index("scorer")["MAP@20"]
    assert (
        rows["encoder of the BERT networks, untrained"][3]
        == f"{candidates['encoder, untrained']} (random candidates)"
    )
    assert rows["BERT + KNRM, split candidates"][3].startswith(f"{candidates['cedr_knrm']} (")


def test_settings_that_differ_are_read_from_recipes_and_checkpoints(monkeypatch):
    table = published.read_differences().set_index(["recipes", "setting"])["ours"]
    assert table["deepct, deepct_thesis", "epochs"] == "1 (deepct), 3 (deepct_thesis)"
    assert table["vanilla_bert, cedr_drmm, cedr_knrm", "rate of the encoder"] == "0.0001"
    assert table["vanilla_bert, cedr_drmm, cedr_knrm", "linear decay of the rate"] == "yes"
    assert (table != "").all()
    settings = read_results("settings")
    monkeypatch.setattr(
        published, "read_results", lambda _: settings[settings["key"] != "max_terms"]
    )
    with pytest.raises(InputError, match="gru, snrm: no max_terms in the recipe"):
        published.read_differences()


def test_comparison_with_an_unknown_figure_is_an_error(figures):
    message = r"entezari_2020, Table 4\.2, published epochs and rates, GRU, MAP@20: not in figures"
    with pytest.raises(InputError, match=message):
        published.read_highlights(figures[figures["row"] != "GRU"])


def test_all_figures_are_shown_and_differences_have_reasons(figures, tmp_path):
    write_published(tmp_path / "published.html")
    page = (tmp_path / "published.html").read_text(encoding="utf-8")
    assert page.count('<td class="number">') >= 3 * len(figures)
    assert f"{count_items_not_run(figures)} tables or figures have rows that are not run" in page
    not_run = figures[figures["verdict"] == NOT_RUN]
    assert count_items_not_run(figures) == not_run.groupby(["publication", "item"]).ngroups <= 10
    assert figures.loc[
        figures["verdict"].str.startswith("not") & (figures["reason"] == ""), KEY
    ].empty


def test_gains_and_best_networks_are_those_of_the_tables(figures):
    rows = figures[figures["publication"] == "hollatz_2022"].to_dict("records")
    table = {(figure["item"], figure["row"], figure["measure"]): figure for figure in rows}
    gains = [figure for figure in rows if figure["item"] == "Tables 5.4 to 5.15: gains"]
    assert len(gains) == 60
    for index, gain in enumerate(gains):
        name = f"Table 5.{4 + index // 5}"
        measure = gain["measure"]
        original, enriched = (
            table[name, row, measure] for row in ("args.me", "With pools, topics and conclusions")
        )
        assert float(gain["theirs"]) == pytest.approx(
            float(enriched["theirs"]) - float(original["theirs"])
        )
        assert gain["ours"] == pytest.approx(enriched["ours"] - original["ours"], abs=1e-5)
        if measure == "nDCG(judged_only=True)@5":
            candidates = [
                figure
                for figure in rows
                if figure["item"] == name and figure["measure"] == measure and figure["ours"]
            ]
            best = table["Table 5.3", ", ".join(gain["row"].split(", ")[::-1]), measure]
            assert best["ours"] == max(
                figure["ours"] for figure in candidates if not figure["row"].endswith("fastText")
            )


def test_n_of_each_mean_follows_from_the_result_files(figures):
    for name in ("deepct", "targer"):
        table = pd.read_csv(RESULTS / f"enrichment_{name}_years.csv").dropna(subset="n")
        rows = table.set_index(["enrichment", "retrieval_model", "measure"])
        both, first, second = (
            rows[rows["topics"] == topics] for topics in ("all judged", "2020", "2021")
        )
        assert (both["n"] == first["n"] + second["n"]).all()
        weighted = (first["n"] * first["mean"] + second["n"] * second["mean"]) / both["n"]
        assert (weighted - both["mean"]).abs().max() < 1.5e-6
        share = (both["mean"] - second["mean"]) / (first["mean"] - second["mean"])
        is_clear = (first["mean"] - second["mean"]).abs() > 0.01
        assert (share - first["n"] / both["n"])[is_clear].abs().max() < 2e-4
    topics = (
        pd.read_csv(RESULTS / "systems_per_topic.csv")
        .groupby(["system", "year", "protocol"])["nDCG@5-touche"]
        .count()
    )
    systems = pd.read_csv(RESULTS / "systems.csv").query("measure == 'nDCG@5-touche'")
    assert systems.set_index(["system", "year", "protocol"])["n"].to_dict() == topics.to_dict()
    means = figures[figures["ours_file"].str.match("enrichment|systems") & figures["ours"].notna()]
    years = {"2020": 49, "2021": 38, "2020 and 2021": 87}
    for title, rows in means[means["item"].str.match(r"Table 5\.(?!3)")].groupby("title"):
        assert {*rows["n"]} == {years[str(title).partition("topics of ")[2]]}
    assert means["n"].notna().all()


def test_n_of_each_mean_over_seeds_follows_from_the_result_files(figures):
    trials = pd.read_csv(RESULTS / "trials_candidates.csv").query("row == 'selected'")
    values = trials.groupby(["trial", "measure"])["value"].agg(["count", "mean", "std"])
    of_trials = figures[figures["ours_file"] == "trials_candidates.csv"]
    assert len(of_trials) == 9 * trials["trial"].nunique()
    for figure in of_trials.to_dict("records"):
        trial, measure = re.findall(r"'(.*?)'", figure["ours_query"])
        count, mean, deviation = values.loc[trial, measure]
        assert (figure["n"], figure["ours"]) == (count, pytest.approx(mean, abs=0.006))
        if count > 1:
            assert figure["spread"] == pytest.approx(deviation, abs=0.006)
        else:
            assert figure["spread"] is None
    for file, n in {"augmented_sbert*": "repetitions", "argument_quality*": "n_seeds"}.items():
        for path in RESULTS.glob(f"{file}.csv"):
            table = pd.read_csv(path)
            if n in table:  # a deviation has several values
                spread = table["dev_sd" if "dev_sd" in table else "sd"]
                assert ((table[n] > 1) == spread.notna()).all(), path.name


@pytest.mark.parametrize(
    ("name", "item"), [("entezari_2020", "Table 4.3"), ("entezari_voelske_2020", "Table 2")]
)
def test_official_results_are_not_compared_with_those_of_the_excerpt(name, item, figures):
    systems = pd.read_csv(RESULTS / "systems.csv", index_col=["system", "year", "measure"])["mean"]
    rows = figures[(figures["publication"] == name) & (figures["item"] == item)]
    assert {*rows["verdict"]} == {NOT_COMPARABLE}
    ours = rows.set_index("row")["ours"]
    names = {name.upper(): name for name in ("gru", "knrm", "snrm")}
    for row, system in {**names, "Aggregation": "ensemble_thesis"}.items():
        assert ours[row] == pytest.approx(100 * systems[system, 2020, "nDCG@5-touche"])


def test_settings_are_those_of_checkpoints_and_recipes():
    settings = read_results("settings").set_index(["kind", "name", "key"])["value"]
    assert settings["recipe", "gru", "network.hidden"] == 512
    assert settings["metrics", "knrm", "validation.MAP@20"] == pytest.approx(86.67, abs=0.01)


@pytest.mark.parametrize(("cells", "theirs", "verdict", "ours"), [
    ({}, "5", "reproduced", 5.0), ({}, "4", "better", 5.0), ({}, "6", "worse", 5.0), ({}, "5.5 ± 0.2", "worse", 5.0),
    ({"lower_is_better": "yes"}, "6", "better", 5.0), ({"tolerance": "1"}, "6", "reproduced", 5.0),
    ({"spread": "sd"}, "5.9", "reproduced", 5.0), ({"spread": "sd"}, "6.1", "worse", 5.0),
    ({"spread": "sd"}, "6.4 ± 0.5", "reproduced", 5.0), ({"spread": "sd"}, "6.5 ± 0.5", "worse", 5.0),
    ({"low": "low", "high": "high"}, "3", "reproduced", 5.0), ({"low": "low", "high": "high"}, "2.9", "better", 5.0),
    ({"scale": "100"}, "500", "reproduced", 500.0), ({"status": "not comparable"}, "4", "not comparable", 5.0),
    ({"kind": "setting"}, "5", "reproduced", 5.0), ({"kind": "setting"}, "4", "different setting", 5.0),
    ({"kind": "size", "tolerance": "1"}, "4", "reproduced", 5.0), ({"kind": "size"}, "x", "different setting", 5.0),
    ({"kind": "gain", "tolerance": "9"}, "1", "reproduced", 5.0), ({"kind": "gain", "tolerance": "9"}, "-1", "better", 5.0),
    ({"tolerance": "9"}, "-1", "reproduced", 5.0), ({}, "x", "not comparable", 5.0),
    ({"status": "not run", "ours_file": "-"}, "4", "not run", None), ({"ours_query": "= 5"}, "5", "reproduced", "5"),
    ({"ours_query": "= RBF"}, "RBF", "reproduced", "RBF"),
])  # fmt: skip
def test_verdict(tmp_path, cells, theirs, verdict, ours):
    [figure] = compare(tmp_path, [{"theirs": theirs, "reason": "key", **cells}])
    assert (judge(figure), figure["ours"]) == (verdict, ours)


@pytest.mark.parametrize(("cells", "text"), [
    ({}, "5"), ({"spread": "sd"}, "5 ± 0.5"), ({"low": "low", "high": "high"}, "5 [3, 6]"),
    ({"ours_column": "mean - low"}, "2"),
])  # fmt: skip
def test_figures_are_shown_with_spread_or_interval(tmp_path, cells, text):
    [figure] = compare(tmp_path, [cells])
    assert format_ours(figure) == text


@pytest.mark.parametrize(("rows", "text", "n"), [
    ("kind == 'x'", "3 ± 2.83", 2), ("row == 'A'", "5", 1),
])  # fmt: skip
def test_figures_of_several_seeds_are_averaged(tmp_path, rows, text, n):
    [figure] = compare(tmp_path, [{"ours_query": rows, "n": "seed"}])
    assert (format_ours(figure), figure["n"]) == (text, n)


def test_settings_are_counted_apart_from_results(figures):
    page = PAGE.read_text(encoding="utf-8")
    counts = re.findall(
        r"^\| \[(.*)\]\(.*\) \| (results|settings and sizes) \| (.*) \|$", page, re.MULTILINE
    )
    assert sum(int(count) for *_, cells in counts for count in cells.split(" | ")) == len(figures)
    results = sum(int(cells.split(" | ")[0]) for _, kind, cells in counts if kind == "results")
    assert results == sum(
        (figures["verdict"] == "reproduced") & ~figures["kind"].isin(["setting", "size"])
    )
    gains = figures[figures["kind"] == "gain"]
    signs = gains["theirs"].astype(float) * gains["ours"].astype(float)
    assert len(gains) == 60
    assert (signs[gains["verdict"] == "reproduced"] >= 0).all()


def test_cells_of_an_item_are_defaults(tmp_path):
    rows = [{"row": row, "reason": reason} for row, reason in (("A", "key"), ("B", ""), ("C", "-"))]
    compared = compare(tmp_path, rows, reason="other", ours_query="kind == 'x'")
    assert [figure["reason"] for figure in compared] == ["a reason", "another", ""]


@pytest.mark.parametrize(("cells", "message"), [
    ({"ours_file": "-"}, "paper, Table 1, A, MAP: no figure of ours"),
    ({"ours_query": "row == 'D'"}, "0 rows of ours.csv match `row == 'D'`"),
    ({"ours_query": "kind == 'x'"}, "2 rows of ours.csv match"), ({"item": "Table 2"}, "only: paper Table 1, paper Table 2"),
    ({"reason": "absent"}, "no text for the reasons absent"),
    ({"ours_query": "kind == 'y'", "n": "seed"}, "0 rows and 0 seeds of ours.csv match"),
    ({"ours_query": "", "n": "seed"}, "3 rows and 2 seeds of ours.csv match"),
])  # fmt: skip
def test_fault_in_a_figure_is_an_error(tmp_path, cells, message):
    with pytest.raises(InputError, match=message):
        compare(tmp_path, [cells])


def compare(directory, rows, **item):
    """Compare figures of one item; ours of row A is 5, its spread .5 and its interval 3 to 6."""
    results = pd.DataFrame(
        [["A", "x", 5, 0.5, 3, 6, 0], ["B", "z", 1, 1, 1, 1, 0], ["C", "x", 1, 1, 1, 1, 1]]
    )
    results.columns = pd.Index(["row", "kind", "mean", "sd", "low", "high", "seed"])
    shared = {"publication": "paper", "item": "Table 1"}
    figures = [
        {"row": "A", "measure": "MAP", "theirs": "4", "ours_query": "row == 'A'", **shared, **cells}
        for cells in rows
    ]
    items = [{"title": "results", "ours_file": "ours.csv", "ours_column": "mean", **shared, **item}]
    for name, table, columns in (
        ("figures", figures, ["row", "measure", "theirs"]),
        ("items", items, ["title", "data"]),
    ):
        cells = pd.DataFrame(
            table, columns=["publication", "item", *columns, "ours_query", *published.DEFAULTS]
        )
        cells.to_csv(directory / f"{name}.csv", index=False)
    pd.DataFrame({"key": ["key", "other"], "text": ["a reason", "another"]}).to_csv(
        directory / "reasons.csv", index=False
    )
    return find_ours(read_figures(directory), lambda _: results).to_dict("records")
