"""Tests of all training tasks."""

from __future__ import annotations

import json
import logging
import re
import shutil
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
import torch
from msgspec.structs import replace

from aragorn import __version__
from aragorn.errors import InputError, TrainingError, UsageError
from aragorn.storage.checkpoint_directory import read_json
from aragorn.storage.recorded_files import RecordedFiles
from aragorn.text.tokenisers import MaxLengths
from aragorn_training.__main__ import main
from aragorn_training.data.corpora import ARGS_ME
from aragorn_training.data.distillation import get_table_path
from aragorn_training.data.quality import COLUMNS
from aragorn_training.data.word_vectors import get_default_folder_name
from aragorn_training.fitting.fit import _Run, fit
from aragorn_training.fitting.initialisation import build_network
from aragorn_training.fitting.recipe import EncoderSettings, Recipe, TrainingSettings
from aragorn_training.fitting.training_loop import Schedule, TrainingState
from aragorn_training.sbert.networks import TrainingSetup
from aragorn_training.tasks import list_task_names
from aragorn_training.tasks.augmented_sbert import AugmentedSBERTSpec
from aragorn_training.tasks.contrastive import ContrastiveSpec
from aragorn_training.tasks.distillation import DistillationSpec
from aragorn_training.tasks.language_model import LanguageModelSpec
from aragorn_training.tasks.pairs import PairwiseSpec
from aragorn_training.tasks.quality import QualitySpec
from aragorn_training.tasks.tagging import TaggingSpec
from aragorn_training.tasks.term_weighting import TermWeightingSpec
from tests.conftest import argv, read_files
from tests.unit.training.conftest import write_encoder, write_tagged, write_ukp

CPU = "cpu"
BERT_ENCODER = EncoderSettings(learning_rate=1e-3, frozen_layers=2)
BERT = {"encoder": BERT_ENCODER, "lengths": MaxLengths(20, 30)}
TAGGER = {"dimensions": 6, "character_dimensions": 4, "filters": 3}
TAGGER |= {"hidden": 6, "dropout": 0.1, "longest": 12}


