"""Record which results of a cache directory an execution uses, and describe the unused ones of the
same kinds."""

from contextlib import suppress
from pathlib import Path

from aragorn.errors import abbreviate_list, pluralise
from aragorn.storage.artifact_store import SharedStore
from aragorn.storage.cache_directory import CacheDirectory


class RecordingCacheDirectory(CacheDirectory):
    """Cache directory that records the stores that are opened."""

    def __init__(self, directory: Path | None, fallback_dir: Path) -> None:
        super().__init__(directory, fallback_dir)
        self._used = set[Path]()

    def open_store(self, name: str, key: str) -> SharedStore:
        store = super().open_store(name, key)
        self._used.add(store.directory)
        return store

    def describe_unused(self) -> str:
        """Describe number, size and names of stores that have the name of a used one, but another
        key; "" if there are none.

        Such results were computed from another input, checkpoint or setting, or by another version
        of the code.
        """
        names = {_get_name(directory) for directory in self._used}
        unused = sorted(
            {path for path in self.directory.iterdir() if _get_name(path) in names} - self._used
        )
        if not unused:
            return ""
        results, examples = (
            pluralise(len(unused), "unused result"),
            abbreviate_list([path.name for path in unused]),
        )
        origin = "of other systems, inputs, checkpoints, settings or code"
        return f"{results} {origin} ({sum(map(_measure_size, unused)) / 1e6:.1f} MB); delete them if unneeded: {examples}"


def _measure_size(directory: Path) -> int:
    """Return the total size of a directory's files in bytes, without those that another process
    deletes meanwhile."""
    size = 0
    for file in directory.rglob("*"):
        with suppress(OSError):
            size += file.stat().st_size if file.is_file() else 0
    return size


def _get_name(directory: Path) -> str:
    """Return the name of a store without the hash of its key."""
    return directory.name.rpartition("-")[0]
