"""Describe data and settings compared with Thakur et al. (2021) and Favreau et al. (2022)."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from aragorn.inference.pretrained import PretrainedEncoder
from aragorn.text.tokenisers import MaxLengths, WordPieceTokeniser
from aragorn_training.data.datasets.sentence_pairs import LOADERS, PairDataset
from aragorn_training.data.quality import load_table
from aragorn_training.fitting.recipe import Recipe
from aragorn_training.options import SeedOptions, StudyOptions, input_option
from aragorn_training.sbert.networks import POSITIVE_THRESHOLD
from aragorn_training.studies.argument_quality.protocol import SETTINGS, SettingRunner
from aragorn_training.studies.augmented_sbert.metrics import compute_baseline_metrics
from aragorn_training.studies.augmented_sbert.trial import LOW_THRESHOLD
from aragorn_training.tasks import load_recipe
from aragorn_training.tasks.quality import QualitySpec

FILE = "publication_data.csv"
FIRST_COLUMNS = ("data", "part", "measure")
DIGITS = 4
COLUMNS = ["data", "part", "measure", "value"]
SPLITS = ("train", "dev", "test")
N_SHUFFLES = 100
Row = tuple[str, str, str, float]  # values of COLUMNS


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions, SeedOptions):
    """Options of the study; the seed is that of splits and of shuffled pairs."""

    input_dir: Path = input_option("directory with bws/ and mrpc/, as published")


def run(options: Options) -> pd.DataFrame:
    """Describe the sentence pairs, the argument lists of `prepare quality`, and the recipe of
    TFR-BERT, as COLUMNS; lengths of texts are in characters."""
    directory = options.input_dir
    seed = options.seed
    recipe = load_recipe("tfr_bert")
    rows = [
        row for load in LOADERS.values() for row in _describe_pairs(load(directory, seed), seed)
    ]
    for name in ("ukp", "ibm"):
        table = load_table(options.work_dir, name)
        rows += [*_describe_lists(table, recipe), *_describe_folds(table, name, recipe)]
    return pd.DataFrame([*rows, *_describe_recipe(recipe)], columns=COLUMNS)


def _describe_pairs(gold: PairDataset, seed: int) -> Iterator[Row]:
    """Count pairs, tabulate graded labels, and measure the Jaccard baseline of pairs and of
    shuffled ones, to see whether that of Thakur et al. (2021) is of wrongly paired sentences."""
    for part, frame in zip(SPLITS, (gold.train, gold.dev, gold.test), strict=True):
        yield gold.name, part, "pairs", len(frame)
    if gold.is_binary:
        return
    train = gold.train["label"]
    yield gold.name, "train", "share of dissimilar pairs", (train < LOW_THRESHOLD).mean()
    yield gold.name, "train", "share of similar pairs", (train >= POSITIVE_THRESHOLD).mean()
    for tenth, count in enumerate(np.histogram(train, bins=10, range=(0, 1))[0]):
        measure = f"share of labels from {tenth / 10} to {(tenth + 1) / 10}"
        yield gold.name, "train", measure, count / len(train)
    for part, score in zip(("dev", "test"), compute_baseline_metrics(gold), strict=True):
        yield gold.name, part, "baseline", score
    rng = np.random.default_rng(seed)
    scores = []
    for _ in range(N_SHUFFLES):
        dev, test = (
            frame.assign(second=rng.permutation(frame["second"])) for frame in (gold.dev, gold.test)
        )
        scores.append(compute_baseline_metrics(replace(gold, dev=dev, test=test)))
    for part, values in zip(("dev", "test"), np.array(scores).T, strict=True):
        yield gold.name, part, "baseline of unrelated sentences, mean", values.mean()
        yield gold.name, part, "baseline of unrelated sentences, standard deviation", values.std()


def _describe_lists(table: pd.DataFrame, recipe: Recipe) -> Iterator[Row]:
    """Describe the texts, subwords and labels of lists of arguments."""
    name = table["data"].iloc[0]
    by_topic = table.groupby("topic").size()
    lengths = {"argument": table["premise"].str.len(), "topic": pd.Series(by_topic.index).str.len()}
    yield name, "all", "arguments", len(table)
    yield name, "all", "topics", len(by_topic)
    yield name, "all", "arguments per topic, mean", by_topic.mean()
    for text, values in lengths.items():
        yield name, "all", f"{text} length, mean", values.mean()
        yield name, "all", f"{text} length, minimum", values.min()
        yield name, "all", f"{text} length, maximum", values.max()
    folder = PretrainedEncoder(recipe.encoder.name).folder
    tokeniser = WordPieceTokeniser.load(folder, MaxLengths(10**6, 10**6))
    queries = table["topic"].map(lambda text: len(tokeniser.encode_query(text)))
    premises = table["premise"].map(lambda text: len(tokeniser.encode_premise(text)))
    measure = "subwords of topic and argument, 95th percentile"
    yield name, "all", measure, np.percentile(queries + premises, 95)
    is_complete = (queries <= recipe.lengths.query) & (premises <= recipe.lengths.premise)
    yield name, "all", "arguments not truncated, percent", 100 * is_complete.mean()
    scores = table["score"]
    scaled_scores = (scores - scores.min()) / (scores.max() - scores.min())
    for percentile in (5, 25, 50, 75):
        value = np.percentile(scaled_scores, percentile)
        yield name, "all", f"pointwise label, {percentile}th percentile", value


def _describe_folds(table: pd.DataFrame, name: str, recipe: Recipe) -> Iterator[Row]:
    """Count the topics and arguments of each split, means over folds."""
    runner = SettingRunner(SETTINGS[name], {name: table}, recipe, "cpu")
    for split in SPLITS:
        parts = [table[runner.mask_split(fold, split)] for fold in range(runner.setting.n_folds)]
        yield name, split, "topics", float(np.mean([part["topic"].nunique() for part in parts]))
        yield name, split, "arguments", float(np.mean([len(part) for part in parts]))


def _describe_recipe(recipe: Recipe) -> Iterator[Row]:
    assert isinstance(recipe.task, QualitySpec)
    yield "tfr_bert", "recipe", "learning rate of the encoder", recipe.encoder.learning_rate
    yield "tfr_bert", "recipe", "epochs", recipe.training.epochs
    yield "tfr_bert", "recipe", "lists per batch", recipe.training.batch_size
    yield "tfr_bert", "recipe", "arguments per list", recipe.task.list_size
    yield "tfr_bert", "recipe", "dropout", recipe.network["dropout"]
