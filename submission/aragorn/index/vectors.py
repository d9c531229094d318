"""Store text vectors in parts, which processes share: a part has the hashes of its texts (16 bytes
each), then their vectors (float16)."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from threading import Lock
from typing import TypeVar

import numpy as np
import xxhash

from aragorn.cache import Parts

KEY_SIZE = 16  # bytes
MAX_PARTS = 500  # above this number, parts are merged


class VectorStore:
    """Vectors of texts by a hash of each text, for any number of threads and processes.

    A damaged part counts as missing.
    """

    def __init__(self, parts: Parts, dimension: int) -> None:
        """Open the vectors, with `dimension` components each, in a folder of parts."""
        self.parts = parts
        self._dimension = dimension
        self._rows: dict[bytes, int] = {}
        self._known_names: set[str] = set()
        self._blocks = [np.empty((0, dimension), dtype=np.float16)]
        self._lock = Lock()
        self.encoding_lock = Lock()  # held by the thread that encodes missing texts

    @property
    def vectors(self) -> np.ndarray:
        """Vectors (N, V) float16 of all parts that `find` has read."""
        with self._lock:
            if len(self._blocks) > 1:
                self._blocks = [np.concatenate(self._blocks)]
            return self._blocks[0]

    def find(self, keys: Sequence[bytes]) -> np.ndarray:
        """Return the rows (N,) of `vectors` for texts with these keys; -1 if there is none."""
        with self._lock:
            while not self._read_new_parts():
                pass
            return np.array([self._rows.get(key, -1) for key in keys], dtype=int)

    def append(self, keys: Sequence[bytes], vectors: np.ndarray) -> None:
        """Append vectors (N, V) float16 as a part. Raises OutputError if writing fails."""
        with self.parts.lock():
            self._write_part(b"".join(keys), vectors)
            names = self.parts.get_names()
            if len(names) > MAX_PARTS:
                self._merge(names)

    def _write_part(self, keys: bytes, vectors: np.ndarray) -> str:
        name = xxhash.xxh3_128_hexdigest(keys)
        self._known_names.discard(name)  # of a damaged part
        self.parts.write(name, keys + vectors.astype(np.float16).tobytes())
        return name

    def _merge(self, names: Sequence[str]) -> None:
        """Join all parts in one; readers that miss one find it in the other."""
        parts = [part for name in names if (part := self._read_part(name)) is not None]
        keys = b"".join(keys for keys, _ in parts)
        merged_name = self._write_part(keys, np.concatenate([vectors for _, vectors in parts]))
        for name in {*names} - {merged_name}:
            self.parts.remove(name)

    def _read_part(self, name: str) -> tuple[bytes, np.ndarray] | None:
        """Return concatenated keys and vectors (N, V) of a part; None if damaged or gone."""
        content = self.parts.read(name)
        if content is None:
            return None
        n_texts = len(content) // (KEY_SIZE + 2 * self._dimension)
        vectors = np.frombuffer(content, np.float16, offset=n_texts * KEY_SIZE)
        return content[: n_texts * KEY_SIZE], vectors.reshape(n_texts, self._dimension)

    def _read_new_parts(self) -> bool:
        """Read the parts appended since the last call; return whether none is gone."""
        names = [name for name in self.parts.get_names() if name not in self._known_names]
        for name in names:
            part = self._read_part(name)
            if part is None and name not in self.parts.get_names():
                return False  # merged meanwhile
            self._known_names.add(name)
            if part is not None:
                keys, vectors = part
                first_row = sum(map(len, self._blocks))
                starts = range(0, len(keys), KEY_SIZE)
                self._rows |= {
                    keys[start : start + KEY_SIZE]: first_row + row
                    for row, start in enumerate(starts)
                }
                self._blocks.append(vectors)
        return True


def hash_text(input_type: str, text: str) -> bytes:
    """Return the key of a text that is encoded as this type of input (query or premise)."""
    return xxhash.xxh3_128_digest(f"{input_type} {text}".encode(errors="surrogatepass"))


@dataclass(frozen=True)
class EncodingEstimate:
    """Number of texts that a network is encoding, and the expected time of the last one."""

    network: str
    n_texts: int
    end: float  # seconds, as of `time.monotonic`

    @property
    def remaining_seconds(self) -> float:
        return self.end - time.monotonic()

    def __str__(self) -> str:
        seconds = max(1, self.remaining_seconds)
        work = f"encoding {self.n_texts:,} texts without a vector"
        return f"{self.network}: {work}, about {seconds:.0f} s"


Listener = Callable[[EncodingEstimate], object]
encoding_listener: ContextVar[Listener | None] = ContextVar("encoding_listener", default=None)


T = TypeVar("T")


@contextmanager
def set_variable(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Set a variable inside a `with` block; other threads are unaffected."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)
