"""Load tagger checkpoints (see `checkpoint_io`); the probe consists of texts with their token
annotations."""

from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, Self

import msgspec

from aragorn.errors import CheckpointError, abbreviate
from aragorn.inference.checkpoint_io import (
    PROBE_TEXTS_CHANGED,
    EncoderReference,
    NetworkCheckpoint,
    build_from_config,
)
from aragorn.inference.ranker_checkpoint import PROBE_PAIRS, TOLERANCE
from aragorn.models.tagger import PassageTokeniser, Tagger, TokenAnnotation
from aragorn.models.taggers import get_tagger_class

PROBE_SENTENCES = (
    "Zoos are cruel! Are they? Yes, they are (mostly).\nThey keep wild animals in cages; for what "
    "… " * 20
)
PROBE_TEXTS = (*(text for _, text in PROBE_PAIRS), PROBE_SENTENCES)


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
        stored_tokens, current_tokens = (
            list(chain.from_iterable(probe.passages)) for probe in (self, recomputed)
        )
        mismatch = next(
            (
                pair
                for pair in zip_longest(stored_tokens, current_tokens)
                if None in pair or _differs(*pair)
            ),
            None,
        )
        stored_sizes, current_sizes = (
            list(map(len, probe.passages)) for probe in (self, recomputed)
        )
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
    """Return whether two annotations differ in weight by more than the tolerance, or in any other
    field."""
    tolerance = TOLERANCE * max(1, abs(stored.weight))
    return (
        stored._replace(weight=current.weight) != current
        or abs(stored.weight - current.weight) > tolerance
    )


class TaggerCheckpoint(NetworkCheckpoint[Tagger[Any], PassageTokeniser[Any]]):
    """A loaded tagger and its passage tokeniser."""

    name_key = "tagger"
    probe_type = TaggerProbe

    find_network_class = staticmethod(get_tagger_class)

    @classmethod
    def build(cls, directory: Path, config: Any) -> tuple[Tagger[Any], PassageTokeniser[Any]]:
        fields = msgspec.convert(config, TaggerConfig)
        tagger = build_from_config(get_tagger_class(fields.tagger), fields.config)
        return tagger, tagger.tokeniser_class.load(directory, tagger.config)

    @staticmethod
    def run_probe(network: Tagger[Any], tokeniser: PassageTokeniser[Any]) -> list[TaggerProbe]:
        """Annotate the passages of each probe text, one passage at a time."""
        return [
            TaggerProbe(text, [network.annotate([passage])[0] for passage in tokeniser.split(text)])
            for text in PROBE_TEXTS
        ]


load_tagger = TaggerCheckpoint.load
