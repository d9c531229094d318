from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from submission.errors import UsageError
from submission.inference.pretrained import PretrainedEncoder
from submission.models.bert import BERTNetwork
from submission.models.rankers import list_rankers
from training.data.datasets.argument_components import tag_set
from training.data.quality import CREDITS
from training.fitting.initialisation import read_encoder_config
from training.fitting.recipe import Recipe, TrainingSettings
from training.fitting.training_loop import Schedule
from training.paths import RECIPES
from training.tasks import load_recipe
from training.tasks.contrastive import ContrastiveSpec
from training.tasks.language_model import LanguageModelSpec
from training.tasks.pairs import PairwiseSpec
from training.tasks.quality import QualitySpec
from training.tasks.tagging import TaggingSpec

GOOD = 'ranker = "knrm"\n[network]\nkernels = 11\n[training]\nepochs = 2\nbatch_size = 32\nmicro_batch_size = 8\n'
QUALITY = 'ranker = "tfr_bert"\n[quality]\ndatasets = ["ukp"]\n'
SNRM = 'ranker = "snrm"\n[contrastive]\nmu = 20\n'
STUDENT = 'ranker = "sbert"\n[augmented_sbert]\npairs = "gold"\n'


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
        network_class(network_class.Config(**derived, **recipe.network))


def test_tagger_recipes_differ_in_data_and_vectors() -> None:
    recipes = {file.stem: load_recipe(file.stem) for file in RECIPES.glob("targer*.toml")}
    tasks = {name: recipe.task for name, recipe in recipes.items()}
    assert {name: (task.datasets, task.vectors) for name, task in tasks.items() if isinstance(task, TaggingSpec)} == {
        f"targer_{name}{end}": (data, vectors)
        for name, data in (("essays", ("essays",)), ("webd", ("webd",)), ("both", ("essays", "webd")))
        for end, vectors in (("", "word2vec"), ("_fasttext", "fasttext"))
    }
    taggers = [recipe for recipe in recipes.values() if isinstance(recipe.task, TaggingSpec)]
    first = recipes["targer_essays"]
    for tagger in taggers:
        assert (tagger.network, tagger.max_terms, tagger.training) == (first.network, first.max_terms, first.training)
        start = recipes[tagger.initial_checkpoint]
        assert isinstance(start.task, LanguageModelSpec)
        assert start.task.surface_vector_method == tagger.task.surface_vector_method
        changed = {name for name, size in tagger.network.items() if start.network[name] != size}
        assert changed == {"dropout", "output_dropout", "longest"}
    assert (first.network["hidden"], first.network["cell"], first.network["dimensions"]) == (200, "lstm", 100)


