"""The base class of stages that fuse several rankings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from submission.errors import CheckpointError, InputError, OutputError
from submission.fusion.members import MadeWith
from submission.systems.execution import Stage, walk
from submission.systems.remembered import Checkpoints


class Model(Protocol):
    """A model that was fitted to the members' scores."""

    def refuse_others(self, made_with: MadeWith) -> None:
        """Raises CheckpointError: it was fitted with others."""


M = TypeVar("M", bound=Model)


@dataclass(frozen=True)
class Fusion(Stage):
    """A stage over the scores of others, its members, named as when it was fitted."""

    members: tuple[tuple[str, Stage], ...]
    checkpoint: str

    def made_of(self) -> tuple[Stage, ...]:
        return tuple(stage for _, stage in self.members)

    def model(self, checkpoints: Checkpoints, how: Callable[[Path], M]) -> M:
        """Open the fitted model. Raises CheckpointError: fitted with other members, or with other checkpoints of these."""
        found = checkpoints.opened(self.checkpoint, how)
        try:
            found.refuse_others(self.made_with(checkpoints))
        except CheckpointError as error:
            raise CheckpointError(f"{checkpoints.directory / self.checkpoint}: {error}") from None
        return found

    def made_with(self, checkpoints: Checkpoints) -> dict[str, dict[str, str]]:
        """By the members' names, the fingerprints of all checkpoints that each is made with. Raises CheckpointError."""
        found: dict[str, dict[str, str]] = {}
        for name, stage in self.members:
            with needed(name):
                opened = {part.checkpoint: part.opened(checkpoints) for part in walk(stage)}
            found[name] = {checkpoint: one.fingerprint for checkpoint, one in opened.items() if checkpoint and one}
        return found

    def metadata(self, name: Callable[[Stage], str]) -> dict[str, Any]:
        return {"interpolates": [name(stage) for _, stage in self.members]}


@contextmanager
def needed(member: str) -> Iterator[None]:
    """Let a failure within say which member it is of."""
    try:
        yield
    except (InputError, OutputError):
        raise  # not this member's fault
    except CheckpointError as error:
        raise CheckpointError(f"it needs {member}, which failed: {error}") from None
    except Exception as error:  # an internal error
        raise RuntimeError(f"it needs {member}, which failed: {error}") from error
