"""Work that is cut into parts, each kept in a file when it is finished: an execution that was killed makes the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Generic

import torch

from submission.disk.kept import Kept, written
from submission.engine.engine import Engine, P, computed
from submission.progress import progress_of


@dataclass(frozen=True)
class Part(Generic[P]):
    """A part of some work."""

    name: str  # of the file that it is kept in
    size: int  # how many units of work it is
    given: Callable[[], P]  # what it is computed from: read when it is handed out, not before
    travels: bool = False  # whether that can be read by any process which has the working directory


def kept_parts(
    function: Callable[[P], bytes],
    parts: Sequence[Part[P]],
    kept: Kept,
    engine: Engine,
    device: torch.device,
    what: str,
    unit: str,
) -> Callable[[int], bytes]:
    """Compute all parts that are not there; the content of each, by its number, is then read as it is asked for.

    Args:
        function: gives the content of a part's file.
        parts: all of the work, the same whoever computes it.
        kept: where they are kept; it must be of this very work.
        engine: where they are computed.
        device: what a part occupies there.
        what: the name of the work, for people.
        unit: what is counted, in the plural.

    Raises:
        What the function raises. OutputError: a file cannot be written.
    """
    missing = [number for number, part in enumerate(parts) if kept.key(part.name) is None]
    if missing:
        some = {number: parts[number] for number in missing}
        made = (_written_there if engine.shared else _written_here)(function, some, kept, engine, device)
        sized = ((number, some[number].size) for number in made)
        for _ in progress_of(sized, sum(part.size for part in some.values()), what, unit):
            pass

    def content_of(number: int) -> bytes:
        part = parts[number]
        return kept.content(part.name, lambda: computed(engine, function, part.given(), device))  # where it is damaged since

    return content_of


def _written_here(
    function: Callable[[P], bytes], parts: Mapping[int, Part[P]], kept: Kept, engine: Engine, device: torch.device
) -> Iterator[int]:
    """Yield the numbers of parts as this process has read them and keeps what comes back."""
    for number, content in engine.map(function, ((number, part.given()) for number, part in parts.items()), device):
        kept.write(parts[number].name, content)
        yield number


def _written_there(
    function: Callable[[P], bytes], parts: Mapping[int, Part[P]], kept: Kept, engine: Engine, device: torch.device
) -> Iterator[int]:
    """Yield the numbers of parts as workers have read and written them: only names and hashes come back."""
    write = Written(function, kept.directory.absolute())
    given = ((number, (part.name, _anywhere(part))) for number, part in parts.items())
    for number, xxh3 in engine.map(write, given, device):
        kept.enter(parts[number].name, xxh3)
        yield number


@dataclass(frozen=True)
class Written(Generic[P]):
    """Computes a part and writes it, in any process that has the directory."""

    function: Callable[[P], bytes]
    directory: Path

    def __call__(self, part: tuple[str, Callable[[], P]]) -> str:
        """The hash of what was written. Raises what the function raises; OutputError."""
        name, given = part
        return written(self.directory / name, self.function(given()))


def _anywhere(part: Part[P]) -> Callable[[], P]:
    """What gives a part in another process: read there if that can be, else brought along."""
    return part.given if part.travels else partial(_as_it_is, part.given())


def _as_it_is(value: P) -> P:
    return value