def test_recipe_defaults_and_overrides(tmp_path: Path) -> None:
    recipe = load_recipe("knrm")
    assert (recipe.training.epochs, recipe.training.validations_per_epoch, recipe.training.margin) == (10, 8, 1.0)
    assert (recipe.training.learning_rate, recipe.training.batch_size) == (1e-3, 32)
    assert (recipe.lengths.query, recipe.lengths.premise) == (10, 100)
    recipe = load_recipe(write(tmp_path, GOOD))
    assert (recipe.network, recipe.training.epochs, recipe.training.micro_batch_size) == ({"kernels": 11}, 2, 8)
    lists = load_recipe("tfr_bert").task
    assert lists == QualitySpec(("ukp",), 12, "list", "logistic")  # without ibm, whose licence is unknown
    assert load_recipe("knrm").task == PairwiseSpec()
    assert not {"quality", "pairs", "task", "clusters"} & {*load_recipe("knrm").to_provenance()}  # defaults are omitted
    snrm = load_recipe("snrm")
    assert isinstance(snrm.task, ContrastiveSpec)
    assert snrm.clusters is not None
    assert snrm.training.batch_size == snrm.training.micro_batch_size  # all premises of the batch are negatives
    assert "clusters" in snrm.to_provenance()
    with pytest.raises(UsageError, match="unknown recipe 'knmr'; did you mean 'knrm'"):
        load_recipe("knmr")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('rankr = "knrm"', "unknown key rankr; did you mean 'ranker'"),
        (GOOD.replace("epochs", "epoch"), "unknown key training.epoch; did you mean 'epochs'"),
        (GOOD.replace("kernels", "kernel"), "unknown key network.kernel; did you mean 'kernels'"),
        (GOOD.replace("kernels", "vocabulary"), "unknown key network.vocabulary"),
        (GOOD + "[lengths]\nqery = 3", "unknown key lengths.qery; did you mean 'query'"),
        (GOOD.replace("knrm", "kmrm"), "unknown ranker 'kmrm'; did you mean 'knrm'"),
        (GOOD.replace("epochs = 2", 'epochs = "two"'), "Expected `int`, got `str` - at `$.training.epochs`"),
        (GOOD.replace("epochs = 2", "epochs = -1"), "Expected `int` >= 0 - at `$.training.epochs`"),
        (GOOD.replace("= 8", "= 12"), "batch_size (32) must be a multiple of training.micro_batch_size (12)"),
        (GOOD + "learning_rate = -1.0", "Expected `float` > 0.0 - at `$.training.learning_rate`"),
        ("ranker = ", "malformed TOML"),
        (GOOD + '[encoder]\nname = "bert"', "knrm has no pretrained encoder; remove [encoder]"),
        ('ranker = "vanilla_bert"\nmax_terms = 5', "vanilla_bert takes its vocabulary from its tokeniser; remove max_terms"),
        ('ranker = "vanilla_bert"\n[lengths]\nquery = 30', "lengths.query is 30; BERT networks read at most 20"),
        (GOOD + "[lengths]\npremise = 0", "lengths.premise is 0; expected at least 1"),
        (GOOD + "max_steps = -1", "Expected `int` >= 0 - at `$.training.max_steps`"),
        (GOOD + "learning_rate = nan", "Expected `float` > 0.0 - at `$.training.learning_rate`"),
        (GOOD.replace("= 11", '= "many"'), "network.kernels: Expected `int`, got `str`"),
        (GOOD + "margin = -1.0", "Expected `float` >= 0.0 - at `$.training.margin`"),
        ("training = 3", "training must be a table"),
        ("seed = 1", "set exactly one of `ranker` and `enricher`"),
        (GOOD + "learning_rate = inf", "Expected `float` < 1e+300 - at `$.training.learning_rate`"),
        (GOOD + '[quality]\ndatasets = ["ukp"]', "[quality] supports tfr_bert, not knrm; change the network or the task table"),
        (GOOD + "[term_weighting]", "[term_weighting] supports deepct, not knrm; change the network"),
        (
            STUDENT.replace('"sbert"', '"knrm"') + 'loss = "cosine"',
            "[augmented_sbert] supports sbert, not knrm; change the network",
        ),
        ('ranker = "tfr_bert"', "tfr_bert cannot be trained on pairs; add its task table"),
        ('enricher = "deepct"', "deepct cannot be trained on pairs; add its task table"),
        ('enricher = "deepct"\n[distillation]', "[distillation] supports rankers, but deepct is an enricher"),
        ('enricher = "deepct"\n[term_weighting]\n[lengths]\nquery = 5', "[lengths] is for rankers; set an enricher's lengths"),
        ('enricher = "targer"\n[tagging]\ndatasets = []', "tagging.datasets is []; expected essays, webd or both"),
        (
            'enricher = "targer"\n[language_model]\nnegative_samples = 0',
            "Expected `int` >= 1 - at `$.language_model.negative_samples`",
        ),
        ("quality = 3\n" + GOOD, "quality must be a table"),
        (QUALITY.replace('"ukp"', '"webis"'), "Invalid enum value 'webis' - at `$.quality.datasets[0]`"),  # testing only
        (QUALITY.replace('"ukp"', '"ukp", "ukp"'), "quality.datasets is ['ukp', 'ukp']; expected ukp, ibm or both"),
        (QUALITY.replace('"ukp"', ""), "quality.datasets is []; expected ukp, ibm or both"),
        (QUALITY + "list_size = 1", "Expected `int` >= 2 - at `$.quality.list_size`"),
        (QUALITY + 'loss = "ndcg"', "Invalid enum value 'ndcg' - at `$.quality.loss`"),
        (QUALITY + "list_sise = 3", "unknown key quality.list_sise; did you mean 'list_size'"),
        (QUALITY + "[training]\nmargin = 2.0", "training.margin applies to [pairs] only; remove it"),
        (GOOD + '[pairs]\nhard_negatives = "bm25"', "Invalid enum value 'bm25' - at `$.pairs.hard_negatives`"),
        (QUALITY + '[pairs]\nhard_negatives = "dirichlet"', "[pairs] and [quality]: a recipe has at most one task table"),
        ('hard_negatives = "dirichlet"\n' + GOOD, "unknown key hard_negatives"),
        (GOOD + '[distillation]\nloss = "kl"', "Invalid enum value 'kl' - at `$.distillation.loss`"),
        (GOOD + "[distillation]\nlist_size = 1", "Expected `int` >= 2 - at `$.distillation.list_size`"),
        (GOOD + "l1_weight = 0.1\n[distillation]", "training.l1_weight applies to [pairs] only; remove it"),
        (SNRM.replace("snrm", "knrm"), "[contrastive] supports snrm, not knrm"),
        (SNRM.replace("20", "0"), "Expected `float` > 0.0 - at `$.contrastive.mu`"),
        (SNRM + "[training]\nmargin = 0.5\n", "training.margin applies to [pairs] only; remove it"),
        (SNRM + "[clusters]\nthreshold = 1.0\n", "Expected `float` < 1.0 - at `$.clusters.threshold`"),
        (SNRM + "[clusters]\nidf = 1.0\n", "unknown key clusters.idf; Valid: rarity_exponent, threshold"),
        (STUDENT + 'loss = "cosin"', "Invalid enum value 'cosin' - at `$.augmented_sbert.loss`"),
        (STUDENT + 'loss = "cosent"\nmax_silver_pairs = 0', "Expected `int` >= 1 - at `$.augmented_sbert.max_silver_pairs`"),
        (QUALITY + "[distillation]", "[distillation] and [quality]: a recipe has at most one task table"),
    ],
)
def test_invalid_recipes_fail(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(UsageError) as error:
        load_recipe(write(tmp_path, text))
    assert words in str(error.value)


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
