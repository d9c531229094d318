"""A recipe: everything that decides what `fit` trains, read from a TOML file."""

from __future__ import annotations

import tomllib
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_type_hints

import msgspec

from submission import enrichment, rankers
from submission.errors import UsageError, nearest
from submission.rankers.bert import BERTNetwork
from submission.rankers.bert_config import QUERY_LENGTH
from submission.rankers.network import Network
from submission.text.tokenisers import Lengths
from training.fitting.language import LanguageModel
from training.paths import RECIPES

LISTED, TAUGHT = "tfr_bert", "sbert"  # the ranker that learns from lists; the one that may learn from a teacher
WEIGHED, TAGGER = "deepct", "targer"  # the enrichers: one learns from passages, the other from tagged documents
OF_PAIRS = ("margin", "sparsity", "validation_queries")  # settings of Optimisation that other ways to learn do not have
GIVEN = {"vocabulary", "tags", "bert", "cls", "sep", "frozen"}  # fields of a Config that come from data, vocabulary, encoder


@dataclass(frozen=True)
class PretrainedEncoder:
    """What a BERT network starts from."""

    name: str = "all-MiniLM-L6-v2"  # or the name of a folder in checkpoints/encoders
    start: str = ""  # a checkpoint beside the one to be written, whose trained encoder is the start (CEDR: vanilla_bert)
    frozen: int = -1  # so many lowest blocks are not trained, nor the embeddings; -1: everything is
    learning_rate: float = 2e-5
    bfloat16: bool = False  # the encoder under autocast, in training only


@dataclass(frozen=True)
class Optimisation:
    """How the network is trained (thesis, table 4.1)."""

    epochs: int = 10  # 0: none, of a network that comes trained
    steps: int = 0  # fewer steps of the optimiser than the epochs have; 0: all
    validations: int = 8  # an epoch
    learning_rate: float = 1e-3
    warm_up: float = 0.0  # the share of the steps over which all learning rates rise linearly from 0
    decay: bool = False  # all learning rates fall linearly to 0 over the run
    margin: float = 1.0
    sparsity: float = 0.0  # the weight of the L1 norm of latent vectors (SNRM); 0: no such term
    global_batch_size: int = 32  # pairs between two steps of the optimiser
    micro_batch_size: int = 32  # pairs computed at a time
    validation_queries: int = 0  # a seeded part of them picks the checkpoint; 0: all. Final metrics are always of all.


@dataclass(frozen=True)
class Lists:
    """The lists of arguments that a network learns to order by their quality; batches are then counted in lists."""

    data: tuple[Literal["ukp", "ibm"], ...]  # the others are for tests alone
    size: int = 12  # arguments at most
    labels: Literal["list", "topic"] = "list"  # dense ranks within the list, or within the topic that it was taken from
    loss: Literal["mse", "hinge", "logistic", "softmax", "list_mle", "approx_ndcg"] = "softmax"


@dataclass(frozen=True)
class Student:
    """What a student of Augmented SBERT learns from, and how; the encoder's rate and frozen blocks are the student's."""

    loss: Literal["cosine", "cosent", "multiple_negatives"]
    pairs: Literal["gold", "silver", "gold and silver"]
    arguments: int = 2500  # each gives gold two pairs: with its own conclusion, and a premise of another
    k: int = 3  # premises that BM25 finds for a conclusion among those of others
    silver: int = 5000  # pairs of these that the teacher labels, at most


@dataclass(frozen=True)
class Passages:
    """The passages that an enricher learns from, and which words of theirs matter."""

    documents: Literal["all", "unjudged", "unpooled"] = "all"  # which arguments' passages: but the judged, but the found too
    reference: Literal["topic", "conclusion", "both"] = "both"  # words that share a stem with it matter
    most: int = 0  # a seeded part of them; 0: all


@dataclass(frozen=True)
class Tags:
    """The documents whose tags a tagger learns, and by which method its word vectors were made; batches are of passages."""

    data: tuple[Literal["essays", "webd"], ...]
    vectors: Literal["word2vec", "fasttext"] = "word2vec"
    start: str = ""  # a language model's checkpoint beside the one to be written, whose layers are the start


@dataclass(frozen=True)
class Language:
    """The texts whose words a tagger's layers learn to guess, each from those before and from those behind it.

    An example is some passages of like length.
    """

    vectors: Literal["word2vec", "fasttext"] = "word2vec"
    passages: int = 30_000  # that are learned from, at most
    together: int = 16  # of them
    sampled: int = 1_000  # words that stand for all but the right one


