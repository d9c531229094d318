from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from submission.errors import UsageError
from submission.inference.pretrained import PretrainedEncoder
from submission.models.bert import BERTNetwork
from submission.models.rankers import list_rankers
from submission.text.tokenisers import MaxLengths
from training.data.datasets.argument_components import tag_set
from training.data.quality import CREDITS
from training.fitting.initialisation import read_encoder_config
from training.fitting.recipe import Recipe, TrainingSettings
from training.fitting.training_loop import Schedule
from training.paths import RECIPES
from training.tasks import load_recipe
from training.tasks.contrastive import ContrastiveSpec
from training.tasks.pairs import PairwiseSpec
from training.tasks.quality import QualitySpec
from training.tasks.tagging import TaggingSpec

GOOD = 'ranker = "knrm"\n[network]\nkernels = 11\n[training]\nepochs = 2\nbatch_size = 32\nmicro_batch_size = 8\n'
QUALITY = 'ranker = "tfr_bert"\n[quality]\ndatasets = ["ukp"]\n'
SNRM = 'ranker = "snrm"\n[contrastive]\nmu = 20\n'


def write(directory: Path, text: str) -> str:
    (directory / "mine.toml").write_text(text)
    return str(directory / "mine.toml")


def test_every_ranker_has_a_recipe() -> None:
    assert {file.stem for file in RECIPES.glob("*.toml")} >= set(list_rankers())
    assert "webis" not in CREDITS
    for file in RECIPES.glob("*.toml"):
        recipe = load_recipe(file.stem)
        assert "webis" not in file.read_text().lower()  # used for testing only
        assert not isinstance(recipe.task, QualitySpec) or {*recipe.task.datasets} <= set(CREDITS)
        network_class = recipe.network_class
        derived: dict[str, Any] = {"vocabulary": 10}
        if issubclass(network_class, BERTNetwork):
            derived = read_encoder_config(PretrainedEncoder("all-MiniLM-L6-v2"), recipe.encoder.frozen_layers)
        elif recipe.task.surface_vector_method:
            derived["tags"] = tag_set(recipe.task.datasets) if isinstance(recipe.task, TaggingSpec) else ()
        with torch.device("meta"):
            network_class(network_class.Config(**derived, **recipe.network))


