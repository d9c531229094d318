"""Tests of `report` on runs of small checkpoints."""

import gzip
import json
import re
import shlex
import shutil
from itertools import pairwise
from pathlib import Path

import pytest

from aragorn.__main__ import main as aragorn
from aragorn.io.dataset import Dataset
from aragorn.io.qrels import read_qrels
from aragorn.io.runs import read_run
from aragorn.storage.atomic_files import sha256_file
from aragorn_training.__main__ import main as training
from aragorn_training.evaluation.evaluate import HEADLINE_MEASURES, evaluate_run
from aragorn_training.formatting import format_value
from aragorn_training.report.runs import name_directories
from tests.browser import CHARTS_ARE_DRAWN, find_browser, open_browser
from tests.conftest import ParsedPage, copy_with_topics, format_run_lines

MARKUP = "<script>alert(1)</script> & <b>bold</b>"
UNJUDGED = "–"  # noqa: RUF001 a dash
NAMES = ("gru", "bm25", "bm25_arguments", "dirichlet_rm3", "tfr_bert")


@pytest.fixture(scope="module")
def report_dir(corpus, all_checkpoints_dir, tmp_path_factory):
    """Create an input whose texts contain HTML markup, checkpoints, runs, qrels and a report."""
    directory = tmp_path_factory.mktemp("report_dir")
    file = copy_with_topics(corpus, directory / "input") / "args-me.json"
    arguments = json.loads(file.read_text())["arguments"][::4]
    for argument in arguments:
        argument["conclusion"] += f" {MARKUP}"
        argument["premises"][0]["text"] += f" {MARKUP}"
    file.write_text(json.dumps({"arguments": arguments}))
    shutil.copytree(all_checkpoints_dir, directory / "checkpoints")
    flags = [*build_path_flags(directory), "-o", str(directory / "out"), "--device", "cpu"]
    assert aragorn(["rank", *flags, *(f"--system={name}" for name in NAMES)]) == 0
    top = read_system_run(directory, "bm25").groupby("qid").head(20)
    rows = enumerate(zip(top["qid"], top["docno"], strict=True))
    lines = [f"{qid} 0 {docno} {row % 3}\n" for row, (qid, docno) in rows]
    (directory / "qrels").write_text("".join([*lines, "3 0 elsewhere 2\n"]))
    assert report(directory) == 0
    return directory


@pytest.fixture
def copy(report_dir, tmp_path):
    """Copy `report_dir` for a test that modifies it."""
    return Path(shutil.copytree(report_dir, tmp_path / "copy"))


def build_path_flags(directory):
    return ["-i", str(directory / "input"), "--checkpoints", str(directory / "checkpoints")]


def report(directory, *runs, qrels=("qrels",)):
    runs = [str(directory / name) for name in runs or ("out",)]
    flags = [text for name in qrels for text in ("--qrels", str(directory / name))]
    return training(["report", *runs, *build_path_flags(directory), *flags])


def select_runs(directory, *systems):
    """Copy the runs of systems, and the run of bm25 as run.txt, to the subdirectory `selected`."""
    (directory / "selected").mkdir()
    for system, name in (*((system, f"aragorn-{system}") for system in systems), ("bm25", "run")):
        source = directory / "out" / f"aragorn-{system}.txt"
        shutil.copyfile(source, directory / "selected" / f"{name}.txt")


def read_system_run(directory, system, folder="out"):
    return read_run(directory / folder / f"aragorn-{system}.txt")


def read_judgments(directory, name="qrels"):
    """Read qrels without the document that is not in the input."""
    return read_qrels(directory / name).query("docno != 'elsewhere'")


def read_report(directory, runs="out"):
    return (directory / runs / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(report_dir):
    return ParsedPage(read_report(report_dir))


def find_rows(html, caption):
    """Return the texts of the cells of the first table after a text, by the text of their row."""
    table = html[html.index(caption) :].partition("</table>")[0]
    rows = {}
    for name, row in re.findall(r'<th scope="row">(.*?)</th>(.*?)</tr>', table, re.DOTALL):
        cells = re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL)
        pattern = re.compile(r"<title>.*?</title>|<[^>]*>", re.DOTALL)
        rows[name] = [pattern.sub("", cell).strip() for cell in cells]
    return rows


