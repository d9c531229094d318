"""Tests of `all`: graph, plan, order of processes, resumption, and all on the sample."""

import json
import os
import re
import shutil
import sys
import time
from types import SimpleNamespace

import pytest
import torch
from transformers import BertConfig, BertModel

from aragorn.index import weighting
from aragorn.inference.pretrained import PretrainedEncoder
from aragorn.io import touche
from aragorn.paths import CHECKPOINT_DIR
from aragorn.signals import install_handlers
from aragorn.systems.enrichment import Enrichment
from aragorn.systems.latent import LatentStage
from aragorn_training.__main__ import main
from aragorn_training.commands import scheduler
from aragorn_training.commands.all_options import Options
from aragorn_training.commands.graph import Step, build_graph
from aragorn_training.commands.scheduler import Record, Records, Scheduler
from aragorn_training.evaluation import evaluate
from aragorn_training.fusion import evaluation
from tests.conftest import ROOT, SAMPLE, TINY_BERT, argv, assert_runs, read_files
from tests.endtoend.conftest import FORK, ForkedProcess
from tests.unit.training.conftest import write_tagged, write_ukp, write_webis

QRELS = SAMPLE.parent / "sample.qrels"
TINY_CONFIGS = ROOT / "training" / "aragorn_training" / "configs" / "sample"
# Replacement for Python: log the start (with GPU and flags) and the end of a step, write its
# output, and fail for `broken`, or if the process may use several threads.
JOB = """#!/bin/bash
[ "$OMP_NUM_THREADS" = 1 ] || exit 8
echo "begin $4 $CUDA_VISIBLE_DEVICES ${@:5}" >> "$LOG"; sleep 0.2; echo "end $4" >> "$LOG"
[ "$4" != broken ] || { echo "error: dead" >&2; exit 7; }
[ "$4" != endless ] || { echo $$ > "$OUT/pid"; exec sleep 60; }
echo made > "$OUT/$4"
"""
REQUIREMENTS = {
    "table": (), "start": ("table",), "network": ("start",), "broken": ("table",), "ensemble": ("network", "broken"),
}  # fmt: skip


