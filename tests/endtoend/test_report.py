"""Tests of the `explain`, `report` and `evaluate` commands on small checkpoints."""

import gzip
import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from aragorn.__main__ import main as aragorn
from aragorn.inference.checkpoint import load_checkpoint
from aragorn.inference.pair_scoring import score_texts
from aragorn.io.dataset import Dataset
from aragorn.io.qrels import read_qrels
from aragorn.io.runs import read_run
from aragorn.storage.atomic_files import sha256_file
from aragorn_training.__main__ import main as training
from aragorn_training.evaluation.evaluate import HEADLINE_MEASURES, evaluate_run
from aragorn_training.formatting import format_value
from tests.conftest import ParsedPage, copy_with_topics
from tests.endtoend.conftest import Capture

MARKUP = "<script>alert(1)</script> & <b>bold</b>"
NAMES = (
    "gru",
    "bm25",
    "bm25_arguments",
    "dirichlet_rm3",
    "tfr_bert",
    "deepct_dirichlet",
    "targer_dirichlet",
)


@pytest.fixture(scope="module")
def report_dir(
    corpus: Path, all_checkpoints_dir: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Create a directory with an input whose texts contain HTML markup, and with checkpoints, runs,
    qrels and a report."""
    directory = tmp_path_factory.mktemp("report_dir")
    file = copy_with_topics(corpus, directory / "input") / "args-me.json"
    content = json.loads(file.read_text())
    content["arguments"] = content["arguments"][::4]
    for argument in content["arguments"]:
        argument["conclusion"] += f" {MARKUP}"
        argument["premises"][0]["text"] += f" {MARKUP}"
    file.write_text(json.dumps(content))
    shutil.copytree(all_checkpoints_dir, directory / "checkpoints")
    flags = [*build_path_flags(directory), "-o", str(directory / "out"), "--device", "cpu"]
    assert aragorn(["rank", *flags, *(f"--system={name}" for name in NAMES)]) == 0
    top = read_run(directory / "out" / "aragorn-bm25.txt").groupby("qid").head(20)
    lines = [
        f"{qid} 0 {docno} {row % 3}\n"
        for row, (qid, docno) in enumerate(zip(top["qid"], top["docno"], strict=True))
    ]
    (directory / "qrels").write_text("".join([*lines, "3 0 elsewhere 2\n"]))
    assert report(directory) == 0
    return directory


@pytest.fixture
def copy(report_dir: Path, tmp_path: Path) -> Path:
    """Copy `report_dir` for a test that modifies it."""
    return Path(shutil.copytree(report_dir, tmp_path / "copy"))


def build_path_flags(directory: Path) -> list[str]:
    return ["-i", str(directory / "input"), "--checkpoints", str(directory / "checkpoints")]


def report(directory: Path, runs: str = "out") -> int:
    return training(
        [
            "report",
            str(directory / runs),
            *build_path_flags(directory),
            "--qrels",
            str(directory / "qrels"),
        ]
    )


def select_runs(directory: Path, *systems: str) -> None:
    """Copy the runs of systems, and the run of bm25 as run.txt, to the subdirectory `selected`."""
    (directory / "selected").mkdir()
    for system, name in (*((system, f"aragorn-{system}") for system in systems), ("bm25", "run")):
        shutil.copyfile(
            directory / "out" / f"aragorn-{system}.txt", directory / "selected" / f"{name}.txt"
        )


def read_report(directory: Path, runs: str = "out") -> str:
    return (directory / runs / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(report_dir: Path) -> ParsedPage:
    return ParsedPage(read_report(report_dir))


def test_report_is_self_contained(report_dir: Path, page: ParsedPage) -> None:
    assert not {"script", "link", "iframe", "object", "b"} & set(page.elements)
    assert MARKUP in page.text  # escaped
    html = read_report(report_dir)
    identifiers = set(re.findall(r' id="([^"]+)"', html))
    sources = re.findall(r' (?:src|href)="([^"]+)"', html)
    assert all(
        source.startswith("data:image/png;base64,") or source[1:] in identifiers
        for source in sources
    )


def test_report_tables_show_the_measures(report_dir: Path, page: ParsedPage) -> None:
    qrels = read_qrels(report_dir / "qrels").query("docno != 'elsewhere'")
    values = {
        name: evaluate_run(read_run(report_dir / "out" / f"aragorn-{name}.txt"), qrels)
        for name in NAMES
    }
    headlines = re.split("<caption>(?=nDCG@5<)", read_report(report_dir))[1].partition("</table>")[
        0
    ]
    rows = re.findall(r'<th scope="row">(\w+)</th>(.*?)</tr>', headlines, re.DOTALL)
    expected = {
        name: [format_value(table[measure].mean()) for measure in HEADLINE_MEASURES]
        for name, table in values.items()
    }
    assert {name: re.findall(r"<strong>(.*?)</strong>", row) for name, row in rows} == expected
    # undefined values count as 0
    means = [values[name][HEADLINE_MEASURES[0]].fillna(0.0).mean() for name, _ in rows]
    assert means == sorted(means, reverse=True)
    assert page.text.count("of 3 topics, ") == len(NAMES)  # overlap of each run with the judgments
    assert "Per-topic differences from gru" in page.text
    assert "Fitted or tuned to these judgments" not in page.text


def test_report_describes_each_topic(report_dir: Path, page: ParsedPage) -> None:
    html = read_report(report_dir)
    assert html.count('<details class="topic"') == 3
    assert re.search(r"Expanded query of dirichlet_rm3: topic\w+ 1\.00, ", page.text)
    commands = [
        shlex.split(match) for match in re.findall(r"Reproduce: (\./run\.sh .*)", page.text)
    ]
    assert [command[1:3] for command in commands] == [["search", "-i"]] * 3
    assert (
        {"s9"}
        <= set(re.findall(r'<mark class="(\w+)" title="[1-9]', html))
        <= {f"s{level}" for level in range(1, 10)}
    )
    components = re.findall(r'<mark class="(\w+)">', html)
    # the legends alone have one of each per topic
    assert min(components.count("claim"), components.count("premise")) > 3


def test_report_compares_retrieval_by_conclusion_and_full_text(
    report_dir: Path, page: ParsedPage
) -> None:
    qrels = read_qrels(report_dir / "qrels")
    relevant = set(map(tuple, qrels.loc[qrels["rel"] > 0, ["qid", "docno"]].to_numpy()))
    runs = [
        read_run(report_dir / "out" / f"aragorn-{name}.txt") for name in ("bm25", "bm25_arguments")
    ]
    conclusions, arguments = (
        relevant & set(map(tuple, run[["qid", "docno"]].to_numpy())) for run in runs
    )
    expected = (
        f"{len(conclusions & arguments)} retrieved both by conclusion (bm25) and by full text (bm25_arguments), "
        f"{len(conclusions - arguments)} by conclusion only, {len(arguments - conclusions)} by full text only"
    )
    assert expected in " ".join(page.text.split())


def test_report_marks_best_and_worst_argument_by_quality(report_dir: Path) -> None:
    documents = Dataset(report_dir / "input").documents.set_index("docno")
    network, html = (
        load_checkpoint(report_dir / "checkpoints" / "tfr_bert"),
        read_report(report_dir),
    )
    for qid, query in Dataset(report_dir / "input").topics.to_numpy():
        section = html[html.index(f'id="topic-{qid}"') :].partition('<details class="topic"')[0]
        rows = re.findall(rf'<dt id="text-{qid}-(\S+)">(.*?)</dt>', section, re.DOTALL)
        assert len(rows) > 5
        scores = score_texts(
            network, [(query, documents.loc[docno, "premise"]) for docno, _ in rows]
        )
        quality = dict(zip((docno for docno, _ in rows), scores, strict=True))
        for label, extreme in (("highest", max), ("lowest", min)):
            [marked] = [docno for docno, text in rows if f"{label} quality" in text]
            assert quality[marked] == pytest.approx(extreme(quality.values()), abs=1e-5)
            cells = [
                cell for cell in section.split("<td>") if f"{label} quality</span> <span" in cell
            ]
            assert cells
            assert all(f'href="#text-{qid}-{marked}"' in cell for cell in cells)


def test_report_compares_with_primary_run_and_lists_fits(copy: Path) -> None:
    file = copy / "checkpoints" / "dirichlet" / "provenance.json"  # a component of tfr_bert
    trained_on = {"input": {"qrels": sha256_file(copy / "qrels")}}
    file.write_text(json.dumps({**json.loads(file.read_text()), "training_data": trained_on}))
    select_runs(copy, "bm25", "tfr_bert")
    assert report(copy, "selected") == 0
    html = read_report(copy, "selected")
    assert re.findall(r'class="baseline"><th scope="row">(\w+)</th>', html) == ["bm25"] * 3
    assert re.findall(r"results are optimistic\): ([\w, ]+)\.", html) == ["tfr_bert"]


def test_report_of_one_run_and_of_another_input(copy: Path, capsys: Capture) -> None:
    select_runs(copy, "bm25")
    assert report(copy, "selected") == 0
    html, before = read_report(copy, "selected"), read_report(copy)
    assert ("<p>1 system, 3 topics with" in html, "No other run." in html) == (True, True)
    assert "3 topics: the randomisation test cannot reach p &lt; .250" in html
    assert not re.search("(highest|lowest) quality<", html)  # no run by quality
    file = copy / "input" / "topics.xml"
    file.write_text(file.read_text().replace("<number>1<", "<number>7<"))
    assert report(copy) == 3
    assert "the runs are on another input" in capsys.readouterr().err
    assert read_report(copy) == before


def test_report_of_gzipped_runs_and_of_two_runs_of_a_system(copy: Path, capsys: Capture) -> None:
    select_runs(copy, "bm25")
    for file in [*(copy / "selected").glob("*.txt")]:
        file.with_name(f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
        file.unlink()
    assert report(copy, "selected") == 0
    assert "<p>1 system, 3 topics with" in read_report(copy, "selected")
    shutil.copy(copy / "selected" / "run.txt.gz", copy / "selected" / "elrond-bm25.txt.gz")
    assert report(copy, "selected") == 3
    assert "two runs of the system bm25 (aragorn-bm25.txt.gz, elrond" in capsys.readouterr().err
