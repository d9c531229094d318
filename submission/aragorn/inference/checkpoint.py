"""Load checkpoints of networks, which contain everything that inference needs and a probe that
verifies the output.

config.json         code version, name and Config of the network; a ranker's maximum text lengths
model.safetensors   weights without frozen layers of the pretrained encoder; embeddings and encoders
                    in float16
vocabulary.txt or tokenizer.json: tokeniser
probe.json          edge-case texts with expected scores, or annotations of their tokens
metrics.json        validation metrics
provenance.json     training data and settings; hashes of the files above
README.md           model card
"""

import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import msgspec
import safetensors.torch
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from aragorn.engine import FLOAT32
from aragorn.errors import CheckpointError, abbreviate
from aragorn.inference.device import move_to_device
from aragorn.inference.pretrained import PretrainedEncoder
from aragorn.models.network import Network, Ranker, StoredTokeniser, pad
from aragorn.models.rankers import get_ranker_class
from aragorn.models.taggers import PassageTokeniser, Tagger, TokenAnnotation, get_tagger_class
from aragorn.storage.atomic_files import read_regular
from aragorn.storage.checkpoint_directory import (
    CONFIG,
    as_checkpoint_errors,
    read_json,
    read_provenance,
    require_files,
    require_hashes,
    verify_files,
)
from aragorn.text.tokenisers import TOKENISERS, MaxLengths, Tokeniser

VERSION = 1  # of the objects loaded from a checkpoint
COMPUTES_WITH = ("aragorn.text.tokenisers", "numpy", "torch")

WEIGHTS_FILE = "model.safetensors"
PROBE_FILE = "probe.json"
MAX_ENCODER_TENSOR_SIZE = 2**28  # elements; the largest, XLM-R's embeddings, are fewer
TOKENISER_FILES = ("vocabulary.txt", "tokenizer.json")
PROBE_TEXTS_CHANGED = (
    "the stored probe texts differ from those of this version; retrain the network"
)

# absolute for scores up to 1, relative above; differences between machines are smaller
TOLERANCE = 1e-4

PROBE_PAIRS = (
    (
        "Should teachers get tenure?",
        "Teachers, who work hard, should get tenure: it protects them.",
    ),
    (
        "To be, or not to be?",
        "To be or not to be: that is the question!!! that that is the question",
    ),
    (
        "Don't ban women’s 9/11 memorials",
        "The women's memorial cost $1,000,000 in 2011; see http://example.org/a?b=1 for it.",
    ),
    ("zzyzx qwrtp", "brzgl frmpf"),
    ("", "an argument without a question"),
    ("abortion", ""),
    (
        "École 東京 😀 naïve",
        "L’école de 東京 est ouverte 😀😀 — naïve… " + "1234567890" * 5,
    ),
    ("long " * 50, "gun control saves lives and guns " * 100),
    (  # decomposed and full-width letters, a soft hyphen, a zero-width space
        "Is cafe\u0301 culture \uff5a\uff4f\uff4f\uff53?",
        "Teach\u00aders of E\u0301coles, zo\u200bos \uff01",
    ),
)
PROBE_SENTENCES = (
    "Zoos are cruel! Are they? Yes, they are (mostly).\nThey keep wild animals in cages; for what "
    "… " * 20
)
PROBE_TEXTS = (*(text for _, text in PROBE_PAIRS), PROBE_SENTENCES)

NetworkT = TypeVar("NetworkT", bound=Network)
TokeniserT = TypeVar("TokeniserT", bound=StoredTokeniser)
CheckpointT = TypeVar("CheckpointT", bound="NetworkCheckpoint[Any, Any]")


class StoredWeightsMode(TorchFunctionMode):
    """A mode in which networks are built for stored weights: without initial weights, because
    drawing BERT's is slow, and without tensors of `empty` and `zeros` that no file contains."""

    def __init__(self, max_size: int) -> None:
        """Refuse tensors with more than `max_size` elements; raise ValueError for the first."""
        super().__init__()
        self.max_size = max_size

    def __torch_function__(
        self, function: Any, types: object, args: Any = (), kwargs: Any = None
    ) -> Any:
        if getattr(function, "__module__", None) == nn.init.__name__:
            return kwargs["tensor"]
        if function in (torch.empty, torch.zeros):
            size, *_ = args or (kwargs["size"],)
            shape = args if isinstance(size, int) else size
            if math.prod(shape) > self.max_size:
                raise ValueError(
                    f"{CONFIG} describes a tensor of shape {tuple(shape)}, which {WEIGHTS_FILE} "
                    "cannot contain"
                )
        return function(*args, **(kwargs or {}))


