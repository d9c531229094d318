"""The systems: bm25, every ranker with its checkpoint, and the ensemble."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

from submission import ensemble, rankers
from submission.errors import UsageError, nearest

BM25 = "bm25"
PRIMARY_SYSTEM = "knrm"


@dataclass(frozen=True)
class System:
    """A way to a run: its name, one line on what it is, and where its checkpoint is (bm25 needs none)."""

    name: str
    description: str
    checkpoint: Path | None

    @property
    def present(self) -> bool:
        """Whether it can run: it needs no checkpoint, or has one."""
        return self.checkpoint is None or self.checkpoint.is_dir()


def all_systems(checkpoints: Path) -> list[System]:
    """bm25, all rankers, and the ensemble, present or not."""
    first = System(BM25, "BM25 over the conclusions: the candidates in their order", None)
    last = System(ensemble.NAME, "Ensemble: a linear regression over the networks' scores.", checkpoints / ensemble.NAME)
    return [first, *(System(name, _first_line(name), checkpoints / name) for name in rankers.names()), last]


def choose(names: list[str], checkpoints: Path) -> list[System]:
    """The systems of those names in that order, each once; when no name is given, all that are present and the primary one.

    Raises:
        UsageError: an unknown name.
    """
    systems = {system.name: system for system in all_systems(checkpoints)}
    for name in names:
        if name not in systems:
            raise UsageError(f"unknown system {name!r}; {nearest(name, systems)}")
    if names:
        return [systems[name] for name in dict.fromkeys(names)]
    return [system for system in systems.values() if system.present or system.name == PRIMARY_SYSTEM]  # without it: no run.txt


def _first_line(ranker: str) -> str:
    """The first line of a ranker's file; read, not imported: a list needs no network."""
    module = ast.parse((Path(rankers.__file__).parent / f"{ranker}.py").read_text(encoding="utf-8"))
    return (ast.get_docstring(module) or "").split("\n", 1)[0]
