import json
from pathlib import Path

import pandas as pd
import pytest
from aragorn.errors import InputError
from aragorn_training.paths import PUBLISHED, RESULTS
from aragorn_training.report.published import (
    NOT_COMPARABLE,
    NOT_RUN,
    PAGE,
    count_items_not_run,
    load_publication,
    write_published,
)

ITEMS = {  # the tables and figures that the page must contain
    "augmented_sbert": [
        *(f"Table {index}" for index in (1, 5, 6, 9, 10, 11, 12, 13)), *(f"Figure {index}" for index in (1, 4, 5, 6)),
    ],
    "entezari_2020": [
        "Table 3.1", "Figure 3.1", "Figure 3.2", "Section 3.2.5", "Figure 4.1", "Table 4.1", "Figures 4.2 to 4.9", "Table 4.2",
        "Table 4.2, recipes as published", "Section 4.6, candidates", "Figure 4.11", "Section 4.5", "Table 4.3", "Table A.1",
    ],
    "entezari_voelske_2020": [
        "Table 1", "Table 2", "Official results, corpus version 1", "Figure 1", "Figure 3", "Section 5, candidates",
        "Section 3, duration of the inference",
    ],
    "hollatz_2022": [
        *(f"Table {index}" for index in ("3.1", "3.2", "4.1", "4.2", "4.3", "5.1", "5.2", "5.3")),
        *(f"Table 5.{index}" for index in range(4, 16)), "Tables 5.4 to 5.15: gains", "Tables 5.4 to 5.15: TARGER",
    ],
    "tfr_bert": [
        "Table 1", "Table 3", "Table 4", "Maximum length", "Table 5, UKP Rank", "Table 5, IBM-ArgQ", "Table 5, other data sets",
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def publications():
    return [load_publication(file) for file in sorted(PUBLISHED.glob("*.toml"))]


def test_page_contains_all_items(publications):
    assert {
        publication.name: [item.name for item in publication.items] for publication in publications
    } == ITEMS


def test_page_is_generated(tmp_path: Path):
    write_published(tmp_path / "published.md")
    assert (tmp_path / "published.md").read_text(encoding="utf-8") == PAGE.read_text(
        encoding="utf-8"
    )


def test_page_has_each_published_figure():
    rows = {
        tuple(line.strip("| ").split(" | ")[:3])
        for line in PAGE.read_text(encoding="utf-8").splitlines()
    }
    for file in PUBLISHED.glob("*.toml"):
        table = pd.read_csv(file.with_suffix(".csv"), dtype=str, keep_default_na=False)
        assert {*table[["row", "measure", "theirs"]].itertuples(index=False, name=None)} <= rows


def test_all_figures_are_shown_and_differences_have_reasons(publications, tmp_path: Path):
    write_published(tmp_path / "published.html")
    page = (tmp_path / "published.html").read_text(encoding="utf-8")
    items = [
        (f"{publication.name}, {item.name}", item)
        for publication in publications
        for item in publication.items
    ]
    figures = [(name, figure) for name, item in items for figure in item.figures]
    assert page.count('<td class="number">') >= 3 * len(figures)
    assert (
        f"{count_items_not_run(publications)} tables or figures have rows that are not run" in page
    )
    assert (
        count_items_not_run(publications)
        == len({name for name, figure in figures if figure.verdict == NOT_RUN})
        <= 10
    )
    assert not [
        (name, figure)
        for name, figure in figures
        if figure.verdict.startswith("not") and not figure.reason
    ]


def test_gains_and_best_networks_are_those_of_the_tables():
    items = {
        item.name: item.figures for item in load_publication(PUBLISHED / "hollatz_2022.toml").items
    }
    names = [
        row.split(", ")[::-1]
        for row in dict.fromkeys(figure.row for figure in items["Tables 5.4 to 5.15: gains"])
    ]
    for index, (years, model) in enumerate(names, 4):
        table = {(figure.row, figure.measure): figure for figure in items[f"Table 5.{index}"]}
        for gain in items["Tables 5.4 to 5.15: gains"][5 * (index - 4) : 5 * (index - 3)]:
            original, enriched = (
                table[row, gain.measure]
                for row in ("args.me", "With pools, topics and conclusions")
            )
            assert float(gain.theirs) == pytest.approx(
                float(enriched.theirs) - float(original.theirs)
            )
            assert gain.ours == pytest.approx(enriched.ours - original.ours, abs=1e-5)
        candidates = [
            figure
            for (row, measure), figure in table.items()
            if measure == "nDCG@5 condensed" and figure.ours
        ]
        best = next(
            figure
            for figure in items["Table 5.3"]
            if figure.row == f"{years}, {model}" and figure.measure[0] == "n"
        )
        assert best.ours == max(
            figure.ours for figure in candidates if not figure.row.endswith("fastText")
        )


@pytest.mark.parametrize(
    ("name", "item"), [("entezari_2020", "Table 4.3"), ("entezari_voelske_2020", "Table 2")]
)
def test_official_results_are_not_compared_with_those_of_the_excerpt(name: str, item: str):
    systems = pd.read_csv(RESULTS / "systems.csv", index_col=["system", "year", "measure"])["mean"]
    [figures] = (
        entry.figures
        for entry in load_publication(PUBLISHED / f"{name}.toml").items
        if entry.name == item
    )
    assert {figure.verdict for figure in figures} == {NOT_COMPARABLE}
    ours = {figure.row: figure.ours for figure in figures}
    for row, system in {
        "GRU": "gru",
        "KNRM": "knrm",
        "SNRM": "snrm",
        "Aggregation": "ensemble_thesis",
    }.items():
        assert ours[row] == pytest.approx(100 * systems[system, 2020, "nDCG@5 (Touché)"])


@pytest.mark.parametrize(("settings", "theirs", "verdict", "ours"), [
    ("", "5", "reproduced", 5.0), ("", "4", "better", 5.0), ("", "6", "worse", 5.0), ("", "5.5 ± 0.2", "worse", 5.0),
    ("lower_is_better = true", "6", "better", 5.0), ("tolerance = 1", "6", "reproduced", 5.0),
    ('spread = "sd"', "5.9", "reproduced", 5.0), ('spread = "sd"', "6.1", "worse", 5.0),
    ('spread = "sd"', "6.4 ± 0.5", "reproduced", 5.0), ('spread = "sd"', "6.5 ± 0.5", "worse", 5.0),
    ('low = "low"\nhigh = "high"', "3", "reproduced", 5.0), ('low = "low"\nhigh = "high"', "2.9", "better", 5.0),
    ("scale = 100", "500", "reproduced", 500.0), ('not_comparable = "other data"', "4", "not comparable", 5.0),
    ('not_run = "no data"', "4", "not run", None), ('[item.exceptions]\nA = { not_run = "no data" }', "4", "not run", None),
])  # fmt: skip
def test_verdict(tmp_path: Path, settings, theirs, verdict, ours):
    figure = load_figure(tmp_path, settings, theirs)
    assert (figure.verdict, figure.ours) == (verdict, ours)


def test_cause_of_a_row_replaces_that_of_the_item(tmp_path: Path):
    settings = 'cause = "of all"\n[item.exceptions]\n{} = {{ cause = "of A" }}'
    assert load_figure(tmp_path, settings.format("A"), "4").reason == "of A"
    assert load_figure(tmp_path, settings.format("B"), "4").reason == ""


def test_json_files_are_read_by_path(tmp_path: Path):
    (tmp_path / "metrics.json").write_text(json.dumps({"validation": {"MAP@20": 5}}))
    settings = f'[item.measures]\nMAP = {{ file = "{tmp_path}/metrics.json", value = "validation.MAP@20" }}'
    assert load_figure(tmp_path, settings, "4").ours == 5


@pytest.mark.parametrize(("settings", "message"), [
    ('[item.rows]\nB = { row = "A" }', "no figure of ours for A, MAP"),
    ('where = { row = "B" }', "0 rows of ours.csv match A, MAP"), ('where = { kind = "x" }', "2 rows of ours.csv match A, MAP"),
])  # fmt: skip
def test_missing_figure_is_an_error(tmp_path: Path, settings, message):
    with pytest.raises(InputError, match=message):
        load_figure(tmp_path, settings, "4", select="")


def load_figure(directory: Path, settings: str, theirs: str, select: str = 'where = { row = "A" }'):
    """Load the only figure of a publication whose table is `settings`; ours is 5, its spread .5 and
    its interval 3 to 6."""
    (directory / "ours.csv").write_text("row,kind,mean,sd,low,high\nA,x,5,.5,3,6\nC,x,1,1,1,1\n")
    (directory / "paper.csv").write_text(f"item,row,measure,theirs\nTable 1,A,MAP,{theirs}\n")
    head = f'title = "A paper"\n[[item]]\nname = "Table 1"\ntitle = "results"\nfile = "{directory}/ours.csv"\nvalue = "mean"\n'
    (directory / "paper.toml").write_text(f"{head}{select}\n{settings}\n")
    [item] = load_publication(directory / "paper.toml").items
    return item.figures[0]