class EncoderReference(msgspec.Struct):
    """A reference to the pretrained encoder that contains the frozen layers."""

    name: str
    sha256: str


@dataclass(frozen=True)
class NetworkCheckpoint(ABC, Generic[NetworkT, TokeniserT]):
    """A loaded checkpoint of a network, which is in evaluation mode.

    A checkpoint is pickled as a path; the receiving process loads and verifies the checkpoint once.
    """

    name_key: ClassVar[str]  # config.json key of the network's name
    # type of the probe entries, with check_reproduced
    probe_type: ClassVar[type[Any]]

    network: NetworkT
    tokeniser: TokeniserT
    fingerprint: str  # hash of everything that affects the network's output
    # absolute path of the loaded checkpoint; None if it was not loaded from a directory
    directory: Path | None = None
    precision: str = FLOAT32  # of encoders on a CPU

    @classmethod
    @torch.no_grad()
    def load(cls, directory: Path) -> Self:
        """Load a checkpoint and verify its probe.

        Raises CheckpointError if files are missing, damaged or changed, weights do not fit, or the
        probe is not reproduced.
        """
        hashes = verify_files(directory, (CONFIG, WEIGHTS_FILE, PROBE_FILE))
        with as_checkpoint_errors(directory):
            config = _read_config(directory)
            pretrained = msgspec.convert(config.get("pretrained"), EncoderReference | None)
            max_stored_size = (directory / WEIGHTS_FILE).stat().st_size // 2  # in float16
            max_size = MAX_ENCODER_TENSOR_SIZE if pretrained else max_stored_size
            with StoredWeightsMode(max_size):
                network, tokeniser = cls.build(directory, config)
            frozen_weights = _load_frozen_weights(directory, network, pretrained)
            tensors = frozen_weights | safetensors.torch.load(
                read_regular(directory / WEIGHTS_FILE)
            )
            network.load_state_dict(
                {name: tensor.float() for name, tensor in tensors.items()}, strict=True
            )
            if not tokeniser.fits_embedding(network.get_vocabulary_size()):
                raise ValueError(
                    f"{tokeniser.file} does not match the network's "
                    f"{network.get_vocabulary_size()} embedding rows"
                )
            if not all(bool(tensor.isfinite().all()) for tensor in tensors.values()):
                raise ValueError(f"{WEIGHTS_FILE} contains non-finite values")
            probe_type: Any = list[cls.probe_type]  # type: ignore[name-defined]
            stored_probe = msgspec.json.decode(
                read_regular(directory / PROBE_FILE), type=probe_type
            )
            recomputed_probe = cls.run_probe(network.eval(), tokeniser)
        require_hashes(directory, hashes, (tokeniser.file,))
        if len(stored_probe) != len(recomputed_probe):
            raise CheckpointError(f"{directory / PROBE_FILE}: {PROBE_TEXTS_CHANGED}")
        for stored_entry, recomputed_entry in zip(stored_probe, recomputed_probe, strict=True):
            stored_entry.check_reproduced(directory / PROBE_FILE, recomputed_entry)
        return cls(network, tokeniser, read_fingerprint(directory), directory.absolute())

    @classmethod
    def read_network_class(cls, directory: Path) -> type[NetworkT]:
        """Return a network's class; raise CheckpointError if config.json names none."""
        with as_checkpoint_errors(directory):
            name = {cls.name_key: _read_config(directory)[cls.name_key]}
            return cls.find_network_class(msgspec.convert(name, dict[str, str])[cls.name_key])

    @staticmethod
    @abstractmethod
    def find_network_class(name: str) -> type[NetworkT]:
        """Return the network class with this name. Raises UsageError if there is none."""

    @classmethod
    @abstractmethod
    def build(cls, directory: Path, config: Any) -> tuple[NetworkT, TokeniserT]:
        """Build the network from config.json, and load the tokeniser; both must fit."""

    @staticmethod
    @abstractmethod
    def run_probe(network: NetworkT, tokeniser: TokeniserT) -> list[Any]:
        """Compute the probe entries; the network must be on the CPU and in evaluation mode."""

    def move_network(self, device: str) -> NetworkT:
        """Move the network to a device, with its encoder's precision there; return it."""
        return move_to_device(self.network, device, self.precision)

    def __reduce__(self) -> tuple[Callable[..., Self], tuple[Any, ...]]:
        if self.directory is None:
            raise TypeError("cannot pickle a checkpoint that was not loaded from a directory")
        return _load_in_worker, (type(self), self.directory, self.fingerprint, self.precision)