def test_report_is_self_contained(report_dir, page):
    assert not {"link", "iframe", "object", "img"} & set(page.elements)
    assert page.elements.count("script") == 3  # data, library, code
    assert MARKUP in page.text  # escaped
    html = read_report(report_dir)
    assert "<script>alert" not in html
    identifiers = set(re.findall(r' id="([^"]+)"', html))
    sources = re.findall(r' (?:src|href)="([^"]+)"', html.partition("<script")[0])
    assert sources
    assert all(source[1:] in identifiers for source in sources)


def test_report_tables_show_the_measures(report_dir, page):
    qrels = read_judgments(report_dir)
    values = {name: evaluate_run(read_system_run(report_dir, name), qrels) for name in NAMES}
    rows = find_rows(read_report(report_dir), "By nDCG@5-touche")
    for name, table in values.items():
        expected = [format_value(table[measure].mean()) for measure in HEADLINE_MEASURES]
        assert [cell.strip("▲▼") for cell in rows[name][:3]] == expected
        difference = table["nDCG@5"] - values["gru"]["nDCG@5"]
        assert rows[name][3] == f"{(difference > 0).sum()} / {(difference < 0).sum()}"
    # undefined values count as 0
    means = [values[name][HEADLINE_MEASURES[0]].fillna(0.0).mean() for name in rows]
    assert means == sorted(means, reverse=True)
    means = find_rows(read_report(report_dir), "Other measures")
    assert means["bm25"][-2] == format_value(values["bm25"]["Bpref"].mean())
    assert page.text.count("of 3 topics, ") == len(NAMES)  # overlap of each run with the judgments
    assert "worse than gru" in page.text
    assert "Fitted or tuned to these judgments" not in page.text


def test_report_describes_each_topic(report_dir, page):
    html = read_report(report_dir)
    assert html.count('<details class="topic"') == 3
    commands = [shlex.split(match) for match in re.findall(r"(\./run\.sh search .*)", page.text)]
    assert [command[1:3] for command in commands] == [["search", "-i"]] * 3
    grades = read_qrels(report_dir / "qrels").set_index(["qid", "docno"])["rel"]
    for position, qid in enumerate(Dataset(report_dir / "input").topics["qid"], 1):
        rows = find_rows(html, f'id="t{position}"')
        for name in NAMES:
            run = read_system_run(report_dir, name)
            top = run.loc[run["qid"] == qid, "docno"][:5]
            labels = [str(grades.get((qid, docno), UNJUDGED)) for docno in top]
            assert rows[name][:5] == labels + [""] * (5 - len(labels))
        section = html[html.index(f'id="t{position}"') :].partition('<details class="topic"')[0]
        [top] = re.findall(r'data-system="bm25">(.*?)</tr>', section, re.DOTALL)
        link = re.findall(r'href="#(t[0-9]+d[0-9]+)"', top)[0]
        first = grades[qid].index[0]  # judgments are of the run of bm25
        assert first in section[section.index(f'id="{link}"') :].partition("</article>")[0]


def test_report_compares_with_primary_run_and_lists_fits(copy):
    file = copy / "checkpoints" / "dirichlet" / "provenance.json"  # a component of tfr_bert
    trained_on = {"input": {"qrels": sha256_file(copy / "qrels")}}
    file.write_text(json.dumps({**json.loads(file.read_text()), "training_data": trained_on}))
    select_runs(copy, "bm25", "tfr_bert")
    assert report(copy, "selected") == 0
    html = read_report(copy, "selected")
    assert re.findall(r'class="baseline"><th scope="row">(\w+)</th>', html) == ["bm25"]
    assert re.findall(r"results are optimistic\): ([\w, ]+)\.", html) == ["tfr_bert"]
    (copy / "others").mkdir()
    shutil.copy(copy / "out" / "aragorn-tfr_bert.txt", copy / "others" / "elrond-tfr_bert.txt")
    assert report(copy, "selected", "others") == 0
    fitted = re.findall(r"are optimistic\): ([\w, -]+)\.", read_report(copy, "selected"))
    assert fitted == ["aragorn-tfr_bert, elrond-tfr_bert"]


