"""Tests of READMEs, Dockerfile, requirements and changelog."""

import json
import os
import re
import shutil
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml

from aragorn import __version__
from aragorn.__main__ import main as aragorn
from aragorn.errors import InputError
from aragorn.paths import CHECKPOINT_DIR
from aragorn.systems.catalogue import SYSTEMS
from aragorn_training.report.published import RESULTS, load_published_numbers
from aragorn_training.report.sections import (
    PUBLISHED_ROWS,
    SECTIONS,
    format_candidates_table,
    format_trials_table,
    update_readmes,
)
from tests.conftest import ROOT, SAMPLE, build_python_path, run_process

READMES = (  # in reading order, which is also the order in which their commands are executed
    "README.md", "CONTRIBUTING.md", "submission/README.md", "submission/aragorn/io/README.md",
    "submission/aragorn/systems/README.md",
    "submission/aragorn/search/README.md", "training/README.md",
    "training/aragorn_training/studies/README.md",
    "training/results/README.md", "tests/benchmarks/README.md", "THIRD-PARTY.md", "CHANGELOG.md",
)  # fmt: skip
GENERATED = r"<!-- (\w+): generated -->.*?<!-- end of \1 -->"


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def find_code_blocks(language):
    """Return the code blocks of all READMEs that are marked with a language, in order."""
    pattern = re.compile(rf"```{language}\n(.*?)```", re.DOTALL)
    return [block for name in READMES for block in pattern.findall(read(name))]


def read_tira_commands():
    """Map the name of each system to its command for TIRA in the README."""
    text = read(SECTIONS["commands"][0])
    [template] = re.findall(r"^(/aragorn/run\.sh .*) SYSTEM$", text, re.MULTILINE)
    [names] = re.findall(r"^`SYSTEM`: (.*)$", text, re.MULTILINE)
    return {name: f"{template} {name}" for name in re.findall(r"`(\w+)`", names)}


