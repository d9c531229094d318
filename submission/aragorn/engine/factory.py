"""Select the engine by name."""

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Protocol

from aragorn.engine.base import LOCAL_ENGINE, Engine
from aragorn.errors import UsageError


class EngineOptions(Protocol):
    """Options of a command that choose its engine, as described by its --help."""

    @property
    def engine(self) -> str: ...
    @property
    def ray_address(self) -> str | None: ...
    @property
    def shared_cache(self) -> bool: ...
    @property
    def cache_dir(self) -> Path | None: ...


def open_chosen_engine(options: EngineOptions) -> AbstractContextManager[Engine]:
    """Open the engine that the options choose. Raises UsageError if they contradict each other, or
    as `open_engine` does."""
    use_ray = options.engine == "ray"
    if options.ray_address and not use_ray:
        raise UsageError("--ray-address requires --engine ray; add it, or omit --ray-address")
    if options.shared_cache and not use_ray:
        raise UsageError("--shared-cache requires --engine ray; add it, or omit --shared-cache")
    if options.shared_cache and not options.cache_dir:
        raise UsageError("--shared-cache requires --cache-dir; add it, or omit --shared-cache")
    address = f"://{options.ray_address}" if options.ray_address else ""
    return open_engine(f"ray{address}" if use_ray else None, options.shared_cache)


def open_engine(name: str | None, shares_cache: bool = False) -> AbstractContextManager[Engine]:
    """Open the local engine, or connect to Ray.

    Args:
        name: `ray` (a temporary cluster on this machine) or `ray://HOST:PORT`; None: local engine.
        shares_cache: Whether all nodes mount the cache directory at the same path.

    Raises:
        UsageError: If Ray is not installed or, on entering the context, cannot be reached or
            started.
    """
    if name is None:
        return nullcontext(LOCAL_ENGINE)
    try:
        from aragorn.engine.ray_engine import connect  # optional dependency
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        raise UsageError(
            "--engine ray: Ray is not installed; run `submission/install.sh ray`"
        ) from None
    return connect(name.partition("://")[2] or None, shares_cache)