def read_chart_rows(html, name):
    text = re.search(r'<script type="application/json"[^>]*>(.*?)</script>', html)[1]
    return json.loads(text)[name]


def test_candidates_are_named_only_where_their_run_is_given(copy):
    for systems, expected in (
        (("bm25", "gru"), ["by bm25", "only by other systems", "by no system"]),
        (("gru", "dirichlet_rm3"), ["by a system", "by no system"]),
    ):
        shutil.rmtree(copy / "selected", ignore_errors=True)
        select_runs(copy, *systems)
        flags = ["--qrels", str(copy / "qrels"), "--baseline", "gru"]
        assert training(["report", str(copy / "selected"), *build_path_flags(copy), *flags]) == 0
        rows = read_chart_rows(read_report(copy, "selected"), "candidates")
        assert [*dict.fromkeys(row["found"] for row in rows)] == expected


def test_report_of_one_run_and_of_another_input(copy, capsys):
    select_runs(copy, "bm25")
    assert report(copy, "selected") == 0
    html = read_report(copy, "selected")
    before = read_report(copy)
    assert "<p>1 system, 3 topics with" in html
    assert "3 topics: the randomisation test cannot reach p &lt; .250" in html
    file = copy / "input" / "topics.xml"
    file.write_text(file.read_text().replace("<number>1<", "<number>7<"))
    assert report(copy) == 3
    assert "no topic 1: the runs are on another input" in capsys.readouterr().err
    assert read_report(copy) == before


def test_report_omits_judged_topics_that_the_input_lacks(copy):
    docno = (copy / "qrels").read_text().split()[2]
    with (copy / "qrels").open("a") as file:
        file.write(f"99 0 {docno} 2\n")
    assert report(copy) == 0
    rows = read_chart_rows(read_report(copy), "topics")
    assert {row["topic"].split()[0] for row in rows} == {"1", "2", "3"}


def test_report_without_a_primary_run_needs_a_baseline(copy, capsys):
    select_runs(copy, "bm25", "gru")
    (copy / "selected" / "run.txt").unlink()
    assert report(copy, "selected") == 3
    assert "no run.txt that equals another run; add --baseline SYSTEM" in capsys.readouterr().err
    command = ["report", str(copy / "selected"), *build_path_flags(copy)]
    flags = ["--qrels", str(copy / "qrels"), "--baseline"]
    assert training([*command, *flags, "gruu"]) == 2
    assert "unknown baseline 'gruu'; did you mean 'gru'" in capsys.readouterr().err
    assert training([*command, *flags, "gru"]) == 0
    assert "worse than gru" in read_report(copy, "selected")