def list_anchors(text):
    """Return the link anchors of the headings in a Markdown text."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", READMES)
def test_readme_links_exist(name):
    text = read(name)
    folder = (ROOT / name).parent
    for link in re.findall(r"\]\((?!https://)([^)]+)\)", text):
        path, _, anchor = link.partition("#")
        file = folder / path if path else ROOT / name
        assert file.exists(), link
        assert not anchor or anchor in list_anchors(file.read_text(encoding="utf-8")), link
    for path in re.findall(r"`((?:submission|training|tests|checkpoints)/[\w./-]+)`", text):
        assert (ROOT / path).exists(), path


def test_all_options_of_rank_are_described(capsys):
    with pytest.raises(SystemExit):
        aragorn(["rank", "--help"])
    options = set(re.findall(r"--[a-z-]+", capsys.readouterr().out)) - {"--help"}
    assert options - set(re.findall(r"--[a-z-]+", read("submission/README.md"))) == set()
    assert set(read_tira_commands()) == set(SYSTEMS)


def read_pins(file):
    """Map normalised package names to the pinned versions in a requirements file or lock."""
    pins = dict(re.findall(r"^([\w.-]+)==([\w.]+)", read(file), re.MULTILINE))
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in pins.items()}


REQUIREMENTS = {  # locks of each requirements file, and of what is installed with it
    "requirements.txt": ("requirements.lock", "requirements-cuda.lock"),
    "requirements-ray.txt": ("requirements-ray.lock",),
    "requirements-openvino.txt": ("requirements-openvino.lock",),
    "training/requirements.txt": ("training/requirements.lock", "requirements.lock"),
    "tests/requirements.txt": ("tests/requirements.lock", "training/requirements.lock"),
}


def test_locks_pin_all_requirements_with_hashes():
    versions = {}
    for file, locks in REQUIREMENTS.items():
        pins = {name: pin for lock in locks for name, pin in read_pins(lock).items()}
        assert read_pins(file).items() <= pins.items(), f"{file}: run tests/lock"
        for lock in locks:
            entries = re.split(r"\n(?=[\w.-]+==)", read(lock))[1:]
            assert len(entries) == len(read_pins(lock))
            assert all("--hash=sha256:" in entry for entry in entries)
        for name, pin in pins.items():
            versions.setdefault(name, set()).add(pin)
    assert [name for name, pins in versions.items() if len(pins) > 1] == []
    [cpu] = re.findall(r"^torch==(.*)\+cpu ", read("requirements-cpu.lock"), re.MULTILINE)
    assert versions["torch"] == {cpu}
    image = {*read_pins("requirements.lock"), *read_pins("requirements-cuda.lock")}
    assert image & {"transformers", "sentence-transformers", "scikit-learn", "sympy"} == set()


def test_dockerfile_pins_version_base_and_copied_files():
    dockerfile = read("Dockerfile")
    assert f"ARG VERSION={__version__}\n" in dockerfile
    base = r"^ARG BASE=docker\.io/library/python:3\.11\.\d+-slim-bookworm@sha256:[0-9a-f]{64}$"
    assert re.search(base, dockerfile, re.M)
    assert f"## {__version__}" in read("CHANGELOG.md")
    lines = re.findall(r"^COPY (.*) \S+$", dockerfile, re.MULTILINE)
    copied = {name for line in lines for name in line.split()}
    expected = {line[1:] for line in read(".dockerignore").splitlines() if line.startswith("!")}
    assert copied == expected
    assert [name for name in copied if not (ROOT / name).exists()] == []


def test_generated_sections_are_up_to_date(tmp_path):
    for path, _ in SECTIONS.values():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    update_readmes(root=tmp_path)
    contents = {
        path: (tmp_path / path).read_text(encoding="utf-8") for path, _ in SECTIONS.values()
    }
    assert contents == {path: read(path) for path, _ in SECTIONS.values()}


def test_trials_with_other_negatives_are_kept_apart(tmp_path):
    for file in RESULTS.glob("trials_*.csv"):
        shutil.copy(file, tmp_path)
    (tmp_path / "trials_seeds.csv").unlink()
    table = format_trials_table(tmp_path)
    seeds = pd.read_csv(RESULTS / "trials_cedr_knrm.csv").query("trial == 'cedr_knrm'")
    seeds = seeds.assign(trial="knrm", network="knrm", pool="collection", rule="random")
    seeds.to_csv(tmp_path / "trials_seeds.csv", index=False)
    means = pd.read_csv(RESULTS / "trials_means.csv").query("run == 'knrm'").assign(mean=0.25)
    parts = [means, means.assign(run="knrm-seed1", mean=0.5)]
    pd.concat(parts).to_csv(tmp_path / "trials_seeds_means.csv", index=False)
    first, second = format_trials_table(tmp_path).split("\n\n")
    assert first + "\n" == table
    header, _, row = second.splitlines()
    measure = "MAP@20, random negatives of the collection"
    start = f"| trial | seeds | {measure} | MAP@20, Entezari 2020 |"
    assert header.startswith(start)
    deviation = "0.375 ± 0.177"
    assert row == f"| `knrm` | 3 | 0.905 ± 0.003 | 0.726 | {deviation} | {deviation} |"


def test_negatives_are_those_of_the_checkpoints(tmp_path):
    start = "The shipped checkpoints were selected with "
    random = '{"pool": "collection", "rule": "random"}'
    for name in PUBLISHED_ROWS:
        (tmp_path / name).mkdir()
        (tmp_path / name / "metrics.json").write_text(random)
    text = format_candidates_table(checkpoints=tmp_path)
    assert f"\n{start}random negatives of the collection. The BERT" in text
    (tmp_path / "gru" / "metrics.json").write_text('{"pool": "split", "rule": "least_similar"}')
    text = format_candidates_table(checkpoints=tmp_path)
    kinds = "the least similar of the split (`gru`) and random negatives of the collection (`drmm`,"
    assert f"{start}{kinds}" in text


def test_table_of_benchmarks_matches_their_results(tmp_path):
    from tests.benchmarks.__main__ import BENCHMARKS, update_readme  # slow

    results = ROOT / "tests" / "benchmarks" / "results.json"
    stored = json.loads(results.read_text(encoding="utf-8"))["results"]
    assert list(stored) == [name for name in BENCHMARKS if name in stored]
    copy = Path(shutil.copy(ROOT / "tests" / "benchmarks" / "README.md", tmp_path))
    update_readme(results, copy)
    assert copy.read_text(encoding="utf-8") == read("tests/benchmarks/README.md")


@pytest.mark.parametrize(("best", "results", "message"), [("no marks\n", RESULTS, "a marker is missing or duplicate"),
                                                        ("<!-- mine: generated -->\n", RESULTS, "unknown section mine; add it"),
                                                        ("", Path("absent"), "cannot read results")])  # fmt: skip
def test_readmes_without_marks_or_results_are_refused(best, results, message, tmp_path):
    (tmp_path / SECTIONS["best"][0]).write_text(best)
    with pytest.raises(InputError, match=message):
        update_readmes(results, CHECKPOINT_DIR, tmp_path)


def test_python_example_of_the_readme_runs(monkeypatch, capsys):
    [code] = [block for block in find_code_blocks("python") if "load_checkpoint" in block]
    monkeypatch.chdir(ROOT)
    exec(code, {})
    assert re.fullmatch(r"\[-?0\.\d+\]\n", capsys.readouterr().out)


# parts of documents with numbers that are no results: code, link targets, years, sizes, durations,
# versions and licences
NO_RESULTS = r"`[^`]*`|\]\([^)]*\)|\b(19|20)\d\d\b|[\d.]+ (GB|MB|minutes)|≥ [\d.]+|version [\d.]+|BY(-SA)? 4\.0|(WS|paper) \d+"
# seed and gain of negative grades, cut-off, interval, samples, topics of an exact test
SETTINGS = {"0", "5", "95%", "10,000", "16"}


def compute_best_ndcg(means):
    """Return the nDCG@5 of 2021 of the best neural re-ranker and of `dirichlet`."""
    rows = means[(means["year"] == 2021) & (means["measure"] == "nDCG@5")]
    best = rows.loc[rows["family"] == "neural re-ranker", "mean"].max()
    return best, rows.set_index("system")["mean"]["dirichlet"]


def compute_figures():
    """Return the figures of documents that follow from results and sample."""
    *_, total, outside = pd.read_csv(RESULTS / "collection.csv").to_dict("records")
    n_corpus = int(load_published_numbers("hollatz_2022", "Table 3.1")["Original", "passages"])
    results = pd.read_csv(RESULTS / "systems_per_topic.csv")
    sample = [
        json.loads(file.read_text(encoding="utf-8"))["arguments"] for file in SAMPLE.glob("*.json")
    ]
    counts = [total["arguments"], n_corpus, results["system"].nunique()]
    counts += results.groupby("year")["qid"].nunique().tolist()
    n_topics = (SAMPLE / "topics.xml").read_text(encoding="utf-8").count("<topic>")
    counts += [sum(map(len, sample)), n_topics]
    shares = [
        outside[name] / (total[name] + outside[name]) for name in ("judged_2020", "judged_2021")
    ]
    percentages = {f"{share:.0%}" for share in shares} | {f"{total['arguments'] / n_corpus:.1%}"}
    means = {
        f"{mean:.3f}"
        for name in ("systems", "complete_topics")
        for mean in compute_best_ndcg(pd.read_csv(RESULTS / f"{name}.csv"))
    }
    return {f"{count:,}" for count in counts} | percentages | means


@pytest.mark.parametrize("name", ["README.md", "training/results/README.md"])
def test_figures_are_those_of_result_files(name):
    text = re.sub(GENERATED, "", read(name), flags=re.DOTALL)
    text = re.sub(
        r"```.*?```", lambda block: "\n".join(re.findall("# .*", block[0])), text, flags=re.DOTALL
    )
    figures = re.findall(
        r"(?<![\w@.-])\d+(?:,\d{3})*(?:\.\d+)?(?: %)?", re.sub(NO_RESULTS, "", text)
    )
    assert len(figures) > 5
    assert {figure.replace(" ", "") for figure in figures} <= compute_figures() | SETTINGS


EXCLUDED_PROGRAMS = {  # commands that the next test does not execute
    "docker": "tests/container builds and runs the image",
    "tira-run": "requires docker; tests/container executes the command like it",
    "tira-cli": "requires an account on TIRA",
    "tests/run": "executes this test",
    ".": "installs the requirements of training, which the tests need",
}


# Executes commands, one per line, in one process, because imports take seconds.
DRIVER = """
import glob, os, shlex, sys
from aragorn.__main__ import main as aragorn
from aragorn_training.__main__ import main as training
for command in sys.stdin.read().splitlines():
    words = shlex.split(os.path.expandvars(command))
    match [path for word in words for path in sorted(glob.glob(word)) or [word]]:
        case ["./run.sh", *arguments]:
            is_verb = arguments and not arguments[0].startswith("-")
            code = aragorn(arguments if is_verb else ["rank", *arguments])
        case ["aragorn-training", *arguments]:
            code = training(arguments)
        case ["export", *assignments]:
            code = os.environ.update(assignment.split("=", 1) for assignment in assignments) or 0
    if code:
        sys.exit(f"{command}: exit code {code}")