def build_recipe(task, network, batch_size, **fields):
    """Build a recipe of two epochs, validated after each, with two micro-batches a batch."""
    sizes = {"batch_size": batch_size, "micro_batch_size": batch_size // 2}
    training = TrainingSettings(
        epochs=2, validations_per_epoch=1, learning_rate=0.01, warmup_fraction=0.5, **sizes
    )
    return Recipe(task=task, network=network, training=training, **({"ranker": "knrm"} | fields))


RECIPES = {  # with batch sizes for three batches per epoch, the last of which is smaller
    "pairs": build_recipe(PairwiseSpec(), {"dimensions": 20}, 180),
    "bert_pairs": build_recipe(PairwiseSpec(), {}, 180, ranker="vanilla_bert", **BERT),
    "contrastive": build_recipe(ContrastiveSpec(), {"dimensions": 20, "latent": 30}, 180, ranker="snrm"),
    "quality": build_recipe(QualitySpec(("ukp",), 3), {}, 6, ranker="tfr_bert", **BERT),
    "distillation": build_recipe(DistillationSpec(list_size=4), {"dimensions": 20}, 8),
    "term_weighting": build_recipe(
        TermWeightingSpec(max_passages=50), {"words": 12, "pieces": 60}, 20,
        ranker=None, tagger="deepct", encoder=BERT["encoder"],
    ),
    "tagging": build_recipe(TaggingSpec(("essays", "webd")), TAGGER, 40, ranker=None, tagger="targer"),
    "language_model": build_recipe(
        LanguageModelSpec(max_passages=128, passages_per_example=4, negative_samples=20), TAGGER, 12,
        ranker=None, tagger="targer",
    ),
}  # fmt: skip
STUDENT = AugmentedSBERTSpec(
    loss="cosent", pairs="gold and silver", gold_arguments=8, max_silver_pairs=16
)


KNOWN = {  # losses and metrics at both validations, and the first metric of the last baseline
    "pairs": [1.0156, 0.9681, 27.29, 73.12, 100.0],
    "bert_pairs": [0.9719, 0.9948, 4.09, 3.95, 33.16],
    "contrastive": [4.4927, 4.4838, 1.44, 1.19, 100.0],
    "quality": [4.2146, 4.3274, 95.0, 95.0, 100.0],
    "distillation": [15.9945, 15.8117, -41.24, -41.24, 91.34],
    "term_weighting": [0.2822, 0.1598, 10.49, 54.93, 72.2],
    "tagging": [6.7221, 6.4123, 0.0, 1.6, 4.44],
    "language_model": [4.2098, 4.1608, 1.39, 2.78, 3.75],
}


pytestmark = pytest.mark.usefixtures("without_plots")


@pytest.fixture(scope="module")
def work(prepared_work_dir, corpus, tmp_path_factory):
    """Prepare a working directory with the data of all tasks, and a tiny encoder next to it."""
    directory = tmp_path_factory.mktemp("tasks")
    work = Path(shutil.copytree(prepared_work_dir, directory / "work"))
    write_ukp(directory / "quality", debates=5)
    write_tagged(directory / "tags")
    write_encoder(directory / "tiny", 0)
    vectors = argv("vectors --surface-tokens word2vec --dimensions 6 --epochs 1")
    vectors += argv("--minimum-frequency 2")
    for command in (
        ["quality", "-i", str(directory / "quality")], ["tags", "-i", str(directory / "tags")],
        ["passages", "-i", str(corpus)], vectors,
    ):  # fmt: skip
        assert main(["prepare", *command, "--work-dir", str(work)]) == 0
    rng = np.random.default_rng(0)
    rows = []
    for n, letter in enumerate("abcdefghijab"):
        names = ("fusion", f"topic {n}", f"topica{letter}")
        rows += [
            (*names, f"d{n}-{i}", f"fillera {'topicab ' * i}", rng.normal(i)) for i in range(8)
        ]
    inputs = {"input": {}, "teacher": {"system": "fusion"}, **ARGS_ME}
    store = RecordedFiles(get_table_path(work).parent, inputs)
    table = pd.DataFrame(rows, columns=COLUMNS)
    store.build([get_table_path(work).name], table.to_parquet)
    return work


def replace_encoder(recipe, work):
    """Replace the encoder of a recipe that has one by that of the fixture `work`."""
    encoder = recipe.encoder
    if encoder == EncoderSettings():
        return recipe
    return replace(recipe, encoder=replace(encoder, name=str(work.parent / "tiny")))


def build(task, work):
    """Build the network of a recipe and the training task that fits it."""
    recipe = replace_encoder(RECIPES[task], work)
    vectors = work / get_default_folder_name(recipe.task.surface_vector_method)
    trainee = build_network(recipe, vectors, work / "checkpoints")
    return trainee, recipe.task.build_task(recipe, trainee, work, CPU)


def train(recipe, work, name, overwrite=False):
    """Train a network to the checkpoint `work / name`; its state is in work/fit/TASK, the first
    word of `name`."""
    recipe = replace_encoder(recipe, work)
    checkpoint = work / name
    vectors = work / get_default_folder_name(recipe.task.surface_vector_method)
    fit(name.split()[0], recipe, work, vectors, checkpoint, CPU, overwrite)
    return checkpoint


@contextmanager
def stop_at(owner, name, call):
    """Interrupt the context at a call (from 0) of the function `name` of `owner`."""
    function = getattr(owner, name)
    calls = iter(range(10**6))

    def call_or_stop(*arguments, **named):
        if next(calls) == call:
            raise KeyboardInterrupt
        return function(*arguments, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, call_or_stop)
        with pytest.raises(KeyboardInterrupt):
            yield


STOPS = [  # function and number of the call in which a run stops
    (Schedule, "batch", 2),  # before the first validation
    (Schedule, "batch", 4),  # between validations
    (TrainingState, "save", 0),  # at the second validation, after the network was saved
    (_Run, "write_final_checkpoint", 0),  # after the last step
]


@pytest.fixture(scope="module", params=RECIPES)
def uninterrupted(request, work):
    """Train each task without interruption."""
    task = request.param
    files = read_files(train(RECIPES[task], work, f"{task} uninterrupted"))
    return task, files, (work / "fit" / task / "log.jsonl").read_bytes()


def test_first_steps_have_known_losses_and_metrics(uninterrupted):
    task, files, log = uninterrupted
    rows = [json.loads(line) for line in log.splitlines()]
    metrics = json.loads(files["metrics.json"])
    assert metrics["log"] == rows
    baseline = [values for values in metrics.values() if isinstance(values, dict)][-1]
    keys = ("loss", RECIPES[task].task.curve.selection_metric)
    values = [row[key] for key in keys for row in rows] + [next(iter(baseline.values()))]
    assert values == pytest.approx(KNOWN[task], rel=2e-3)
    has_candidates = RECIPES[task].task.validates_on_candidates
    candidates = {"pool": "collection", "rule": "random"} if has_candidates else {}
    assert {key: metrics[key] for key in ("pool", "rule") if key in metrics} == candidates
    recorded = json.loads(files["provenance.json"])["recipe"].get("validation", {})
    assert {key: recorded[key] for key in recorded if key != "log_all"} == candidates
    expected = bool(candidates)
    assert (b"100 negatives drawn at random from the collection" in files["README.md"]) == expected


def test_stopped_runs_resume_with_the_same_bytes(uninterrupted, work, caplog):
    task, expected, log = uninterrupted
    recipe = RECIPES[task]
    run_dir = work / "fit" / task
    shutil.rmtree(run_dir)
    caplog.set_level(logging.INFO)
    stops, steps = (STOPS, ["3", "3", "6"]) if task == "pairs" else (STOPS[1:2], ["3"])
    for stop in stops:
        with stop_at(*stop):
            train(recipe, work, f"{task} resumed")
    assert not (work / f"{task} resumed").exists()
    assert read_files(train(recipe, work, f"{task} resumed")) == expected
    assert (run_dir / "log.jsonl").read_bytes() == log
    assert re.findall(r"Resuming at step (\d+)", caplog.text) == steps


def test_other_and_damaged_states_are_not_continued(work, caplog):
    caplog.set_level(logging.INFO)
    recipe = RECIPES["pairs"]
    output = train(recipe, work, "pairs again")
    train(recipe, work, "pairs again")
    assert f"{output}: already complete, skipped" in caplog.text
    file = output / "provenance.json"
    text = file.read_text()
    file.write_text(text.replace(__version__, "0.0.1", 1))
    train(recipe, work, "pairs again")
    assert read_json(file)["version"] == "0.0.1"  # complete, too
    file.write_text(text)
    message = "saved with another recipe, other data or another version; pass --overwrite"
    with pytest.raises(UsageError, match=message):
        train(replace(recipe, seed=1), work, "pairs again")
    for owner in (PairwiseSpec, recipe.network_class):
        with patch.object(owner, "version", 99), pytest.raises(UsageError, match=message):
            train(recipe, work, "pairs again")
    state = work / "fit" / "pairs" / "state.pt"
    state.write_bytes(b"garbage")
    with pytest.raises(InputError, match=r"(?s)state.pt: damaged .* pass --overwrite"):
        train(recipe, work, "pairs again")
    expected = read_files(output)
    train(recipe, work, "pairs again", overwrite=True)
    assert read_files(output) == expected
    train(replace(recipe, seed=1), work, "pairs again", overwrite=True)
    assert read_files(output)["model.safetensors"] != expected["model.safetensors"]
    assert caplog.text.count("starting over") == 2
    modified = state.stat().st_mtime_ns
    train(replace(recipe, seed=1), work, "pairs again", overwrite=True)
    assert state.stat().st_mtime_ns == modified  # an equal run is not overwritten


def test_stopped_students_resume_with_the_same_bytes_and_known_scores(work, caplog):
    training = TrainingSettings(epochs=1, batch_size=16, micro_batch_size=16)
    student = Recipe(ranker="sbert", task=STUDENT, training=training, **BERT)
    caplog.set_level(logging.INFO)
    expected = read_files(train(student, work, "student uninterrupted"))
    progress = re.findall(r"(teacher|student): (\d+) steps? in ", caplog.text)
    assert progress == [("teacher", "1"), ("student", "2")]
    scores = [pair["score"] for pair in json.loads(expected["probe.json"])]
    assert scores[:3] == pytest.approx([0.945706, 0.964178, 0.964687], abs=2e-5)
    shutil.rmtree(work / "students")
    with stop_at(TrainingSetup, "train", 1):  # after the teacher was trained
        train(student, work, "student resumed")
    assert read_files(train(student, work, "student resumed")) == expected
    # all covered
    actual = {recipe.task.get_table_name() for recipe in (*RECIPES.values(), student)}
    assert actual == set(list_task_names())


# its negatives come from the micro-batch
@pytest.mark.parametrize("task", sorted(RECIPES.keys() - {"contrastive"}))
def test_micro_batches_sum_to_the_loss_and_gradient_of_the_batch(task, work):
    results = []
    for sizes in ([7], [3, 2, 2]):
        trainee, examples = build(task, work)
        network = trainee.network.eval()
        batch = np.arange(7)[::-1].copy()
        torch.manual_seed(3)  # negative samples of the language model
        parts = np.split(batch, np.cumsum(sizes)[:-1])
        losses = [examples.compute_loss(network, rows, batch) for rows in parts]
        sum(losses).backward()
        gradients = [value.grad for value in network.parameters() if value.grad is not None]
        gradients = [gradient.to_dense() for gradient in gradients]
        results.append([torch.stack(losses).sum().detach(), *gradients])
    assert results[0][0] > 1e-3
    for summed, expected in zip(results[1], results[0], strict=True):
        torch.testing.assert_close(summed, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("task", RECIPES)
def test_validation_disables_dropout_and_detects_faults(task, work):
    trainee, examples = build(task, work)
    network = trainee.network.train()
    random_state = torch.get_rng_state()
    metrics = examples.validate(network, 1)
    assert network.training
    assert metrics == examples.validate(network, 1) == examples.validate(network.eval(), 1)
    assert not network.training
    assert {type(value) for value in metrics.values()} == {float}
    assert examples.measure_baselines()
    # measuring draws no random numbers, on which dropout depends
    assert torch.equal(torch.get_rng_state(), random_state)
    faults = {torch.nan: "step 7: .* not finite"}
    if task not in ("tagging", "language_model"):
        faults[0] = "step 7: all validation scores are identical"
    for value, message in faults.items():
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.fill_(value)
        with pytest.raises(TrainingError, match=message):
            examples.validate(network, 7)


TABLES = {  # table and the kind of data that it contains
    "pairs": ("train.words.parquet", "pairs"),
    "quality": ("quality/ukp.parquet", "quality"),
    "distillation": ("distilled/lists.parquet", "distillation"),
    "term_weighting": ("passages/passages.parquet", "passages"),
    "tagging": ("tagging/webd.parquet", "tags"),
}


@pytest.mark.parametrize("task", TABLES)
def test_missing_and_damaged_tables_name_the_command(task, work, tmp_path):
    file, kind = TABLES[task]
    command = f"aragorn-training prepare {kind} "
    trainee = build(task, work)[0]
    spec = RECIPES[task].task
    copy = Path(shutil.copytree(work, tmp_path / "work"))
    (copy / file).write_bytes(b"PAR1 garbage")
    with pytest.raises(InputError, match=rf"{file}: damaged.*{command}"):
        spec.build_task(RECIPES[task], trainee, copy, CPU)
    (copy / file).unlink()
    with pytest.raises(InputError, match=f"{file}: not found.*{command}"):
        spec.build_task(RECIPES[task], trainee, copy, CPU)
    with pytest.raises(InputError, match=command):
        spec.check_prepared(tmp_path / "none")


@pytest.mark.parametrize("documents", ["unjudged", "unpooled"])
def test_document_sets_need_qrels(documents, work):
    recipe = replace(RECIPES["term_weighting"], task=TermWeightingSpec(documents=documents))
    message = f'prepared without .*, which documents = "{documents}" needs'
    with pytest.raises(InputError, match=message):
        recipe.task.build_task(recipe, build("term_weighting", work)[0], work, CPU)
