"""Define components, retrievals (topics and their rankings), and stages, which compute rankings."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import msgspec
import numpy as np

from aragorn.cache import Parts
from aragorn.explanation import Explanation
from aragorn.io.dataset import Dataset
from aragorn.pipeline.session import CheckpointStore, Collection, Memo, Session
from aragorn.rankings import decode_rankings, encode_rankings, rank_by_score, validate_rankings
from aragorn.versions import describe_versions

if TYPE_CHECKING:  # it imports torch, which lexical systems do not need
    import pandas as pd

    from aragorn.inference.pair_scoring import TokenCache

READERS = ("aragorn.io.document_store", "aragorn.io.runs")  # modules that read an input


class Component(ABC):
    """Part of a system: a frozen dataclass, so that equal components are computed once."""

    version: ClassVar[int]  # raised when results of the same inputs change
    # modules and libraries that it computes with, besides those of its bases
    computes_with: ClassVar[tuple[str, ...]] = ()
    uses_torch: ClassVar[bool] = False  # whether torch, which is slow to import, is one of them
    checkpoint: str | None  # name of the checkpoint; None if parameter-free

    def get_dependencies(self) -> tuple[Component, ...]:
        """Return the components that this component depends on directly."""
        return ()

    def load_checkpoint(self, checkpoints: CheckpointStore) -> Any:
        """Load the checkpoint, which has a fingerprint; return None if the component has none."""
        return None

    def find_missing_checkpoints(self, checkpoints: CheckpointStore) -> list[str]:
        """Return the names of missing checkpoints, dependencies first."""
        required_names = dict.fromkeys(
            component.checkpoint for component in iter_components(self) if component.checkpoint
        )
        return [name for name in required_names if not checkpoints.has(name)]

    def get_fingerprints(self, checkpoints: CheckpointStore) -> dict[str, str]:
        """Return the fingerprints of all required checkpoints, or raise CheckpointError."""
        by_name = {
            component.checkpoint: component.get_fingerprint(checkpoints)
            for component in iter_components(self)
        }
        return {name: value for name, value in by_name.items() if name and value}

    def get_fingerprint(self, checkpoints: CheckpointStore) -> str | None:
        """Return the checkpoint's fingerprint, without loading a network; None without any."""
        checkpoint = self.load_checkpoint(checkpoints)
        return None if checkpoint is None else checkpoint.fingerprint

    def describe_checkpoint(self, session: Session) -> str:
        """Describe, for a key, the checkpoint and what else affects its results; or ""."""
        return self.get_fingerprint(session.checkpoints) or ""

    def describe_results(self, session: Session) -> str:
        """Describe, for a key, what affects the results besides settings and input."""
        return f"{describe_versions(type(self))} {self.describe_checkpoint(session)}"

    def build_index(self, collection: Collection) -> None:  # noqa: B027  most have no index
        """Build and cache everything that this component can compute without topics."""

    def select_unindexed(self, collection: Collection, documents: pd.DataFrame) -> pd.DataFrame:
        """Return the `documents` without results cached by text: by default all."""
        return documents

    def is_indexed(self, collection: Collection) -> bool:
        """Return whether a query does not first have to wait for `build_index`."""
        return True


def iter_components(component: Component) -> Iterator[Component]:
    """Yield a component and its transitive dependencies, each once, dependencies first."""
    visited: set[Component] = set()

    def visit(current: Component) -> Iterator[Component]:
        if current not in visited:
            visited.add(current)
            for dependency in current.get_dependencies():
                yield from visit(dependency)
            yield current

    return visit(component)


@dataclass(frozen=True)
class Queries:
    """Topics `qid query` that are asked once, so that their results are not cached on disk."""

    topics: pd.DataFrame
    ranking_file: None = None
    fingerprint: None = None

    def get_input_run(self, find_unknown: Callable[[Iterable[str]], set[str]]) -> None:
        """Return None: there is no input run."""


Request = Dataset | Queries


