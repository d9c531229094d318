"""./run.sh as its users call it, and what an odd topic, a faulty checkpoint or an occupied output ends in."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tira.check_format import check_format

from submission.__main__ import main
from submission.output.run_directory import RunDirectory
from submission.systems.catalogue import SYSTEMS
from tests.conftest import REAL_DATA, ROOT, SAMPLE, argument, file_contents, load_documents
from tests.endtoend.conftest import Capture, Log

Make = Callable[..., Path]
Rank = Callable[..., tuple[int, str]]


def run_sh(*arguments: object, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {
        key: value for key, value in os.environ.items() if not key.startswith(("TIRA", "inputDataset", "outputDir", "PYTHON"))
    }
    command = [str(ROOT / "run.sh"), *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, env=clean | environment, capture_output=True, text=True, check=False)


@pytest.fixture
def rank(checkpoints: Path, tmp_path: Path, capsys: Capture) -> Rank:
    """Run the main job in this process with the tiny checkpoint; its exit code and what it said."""

    def run(directory: Path, *flags: str, output: str = "out") -> tuple[int, str]:
        command = ["rank", "-i", str(directory), "-o", str(tmp_path / output), "--checkpoints", str(checkpoints), *flags]
        return main([*command, "--device", "cpu"]), capsys.readouterr().err

    return run


@pytest.mark.slow
def test_bundled_sample_from_a_foreign_directory(tmp_path: Path) -> None:
    (tmp_path / "pandas.py").write_text("raise SystemExit('a file of the caller was imported')")
    some = ["knrm", "bm25", "snrm"]
    flags = [flag for name in some for flag in ("--system", name)]
    first = run_sh(*flags, cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    assert first.stdout == ""
    runs = tmp_path / "runs"
    [message] = [message for message in check_format(runs, "run.txt") if isinstance(message, str)]
    assert "correct format" in message
    again = run_sh(*flags, cwd=tmp_path)
    assert again.returncode == 0
    assert "up to date, skipped" in again.stderr
    elsewhere = run_sh("-o", "other", *flags, cwd=tmp_path)
    assert elsewhere.returncode == 0
    assert file_contents(tmp_path / "other") == file_contents(runs)
    assert (runs / "run.txt").read_bytes() == (runs / "aragorn-knrm.txt").read_bytes()  # the first that was named


@pytest.mark.slow
def test_all_systems_as_they_are_shipped(tmp_path: Path) -> None:
    shutil.copytree(SAMPLE, tmp_path / "input", ignore=shutil.ignore_patterns("debate[op]*.json"))  # a third of it
    topics = tmp_path / "input" / "topics.xml"
    topics.write_text("<topic>".join(topics.read_text().split("<topic>")[:3]).rstrip() + "\n</topics>\n")  # two of them
    done = run_sh("-i", tmp_path / "input", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    runs = tmp_path / "runs"
    assert set(file_contents(runs)) == {"run.txt", "fingerprint.json", *(f"aragorn-{name}.txt" for name in SYSTEMS)}
    assert (runs / "run.txt").read_bytes() == (runs / "aragorn-fusion.txt").read_bytes()
    assert {line.split()[0] for line in (runs / "run.txt").read_text().splitlines()} == {"1", "2"}


@pytest.mark.parametrize("names", [("inputDataset", "outputDir"), ("TIRA_INPUT_DATASET", "TIRA_OUTPUT_DIR")])
def test_tiras_environment(tmp_path: Path, make_input: Make, names: tuple[str, str]) -> None:
    directory = make_input()
    done = run_sh("--system", "bm25", cwd=tmp_path, **{names[0]: str(directory), names[1]: str(tmp_path / "there")})
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "there" / "run.txt").read_text().startswith("1 Q0 a1 1 ")


def test_runs_have_the_form_of_the_contract(rank: Rank, make_input: Make, tmp_path: Path) -> None:
    code, _ = rank(make_input(), "--team", "me", "--depth", "2", "--system", "bm25", "--system", "knrm")
    assert code == 0
    out = file_contents(tmp_path / "out")
    assert set(out) == {"me-bm25.txt", "me-knrm.txt", "run.txt", "fingerprint.json"}
    assert out["run.txt"] == out["me-bm25.txt"]  # the first named is the primary one
    for system in ("bm25", "knrm"):
        lines = [line.split(" ") for line in out[f"me-{system}.txt"].decode().splitlines()]
        assert [(line[0], line[1], line[3], line[5]) for line in lines] == [
            ("1", "Q0", "1", f"me-{system}"),
            ("1", "Q0", "2", f"me-{system}"),
            ("2", "Q0", "1", f"me-{system}"),
        ]


def test_a_short_premise_is_in_no_run_and_a_topic_without_known_words_is_an_empty_list(
    rank: Rank, make_input: Make, tmp_path: Path, caplog: Log
) -> None:
    assert rank(make_input([("1", "Quux?"), ("2", "pets dogs cats")]))[0] == 0
    assert "topic 1 (Quux?)" in caplog.text
    for name in ("bm25", "knrm"):
        lines = [line.split() for line in (tmp_path / "out" / f"aragorn-{name}.txt").read_text().splitlines()]
        assert {line[0] for line in lines} == {"2"}
        assert "a6" not in {line[2] for line in lines}
        assert "a5" in {line[2] for line in lines}


def test_cuda_without_a_gpu_is_exit_code_2(rank: Rank, make_input: Make, checkpoints: Path) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    assert main(["rank", "-i", str(make_input()), "--checkpoints", str(checkpoints), "--device", "cuda"]) == 2


def test_a_checkpoint_that_is_damaged_or_missing_fails_its_system_alone(
    rank: Rank, make_input: Make, checkpoints: Path, tmp_path: Path
) -> None:
    directory = make_input()
    (checkpoints / "knrm" / "model.safetensors").write_bytes(b"damaged")
    assert rank(directory, "--system", "knrm")[0] == 4
    for output in ("damaged", "missing"):
        code, said = rank(directory, output=output)
        assert (code, "systems failed: knrm; the other runs are in" in said) == (6, True)
        assert set(file_contents(tmp_path / output)) == {"aragorn-bm25.txt", "fingerprint.json"}
        shutil.rmtree(checkpoints / "knrm", ignore_errors=True)


def test_an_output_of_another_input_or_process_is_exit_code_5(rank: Rank, make_input: Make, tmp_path: Path) -> None:
    first, second = make_input(), make_input([("7", "Is golf cruel?")], name="second")
    with RunDirectory(tmp_path / "out"):
        code, said = rank(first)
    assert (code, "another process" in said) == (5, True)
    assert rank(first)[0] == 0
    before = file_contents(tmp_path / "out")
    code, said = rank(second)
    assert (code, "contains files made from another input" in said) == (5, True)
    assert file_contents(tmp_path / "out") == before
    assert rank(second, "--overwrite", "--system", "bm25")[0] == 0
    assert set(file_contents(tmp_path / "out")) == {"aragorn-bm25.txt", "fingerprint.json", "run.txt"}


def test_a_full_output_is_exit_code_5_and_leaves_no_half_file(
    rank: Rank, make_input: Make, small_disk: Callable[[int], Path]
) -> None:
    disk = small_disk(8)
    others = [argument(f"b{number}", f"Golf is sport {number}") for number in range(9)]
    many = [*(argument(f"a{number}") for number in range(400)), *others]
    code, said = rank(make_input(arguments=many), "--depth", "1000", output=disk.name)
    assert (code, "No space left" in said) == (5, True)
    assert set(file_contents(disk)) <= {"fingerprint.json"}


@pytest.mark.slow
@pytest.mark.skipif(not REAL_DATA.exists(), reason="the real data is not beside this checkout")
def test_real_input_twice_is_valid_and_the_same(tmp_path: Path) -> None:
    for output in ("first", "second"):
        done = run_sh("-i", REAL_DATA / "touche-2020/input", "-o", output, "--system", "knrm", "--system", "bm25", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert file_contents(tmp_path / "first") == file_contents(tmp_path / "second")
    [message] = [message for message in check_format(tmp_path / "first", "run.txt") if isinstance(message, str)]
    assert "correct format" in message
    topics = {line.split()[0] for line in (tmp_path / "first" / "run.txt").read_text().splitlines()}
    assert len(topics) == 49


def test_the_sample_is_the_default_input(monkeypatch: pytest.MonkeyPatch, caplog: Log, tmp_path: Path) -> None:
    for name in ("inputDataset", "TIRA_INPUT_DATASET"):
        monkeypatch.delenv(name, raising=False)
    caplog.set_level("INFO")
    assert main(["rank", "-o", str(tmp_path / "o"), "--system", "bm25"]) == 0
    assert f"collection: 461 of {len(load_documents(SAMPLE))} arguments" in caplog.text
