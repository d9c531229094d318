"""Parameters of a lexical system: index, model, expansion; tuned on judgments and stored as a checkpoint.

Its checkpoint: config.json (what `Parameters` holds), metrics.json, provenance.json (hashes), README.md.
"""

from __future__ import annotations

import hashlib
from functools import cached_property
from pathlib import Path

import msgspec

from submission.disk.provenance import read_config
from submission.retrieval.lexical import BM25, RM3, Dirichlet
from submission.retrieval.terms import Settings


class Parameters(msgspec.Struct, frozen=True, dict=True, forbid_unknown_fields=True):
    """The parameters of a lexical system."""

    version: str  # of the code that tuned it
    index: Settings
    model: BM25 | Dirichlet
    expansion: RM3 | None
    enrichment: str | None = None  # the checkpoint whose words are indexed in place of the texts' own

    @cached_property
    def fingerprint(self) -> str:
        """The hash of all that decides lists beside the enrichment."""
        return hashlib.sha256(msgspec.json.encode((self.index, self.model, self.expansion), order="sorted")).hexdigest()

    def formula(self) -> str:
        """The parameters in words."""
        own = [f"{name} {value}" for name, value in msgspec.structs.asdict(self.model).items()]
        words = f"{type(self.model).__name__}: {', '.join(own)}; stemmer {self.index.stemmer}"
        if self.enrichment is not None:
            words = f"{words}; words of {self.enrichment}"
        if self.expansion is None:
            return words
        more = [f"{name} {value}" for name, value in msgspec.structs.asdict(self.expansion).items()]
        return f"{words}; RM3: {', '.join(more)}"


def open_parameters(directory: Path) -> Parameters:
    """Read such a directory. Raises CheckpointError: it is missing or damaged."""
    return read_config(directory, Parameters)