@dataclass(frozen=True)
class Distilled:
    """How a network learns another system's scores, which `prepare-distilled` wrote; batches are then counted in lists."""

    loss: Literal["mse", "margin_mse"] = "margin_mse"  # of the scores, or of the differences between two documents'
    size: int = 12  # documents of a list at most


@dataclass(frozen=True)
class Recipe:
    """A network, its sizes, its text lengths, its training."""

    ranker: str | None = None  # either this or the next
    enricher: str | None = None
    seed: int = 0
    terms: int = 0  # the vocabulary: so many most frequent words of what `embed` wrote; 0: all
    network: dict[str, Any] = field(default_factory=dict)  # fields of the ranker's Config
    lengths: Lengths = field(default_factory=Lengths)
    encoder: PretrainedEncoder = field(default_factory=PretrainedEncoder)  # BERT networks only
    training: Optimisation = field(default_factory=Optimisation)
    unrelated: Literal["dirichlet"] | None = None  # what a search finds for a conclusion; None: of the least similar ones
    lists: Lists | None = None  # what it learns from; without this and those below, pairs of a related and an unrelated premise
    student: Student | None = None
    passages: Passages | None = None
    tags: Tags | None = None
    language: Language | None = None
    distilled: Distilled | None = None
    remark: str | None = None  # for the checkpoint's card

    @property
    def network_class(self) -> type[Network]:
        """What it trains. Raises UsageError: there is none of that name."""
        if self.language:
            return LanguageModel
        return rankers.find(self.ranker) if self.ranker is not None else enrichment.find(self.enricher or "")

    @property
    def written(self) -> Literal["word2vec", "fasttext"] | None:
        """The method that made its vectors, where they are of words as they are written."""
        learned = self.tags or self.language
        return learned.vectors if learned else None

    @property
    def start(self) -> str:
        """The checkpoint that its network starts from, if it does."""
        return self.tags.start if self.tags else self.encoder.start

    def told(self) -> dict[str, Any]:
        """All of it, for a checkpoint's provenance; of what only some have nothing, where it is not there."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def read_recipe(name: str) -> Recipe:
    """Read a recipe by its name in training/recipes or by a path.

    Raises:
        UsageError: no such recipe, malformed TOML, an unknown key, a value of another type, settings that contradict.
    """
    file = Path(name) if name.endswith(".toml") else RECIPES / f"{name}.toml"
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError:
        raise UsageError(f"no recipe {name!r}; {nearest(name, (path.stem for path in RECIPES.glob('*.toml')))}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: malformed TOML ({error})") from None
    _refuse_unknown(file, "", values, Recipe)
    _refuse_unknown(file, "lengths.", values.get("lengths", {}), Lengths)
    _refuse_unknown(file, "encoder.", values.get("encoder", {}), PretrainedEncoder)
    _refuse_unknown(file, "training.", values.get("training", {}), Optimisation)
    _refuse_unknown(file, "lists.", values.get("lists", {}), Lists)
    _refuse_unknown(file, "student.", values.get("student", {}), Student)
    _refuse_unknown(file, "passages.", values.get("passages", {}), Passages)
    _refuse_unknown(file, "tags.", values.get("tags", {}), Tags)
    _refuse_unknown(file, "language.", values.get("language", {}), Language)
    _refuse_unknown(file, "distilled.", values.get("distilled", {}), Distilled)
    try:
        recipe = msgspec.convert(values, Recipe)
    except msgspec.ValidationError as error:
        raise UsageError(f"{file}: {error}") from None
    if (recipe.ranker is None) == (recipe.enricher is None):
        raise UsageError(f"{file}: expected `ranker` or `enricher`, the name of a network")
    _refuse_unknown(file, "network.", recipe.network, recipe.network_class.Config, hidden=GIVEN)
    types = get_type_hints(recipe.network_class.Config)
    for key, value in recipe.network.items():
        try:
            msgspec.convert(value, types[key])
        except msgspec.ValidationError as error:
            raise UsageError(f"{file}: network.{key}: {error}") from None
    _refuse_contradictions(file, recipe)
    return recipe


def _refuse_unknown(file: Path, place: str, values: object, kind: type[Any], hidden: set[str] | None = None) -> None:
    valid = {item.name for item in fields(kind)} - (hidden or set())
    if not isinstance(values, dict):
        raise UsageError(f"{file}: {place.rstrip('.')} must be a table")
    for key in values:
        if key not in valid:
            raise UsageError(f"{file}: unknown key {place}{key}; {nearest(key, valid)}")


def _refuse_contradictions(file: Path, recipe: Recipe) -> None:
    training = recipe.training
    least = {"epochs": 0, "validations": 1, "global_batch_size": 1, "micro_batch_size": 1, "steps": 0, "validation_queries": 0}
    values = {f"training.{name}": (getattr(training, name), bound) for name, bound in least.items()}
    values |= {f"lengths.{name}": (getattr(recipe.lengths, name), 1) for name in ("query", "premise")}
    values |= {"terms": (recipe.terms, 0), "seed": (recipe.seed, 0), "encoder.frozen": (recipe.encoder.frozen, -1)}
    for name, (value, bound) in values.items():
        if value < bound:
            raise UsageError(f"{file}: {name} is {value}; expected {bound} or more")
    for name, rate in (("training", training.learning_rate), ("encoder", recipe.encoder.learning_rate)):
        if not 0 < rate < float("inf"):
            raise UsageError(f"{file}: {name}.learning_rate is {rate}; expected a number above 0")
    for name, number in (("margin", training.margin), ("sparsity", training.sparsity)):
        if not 0 <= number < float("inf"):
            raise UsageError(f"{file}: training.{name} is {number}; expected a number from 0")
    if not 0 <= training.warm_up <= 1:
        raise UsageError(f"{file}: training.warm_up is {training.warm_up}; expected a share from 0 to 1")
    if training.global_batch_size % training.micro_batch_size:
        raise UsageError(
            f"{file}: training.global_batch_size ({training.global_batch_size}) must be a multiple of "
            f"training.micro_batch_size ({training.micro_batch_size})"
        )
    name, is_bert = recipe.network_class.name(), issubclass(recipe.network_class, BERTNetwork)
    if is_bert and recipe.lengths.query > QUERY_LENGTH:
        raise UsageError(
            f"{file}: lengths.query is {recipe.lengths.query}; a BERT network's query has {QUERY_LENGTH} positions"
        )
    if recipe.terms if is_bert else recipe.encoder != PretrainedEncoder():
        raise UsageError(f"{file}: {name} has no {'terms: its tokenizer decides' if is_bert else 'encoder'}; remove it")
    if (recipe.ranker == LISTED) != (recipe.lists is not None):
        raise UsageError(f"{file}: {LISTED} learns from [lists], other rankers from pairs; change the ranker or the table")
    sources = ("unrelated", "lists", "student", "distilled", "passages", "tags", "language")
    learned = [name for name in sources if getattr(recipe, name)]
    if len(learned) > 1:
        raise UsageError(f"{file}: {' and '.join(learned)}: a network learns from one of them; remove the others")
    if (recipe.enricher == WEIGHED) != (recipe.passages is not None):
        raise UsageError(f"{file}: {WEIGHED} learns from [passages], and nothing else does; change the network or the table")
    if (recipe.enricher == TAGGER) != (recipe.tags is not None or recipe.language is not None):
        raise UsageError(
            f"{file}: {TAGGER} learns from [tags] or, before that, [language], and nothing else does; "
            "change the network or the table"
        )
    if recipe.tags and (not recipe.tags.data or len(set(recipe.tags.data)) < len(recipe.tags.data)):
        raise UsageError(f"{file}: tags.data is {list(recipe.tags.data)}; expected essays, webd or both")
    if recipe.language:
        for name in ("passages", "together", "sampled"):
            if getattr(recipe.language, name) < 1:
                raise UsageError(f"{file}: language.{name} is {getattr(recipe.language, name)}; expected 1 or more")
    if recipe.student and recipe.ranker != TAUGHT:
        raise UsageError(f"{file}: {name} is no student of Augmented SBERT, {TAUGHT} is; remove [student]")
    if recipe.student:
        for name in ("arguments", "k", "silver"):
            if getattr(recipe.student, name) < 1:
                raise UsageError(f"{file}: student.{name} is {getattr(recipe.student, name)}; expected 1 or more")
    if recipe.lists and (not recipe.lists.data or len(set(recipe.lists.data)) < len(recipe.lists.data)):
        raise UsageError(f"{file}: lists.data is {list(recipe.lists.data)}; expected ukp, ibm or both")
    for name in ("lists", "distilled"):
        if (lists := getattr(recipe, name)) and lists.size < 2:
            raise UsageError(f"{file}: {name}.size is {lists.size}; expected 2 or more")
    if recipe.lists or recipe.distilled or recipe.enricher:
        for key in OF_PAIRS:
            if getattr(training, key) != getattr(Optimisation(), key):
                raise UsageError(f"{file}: training.{key} is of pairs; remove it")
    if recipe.enricher and recipe.lengths != Lengths():
        raise UsageError(f"{file}: lengths are a ranker's; an enricher's are in [network]")
