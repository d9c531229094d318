"""Parameters of a lexical system (index, model, expansion), tuned on qrels and stored as a checkpoint.

Checkpoint files: config.json (`Parameters`), metrics.json, provenance.json (hashes), README.md.
"""

from __future__ import annotations

import hashlib
from functools import cached_property

import msgspec

from submission.retrieval.lexical import BM25, RM3, Dirichlet
from submission.retrieval.term_index import IndexSettings


class LexicalParameters(msgspec.Struct, frozen=True, dict=True, forbid_unknown_fields=True):
    """The parameters of a lexical system."""

    version: str  # version of the code that tuned it
    index: IndexSettings
    model: BM25 | Dirichlet
    expansion: RM3 | None
    enrichment: str | None = None  # enricher checkpoint whose terms are indexed instead of the texts' own

    @cached_property
    def fingerprint(self) -> str:
        """Hash everything that affects rankings, except the enrichment."""
        return hashlib.sha256(msgspec.json.encode((self.index, self.model, self.expansion), order="sorted")).hexdigest()

    def describe(self) -> str:
        """Describe the parameters in one line."""
        text = f"{type(self.model).__name__}: {_values(self.model)}; stemmer {self.index.stemmer}"
        if self.enrichment is not None:
            text += f"; terms of {self.enrichment}"
        if self.expansion is not None:
            text += f"; RM3: {_values(self.expansion)}"
        return text


def _values(settings: msgspec.Struct) -> str:
    return ", ".join(f"{name} {value}" for name, value in msgspec.structs.asdict(settings).items())
