"""Define sessions (checkpoints, device, precision, cache, engine) and collections, which consist
of documents and of the results that depend on them alone."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock, RLock
from typing import TYPE_CHECKING, Any, TypeVar, cast

from aragorn.cache import Cache, open_cache
from aragorn.engine import FLOAT32, LOCAL_ENGINE, Engine, choose_device, choose_precision
from aragorn.errors import CheckpointError, UsageError, as_memory_errors
from aragorn.io.document_store import (
    Corpus,
    DocumentStore,
    describe_documents,
    open_document_store,
)
from aragorn.paths import get_install_command
from aragorn.storage.atomic_files import recover_directory
from aragorn.storage.checkpoint_directory import as_checkpoint_read_errors, read_config
from aragorn.verbs import ComputationOptions, IndexOptions, RankOptions
from aragorn.versions import describe_versions, get_library_version

if TYPE_CHECKING:  # it imports torch, which lexical systems do not need
    from aragorn.inference.checkpoint import NetworkCheckpoint

T = TypeVar("T")
CheckpointT = TypeVar("CheckpointT", bound="NetworkCheckpoint[Any, Any]")


class Memo:
    """An in-memory cache of results, by owner and name; a failed computation is repeated."""

    def __init__(self) -> None:
        self._results: dict[Hashable, Any] = {}
        # by owner and name; one thread computes, while others wait
        self._locks: dict[Hashable, RLock] = {}
        self._lock = Lock()  # of the locks

    def once(self, owner: Hashable, name: str, compute: Callable[[], T]) -> T:
        """Return the result of the first successful call of `compute` for this owner and name."""
        with self._lock:
            lock = self._locks.setdefault((owner, name), RLock())
        with lock:
            if (owner, name) not in self._results:
                with as_memory_errors(name):
                    self._results[owner, name] = compute()
            return cast(T, self._results[owner, name])


class CheckpointStore:
    """The checkpoints in a directory; each is loaded once, on first use."""

    @as_checkpoint_read_errors()
    def __init__(self, directory: Path, precision: str = FLOAT32) -> None:
        """Open the store; `precision` is the precision of its networks on the CPU."""
        if directory.is_file():
            raise CheckpointError(
                f"{directory}: a file; use a directory of checkpoints, or unpack the archive"
            )
        self.directory = directory
        self.precision = precision
        self._memo = Memo()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle or copy the store without its loaded checkpoints."""
        return CheckpointStore, (self.directory.absolute(), self.precision)

    @as_checkpoint_read_errors()
    def has(self, name: str) -> bool:
        """Return whether a checkpoint exists, restored if its replacement was interrupted."""
        recover_directory(self.directory / name)
        return (self.directory / name).is_dir()

    def load_config(self, name: str, config_type: type[T]) -> T:
        """Load a checkpoint that consists only of a config.json, read as `config_type`."""
        return self._memo.once(
            config_type.__name__, name, lambda: read_config(self.directory / name, config_type)
        )

    def load_network(self, name: str, loader: Callable[[Path], CheckpointT]) -> CheckpointT:
        """Load a network's checkpoint, with the precision of this store."""
        checkpoint = self._memo.once(loader, name, lambda: loader(self.directory / name))
        return replace(checkpoint, precision=self.precision)

    def describe_network(
        self, name: str, checkpoint_type: type[NetworkCheckpoint[Any, Any]]
    ) -> str:
        """Describe fingerprint and version of a network, as part of a key; load no weights."""
        network_class = checkpoint_type.read_network_class(self.directory / name)
        return f"{self.get_fingerprint(name)} {describe_versions(network_class)}"

    def get_fingerprint(self, name: str) -> str:
        """Return the fingerprint of a network's checkpoint; load nothing."""
        from aragorn.inference.checkpoint import read_fingerprint

        return self._memo.once("fingerprint", name, lambda: read_fingerprint(self.directory / name))


@dataclass(frozen=True, eq=False)
class Session:
    """Checkpoints, device, cache and engine; opened once by each command, and shared by threads."""

    checkpoints: CheckpointStore
    device: str
    cache: Cache
    engine: Engine = LOCAL_ENGINE  # distributes shards, which are computed on `device`
    memo: Memo = field(default_factory=Memo, init=False)  # of results of checkpoints alone

    @property
    def computation(self) -> str:
        """Device type, followed by precision and OpenVINO's version unless it is float32."""
        precision = self.checkpoints.precision
        engine = f"openvino {get_library_version('openvino')}"
        return self.device if precision == FLOAT32 else f"{self.device} torch.{precision} {engine}"


@contextmanager
def open_session(
    options: ComputationOptions,
    cache_dir: Path | None,
    fallback_dir: Path,
    engine: Engine = LOCAL_ENGINE,
) -> Iterator[Session]:
    """Open the session of a command with a cache, or a temporary one in `fallback_dir` at need.

    Raises:
        UsageError: If the device or precision is not available.
        OutputError: If the cache directory cannot be created, or a process uses it exclusively.
    """
    device = choose_device(options.device, engine)
    precision = choose_precision(options.precision, device)
    checkpoints = CheckpointStore(options.checkpoint_dir, precision)
    with open_cache(cache_dir, fallback_dir) as cache:
        yield Session(checkpoints, device, cache, engine)


def open_engine(options: RankOptions | IndexOptions) -> AbstractContextManager[Engine]:
    """Open the engine of the options; raise UsageError if they contradict each other, Ray is not
    installed or, on entering, cannot be reached or started."""
    use_ray = options.engine == "ray"
    if options.ray_address and not use_ray:
        raise UsageError("--ray-address requires --engine ray; add it, or omit --ray-address")
    if options.shared_cache and not use_ray:
        raise UsageError("--shared-cache requires --engine ray; add it, or omit --shared-cache")
    if options.shared_cache and not options.cache_dir:
        raise UsageError("--shared-cache requires --cache-dir; add it, or omit --shared-cache")
    if not use_ray:
        return nullcontext(LOCAL_ENGINE)
    try:
        from aragorn.engine.ray_engine import connect  # optional dependency
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        raise UsageError(
            f"--engine ray: Ray is not installed; run `{get_install_command('ray')}`"
        ) from None
    return connect(options.ray_address, options.shared_cache)


class Collection:
    """The searched documents and their indexes, shared by threads."""

    def __init__(self, corpus: Corpus, session: Session) -> None:
        self.session = session
        self.stopwatch = corpus.stopwatch
        self.corpus = corpus
        self.memo = Memo()

    @property
    def documents(self) -> DocumentStore:
        """Document store, opened or built on first use."""
        return self.memo.once(
            "documents", "documents", lambda: open_document_store(self.corpus, self.session.cache)
        )

    def get_index(
        self,
        name: str,
        title: str,
        settings: Hashable,
        describe: Callable[[], str],
        build: Callable[[Path], object],
        open: Callable[[Path], T],
    ) -> T:
        """Return an index of the documents, from memory or the cache, or else built.

        Args:
            name: Name of the cache entry.
            title: Noun phrase for progress and metadata.
            settings: What indexes of this name differ in.
            describe: Describes everything that affects the index, except the documents.
            build: Writes the index to an empty directory.
            open: Opens an index that `build` has written.
        """

        def load() -> T:
            with self.stopwatch.stage(title):
                key = self.compute_key(describe())
                return open(self.session.cache.directory(name, key, build))

        return self.memo.once((name, settings), "index", load)

    def compute_key(self, *parts: str) -> str:
        return " ".join([describe_documents(self.corpus), *parts])
