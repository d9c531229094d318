"""Select the engine by name."""

from contextlib import AbstractContextManager, nullcontext

from submission.engine.base import LOCAL_ENGINE, Engine
from submission.errors import UsageError


def open_engine(name: str | None, shares_cache: bool = False) -> AbstractContextManager[Engine]:
    """Open the local engine, or connect to Ray.

    Args:
        name: `ray` (a temporary cluster on this machine) or `ray://HOST:PORT`; None: local engine.
        shares_cache: Whether all nodes mount the cache directory at the same path.

    Raises:
        UsageError: If Ray is not installed or, on entering the context, cannot be reached or started.
    """
    if name is None:
        return nullcontext(LOCAL_ENGINE)
    try:
        from submission.engine.ray_engine import connect  # optional dependency
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        raise UsageError("--engine ray: Ray is not installed; run `pip install -r requirements-ray.txt`") from None
    return connect(name.partition("://")[2] or None, shares_cache)
