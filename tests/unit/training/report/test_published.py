import re

import pandas as pd
import pytest

from aragorn.errors import InputError
from aragorn_training.report import published
from aragorn_training.report.published import (
    NOT_COMPARABLE,
    NOT_RUN,
    RESULTS,
    compare_figures,
    count_items_not_run,
    find_ours,
    judge,
    read_figures,
    read_results,
)
from aragorn_training.report.published_pages import format_ours, write_published

KEY = ["publication", "item", "row", "measure"]


@pytest.fixture(scope="module")
def figures():
    return compare_figures()


def test_pages_are_generated(tmp_path):
    write_published(tmp_path / "published.md")
    pages = {
        path.relative_to(tmp_path): path.read_text(encoding="utf-8")
        for path in tmp_path.rglob("*.md")
    }
    assert len(pages) == 6
    assert pages == {path: (RESULTS / path).read_text(encoding="utf-8") for path in pages}


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
    message = r"entezari_2020, Table 4\.2, KNRM BERT, MAP@20: not in"
    with pytest.raises(InputError, match=message):
        published.read_highlights(figures[figures["row"] != "KNRM BERT"])


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
    topics = pd.read_csv(RESULTS / "systems_per_topic.csv")
    topics = topics.groupby(["system", "year", "protocol"])["nDCG@5-touche"].count()
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
    draws = pd.read_csv(RESULTS / "negative_counts.csv").groupby(["sample_factor", "ties"])
    of_draws = figures[figures["ours_file"] == "negative_counts.csv"]
    assert len(of_draws) == 12
    for figure in of_draws.to_dict("records"):
        factor, ties = re.findall(r"== '?(\w+)", figure["ours_query"])
        values = draws.get_group((int(factor), ties))[figure["measure"]]
        assert (figure["n"], figure["ours"]) == (5, pytest.approx(values.mean(), abs=0.006))
    folds = pd.read_csv(RESULTS / "argument_quality_folds.csv")
    assert {*folds.loc[folds["network"] == "logistic", "n_seeds"]} == {3}
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
