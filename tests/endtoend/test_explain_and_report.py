"""Tests of the `explain`, `report` and `evaluate` commands on all systems, with small checkpoints."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest

from submission.__main__ import main as submission
from submission.data.dataset import Dataset
from submission.data.runs import read_run
from submission.inference.ranker_checkpoint import load_checkpoint
from submission.storage.atomic_files import sha256_file
from submission.systems.catalogue import PRIMARY_SYSTEM, SYSTEMS
from submission.systems.execution import iter_components
from tests.conftest import copy_with_topics, load_documents
from tests.endtoend.conftest import Capture
from training.__main__ import main as training
from training.evaluation.evaluate import HEADLINE_MEASURES, evaluate_run
from training.evaluation.qrels import read_qrels
from training.formatting import format_value

MARKUP = "<script>alert(1)</script> & <b>bold</b>"


@pytest.fixture(scope="module")
def reported(corpus: Path, all_checkpoints_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a directory with an input whose texts contain markup, the runs of all systems, qrels and a report."""
    directory = tmp_path_factory.mktemp("reported")
    file = copy_with_topics(corpus, directory / "input") / "args-me.json"
    content = json.loads(file.read_text())
    for argument in content["arguments"]:
        argument["conclusion"] += f" {MARKUP}"
        argument["premises"][0]["text"] += f" {MARKUP}"
    file.write_text(json.dumps(content))
    flags = [*path_flags(directory, all_checkpoints_dir), "-o", str(directory / "out"), "--device", "cpu"]
    assert submission(["rank", *flags]) == 0
    top = read_run(directory / "out" / "aragorn-bm25.txt").groupby("qid").head(20)
    lines = [f"{qid} 0 {docno} {row % 3}\n" for row, (qid, docno) in enumerate(zip(top["qid"], top["docno"], strict=True))]
    (directory / "qrels").write_text("".join([*lines, "3 0 elsewhere 2\n"]))
    assert report(directory, all_checkpoints_dir) == 0
    return directory


@pytest.fixture
def copied(reported: Path, tmp_path: Path) -> Path:
    """Copy the runs and the report, for tests that modify them."""
    return Path(shutil.copytree(reported, tmp_path / "copied"))


def path_flags(directory: Path, checkpoints: Path) -> list[str]:
    return ["-i", str(directory / "input"), "--checkpoints", str(checkpoints)]


def report(directory: Path, checkpoints: Path, runs: str = "out", qrels: str = "qrels") -> int:
    return training(["report", str(directory / runs), *path_flags(directory, checkpoints), "--qrels", str(directory / qrels)])


def explain(directory: Path, checkpoints: Path, system: str, topic: str, document: str) -> int:
    flags = ["--system", system, "--qid", topic, "--docno", document, "--device", "cpu"]
    return submission(["explain", *path_flags(directory, checkpoints), *flags])


@pytest.mark.parametrize("system", SYSTEMS)
def test_explained_score_equals_run_score(system: str, reported: Path, all_checkpoints_dir: Path, capsys: Capture) -> None:
    row = read_run(reported / "out" / f"aragorn-{system}.txt").iloc[2]
    assert explain(reported, all_checkpoints_dir, system, row["qid"], row["docno"]) == 0
    out = capsys.readouterr().out
    [score] = re.findall(r"^score (-?[\d.]+)", out, re.MULTILINE)
    assert float(score) == pytest.approx(row["score"], abs=2e-5 * max(1, abs(row["score"])))
    assert out.startswith(f"topic {row['qid']}: ")
    listed = out[out.index("\nscore ") :].split("\n\n")[1]  # the largest contributions and the sum of the others
    total = sum(float(line.split()[0]) for line in listed.splitlines())
    logit = re.search(r"tanh of (-?[\d.]+)", out)
    assert total == pytest.approx(float(logit[1]) if logit else float(score), abs=2e-5 * max(1, abs(total)))