"""


@pytest.mark.slow
def test_readme_commands_run(all_checkpoints_dir, tmp_path):
    copy = tmp_path / "project"
    for name in ("submission", "training"):
        shutil.copytree(
            ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"), symlinks=True
        )
    # For speed: untrained checkpoints of the smallest networks and three topics of the sample.
    shutil.copytree(all_checkpoints_dir, copy / "checkpoints")
    topics = copy / "submission" / "aragorn" / "sample" / "input" / "topics.xml"
    topics.write_text(
        "<topic>".join(topics.read_text().split("<topic>")[:4]).rstrip() + "\n</topics>\n"
    )
    # Blocks marked bash require a cluster or a search engine: see test_ray_cluster.py and
    # test_torchrun.py.
    lines = "".join(find_code_blocks("sh")).replace("\\\n", " ").splitlines()
    commands = dict.fromkeys(
        line.split("  #")[0].rstrip() for line in lines if line.split()[0] not in EXCLUDED_PROGRAMS
    )
    assert {line.split()[0] for line in lines} >= set(EXCLUDED_PROGRAMS)
    verbs = "check systems explain search prepare fit fuse evaluate compare report overlap"
    text = " \n".join(commands) + " "
    assert [verb for verb in verbs.split() if f" {verb} " not in text] == []
    command = [sys.executable, "-c", DRIVER]
    environment = os.environ | {"PYTHONPATH": build_python_path(copy)}
    done = run_process(command, input="\n".join(commands), cwd=copy, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    expected = {
        *(f"runs/aragorn-{system}.txt" for system in SYSTEMS), "runs/report.html", "runs/tables/significance.csv",
        "runs/analysis/jaccard.png", "work/checkpoints/sample/config.json", "work/checkpoints/ensemble/config.json",
    }  # fmt: skip
    assert {path for path in expected if not (copy / path).exists()} == set()
    assert "score" in done.stdout


def test_citation_names_version_date_and_licence():
    citation = yaml.safe_load(read("CITATION.cff"))
    assert (citation["version"], citation["license"]) == (__version__, "MIT")
    headings = [line for line in read("CHANGELOG.md").splitlines() if line.startswith("## ")]
    assert headings[0] == f"## {__version__} - {citation['date-released']}"
