"""./run.sh as its users call it, and every fault that an input, a checkpoint or an output can have."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tira.check_format import check_format

from submission.__main__ import main
from submission.output.directory import Output
from submission.systems.catalogue import SYSTEMS
from tests.conftest import REAL, ROOT, SAMPLE, argument, contents, documents_of

Make = Callable[..., Path]


def run_sh(*arguments: object, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {
        key: value for key, value in os.environ.items() if not key.startswith(("TIRA", "inputDataset", "outputDir", "PYTHON"))
    }
    command = [str(ROOT / "run.sh"), *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, env=clean | environment, capture_output=True, text=True, check=False)


@pytest.fixture
def rank(checkpoints: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Run the main job in this process with the tiny checkpoint; its exit code and what it said."""

    def run(directory: Path, *flags: str, output: str = "out") -> tuple[int, str]:
        command = ["rank", "-i", str(directory), "-o", str(tmp_path / output), "--checkpoints", str(checkpoints), *flags]
        try:
            code = main([*command, "--device", "cpu"])
        except SystemExit as stopped:
            code = int(str(stopped.code))
        return code, capsys.readouterr().err

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
    assert "already there" in again.stderr
    elsewhere = run_sh("-o", "other", *flags, cwd=tmp_path)
    assert elsewhere.returncode == 0
    assert contents(tmp_path / "other") == contents(runs)
    assert (runs / "run.txt").read_bytes() == (runs / "aragorn-knrm.txt").read_bytes()  # the first that was named


@pytest.mark.slow
def test_all_systems_as_they_are_shipped(tmp_path: Path) -> None:
    shutil.copytree(SAMPLE, tmp_path / "input", ignore=shutil.ignore_patterns("debate[op]*.json"))  # a third of it
    topics = tmp_path / "input" / "topics.xml"
    topics.write_text("<topic>".join(topics.read_text().split("<topic>")[:3]).rstrip() + "\n</topics>\n")  # two of them
    done = run_sh("-i", tmp_path / "input", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    runs = tmp_path / "runs"
    assert set(contents(runs)) == {"run.txt", "fingerprint.json", *(f"aragorn-{name}.txt" for name in SYSTEMS)}
    assert (runs / "run.txt").read_bytes() == (runs / "aragorn-fusion.txt").read_bytes()
    assert {line.split()[0] for line in (runs / "run.txt").read_text().splitlines()} == {"1", "2"}


@pytest.mark.parametrize("names", [("inputDataset", "outputDir"), ("TIRA_INPUT_DATASET", "TIRA_OUTPUT_DIR")])
def test_tiras_environment(tmp_path: Path, make_input: Make, names: tuple[str, str]) -> None:
    directory = make_input()
    done = run_sh("--system", "bm25", cwd=tmp_path, **{names[0]: str(directory), names[1]: str(tmp_path / "there")})
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "there" / "run.txt").read_text().startswith("1 Q0 a1 1 ")


def test_runs_have_the_form_of_the_contract(rank: Callable[..., tuple[int, str]], make_input: Make, tmp_path: Path) -> None:
    code, _ = rank(make_input(), "--team", "me", "--depth", "2", "--system", "bm25", "--system", "knrm")
    assert code == 0
    out = contents(tmp_path / "out")
    assert set(out) == {"me-bm25.txt", "me-knrm.txt", "run.txt", "fingerprint.json"}
    assert out["run.txt"] == out["me-bm25.txt"]  # the first named is the primary one
    for system in ("bm25", "knrm"):
        lines = [line.split(" ") for line in out[f"me-{system}.txt"].decode().splitlines()]
        assert [(line[0], line[1], line[3], line[5]) for line in lines] == [
            ("1", "Q0", "1", f"me-{system}"),
            ("1", "Q0", "2", f"me-{system}"),
            ("2", "Q0", "1", f"me-{system}"),
        ]


def test_short_premises_are_in_no_run(rank: Callable[..., tuple[int, str]], make_input: Make, tmp_path: Path) -> None:
    assert rank(make_input([("1", "pets dogs cats")]))[0] == 0
    assert b" a6 " not in contents(tmp_path / "out")["aragorn-bm25.txt"]
    assert b" a5 " in contents(tmp_path / "out")["aragorn-bm25.txt"]