def test_unknown_ids_fail(reported: Path, all_checkpoints_dir: Path, capsys: Capture) -> None:
    for system, topic, words in (
        ("knmr", "1", "unknown system 'knmr'; did you mean 'knrm'"),
        ("knrm", "9", "unknown topic '9'"),
        ("knrm", "1", "unknown document 'x'; expected a docno of the input"),
    ):
        assert explain(reported, all_checkpoints_dir, system, topic, "x") == 2
        assert words in capsys.readouterr().err


class Page(HTMLParser):
    """The tags and the text of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_report_is_self_contained_and_shows_the_results(reported: Path) -> None:
    directory = reported / "out"
    html = (directory / "report.html").read_text(encoding="utf-8")
    page = Page(html)
    assert not {"script", "link", "iframe", "object", "b"} & {tag for tag, _ in page.tags}
    sources = [value or "" for _, attributes in page.tags for name, value in attributes.items() if name in ("src", "href")]
    assert all(source.startswith(("data:image/png;base64,", "#")) for source in sources)
    identifiers = {attributes["id"] for _, attributes in page.tags if "id" in attributes}
    assert {source[1:] for source in sources if source.startswith("#")} <= identifiers
    assert all(attributes.get("alt") for tag, attributes in page.tags if tag == "img")
    assert MARKUP in page.text  # escaped
    judgments = read_qrels(reported / "qrels")
    judgments = judgments[judgments["docno"] != "elsewhere"]
    for system in SYSTEMS:
        values = evaluate_run(read_run(directory / f"aragorn-{system}.txt"), judgments).mean()
        headlines = html[html.index("<caption>nDCG@5</caption>") :].split("</table>")[0]
        row = headlines[headlines.index(f'scope="row">{system}</th>') :].split("</tr>")[0]
        assert re.findall(r"<strong>(.*?)</strong>", row) == [format_value(values[measure]) for measure in HEADLINE_MEASURES]
        for treatment in ("condensed", "all"):
            other_measures = html[html.index(f"<caption>Other measures ({treatment}:") :].split("</table>")[0]
            [figures] = re.findall(rf'scope="row">{system}</th>(.*?)</tr>', other_measures)
            expected = [values[f"{name} {treatment}"] for name in ("nDCG@10", "nDCG@25", "MAP", "MRR", "P@5", "Rprec")]
            assert re.findall(r"<td>(.*?)</td>", figures) == [f"{value:.3f}" for value in [*expected, values["Bpref"]]]
    assert html.count(f'class="baseline"><th scope="row">{PRIMARY_SYSTEM}</th>') == 3
    assert page.text.count("of 3 topics, ") == len(SYSTEMS)  # overlap of each run with the judgments
    assert "Per-topic differences from fusion" in page.text
    assert "Fitted or tuned to these judgments" not in page.text
    assert re.search(r"Expanded query of dirichlet_rm3: topic\w+ 1\.00, ", page.text)
    commands = [shlex.split(match) for match in re.findall(r"Reproduce: (\./run\.sh .*)", page.text)]
    assert len(commands) == 3
    assert all(command[1:3] == ["search", "-i"] for command in commands)
    assert page.text.count("term frequencies in the top argument") == 3  # once per topic, for DeepCT
    marks = [attributes for tag, attributes in page.tags if tag == "mark"]
    shaded, parts = [mark for mark in marks if "title" in mark], [mark for mark in marks if "title" not in mark]
    shades = {str(mark["class"]) for mark in shaded}
    assert "s9" in shades
    assert shades <= {f"s{level}" for level in range(1, 10)}
    assert all(int(str(mark["title"])) > 0 for mark in shaded)
    assert page.text.count("claims and premises in the top argument") == 3
    components = [str(mark["class"]) for mark in parts]
    assert set(components) == {"claim", "premise"}
    assert min(components.count("claim"), components.count("premise")) > 3  # the legends alone have one of each per topic
    first = {system: read_run(directory / f"aragorn-{system}.txt") for system in ("bm25", "bm25_arguments")}
    relevant = set(map(tuple, judgments.loc[judgments["rel"] > 0, ["qid", "docno"]].to_numpy()))
    conclusions, arguments = (relevant & set(map(tuple, run[["qid", "docno"]].to_numpy())) for run in first.values())
    counts = len(conclusions & arguments), len(conclusions - arguments), len(arguments - conclusions)
    both, by_conclusion, by_full_text = counts
    words = f"{both} retrieved both by conclusion (bm25) and by full text (bm25_arguments), {by_conclusion} by conclusion only"
    assert f"{words}, {by_full_text} by full text only" in " ".join(page.text.split())
    table = html[html.index("<caption>nDCG@5</caption>") :].partition("</table>")[0]  # best first
    printed = re.findall(r'<th scope="row">(\w+)</th>\n<td><strong>', table)
    tables = {system: evaluate_run(read_run(directory / f"aragorn-{system}.txt"), judgments) for system in SYSTEMS}
    means = [tables[system][HEADLINE_MEASURES[0]].fillna(0.0).mean() for system in printed]  # undefined values count as 0
    assert len(means) == len(SYSTEMS)
    assert means == sorted(means, reverse=True)
    assert sum(tag == "details" and attributes.get("class") == "topic" for tag, attributes in page.tags) == 3


def test_report_marks_best_and_worst_argument_by_quality(copied: Path, all_checkpoints_dir: Path) -> None:
    directory, source = copied / "out", copied / "input"
    documents, queries = load_documents(source).set_index("docno"), Dataset(source).topics.set_index("qid")["query"]
    network = load_checkpoint(all_checkpoints_dir / "tfr_bert")
    html = (directory / "report.html").read_text(encoding="utf-8")
    for qid, query in queries.items():
        section = html[html.index(f'id="topic-{qid}"') :].partition('<details class="topic"')[0]
        rows = re.findall(rf'<dt id="text-{qid}-(\S+)">(.*?)</dt>', section, re.DOTALL)
        assert len(rows) > 20
        scores = network.score([(query, documents.loc[docno, "premise"]) for docno, _ in rows])
        quality = dict(zip((docno for docno, _ in rows), scores, strict=True))
        for label, extreme in (("highest", max), ("lowest", min)):
            [marked] = [docno for docno, text in rows if f"{label} quality" in text]
            assert quality[marked] == pytest.approx(extreme(quality.values()), abs=1e-5)
            cells = [cell for cell in section.split("<td>") if f"{label} quality</span> <span" in cell]
            assert cells
            assert all(f'href="#text-{qid}-{marked}"' in cell for cell in cells)
    (directory / "aragorn-tfr_bert.txt").unlink()
    assert report(copied, all_checkpoints_dir) == 0
    assert not re.search("(highest|lowest) quality<", (directory / "report.html").read_text(encoding="utf-8"))


def test_report_compares_with_primary_run_and_lists_fits(copied: Path, checkpoints_copy: Path, capsys: Capture) -> None:
    directory, file = copied / "out", checkpoints_copy / "dirichlet" / "provenance.json"
    trained_on = {"input": {"qrels": sha256_file(copied / "qrels")}}
    file.write_text(json.dumps({**json.loads(file.read_text()), "training_data": trained_on}))
    shutil.copyfile(directory / "aragorn-gru.txt", directory / "run.txt")
    assert report(copied, checkpoints_copy) == 0
    html = (directory / "report.html").read_text(encoding="utf-8")
    assert re.findall(r'class="baseline"><th scope="row">(\w+)</th>', html) == ["gru"] * 3
    assert "Per-topic differences from gru" in html
    [fitted] = re.findall(r"results are optimistic\): ([\w, ]+)\.", html)
    dependent = {name for name in SYSTEMS if "dirichlet" in {part.checkpoint for part in iter_components(SYSTEMS[name].stage)}}
    assert {"dirichlet", "fusion", "tfr_bert"} <= dependent
    assert set(fitted.split(", ")) == dependent
    (directory / "run.txt").unlink()
    assert report(copied, checkpoints_copy) == 3
    assert "run.txt: expected a copy of a <team>-<system>.txt run" in capsys.readouterr().err


def test_report_of_one_run_and_of_another_input(copied: Path, all_checkpoints_dir: Path, capsys: Capture) -> None:
    (copied / "single").mkdir()
    for name in ("aragorn-bm25.txt", "run.txt"):
        shutil.copyfile(copied / "out" / "aragorn-bm25.txt", copied / "single" / name)
    assert report(copied, all_checkpoints_dir, "single") == 0
    html = (copied / "single" / "report.html").read_text(encoding="utf-8")
    assert "No other run." in html
    assert "3 topics: the randomisation test cannot reach p &lt; .250" in html
    file, before = copied / "input" / "topics.xml", (copied / "out" / "report.html").read_bytes()
    file.write_text(file.read_text().replace("<number>1<", "<number>7<"))
    assert report(copied, all_checkpoints_dir) == 3
    assert "the runs are on another input" in capsys.readouterr().err
    assert report(copied, all_checkpoints_dir, qrels="qrels/none") == 3
    assert f"{copied / 'qrels' / 'none'}: " in capsys.readouterr().err
    assert (copied / "out" / "report.html").read_bytes() == before


def test_evaluate_writes_its_tables(reported: Path, tmp_path: Path, capsys: Capture) -> None:
    directory, qrels = reported / "out", reported / "qrels"
    runs = [str(directory / f"aragorn-{system}.txt") for system in ("bm25", "knrm", "gru")]
    flags = ["--qrels", f"relevance={qrels}", "--qrels", f"quality={qrels}", "--baseline", "aragorn-bm25"]
    assert training(["evaluate", *flags, "-o", str(tmp_path / "tables"), *runs]) == 0
    out = capsys.readouterr().out
    assert "relevance: nDCG@5 (Touché) vs. aragorn-bm25" in out
    assert "relevance: nDCG@5 condensed vs. aragorn-bm25" in out
    assert "quality: nDCG@5 all vs. aragorn-bm25" in out
    topics_table = pd.read_csv(tmp_path / "tables" / "per_topic.csv")
    assert len(topics_table) == 2 * 3 * 3
    means = pd.read_csv(tmp_path / "tables" / "means.csv").set_index(["qrels", "run", "measure"])["mean"]
    expected_mean = topics_table.query("qrels == 'quality' and run == 'aragorn-gru'")["MAP all"].mean()
    assert means["quality", "aragorn-gru", "MAP all"] == pytest.approx(expected_mean, abs=1e-6)
    tests = pd.read_csv(tmp_path / "tables" / "significance.csv").query("qrels == 'relevance' and measure == 'MAP all'")
    assert set(tests["run"]) == {"aragorn-knrm", "aragorn-gru"}
    collection = ["--collection", str(reported / "input")]
    assert training(["evaluate", *flags, "-o", str(tmp_path / "restricted"), *collection, *runs]) == 0
    restricted = pd.read_csv(tmp_path / "restricted" / "per_topic.csv").query("qrels == 'quality' and run == 'aragorn-gru'")
    topic_rows = topics_table.query("qrels == 'quality' and run == 'aragorn-gru'")
    assert (restricted.set_index("qid")["Bpref"] > topic_rows.set_index("qid")["Bpref"])[3]  # ignores `elsewhere`
    capsys.readouterr()
    assert training(["evaluate", *flags[:4], "--baseline", "bm25", *runs]) == 2
    assert "unknown baseline 'bm25'; did you mean" in capsys.readouterr().err