@cache
def _load_in_worker(
    checkpoint_class: type[CheckpointT], directory: Path, fingerprint: str, precision: str
) -> CheckpointT:
    """Load a checkpoint in a worker; raise CheckpointError if its fingerprint differs."""
    checkpoint = replace(checkpoint_class.load(directory), precision=precision)
    if checkpoint.fingerprint != fingerprint:
        raise CheckpointError(
            f"{directory}: checkpoint {checkpoint.fingerprint[:12]}… differs from the main "
            f"process's ({fingerprint[:12]}…); copy the main process's checkpoint to this path"
        )
    return checkpoint


def read_fingerprint(directory: Path) -> str:
    """Hash config.json and the listed hashes of weights and tokeniser, or raise CheckpointError."""
    hashes = read_provenance(directory).files
    [tokeniser_file] = {*TOKENISER_FILES} & {*hashes} or {""}
    require_hashes(directory, hashes, (WEIGHTS_FILE, tokeniser_file or TOKENISER_FILES[0]))
    with as_checkpoint_errors(directory):
        parts = [_read_config(directory), hashes[WEIGHTS_FILE], hashes[tokeniser_file]]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _read_config(directory: Path) -> dict[str, Any]:
    """Read config.json without the version of the package that wrote it."""
    require_files(directory, (CONFIG,))
    config: dict[str, Any] = read_json(directory / CONFIG)
    del config["version"]
    return config


def build_from_config(network_class: type[NetworkT], values: Mapping[str, Any]) -> NetworkT:
    """Build a network; raise TypeError or ValueError before that if its Config is invalid."""
    network_class.Config(**values)  # rejects unknown fields, which msgspec would ignore
    return network_class(msgspec.convert(values, network_class.Config))


def _load_frozen_weights(
    directory: Path, network: Network, pretrained: EncoderReference | None
) -> dict[str, torch.Tensor]:
    """Load frozen weights that the checkpoint omits; raise CheckpointError for another encoder."""
    frozen_names = network.get_frozen_tensors()
    if not frozen_names or not pretrained:
        return {}
    encoder = PretrainedEncoder(pretrained.name)
    if encoder.sha256 != pretrained.sha256:
        raise CheckpointError(
            f"{directory}: trained with another version of the encoder {pretrained.name}: the "
            f"weights in {encoder.folder} have SHA-256 {encoder.sha256[:12]}…, not "
            f"{pretrained.sha256[:12]}…; {encoder.fix} or retrain the checkpoint"
        )
    return {
        name: tensor
        for name, tensor in encoder.load_encoder_weights().items()
        if name in frozen_names
    }


class RankerProbe(msgspec.Struct):
    """A probe pair with the expected token ids and score."""

    query: str
    premise: str
    query_ids: list[int]
    premise_ids: list[int]
    score: float

    def check_reproduced(self, file: Path, recomputed: Self) -> None:
        """Compare this stored entry with a recomputed one; raise CheckpointError if they differ."""
        if (self.query, self.premise) != (recomputed.query, recomputed.premise):
            raise CheckpointError(f"{file}: {PROBE_TEXTS_CHANGED}")
        has_same_ids = (self.query_ids, self.premise_ids) == (
            recomputed.query_ids,
            recomputed.premise_ids,
        )
        if not (
            has_same_ids
            and abs(self.score - recomputed.score) <= TOLERANCE * max(1, abs(self.score))
        ):
            raise CheckpointError(
                f"{file}: for the query '{abbreviate(self.query)}' this code computes "
                f"{recomputed.describe()}, but the checkpoint stores {self.describe()}; the text "
                "processing or the network has changed: retrain the ranker"
            )

    def describe(self) -> str:
        query, premise = (
            abbreviate(", ".join(map(str, ids))) for ids in (self.query_ids, self.premise_ids)
        )
        return f"ids [{query}], [{premise}] and score {self.score:.6g}"