def test_report_of_two_teams_with_gzipped_runs(copy, capsys):
    select_runs(copy, "bm25")
    for file in [*(copy / "selected").glob("*.txt")]:
        file.with_name(f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
        file.unlink()
    (copy / "others").mkdir()
    shutil.copy(copy / "out" / "aragorn-gru.txt", copy / "others" / "elrond-bm25.txt")
    assert report(copy, "selected", "others") == 0
    html = read_report(copy, "selected")
    single = find_rows(read_report(copy), "By nDCG@5-touche")
    cells = {name: row[0] for name, row in find_rows(html, "By nDCG@5-touche").items()}
    expected = {"aragorn-bm25": single["bm25"][0], "elrond-bm25": single["gru"][0]}
    assert {name: cell.strip("▲▼") for name, cell in cells.items()} == {
        name: cell.strip("▲▼") for name, cell in expected.items()
    }
    for name, column in (("topics", "system"), ("similarity", "other"), ("recall", "system")):
        assert {row[column] for row in read_chart_rows(html, name)} == {*expected}
    assert read_chart_rows(html, "candidates")[0]["found"] == "by aragorn-bm25"
    assert (
        {*find_rows(html, 'id="t1"')} == {*re.findall('data-system="(.*?)"', html)} == {*expected}
    )


def test_report_of_two_directories_of_a_team_names_them(copy, capsys):
    select_runs(copy, "bm25", "gru")
    (copy / "others").mkdir()
    shutil.copy(copy / "out" / "aragorn-gru.txt", copy / "others" / "aragorn-bm25.txt")
    assert report(copy, "selected", "others") == 0
    html = read_report(copy, "selected")
    assert "<h1>Report on selected, others</h1>" in html
    rows = find_rows(html, "By nDCG@5-touche")
    assert {*rows} == {"selected/bm25", "selected/gru", "others/bm25"}
    assert rows["others/bm25"] == rows["selected/gru"]
    assert read_chart_rows(html, "candidates")[0]["found"] == "by selected/bm25"
    flags = [*build_path_flags(copy), "--qrels", str(copy / "qrels"), "--baseline", "others/bm25"]
    runs = [str(copy / name) for name in ("selected", "others")]
    assert training(["report", *runs, *flags]) == 0
    assert "worse than others/bm25" in read_report(copy, "selected")
    source = copy / "others" / "aragorn-bm25.txt"
    (copy / "others" / "aragorn-bm25.txt.gz").write_bytes(gzip.compress(source.read_bytes()))
    assert report(copy, "selected", "others") == 3
    error = capsys.readouterr().err
    assert "aragorn-bm25.txt.gz: second run of others/bm25; keep one of them" in error


def test_directories_are_named_by_the_ends_of_their_paths(tmp_path):
    def name(*names):
        return [*name_directories([tmp_path / part for part in names]).values()]

    assert name("a/runs") == ["runs"]
    assert name("a/runs", "b/runs") == ["a/runs", "b/runs"]
    assert name("runs", "runs/old") == ["runs", "runs/old"]


@pytest.fixture(scope="module")
def years(report_dir, tmp_path_factory):
    """Write runs and qrels of topic 3 apart from the others, and a report on both."""
    copy = Path(shutil.copytree(report_dir, tmp_path_factory.mktemp("years") / "copy"))

    def select_year(source, target, is_new):
        lines = source.read_text().splitlines(keepends=True)
        target.write_text("".join(line for line in lines if line.startswith("3 ") == is_new))

    for year, names in (("old", ("bm25", "gru")), ("new", ("bm25", "gru", "dirichlet_rm3"))):
        (copy / year).mkdir()
        select_year(copy / "qrels", copy / f"{year}.qrels", year == "new")
        for name in ("run.txt", *(f"aragorn-{system}.txt" for system in names)):
            select_year(copy / "out" / name, copy / year / name, year == "new")
    assert report(copy, "old", "new", qrels=("old.qrels", "new.qrels")) == 0
    return copy


def test_report_of_two_years(years):
    html = read_report(years, "old")
    assert html.count('<details class="topic"') == 3
    rows = find_rows(html, "By nDCG@5-touche")
    for name in ("bm25", "gru"):
        for column, year in ((2, "old"), (8, "new")):
            values = evaluate_run(
                read_system_run(years, name), read_judgments(years, f"{year}.qrels")
            )
            assert rows[name][column].strip("▲▼") == format_value(values["nDCG@5"].mean())
    # of topic 3 alone, as in the report on it
    recall = find_rows(html, "Table of recall")
    jaccard = find_rows(html, "Table of the Jaccard index")
    relevant = read_judgments(years, "new.qrels").query("rel > 0")
    run = read_system_run(years, "dirichlet_rm3", "new")
    retrieved = run[run["rank"] <= 10].merge(relevant[["qid", "docno"]])
    assert recall["dirichlet_rm3"][0] == f"{len(retrieved) / len(relevant):.2f}"
    docnos, bm25_docnos = (
        {*ranking["docno"][:100]} for ranking in (run, read_system_run(years, "bm25", "new"))
    )
    expected = len(docnos & bm25_docnos) / len(docnos | bm25_docnos)
    assert jaccard["dirichlet_rm3"][[*jaccard].index("bm25")] == f"{expected:.2f}"


def test_report_of_runs_of_a_larger_corpus(copy, capsys, caplog):
    caplog.set_level("INFO")
    select_runs(copy, "bm25")
    documents = read_system_run(copy, "bm25").groupby("qid")["docno"].agg(list)
    outside_docnos = [f"elsewhere{rank}" for rank in range(20)]
    (copy / "others").mkdir()
    file = copy / "others" / "ElrondKRun.txt"
    file.write_text(
        format_run_lines({qid: outside_docnos + docnos for qid, docnos in documents.items()})
    )
    assert report(copy, "selected", "others") == 3
    message = "pass a directory that `rank` wrote, or rename each run, e.g. to TEAM-ElrondKRun.txt"
    assert f"but ElrondKRun.txt; {message}" in capsys.readouterr().err
    file.rename(copy / "others" / "elrond-KRun.txt")
    assert report(copy, "selected", "others") == 0
    assert "elrond-KRun.txt: dropped 60 of" in caplog.text
    for caption in ("By nDCG@5-touche", "Table of recall"):
        rows = find_rows(read_report(copy, "selected"), caption)
        assert rows["elrond-KRun"] == rows["aragorn-bm25"]


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if find_browser() is None:
        pytest.skip("Chromium is not installed")
    with open_browser(tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture
def opened(browser, report_dir):
    """Open the report, and wait for its charts."""
    browser.open(report_dir / "out" / "report.html", 1100)
    browser.wait(CHARTS_ARE_DRAWN)
    return browser


@pytest.mark.parametrize("width", [1100, 400])
def test_page_is_not_cut_and_shows_no_problem(width, opened, report_dir):
    opened.resize(width)
    # charts are drawn again after the window has another size
    opened.wait(f"document.documentElement.scrollWidth === {width}")
    opened.wait(f"document.querySelector('.scroll').scrollWidth <= {width}")
    assert opened.problems == []


def test_names_in_heat_maps_of_a_narrow_page_are_complete_and_apart(browser, report_dir, tmp_path):
    names = [f"run{index:02d}_with_a_long_name" for index in range(1, 25)]
    for name in names:
        shutil.copy(report_dir / "out" / "aragorn-gru.txt", tmp_path / f"aragorn-{name}.txt")
    flags = ["--qrels", str(report_dir / "qrels"), "--baseline", names[0]]
    assert training(["report", str(tmp_path), *build_path_flags(report_dir), *flags]) == 0
    browser.open(tmp_path / "report.html", 400)
    browser.wait(CHARTS_ARE_DRAWN)
    for chart, expected_numbers in {"heat-map": [], "jaccard": range(1, 25)}.items():
        axes = f"[...document.querySelectorAll('#{chart} .role-axis-label')]"
        visible = "[...axis.children].filter(label => label.getAttribute('opacity') != 0)"
        boxes = "(({x, y, width, height}) => [x, y, x + width, y + height])"
        measure = f"label => [label.textContent, {boxes}(label.getBoundingClientRect())]"
        columns, rows = browser.evaluate(f"{axes}.map(axis => {visible}.map({measure}))")
        assert {re.sub(r"^[0-9]+ ", "", text) for text, _ in rows} == {*names}
        numbers = [int(text.split()[0]) for text, _ in rows if " " in text]
        assert sorted(numbers) == [*expected_numbers]
        assert all(text.isdigit() for text, _ in columns)
        for labels, axis in ((columns, 0), (rows, 1)):
            spans = sorted((box[axis], box[axis + 2]) for _, box in labels)
            assert all(end <= start + 1 for (_, end), (start, _) in pairwise(spans))


@pytest.mark.parametrize("path", ["out", "old"])
def test_printed_page_is_not_cut(path, browser, years):
    browser.open(years / path / "report.html", 1100)
    browser.wait(CHARTS_ARE_DRAWN)
    browser.send("Emulation.setEmulatedMedia", media="print")
    try:
        browser.resize(700)  # about A4 without margins
        assert browser.evaluate("document.querySelector('.results').scrollWidth") <= 700
        widths = "[...document.querySelectorAll('.chart svg')].map(chart => chart.clientWidth)"
        assert max(browser.evaluate(widths)) <= 700
    finally:
        browser.send("Emulation.setEmulatedMedia", media="")


def test_table_is_sorted_by_a_click(opened):
    heading = "document.querySelectorAll('.results thead button')[{}]"
    names = "[...document.querySelectorAll('.results tbody th')].map(cell => cell.textContent)"
    rows = "[...document.querySelectorAll('.results tbody tr')]"
    before = opened.evaluate(names)
    opened.point(heading.format(0), click=True)
    assert opened.evaluate(names) == sorted(before)
    opened.point(heading.format(0), click=True)
    assert opened.evaluate(names) == sorted(before, reverse=True)
    opened.point(heading.format(3), click=True)
    values = opened.evaluate(f"{rows}.map(row => row.cells[3].dataset.value)")
    numbers = [float(value) for value in values]
    assert numbers == sorted(numbers, reverse=True)
    assert len(set(numbers)) > 1
    assert opened.problems == []


def test_cell_of_heat_map_shows_value_and_opens_documents(opened, report_dir):
    cells = "document.querySelectorAll('#heat-map .mark-rect.role-mark path')"
    labels = opened.evaluate(f"[...{cells}].map(cell => cell.getAttribute('aria-label'))")
    assert len(labels) == 3 * len(NAMES)
    [cell] = [n for n, label in enumerate(labels) if "gru" in label and "topic: 2 " in label]
    opened.point(f"{cells}[{cell}]")
    opened.wait("document.querySelector('#vg-tooltip-element.visible') !== null")
    tooltip = opened.evaluate("document.querySelector('#vg-tooltip-element').textContent")
    titles = Dataset(report_dir / "input").topics.set_index("qid")["query"]
    assert f"2 {titles['2']}" in tooltip
    values = evaluate_run(read_system_run(report_dir, "gru"), read_judgments(report_dir))
    assert format_value(values.loc["2", "nDCG@5"]) in tooltip
    opened.point(f"{cells}[{cell}]", click=True)
    opened.wait("document.getElementById('t2').open")
    sections = "[...document.querySelectorAll('#t2 .columns section')]"
    names = f"{sections}.map(section => section.firstChild.textContent)"
    systems = opened.evaluate(names)
    assert "gru" in systems
    sizes = opened.evaluate(f"{sections}.map(section => section.children.length)")
    assert sizes == [6] * len(systems)
    opened.point("document.querySelector('#t2 [data-system=gru] button')", click=True)
    assert opened.evaluate(names) == [system for system in systems if system != "gru"]
    assert opened.problems == []


def test_heat_map_of_two_years_selects_one(browser, years):
    browser.open(years / "old" / "report.html", 1100)
    browser.wait(CHARTS_ARE_DRAWN)
    cells = "document.querySelectorAll('#heat-map .mark-rect.role-mark path').length"
    assert browser.evaluate(cells) == 2 * 2  # topics and systems
    select = "document.querySelector('#heat-map select')"
    browser.evaluate(f"{select}.value = 'new', {select}.dispatchEvent(new Event('change'))")
    browser.wait(f"{cells} == 3")  # systems of the new topic
    assert browser.problems == []


def test_legend_selects(opened):
    points = "[...document.querySelectorAll('#recall .mark-symbol.role-mark path')]"
    opened.point("document.querySelector('#recall .role-legend-symbol path')", click=True)
    opened.wait(f"new Set({points}.map(point => point.getAttribute('opacity'))).size == 2")


def test_tables_need_no_script_and_print_has_no_navigation(browser, report_dir):
    browser.send("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(report_dir / "out" / "report.html", 1100)
        rows = "document.querySelectorAll('.results tbody tr').length"
        assert browser.evaluate(rows) == len(NAMES)
        assert browser.evaluate("document.querySelectorAll('.results button').length") == 0
        display = "getComputedStyle(document.querySelector('nav')).display"
        assert browser.evaluate(display) == "flex"
        browser.send("Emulation.setEmulatedMedia", media="print")
        assert browser.evaluate(display) == "none"
    finally:
        browser.send("Emulation.setEmulatedMedia", media="")
        browser.send("Emulation.setScriptExecutionDisabled", value=False)
