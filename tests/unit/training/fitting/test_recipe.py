"""Test shipped and invalid recipes, and the schedule of steps, validations and learning rates."""

import os
import re

import numpy as np
import pytest
import torch

from aragorn.errors import UsageError
from aragorn.inference.pretrained import PretrainedEncoder
from aragorn.models.bert import BERTNetwork
from aragorn.models.rankers import list_rankers
from aragorn.paths import CHECKPOINT_DIR
from aragorn.storage.checkpoint_directory import CONFIG, read_json
from aragorn.text.tokenisers import MaxLengths
from aragorn_training import configs
from aragorn_training.data.quality import CREDITS
from aragorn_training.data.tagged_documents import list_tags
from aragorn_training.fitting.initialisation import read_encoder_config
from aragorn_training.fitting.recipe import Recipe, TrainingSettings
from aragorn_training.fitting.training_loop import Schedule
from aragorn_training.tasks import load_recipe
from aragorn_training.tasks.pairs import PairwiseSpec
from aragorn_training.tasks.quality import QualitySpec
from aragorn_training.tasks.tagging import TaggingSpec

GOOD = 'ranker = "knrm"\n[network]\nkernels = 11\n[training]\nepochs = 2\nbatch_size = 32\nmicro_batch_size = 8\n'
QUALITY = 'ranker = "tfr_bert"\n[quality]\ndatasets = ["ukp"]\n'
SNRM = 'ranker = "snrm"\n[contrastive]\nmu = 20\n'


@pytest.mark.parametrize("name", sorted({*configs.list_names("recipe"), *list_rankers()}))
def test_recipes_build_their_networks(name):
    recipe = load_recipe(name)
    assert "webis" not in configs.find("recipe", name).read_text().lower()  # used for testing only
    assert not isinstance(recipe.task, QualitySpec) or {*recipe.task.datasets} <= set(CREDITS)
    derived = {"vocabulary": 10}
    if issubclass(recipe.network_class, BERTNetwork):
        derived = read_encoder_config(
            PretrainedEncoder("all-MiniLM-L6-v2"), recipe.encoder.frozen_layers
        )
    elif recipe.task.surface_vector_method:
        derived["tags"] = (
            list_tags(recipe.task.datasets) if isinstance(recipe.task, TaggingSpec) else ()
        )
    with torch.device("meta"):
        recipe.network_class(recipe.network_class.Config(**derived, **recipe.network))


def test_the_fields_of_bert_are_those_of_the_shipped_checkpoints():
    config = read_json(CHECKPOINT_DIR / "vanilla_bert" / CONFIG)["config"]
    derived = read_encoder_config(PretrainedEncoder("all-MiniLM-L6-v2"), config["frozen"])
    assert derived == {name: config[name] for name in derived}
    assert list(derived["bert"]) == list(config["bert"])


def test_recipe_defaults_and_overrides(tmp_path):
    (tmp_path / "mine.toml").write_text(GOOD)
    recipe = load_recipe(str(tmp_path / "mine.toml"))
    expected = ({"kernels": 11}, 2, 8)
    assert (recipe.network, recipe.training.epochs, recipe.training.micro_batch_size) == expected
    assert recipe.task == PairwiseSpec()
    # defaults are omitted
    assert not {"quality", "pairs", "task", "clusters"} & {*recipe.to_provenance()}
    assert (recipe.training.learning_rate, recipe.lengths) == (1e-3, MaxLengths(10, 100))
    expected = {"pool": "collection", "rule": "random", "log_all": False}
    assert recipe.to_provenance()["validation"] == expected
    assert "validation" not in load_recipe("tfr_bert").to_provenance()  # without candidates
    # without ibm: unknown licence
    assert load_recipe("tfr_bert").task == QualitySpec(("ukp",), 12, "list", "logistic")
    snrm = load_recipe("snrm").training
    assert snrm.batch_size == snrm.micro_batch_size  # all premises of the batch are negatives