def test_recipe_defaults_and_overrides(tmp_path: Path) -> None:
    training = load_recipe("knrm").training
    assert (training.epochs, training.validations_per_epoch, training.margin) == (10, 8, 1.0)
    assert (training.learning_rate, training.batch_size, load_recipe("knrm").lengths) == (1e-3, 32, MaxLengths(10, 100))
    recipe = load_recipe(write(tmp_path, GOOD))
    assert (recipe.network, recipe.training.epochs, recipe.training.micro_batch_size) == ({"kernels": 11}, 2, 8)
    assert recipe.task == PairwiseSpec()
    assert not {"quality", "pairs", "task", "clusters"} & {*recipe.to_provenance()}  # defaults are omitted
    assert load_recipe("tfr_bert").task == QualitySpec(("ukp",), 12, "list", "logistic")  # without ibm: unknown licence
    snrm = load_recipe("snrm")
    assert isinstance(snrm.task, ContrastiveSpec)
    assert snrm.training.batch_size == snrm.training.micro_batch_size  # all premises of the batch are negatives
    assert "clusters" in snrm.to_provenance()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "unknown recipe 'knmr'; did you mean 'knrm'"),
        ('rankr = "knrm"', "unknown key rankr; did you mean 'ranker'"),
        (GOOD.replace("epochs", "epoch"), "unknown key training.epoch; did you mean 'epochs'"),
        (GOOD.replace("kernels", "kernel"), "unknown key network.kernel; did you mean 'kernels'"),
        (GOOD.replace("knrm", "kmrm"), "unknown ranker 'kmrm'; did you mean 'knrm'"),
        (GOOD.replace("epochs = 2", "epochs = -1"), "Expected `int` >= 0 - at `$.training.epochs`"),
        (GOOD.replace("= 8", "= 12"), "batch_size (32) must be a multiple of training.micro_batch_size (12)"),
        (GOOD + "learning_rate = -1.0", "Expected `float` > 0.0 - at `$.training.learning_rate`"),
        ("ranker = ", "cannot be read as TOML"),
        (GOOD + '[encoder]\nname = "bert"', "knrm has no pretrained encoder; remove [encoder]"),
        ('ranker = "vanilla_bert"\nmax_terms = 5', "vanilla_bert takes its vocabulary from its tokeniser; remove max_terms"),
        ('ranker = "vanilla_bert"\n[lengths]\nquery = 30', "lengths.query is 30; BERT networks read at most 20"),
        (GOOD + "[lengths]\npremise = 0", "lengths.premise is 0; expected at least 1"),
        (GOOD + "learning_rate = nan", "Expected `float` > 0.0 - at `$.training.learning_rate`"),
        (GOOD.replace("= 11", '= "many"'), "network.kernels: Expected `int`, got `str`"),
        ("training = 3", "training must be a table"),
        ("seed = 1", "set exactly one of `ranker` and `enricher`"),
        (GOOD + '[quality]\ndatasets = ["ukp"]', "[quality] supports tfr_bert, not knrm; change the network or the task table"),
        ('ranker = "tfr_bert"', "tfr_bert cannot be trained on pairs; add its task table"),
        ('enricher = "deepct"\n[distillation]', "[distillation] supports rankers, but deepct is an enricher"),
        ('enricher = "deepct"\n[term_weighting]\n[lengths]\nquery = 5', "[lengths] is for rankers; set an enricher's lengths"),
        ('enricher = "targer"\n[tagging]\ndatasets = []', "tagging.datasets is []; expected essays, webd or both"),
        (QUALITY.replace('"ukp"', '"webis"'), "Invalid enum value 'webis' - at `$.quality.datasets[0]`"),  # testing only
        (QUALITY.replace('"ukp"', '"ukp", "ukp"'), "quality.datasets is ['ukp', 'ukp']; expected ukp, ibm or both"),
        (QUALITY + "list_size = 1", "Expected `int` >= 2 - at `$.quality.list_size`"),
        (QUALITY + '[pairs]\nhard_negatives = "dirichlet"', "[pairs] and [quality]: a recipe has at most one task table"),
        ('hard_negatives = "dirichlet"\n' + GOOD, "unknown key hard_negatives"),
        (GOOD + "l1_weight = 0.1\n[distillation]", "training.l1_weight applies to [pairs] only; remove it"),
        (SNRM + "[clusters]\nthreshold = 1.0\n", "Expected `float` < 1.0 - at `$.clusters.threshold`"),
        (SNRM + "[clusters]\nidf = 1.0\n", "unknown key clusters.idf; Valid: rarity_exponent, threshold"),
    ],
)
def test_invalid_recipes_are_refused(tmp_path: Path, text: str | None, words: str) -> None:
    with pytest.raises(UsageError, match=re.escape(words)):
        load_recipe("knmr" if text is None else write(tmp_path, text))


def schedule(arguments: int = 10, **training: object) -> Schedule:
    settings = TrainingSettings(batch_size=3, micro_batch_size=3, **training)  # type: ignore[arg-type]
    return Schedule(Recipe(ranker="knrm", training=settings, task=PairwiseSpec()), arguments)


def test_schedule_shuffles_each_epoch_and_spaces_validations() -> None:
    plan = schedule(epochs=2)
    assert (plan.steps_per_epoch, plan.total_steps) == (4, 8)
    epochs = [np.concatenate([plan.batch(step) for step in steps]) for steps in (range(4), range(4, 8))]
    assert [sorted(rows.tolist()) for rows in epochs] == [list(range(10))] * 2
    assert epochs[0].tolist() != epochs[1].tolist()
    assert [len(plan.batch(step)) for step in range(4)] == [3, 3, 3, 1]

    for max_steps, expected in ((0, [1, 3, 5, 7]), (7, [1, 3, 5, 6])):
        plan = schedule(epochs=2, validations_per_epoch=2, max_steps=max_steps)
        assert [step for step in range(plan.total_steps) if plan.is_validation_step(step)] == expected
    assert all(schedule(epochs=1, validations_per_epoch=8).is_validation_step(step) for step in range(4))


def test_learning_rate_warm_up_and_decay() -> None:
    def factors(**training: object) -> list[float]:
        plan = schedule(**training)  # type: ignore[arg-type]
        return [plan.learning_rate_factor(step) for step in range(plan.total_steps)]

    assert factors(epochs=1) == [1, 1, 1, 1]
    assert factors(epochs=1, linear_decay=True) == pytest.approx([1, 0.75, 0.5, 0.25])
    assert factors(epochs=3, warmup_fraction=0.25)[:5] == pytest.approx([1 / 3, 2 / 3, 1, 1, 1])
    both = factors(epochs=3, warmup_fraction=0.25, linear_decay=True)
    assert [*both[:4], both[-1]] == pytest.approx([1 / 3, 2 / 3, 1, 0.75, 1 / 12])
