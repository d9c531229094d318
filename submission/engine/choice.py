"""The engine that a command line names."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from submission.engine.engine import HERE, Engine
from submission.errors import UsageError


def open_engine(name: str | None, shared: bool = False) -> AbstractContextManager[Engine]:
    """This process, or for "ray" and "ray://HOST:PORT" Ray.

    Args:
        name: of the engine; None: this process.
        shared: of Ray: all nodes have the working directory at the same place.

    Raises:
        UsageError: Ray is not installed; the rest on entering.
    """
    if name is None:
        return nullcontext(HERE)
    try:
        from submission.engine.cluster import connected  # only here: Ray is no requirement
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        raise UsageError("--engine ray: Ray is not installed; `pip install -r requirements-ray.txt`") from None
    return connected(name.partition("://")[2] or None, shared)