class Retrieval:
    """Topics, an input run or none, and their rankings, each of which is computed once."""

    def __init__(self, request: Request, collection: Collection) -> None:
        self.collection = collection
        self.session = collection.session
        self.input_file = request.ranking_file
        self._request = request
        self.memo = Memo()
        self.errors: dict[Stage, Exception] = {}

    @property
    def topics(self) -> pd.DataFrame:
        return self._request.topics

    def get_query(self, qid: str) -> str:
        [query] = self.topics.loc[self.topics["qid"] == qid, "query"]
        return str(query)

    @property
    def input_run(self) -> pd.DataFrame | None:
        """Input run `qid docno rank score`; None if there is none."""
        find_unknown = self.collection.documents.find_unknown
        return self.memo.once(
            "input run", "input run", lambda: self._request.get_input_run(find_unknown)
        )

    @property
    def tokens(self) -> TokenCache:
        from aragorn.inference.pair_scoring import TokenCache

        read_texts = self.collection.documents.read_texts
        stopwatch = self.collection.stopwatch
        return self.memo.once(
            "tokens", "tokens", lambda: TokenCache(self.topics, read_texts, stopwatch)
        )

    def rank(self, stage: Stage) -> pd.DataFrame:
        """Return a stage's ranking, computed once; if that failed, raise its error again."""
        if stage in self.errors:
            raise self.errors[stage]
        try:
            return self.memo.once(stage, "ranking", lambda: self._load_or_rank(stage))
        except Exception as error:
            self.errors[stage] = error
            raise

    def compute_key(self, component: Component) -> str:
        """Hash everything that affects a component's results."""
        parts = [
            repr(component),
            self.describe_request(),
            component.describe_results(self.session),
            *map(self.compute_key, component.get_dependencies()),
        ]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def describe_request(self) -> str:
        """Describe, for a key, the files of the input and the versions of what reads them."""
        return f"{self._request.fingerprint} {describe_versions(*READERS)}"

    def open_pair_parts(self, name: str, description: str, pairs: pd.DataFrame) -> Parts | None:
        """Open the cached scores of pairs `qid docno`; None if they stay in memory."""
        if self._request.fingerprint is None:
            return None
        pairs_hash = hashlib.sha256("\n".join(pairs["qid"] + " " + pairs["docno"]).encode())
        key = self.collection.compute_key(
            description, self._request.fingerprint, pairs_hash.hexdigest()
        )
        return self.session.cache.parts(name, key)

    def _load_or_rank(self, stage: Stage) -> pd.DataFrame:
        if self._request.fingerprint is None:
            return self._rank_and_validate(stage)
        name = f"ranking-{type(stage).__name__.removesuffix('Stage').lower()}"
        if stage.checkpoint:
            name += f"-{stage.checkpoint}"
        content = self.session.cache.get_or_build(
            name, self.compute_key(stage), lambda: encode_rankings(self._rank_and_validate(stage))
        )
        return decode_rankings(content)

    def _rank_and_validate(self, stage: Stage) -> pd.DataFrame:
        ranking = stage.rank(self)
        unknown_docnos = self.collection.documents.find_unknown(ranking["docno"])
        validate_rankings(ranking, self.topics, unknown_docnos)
        return ranking


class Stage(Component):
    """A retrieval or re-ranking method; equal stages produce equal rankings.

    If the retrieval has an input run, a stage ranks exactly its documents; otherwise it searches.
    """

    computes_with: ClassVar[tuple[str, ...]] = ("numpy", "pandas")
    family: ClassVar[str]  # kind of system, for tables of results
    # parameters that can be tuned; None if there are none
    parameters_type: ClassVar[type[msgspec.Struct] | None] = None

    def rank(self, retrieval: Retrieval) -> pd.DataFrame:
        """Rank documents for each topic; callers use `Retrieval.rank`, which does so once."""
        candidates = retrieval.input_run
        if candidates is None:
            return self.search(retrieval)
        return self.rank_pairs(retrieval, candidates)

    def rank_pairs(self, retrieval: Retrieval, pairs: pd.DataFrame) -> pd.DataFrame:
        return rank_by_score(pairs.assign(score=self.score(retrieval, pairs)), retrieval.topics)

    def score_document(self, retrieval: Retrieval, qid: str, docno: str) -> float:
        import pandas as pd

        return float(self.score(retrieval, pd.DataFrame({"qid": [qid], "docno": [docno]})).item())

    @abstractmethod
    def search(self, retrieval: Retrieval) -> pd.DataFrame:
        """Rank documents of the collection; called if there is no input run."""

    @abstractmethod
    def score(self, retrieval: Retrieval, pairs: pd.DataFrame) -> np.ndarray:
        """Compute the scores (N,) of N pairs `qid docno`, whether retrieved or not."""

    @abstractmethod
    def explain(self, retrieval: Retrieval, qid: str, docno: str) -> Explanation:
        """Explain a document's score; raise UsageError if it comes from an input run."""

    def get_candidate_stages(self, checkpoints: CheckpointStore) -> tuple[Stage, ...]:
        """Return the stages whose documents this stage scores; () if it searches the collection."""
        return ()

    def with_parameters(self, parameters: msgspec.Struct) -> Self:
        """Return this stage with parameters of `parameters_type` in place of its checkpoint's."""
        if self.parameters_type is None:
            raise TypeError(f"{type(self).__name__} has no parameters that can be tuned")
        return replace(self, parameters=parameters)  # type: ignore[type-var]  # a dataclass

    def format_formula(self, checkpoints: CheckpointStore) -> str:
        """Return the scoring formula with the checkpoint's parameters on one line, or ""."""
        return ""

    def get_metadata(self, get_name: Callable[[Stage], str]) -> dict[str, Any]:
        """Return the stage's entries for ir-metadata.yml, with names of dependencies."""
        return {}

    def describe_input(self, file: Path) -> str:
        """Describe, for ir-metadata.yml, the documents to rank if `file` is an input run."""
        return f"the documents in {file.name}"