class RankerConfig(msgspec.Struct, forbid_unknown_fields=True):
    """Fields of a ranker checkpoint's config.json, except the version."""

    ranker: str
    config: dict[str, Any]
    lengths: MaxLengths
    pretrained: EncoderReference | None = None


class RankerCheckpoint(NetworkCheckpoint[Ranker, Tokeniser]):
    """A loaded ranker and its tokeniser."""

    name_key = "ranker"
    probe_type = RankerProbe

    find_network_class = staticmethod(get_ranker_class)

    @classmethod
    def build(cls, directory: Path, config: Any) -> tuple[Ranker, Tokeniser]:
        fields = msgspec.convert(config, RankerConfig)
        ranker = build_from_config(get_ranker_class(fields.ranker), fields.config)
        return ranker, TOKENISERS[ranker.token_unit].load(directory, fields.lengths)

    @staticmethod
    def run_probe(network: Ranker, tokeniser: Tokeniser) -> list[RankerProbe]:
        """Compute the token ids and score of each probe pair, one pair at a time."""
        entries = []
        for query, premise in PROBE_PAIRS:
            query_ids = tokeniser.encode_query(query)
            premise_ids = tokeniser.encode_premise(premise)
            score = network(*pad([query_ids]), *pad([premise_ids])).item()
            entries.append(RankerProbe(query, premise, query_ids, premise_ids, score))
        return entries


load_checkpoint = RankerCheckpoint.load


class TaggerConfig(msgspec.Struct, forbid_unknown_fields=True):
    """Fields of a tagger checkpoint's config.json, except the version."""

    tagger: str
    config: dict[str, Any]
    pretrained: EncoderReference | None = None


class TaggerProbe(msgspec.Struct):
    """A probe text with the expected annotations of each passage."""

    text: str
    passages: list[list[TokenAnnotation]]

    def check_reproduced(self, file: Path, recomputed: Self) -> None:
        """Compare this stored entry with a recomputed one; raise CheckpointError if they differ."""
        if self.text != recomputed.text:
            raise CheckpointError(f"{file}: {PROBE_TEXTS_CHANGED}")
        stored_tokens = chain.from_iterable(self.passages)
        current_tokens = chain.from_iterable(recomputed.passages)
        mismatch = next(
            (
                pair
                for pair in zip_longest(stored_tokens, current_tokens)
                if None in pair or _differs(*pair)
            ),
            None,
        )
        stored_sizes = list(map(len, self.passages))
        current_sizes = list(map(len, recomputed.passages))
        if mismatch or stored_sizes != current_sizes:
            expected, actual = mismatch or (
                f"passages of {stored_sizes} tokens",
                f"passages of {current_sizes} tokens",
            )
            raise CheckpointError(
                f"{file}: for {abbreviate(self.text, 40)!r} this code computes {actual}, but the "
                f"checkpoint stores {expected}; the text processing or the network has changed: "
                "retrain the tagger"
            )


def _differs(stored: TokenAnnotation, current: TokenAnnotation) -> bool:
    """Return whether two annotations differ in weight, beyond the tolerance, or otherwise."""
    tolerance = TOLERANCE * max(1, abs(stored.weight))
    return (
        stored._replace(weight=current.weight) != current
        or abs(stored.weight - current.weight) > tolerance
    )


class TaggerCheckpoint(NetworkCheckpoint[Tagger, PassageTokeniser]):
    """A loaded tagger and its passage tokeniser."""

    name_key = "tagger"
    probe_type = TaggerProbe

    find_network_class = staticmethod(get_tagger_class)

    @classmethod
    def build(cls, directory: Path, config: Any) -> tuple[Tagger, PassageTokeniser]:
        fields = msgspec.convert(config, TaggerConfig)
        tagger = build_from_config(get_tagger_class(fields.tagger), fields.config)
        return tagger, tagger.tokeniser_class.load(directory, tagger.config)

    @staticmethod
    def run_probe(network: Tagger, tokeniser: PassageTokeniser) -> list[TaggerProbe]:
        """Annotate the passages of each probe text, one passage at a time."""
        return [
            TaggerProbe(text, [network.annotate([passage])[0] for passage in tokeniser.split(text)])
            for text in PROBE_TEXTS
        ]


load_tagger = TaggerCheckpoint.load
