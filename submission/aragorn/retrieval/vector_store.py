"""Store text vectors in an append-only file that processes share.

vectors.bin  one record per vector: hash of the text (16 bytes), vector (float16), checksum of both
(8 bytes)
"""

import fcntl
import logging
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock

import numpy as np
import xxhash

from aragorn.storage.atomic_files import build_unwritable_error, remove_if_possible

log = logging.getLogger(__name__)

VECTORS_FILE = "vectors.bin"
KEY_SIZE, CHECKSUM_SIZE = 16, 8  # bytes


class VectorStore:
    """Memory-mapped vectors of texts, each keyed by a hash of its text.

    Any number of threads and processes may read and append at the same time. A record without a
    valid checksum, which a killed process leaves, counts as missing.
    """

    def __init__(self, directory: Path, dimension: int) -> None:
        """Open the vectors of a directory, with `dimension` components each; the first `append`
        creates the file."""
        self.directory, self.file, self._rows = (
            directory,
            directory / VECTORS_FILE,
            dict[bytes, int](),
        )
        if self.file.exists() and not self.file.is_file():
            log.warning("%s: not a regular file; replacing it", self.file)
            remove_if_possible(self.file)
        self._record = np.dtype(
            [("key", f"V{KEY_SIZE}"), ("vector", np.float16, dimension), ("checksum", "<u8")]
        )
        self._records, self._lock = np.empty(0, dtype=self._record), Lock()
        self.encoding_lock = Lock()  # held by the thread that encodes missing texts

    @property
    def vectors(self) -> np.ndarray:
        """Memory-mapped vectors (N, V) float16 of all records, including invalid ones."""
        vectors: np.ndarray = self._records["vector"]
        return vectors

    def find(self, keys: Sequence[bytes]) -> np.ndarray:
        """Return the rows (N,) of `vectors` that belong to the texts with these keys; -1 for texts
        without a vector."""
        with self._lock:
            self._map_new_records()
        return np.array([self._rows.get(key, -1) for key in keys], dtype=int)

    def append(self, keys: Sequence[bytes], vectors: np.ndarray) -> None:
        """Append vectors (N, V) float16, and write them to disk. Raises OutputError if writing
        fails."""
        records = np.zeros(len(keys), dtype=self._record)
        records["key"], records["vector"] = np.frombuffer(b"".join(keys), f"V{KEY_SIZE}"), vectors
        records["checksum"] = _compute_checksums(records)
        try:
            with self.file.open("ab", buffering=0) as stream:
                with suppress(OSError):  # a file system without locks
                    fcntl.flock(stream, fcntl.LOCK_EX)
                size = os.fstat(stream.fileno()).st_size
                # the incomplete record of a killed process
                stream.truncate(size - size % self._record.itemsize)
                stream.write(records.tobytes())
                os.fsync(stream.fileno())
        except OSError as error:
            raise build_unwritable_error(self.file, error) from None

    def _map_new_records(self) -> None:
        """Map the records that this or another process has appended since the last call."""
        known_count, count = len(self._records), self._count_records()
        if count > known_count:
            self._records = np.memmap(self.file, self._record, mode="r", shape=(count,))
            records = self._records[known_count:]
            is_valid = records["checksum"] == _compute_checksums(records)
            if not is_valid.all():
                log.warning(
                    "%s: %d damaged vectors; encoding their texts again if needed",
                    self.file,
                    (~is_valid).sum(),
                )
            rows = (known_count + np.flatnonzero(is_valid)).tolist()
            self._rows |= zip(records["key"][is_valid].tolist(), rows, strict=True)

    def _count_records(self) -> int:
        return self.file.stat().st_size // self._record.itemsize if self.file.exists() else 0


def hash_text(input_type: str, text: str) -> bytes:
    """Return the key of a text that is encoded as this type of input (query or premise)."""
    return xxhash.xxh3_128_digest(f"{input_type} {text}".encode(errors="surrogatepass"))


def _compute_checksums(records: np.ndarray) -> np.ndarray:
    """Compute the checksum (N,) uint64 of the key and vector of each record (N,)."""
    content = records.view(np.uint8).reshape(len(records), -1)[:, :-CHECKSUM_SIZE]
    return np.array([xxhash.xxh3_64_intdigest(row.data) for row in content], dtype=np.uint64)