def test_a_topic_without_known_words_is_an_empty_list(
    rank: Callable[..., tuple[int, str]], make_input: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert rank(make_input([("1", "Quux?"), ("2", "Zoos?")]))[0] == 0
    assert "topic 1 (Quux?)" in caplog.text
    for name in ("aragorn-bm25.txt", "aragorn-knrm.txt"):
        assert {line.split()[0] for line in contents(tmp_path / "out")[name].decode().splitlines()} == {"2"}


def test_no_topic_with_known_words(rank: Callable[..., tuple[int, str]], make_input: Make, tmp_path: Path) -> None:
    assert rank(make_input([("1", "Quux?")]))[0] == 0
    assert contents(tmp_path / "out")["aragorn-knrm.txt"] == b""


def faulty_topics(directory: Path) -> None:
    (directory / "topics.xml").write_text("<topics><topic><number>1</number>")


def faulty_corpus(directory: Path) -> None:
    (directory / "args-me.json").write_text('{"arguments": [{"id"')


@pytest.mark.parametrize(
    ("break_it", "words"),
    [
        (faulty_topics, "topics.xml, line 1: malformed XML"),
        (faulty_corpus, "args-me.json, argument number 1, line 1, column 21: malformed JSON"),
        (lambda directory: (directory / "topics.xml").unlink(), "no topics found"),
        (lambda directory: (directory / "args-me.json").unlink(), "no corpus found"),
        (shutil.rmtree, "no such input directory"),
        (lambda directory: [file.unlink() for file in directory.iterdir()], "no topics found"),
    ],
)
def test_bad_input_is_exit_code_3_and_writes_nothing(
    rank: Callable[..., tuple[int, str]], make_input: Make, tmp_path: Path, break_it: Callable[[Path], None], words: str
) -> None:
    directory = make_input()
    break_it(directory)
    code, said = rank(directory)
    assert (code, words in said) == (3, True), said
    assert not (tmp_path / "out").exists() or not contents(tmp_path / "out")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--system", "knmr"], "unknown system 'knmr'; did you mean 'knrm'?"),
        (["--team", "a b"], "tag 'a b': expected letters"),
        (["--depth", "0"], "from 1 to 1000"),
        (["--depth", "many"], "from 1 to 1000"),
        (["--frobnicate"], "unrecognized arguments"),
    ],
)
def test_bad_usage_is_exit_code_2(rank: Callable[..., tuple[int, str]], make_input: Make, flags: list[str], words: str) -> None:
    code, said = rank(make_input(), *flags)
    assert (code, words in said) == (2, True), said


def test_cuda_without_a_gpu_is_exit_code_2(rank: Callable[..., tuple[int, str]], make_input: Make, checkpoints: Path) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    assert main(["rank", "-i", str(make_input()), "--checkpoints", str(checkpoints), "--device", "cuda"]) == 2


def test_a_missing_checkpoint_is_exit_code_4(rank: Callable[..., tuple[int, str]], make_input: Make, checkpoints: Path) -> None:
    shutil.rmtree(checkpoints / "knrm")
    code, said = rank(make_input(), "--system", "knrm")
    assert (code, "no such checkpoint" in said) == (4, True)


def test_without_the_primary_systems_checkpoint_the_others_are_written(
    rank: Callable[..., tuple[int, str]], make_input: Make, checkpoints: Path, tmp_path: Path
) -> None:
    shutil.rmtree(checkpoints / "knrm")
    assert rank(make_input())[0] == 6
    assert set(contents(tmp_path / "out")) == {"aragorn-bm25.txt", "fingerprint.json"}


def test_conclusions_without_a_word(rank: Callable[..., tuple[int, str]], make_input: Make) -> None:
    code, said = rank(make_input(arguments=[argument("a", ""), argument("b", " ")]))
    assert (code, "expected some with a conclusion" in said) == (3, True)


