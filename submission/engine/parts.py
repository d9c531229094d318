"""Work that is cut into parts, each kept in a file when it is finished: an execution that was killed makes the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic

import torch

from submission.disk.kept import Kept
from submission.engine.engine import Engine, P, computed
from submission.progress import progress_of


@dataclass(frozen=True)
class Part(Generic[P]):
    """A part of some work."""

    name: str  # of the file that it is kept in
    size: int  # how many units of work it is
    given: Callable[[], P]  # what it is computed from: read when it is handed out, not before


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
        made = engine.map(function, ((number, parts[number].given()) for number in missing), device)
        sized = ((one, parts[one[0]].size) for one in made)
        for number, content in progress_of(sized, sum(parts[number].size for number in missing), what, unit):
            kept.write(parts[number].name, content)

    def content_of(number: int) -> bytes:
        part = parts[number]
        return kept.content(part.name, lambda: computed(engine, function, part.given(), device))  # where it is damaged since

    return content_of
