"""Set variables of the current thread."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")


@contextmanager
def set_variable(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Set a variable inside a `with` block; other threads are unaffected."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)