def test_graph_leads_from_the_corpus_to_all_checkpoints(tmp_path):
    steps = build_graph(Options(input_dir=SAMPLE, work_dir=tmp_path, qrels=QRELS))
    shipped = {path.parent.name for path in CHECKPOINT_DIR.glob("*/config.json")}
    assert len(shipped) >= 25
    assert shipped <= set(steps)
    assert sum(name.startswith("prepare ") for name in steps) == 6
    for index, step in enumerate(steps.values()):
        assert set(step.requires) <= set([*steps][:index])
    requirements = {name: {*step.requires} - {"prepare pairs"} for name, step in steps.items()}
    assert requirements["cedr_knrm"] == {"vanilla_bert"}
    assert requirements["ensemble_thesis"] == requirements["ensemble"] - {"snrm"}
    expected = {"prepare tags", "prepare vectors-word2vec", "targer_language"}
    assert requirements["targer_essays"] == expected
    # whose cache holds the enriched documents
    assert requirements["deepct_bm25_rm3"] == {"deepct", "deepct_dirichlet"}
    assert requirements["quality"] == {"prepare quality", "tfr_bert", "dirichlet"}
    assert {"ensemble", "sbert", "dirichlet_thesis"} <= requirements["fusion"]
    assert "deepct_dirichlet" not in requirements["fusion"]  # a candidate member
    without_data = {"targer_essays", "targer_dirichlet", "tfr_bert", "quality"}
    without_data |= {"prepare tags", "prepare quality"}
    assert {name for name, step in steps.items() if "--data" in step.missing} == without_data
    assert not without_data & requirements["fusion"]
    folders = [tmp_path / "data" / "ukp", tmp_path / "data" / "webis"]
    for folder, name in zip(folders, ("ukp-conv-arg-rank", "webis-argquality-20"), strict=True):
        (folder / name).mkdir(parents=True)
    with_data = build_graph(
        Options(input_dir=SAMPLE, work_dir=tmp_path, qrels=QRELS, data_dir=tmp_path / "data")
    )
    arguments = with_data["prepare quality"].arguments
    assert arguments[:4] == ["prepare", "quality", *(f"--input={folder}" for folder in folders)]
    assert not with_data["quality"].missing
    without_qrels = build_graph(Options(input_dir=SAMPLE, work_dir=tmp_path))
    judged = {name for name, step in without_qrels.items() if "--qrels" in step.missing}
    assert judged >= {"deepct", "dirichlet", "fusion"}
    assert "knrm" not in judged


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Return a function that runs steps with JOB."""
    (tmp_path / "python").write_text(JOB)
    (tmp_path / "python").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("LOG", str(tmp_path / "log"))
    monkeypatch.setenv("OUT", str(tmp_path))
    monkeypatch.setenv("OMP_NUM_THREADS", "2")

    def run_steps(steps, device="cpu", gpus=()):
        (tmp_path / "log").write_text("")
        records = Records(steps, tmp_path)
        remaining = [name for name in steps if records.get_state(name) != "finished"]
        failed = Scheduler(steps, records, device, 2, [*gpus]).run(remaining)
        return failed, [line.split() for line in (tmp_path / "log").read_text().splitlines()]

    return run_steps


def test_step_with_a_damaged_record_never_started(tmp_path, caplog):
    steps = build_steps(tmp_path)
    records = Records(steps, tmp_path)
    record = Record(records.keys["table"], "cpu")
    for content in ('{"key": 1', '{"key": 1}', '{"key": "\\udcff'):
        records.write("table", record)
        assert records.get_state("table") == "started"
        records.get_log("table").with_suffix(".json").write_text(content)
        assert records.get_state("table") == "new"
        assert "table.json: damaged (" in caplog.text
        assert "; table counts as never started" in caplog.text
        caplog.clear()


def test_keys_of_steps_have_the_versions_of_what_they_rank_with(tmp_path, monkeypatch):
    def compute_keys():
        steps = build_graph(Options(input_dir=SAMPLE, work_dir=tmp_path, qrels=QRELS))
        return {name: step.compute_key([]) for name, step in steps.items()}

    keys = compute_keys()
    tuned = {name for name in keys if name.startswith(("bm25_", "dirichlet", "deepct_"))}
    tuned |= {"targer_dirichlet"}
    for owner, attribute, changed in (
        (touche, "VERSION", {*tuned, "ensemble", "ensemble_thesis", "fusion", "quality"}),
        (weighting, "VERSION", {*tuned, "fusion", "quality"}),
        (Enrichment, "version", {"deepct_dirichlet", "targer_dirichlet"}),
        (LatentStage, "version", {"ensemble"}),
        (evaluate, "VERSION", {*tuned, "fusion", "quality"}),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(owner, attribute, 2)
            raised = compute_keys()
        assert changed <= {name for name in keys if raised[name] != keys[name]}
        assert raised["knrm"] == keys["knrm"] or owner in (touche, weighting)
    assert compute_keys() == keys


def build_steps(directory, uses_device=False, changed=""):
    """Build steps that run JOB; the command of step `changed` has a further flag."""
    return {
        name: Step(
            name, ("fit", name, *(["--more"] if name == changed else [])), directory / name, requires=requires,
            uses_device=uses_device,
        )
        for name, requires in REQUIREMENTS.items()
    }  # fmt: skip


def test_steps_run_side_by_side_after_their_requirements(run, tmp_path, caplog):
    failed, jobs = run(build_steps(tmp_path))
    events = [(event, name) for event, name, *_ in jobs]
    assert failed == ["broken", "ensemble"]
    assert {*events[2:4]} == {("begin", "start"), ("begin", "broken")}  # two processes at a time
    assert events.index(("end", "start")) < events.index(("begin", "network"))
    log = tmp_path / "steps" / "broken.log"
    assert f"broken: failed with exit code 7, log: {log}: error: dead" in caplog.text
    assert "ensemble: skipped, since broken failed" in caplog.text
    assert (tmp_path / "steps" / "broken.log").read_text() == "error: dead\n"
    # the others are finished
    expected = [["begin", "broken", "--overwrite"], ["end", "broken"]]
    assert run(build_steps(tmp_path))[1] == expected
    jobs = run(build_steps(tmp_path, changed="start"))[1]
    begun = {name: flags for event, name, *flags in jobs if event == "begin"}
    # also in the next call, if the first is stopped before it discards other results
    flags = ["--overwrite"]
    assert begun == {"broken": flags, "start": ["--more", *flags], "network": flags}
    (tmp_path / "network").unlink()
    assert ["begin", "network", *flags] in run(build_steps(tmp_path, changed="start"))[1]
    (tmp_path / "network").write_text("of another recipe")
    steps = build_steps(tmp_path, changed="start")
    assert Records(steps, tmp_path).get_state("network") == "outdated"
    assert ["begin", "network", *flags] in run(build_steps(tmp_path, changed="start"))[1]
    assert run(build_steps(tmp_path, changed="start"))[1][0][1] == "broken"


def test_signals_stop_the_processes_of_steps(run, tmp_path):
    def run_endless_step():
        install_handlers()
        run({"endless": Step("endless", ("fit", "endless"), tmp_path / "endless")})

    process = FORK.Process(target=run_endless_step)
    deadline = time.monotonic() + 20
    process.start()
    while not (tmp_path / "pid").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    process.terminate()
    process.join()
    assert process.exitcode == 143
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
    record = json.loads((tmp_path / "steps" / "endless.json").read_text())
    assert record["seconds"] > 0
    assert record["output"] == ""


def test_steps_that_use_the_device_share_the_gpus(run, tmp_path):
    jobs = run(build_steps(tmp_path, uses_device=True), "cuda", ("5",))[1]
    assert [event for event, *_ in jobs] == ["begin", "end"] * 4
    expected = {("5", "--overwrite", "--device", "cuda")}
    assert {tuple(words) for event, _, *words in jobs if event == "begin"} == expected


@pytest.mark.usefixtures("run")
def test_plan_lists_states_and_missing_inputs(tmp_path, capsys, monkeypatch, assert_fails):
    command = argv("all -i", SAMPLE, "--work-dir", tmp_path, "--recipes", TINY_CONFIGS, "--only")
    assert main([*command, "cedr_knrm", "--plan"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    steps = [["prepare", "pairs"], ["vanilla_bert", "new"], ["cedr_knrm", "new"]]
    starts = [["step", "state"], *steps, ["remaining:", "about"]]
    assert [line[:2] for line in lines if line] == starts  # no input of another step is missing
    remaining = " ".join(lines[4]).partition(" (steps not yet measured here: of the shipped")
    assert remaining[0] == "remaining: about 99 min of computing"
    assert remaining[2] == " recipes on the excerpt)"
    assert lines[3][-3:] == ["prepare", "pairs,", "vanilla_bert"]
    (tmp_path / "seconds.csv").write_text("step,device,seconds\nprepare pairs,cpu,12\n")
    with monkeypatch.context() as patch:
        patch.setattr(scheduler, "STEP_SECONDS", tmp_path / "seconds.csv")
        assert main([*command, "sbert", "--plan"]) == 0
    assert "about 12 s of computing and 1 step of unknown duration (" in capsys.readouterr().out
    assert main([*command[:-1], "--plan"]) == 0
    assert "\ndeepct: cannot be made, missing --qrels\n" in capsys.readouterr().out
    assert_fails(2, "targer_dirichlet: missing --qrels, --data; add", *command, "targer_dirichlet")
    assert_fails(2, "unknown step 'knrn'; did you mean 'knrm'?", *command, "knrn")
    for option in ("-i", "--data", "--qrels", "--recipes"):
        message = "absent: not found; check the path"
        assert_fails(3, message, *command[:-1], "--plan", option, tmp_path / "absent")
    assert main([*command, "prepare pairs"]) == 0
    # no table without rows
    assert capsys.readouterr().out.rstrip().splitlines()[-1].startswith("remaining: ")


def test_stored_checkpoints_are_reused(tmp_path, monkeypatch, capsys):
    started = []
    monkeypatch.setattr(Scheduler, "run", lambda self, names: started.extend(names) or started)
    command = ["all", "-i", str(SAMPLE), "--work-dir", str(tmp_path), "--device", "cpu"]
    assert main([*command, "--only", "ensemble_thesis", "--reuse"]) == 6
    assert started == ["prepare pairs", "ensemble_thesis"]
    output = capsys.readouterr().out
    assert re.search("^gru +reused", output, re.MULTILINE)
    assert "remaining: about 23 min of computing (" in output
    assert output.count(" OK ") >= 2 * 6
    for name in ("gru", "vanilla_bert"):
        copy = read_files(tmp_path / "checkpoints" / name)
        assert copy == read_files(CHECKPOINT_DIR / name)
    assert not (tmp_path / "checkpoints" / "ensemble_thesis").exists()
    assert main([*command, "--only", "ensemble_thesis", "--reuse", "--plan"]) == 0
    assert re.search("^gru +finished", capsys.readouterr().out, re.MULTILINE)
    assert main([*command, "--only", "gru", "--plan"]) == 0
    assert re.search("^gru +outdated +87 min", capsys.readouterr().out, re.MULTILINE)
    # a checkpoint that was made is not replaced
    record = tmp_path / "steps" / "gru.json"
    record.write_text(record.read_text().replace('"is_reused":true', '"is_reused":false'))
    assert main([*command, "--only", "ensemble_thesis", "--reuse", "--plan"]) == 0
    output = capsys.readouterr().out
    assert re.search("^gru +outdated", output, re.MULTILINE)
    assert re.search("^knrm +finished", output, re.MULTILINE)
    # the tagger is stored, so that its data are not needed
    command += ["--qrels", str(QRELS), "--only", "targer_dirichlet", "--plan"]
    assert main([*command, "--reuse"]) == 0
    assert main(command) == 2


def test_selected_checkpoints_are_copied_and_measured(tmp_path, monkeypatch):
    def make(scheduler, names):
        records = scheduler.records
        for name in names:
            if name == "ensemble_thesis":
                shutil.copytree(CHECKPOINT_DIR / name, checkpoints / name)
                records.write(name, Record(records.keys[name], "cpu", 12.4, output="made"))
        return []

    monkeypatch.setattr(Scheduler, "run", make)
    checkpoints = tmp_path / "work" / "checkpoints"
    seconds = tmp_path / "work" / "results" / "step_seconds.csv"
    seconds.parent.mkdir(parents=True)
    seconds.write_text("step,device,seconds\nsnrm,cuda,497\nensemble_thesis,cpu,99\n")
    command = argv("all -i", SAMPLE, "--work-dir", tmp_path / "work", "--device cpu --reuse")
    assert_runs(main, *command, "--only ensemble_thesis --output", tmp_path / "copies")
    assert [path.name for path in (tmp_path / "copies").iterdir()] == ["ensemble_thesis"]
    expected = "step,device,seconds\nensemble_thesis,cpu,12\nsnrm,cuda,497\n"
    assert seconds.read_text() == expected


@pytest.fixture
def tiny_configs(tmp_path):
    """Copy the recipes for the sample, with an encoder of two small layers and random weights."""
    encoder = tmp_path / "encoder"
    sizes = {**TINY_BERT, "max_position_embeddings": 512, "vocab_size": 30522}
    torch.manual_seed(0)
    BertModel(BertConfig(**sizes)).save_pretrained(encoder)
    shutil.copy(PretrainedEncoder("all-MiniLM-L6-v2").folder / "tokenizer.json", encoder)
    (tmp_path / "recipes").mkdir()
    for file in TINY_CONFIGS.glob("*.toml"):
        text = file.read_text().replace(
            "frozen_layers = 5", f'name = "{encoder}"\nfrozen_layers = 0'
        )
        (tmp_path / "recipes" / file.name).write_text(text)
    return tmp_path / "recipes"


@pytest.mark.slow
def test_all_checkpoints_are_made_from_the_sample(tiny_configs, tmp_path, monkeypatch, capsys):
    write_ukp(tmp_path / "data" / "quality", debates=5)
    write_webis(tmp_path / "data" / "webis")
    write_tagged(tmp_path / "data" / "tags")
    monkeypatch.setattr(scheduler, "subprocess", SimpleNamespace(Popen=ForkedProcess))
    monkeypatch.setattr(evaluation, "N_REPETITIONS", 2)
    work = tmp_path / "work"
    released = tmp_path / "released"
    command = argv(
        "all -i", SAMPLE, "--work-dir", work, "--data", tmp_path / "data", "--qrels", QRELS
    )
    command += argv("--recipes", tiny_configs, "--device cpu --processes 2 --checkpoints", released)
    assert main([*command, "--output", str(released)]) == 0
    names = {path.name for path in CHECKPOINT_DIR.iterdir() if (path / "config.json").exists()}
    assert {path.name for path in released.iterdir()} == names
    assert all(
        read_files(released / name) == read_files(work / "checkpoints" / name) for name in names
    )
    assert " not stored " in capsys.readouterr().out
    assert main(command) == 0  # nothing is left to do
    output = capsys.readouterr().out
    step_count = len(build_graph(Options(input_dir=SAMPLE, work_dir=tmp_path)))
    expected = (step_count, 0, 0)
    assert (output.count(" finished "), output.count(" near "), output.count("FAIL")) == expected
    assert output.count(" OK ") > 60
    provenance = json.loads((released / "knrm" / "provenance.json").read_text())
    provenance["recipe"]["seed"] += 1
    (released / "knrm" / "provenance.json").write_text(json.dumps(provenance))
    assert main(command) == 0
    assert capsys.readouterr().out.count(" other recipe ") == 3  # MRR@20, MAP@20 and nDCG@20