@pytest.mark.parametrize(("text", "message"), [
    (None, "unknown recipe 'knmr'; did you mean 'knrm'"),
    ('rankr = "knrm"', "unknown key rankr; did you mean 'ranker'"),
    (GOOD.replace("epochs", "epoch"), "unknown key training.epoch; did you mean 'epochs'"),
    (GOOD.replace("kernels", "kernel"), "unknown key network.kernel; did you mean 'kernels'"),
    (GOOD.replace("knrm", "kmrm"), "unknown ranker 'kmrm'; did you mean 'knrm'"),
    (GOOD.replace("= 8", "= 12"), "batch_size (32) must be a multiple of training.micro_batch_size (12)"),
    ("ranker = ", "cannot be read as TOML"),
    (GOOD + '[encoder]\nname = "bert"', "knrm has no pretrained encoder; remove [encoder]"),
    ('ranker = "vanilla_bert"\nmax_terms = 5', "vanilla_bert takes its vocabulary from its tokeniser; remove max_terms"),
    ('ranker = "vanilla_bert"\n[lengths]\nquery = 30', "lengths.query is 30; BERT networks read at most 20"),
    (GOOD + "[lengths]\npremise = 0", "lengths.premise: Expected `int` >= 1"),
    (GOOD + "learning_rate = nan", "mine.toml: training.learning_rate: Expected `float` >= 1e-09"),
    (GOOD.replace("= 11", '= "many"'), "network.kernels: Expected `int`, got `str`"),
    ("training = 3", "training must be a table"), ("seed = 1", "set exactly one of `ranker` and `tagger`"),
    (GOOD + '[quality]\ndatasets = ["ukp"]', "[quality] supports tfr_bert, not knrm; change the network or the task table"),
    ('ranker = "tfr_bert"', "tfr_bert cannot be trained on pairs; use [quality]"),
    ('tagger = "targer"', "targer cannot be trained on pairs; use [language_model] or [tagging]"),
    ('tagger = "deepct"\n[distillation]', "[distillation] supports rankers, but deepct is a tagger"),
    ('tagger = "deepct"\n[term_weighting]\n[lengths]\nquery = 5', "[lengths] is for rankers; set a tagger's lengths"),
    ('tagger = "targer"\n[tagging]\ndatasets = []', "tagging.datasets is []; expected essays, webd or both"),
    # testing only
    (QUALITY.replace('"ukp"', '"webis"'), "quality.datasets[0]: Invalid enum value 'webis'"),
    (QUALITY.replace('"ukp"', '"ukp", "ukp"'), "quality.datasets is ['ukp', 'ukp']; expected ukp, ibm or both"),
    (QUALITY + '[pairs]\nhard_negatives = "dirichlet"', "[pairs] and [quality]: a recipe has at most one task table"),
    (GOOD + "l1_weight = 0.1\n[distillation]", "training.l1_weight applies to [pairs] only; remove it"),
    (GOOD + '[validation]\nrule = "hard"', "validation.rule: Invalid enum value 'hard'"),
    (QUALITY + '[validation]\npool = "split"', "[validation] does not apply to [quality], which has other validation data"),
    (SNRM + "[clusters]\nidf = 1.0\n", "unknown key clusters.idf; Valid: rarity_exponent, threshold"),
])  # fmt: skip
def test_invalid_recipes_are_refused(tmp_path, text, message):
    (tmp_path / "mine.toml").write_text(text or "")
    with pytest.raises(UsageError, match=re.escape(message)):
        load_recipe("knmr" if text is None else str(tmp_path / "mine.toml"))


def test_recipe_that_is_a_fifo_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "mine.toml")
    with pytest.raises(UsageError, match=r"mine.toml: cannot be read \(.*a FIFO; expected"):
        load_recipe(str(tmp_path / "mine.toml"))


def build_schedule(**training):
    """Build the schedule of ten examples in batches of three."""
    settings = TrainingSettings(batch_size=3, micro_batch_size=3, **training)
    return Schedule(Recipe(ranker="knrm", training=settings, task=PairwiseSpec()), 10)


def test_schedule_shuffles_each_epoch():
    plan = build_schedule(epochs=2)
    epochs = [
        np.concatenate([plan.batch(step) for step in steps]) for steps in (range(4), range(4, 8))
    ]
    assert [sorted(rows.tolist()) for rows in epochs] == [list(range(10))] * 2
    assert epochs[0].tolist() != epochs[1].tolist()
    assert [len(plan.batch(step)) for step in range(4)] == [3, 3, 3, 1]


@pytest.mark.parametrize(("settings", "validations", "factors"), [
    ({"epochs": 2, "validations_per_epoch": 2}, [1, 3, 5, 7], [1] * 8),
    ({"epochs": 2, "validations_per_epoch": 2, "max_steps": 7}, [1, 3, 5, 6], [1] * 7),
    ({"epochs": 1, "validations_per_epoch": 8, "linear_decay": True}, [0, 1, 2, 3], [1, 0.75, 0.5, 0.25]),
    ({"epochs": 3, "validations_per_epoch": 1, "warmup_fraction": 0.25}, [3, 7, 11], [1 / 3, 2 / 3, *[1] * 10]),
    (
        {"epochs": 3, "validations_per_epoch": 1, "warmup_fraction": 0.25, "linear_decay": True},
        [3, 7, 11], [1 / 3, 2 / 3, 1, 0.75, *(np.arange(8, 0, -1) / 12)],
    ),
])  # fmt: skip
def test_schedule_has_validations_and_rates(settings, validations, factors):
    plan = build_schedule(**settings)
    actual = [step for step in range(plan.total_steps) if plan.is_validation_step(step)]
    assert actual == validations
    expected = pytest.approx(factors)
    assert [plan.get_learning_rate_factor(step) for step in range(plan.total_steps)] == expected
