"""Define the base class of the parts of systems, with their checkpoints, versions and keys."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING, ClassVar

import pandas as pd

from aragorn.pipeline.collection import Collection
from aragorn.pipeline.session import CheckpointStore, Session
from aragorn.versions import describe_versions

if TYPE_CHECKING:  # it imports torch, which lexical systems do not need
    from aragorn.inference.checkpoint import LoadedCheckpoint


class Component(ABC):
    """Part of a system; subclasses must be frozen dataclasses, so that equal components are
    computed once."""

    version: ClassVar[int]  # raised when results of the same inputs change
    libraries: ClassVar[tuple[str, ...]] = ("numpy", "pandas")  # that compute its results
    checkpoint: str | None  # name of the checkpoint; None: the component has none

    def get_dependencies(self) -> tuple[Component, ...]:
        """Return the components that this component depends on directly."""
        return ()

    def load_checkpoint(self, checkpoints: CheckpointStore) -> LoadedCheckpoint | None:
        """Load the checkpoint; return None if the component has none."""
        return None

    def find_missing_checkpoints(self, checkpoints: CheckpointStore) -> list[str]:
        """Return the names of missing checkpoints, dependencies first."""
        required_names = dict.fromkeys(
            component.checkpoint for component in iter_components(self) if component.checkpoint
        )
        return [name for name in required_names if not checkpoints.has(name)]

    def get_fingerprints(self, checkpoints: CheckpointStore) -> dict[str, str]:
        """Return the fingerprints of all required checkpoints by name. Raises CheckpointError if
        one cannot be loaded."""
        by_name = {
            component.checkpoint: component.get_fingerprint(checkpoints)
            for component in iter_components(self)
        }
        return {name: value for name, value in by_name.items() if name and value}

    def get_fingerprint(self, checkpoints: CheckpointStore) -> str | None:
        """Return the fingerprint of the checkpoint, without loading a network; None if the
        component has none."""
        checkpoint = self.load_checkpoint(checkpoints)
        return None if checkpoint is None else checkpoint.fingerprint

    def get_sources(self) -> tuple[ModuleType | type, ...]:
        """Return the modules and classes whose versions the results of this component have."""
        return ()

    def describe_checkpoint(self, session: Session) -> str:
        """Describe the checkpoint and what else its results depend on, as part of a key; return ""
        if the component has none."""
        return self.get_fingerprint(session.checkpoints) or ""

    def describe_results(self, session: Session) -> str:
        """Describe what affects the results of this component besides its class, settings,
        dependencies and input."""
        versions = describe_versions(*self.get_sources(), libraries=self.libraries)
        return f"{versions} {self.describe_checkpoint(session)}"

    def build_index(self, collection: Collection) -> None:  # noqa: B027  most have no index
        """Build and cache everything that this component needs of the collection and can compute
        without topics."""

    def select_unindexed(self, collection: Collection, documents: pd.DataFrame) -> pd.DataFrame:
        """Return the `documents` without results that `build_index` caches by text: by default
        all."""
        return documents

    def is_indexed(self, collection: Collection) -> bool:
        """Return whether `build_index` has cached all results that would take long to compute for a
        query."""
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