def test_a_damaged_checkpoint_fails_its_system_alone(
    rank: Callable[..., tuple[int, str]], make_input: Make, checkpoints: Path, tmp_path: Path
) -> None:
    directory = make_input()
    (checkpoints / "knrm" / "model.safetensors").write_bytes(b"damaged")
    assert rank(directory, "--system", "knrm")[0] == 4
    code, said = rank(directory)
    assert (code, "failed: knrm; the runs of the other systems are in" in said) == (6, True)
    assert set(contents(tmp_path / "out")) == {"aragorn-bm25.txt", "fingerprint.json"}


def test_an_output_with_the_runs_of_another_input_is_exit_code_5(
    rank: Callable[..., tuple[int, str]], make_input: Make, tmp_path: Path
) -> None:
    first, second = make_input(), make_input([("7", "Is golf cruel?")], name="second")
    assert rank(first)[0] == 0
    before = contents(tmp_path / "out")
    code, said = rank(second)
    assert (code, "holds files of another input" in said) == (5, True)
    assert contents(tmp_path / "out") == before
    assert rank(second, "--overwrite", "--system", "bm25")[0] == 0
    assert set(contents(tmp_path / "out")) == {"aragorn-bm25.txt", "fingerprint.json", "run.txt"}


def test_a_run_on_the_way_to_another_process_is_exit_code_5(
    rank: Callable[..., tuple[int, str]], make_input: Make, tmp_path: Path
) -> None:
    with Output(tmp_path / "out"):
        code, said = rank(make_input())
    assert (code, "another process" in said) == (5, True)


def test_an_output_that_is_a_file_is_exit_code_5(
    rank: Callable[..., tuple[int, str]], make_input: Make, tmp_path: Path
) -> None:
    (tmp_path / "out").write_text("")
    assert rank(make_input())[0] == 5


def test_an_output_below_something_unwritable_is_exit_code_5(rank: Callable[..., tuple[int, str]], make_input: Make) -> None:
    code, said = rank(make_input(), output="/proc/nowhere/out")
    assert (code, "not a directory to write to" in said) == (5, True)


@pytest.mark.skipif(os.geteuid() != 0 or not Path("/proc/mounts").exists(), reason="needs root on Linux to mount a small disk")
def test_a_full_output_is_exit_code_5_and_leaves_no_half_file(
    rank: Callable[..., tuple[int, str]], make_input: Make, tmp_path: Path
) -> None:
    disk = tmp_path / "out"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", str(disk)], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("cannot mount here")
    try:
        others = [argument(f"b{number}", f"Golf is sport {number}") for number in range(9)]
        many = [*(argument(f"a{number}") for number in range(400)), *others]
        code, said = rank(make_input(arguments=many), "--depth", "1000")
        assert (code, "No space left" in said) == (5, True)
        assert set(contents(disk)) <= {"fingerprint.json"}
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_systems_lists_what_is_there(checkpoints: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["systems", "--checkpoints", str(checkpoints)]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert "ready" in lines["bm25"]
    assert "ready" in lines["knrm"]
    assert "KNRM:" in lines["knrm"]


@pytest.mark.slow
@pytest.mark.skipif(not REAL.exists(), reason="the real data is not beside this checkout")
def test_real_input_twice_is_valid_and_the_same(tmp_path: Path) -> None:
    for output in ("first", "second"):
        done = run_sh("-i", REAL / "touche-2020/input", "-o", output, "--system", "knrm", "--system", "bm25", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert contents(tmp_path / "first") == contents(tmp_path / "second")
    [message] = [message for message in check_format(tmp_path / "first", "run.txt") if isinstance(message, str)]
    assert "correct format" in message
    topics = {line.split()[0] for line in (tmp_path / "first" / "run.txt").read_text().splitlines()}
    assert len(topics) == 49


def test_the_sample_is_the_default_input(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    for name in ("inputDataset", "TIRA_INPUT_DATASET"):
        monkeypatch.delenv(name, raising=False)
    caplog.set_level("INFO")
    assert main(["rank", "-o", str(tmp_path / "o"), "--system", "bm25"]) == 0
    assert f"collection: 461 of {len(documents_of(SAMPLE))} arguments" in caplog.text
