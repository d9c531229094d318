"""Execute functions on a Ray cluster.

Ray manages resources, retries and node failures. All nodes need the same Ray version, and the same
code and checkpoints at the same paths, for example from one container image; only inputs and
results are transferred.
"""

import logging
import os
import pickle
import secrets
import shutil
import signal
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, chdir, contextmanager
from functools import lru_cache
from itertools import islice
from tempfile import TemporaryDirectory
from typing import Any

import ray
import torch
from ray.exceptions import RayTaskError

from aragorn.engine import Engine, Item, Result
from aragorn.errors import SubmissionError, UsageError
from aragorn.paths import PACKAGE_DIR
from aragorn.signals import SIGNAL_EXIT_CODES, on_interrupt
from aragorn.threads import count_cpu_cores
from aragorn.versions import hash_package

TASKS_PER_WORKER = 2  # tasks queued per worker, so that no worker waits
CONNECT_TIMEOUT = 10.0  # seconds
# Each worker sees all GPUs, because Ray may assign it another one later.
KEEP_ALL_GPUS_VISIBLE = {"env_vars": {"RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES": "1"}}


class RayEngine(Engine):
    """An engine on a Ray cluster; each worker occupies a CPU core, with one thread, or a GPU."""

    def __init__(self, shares_cache: bool = False) -> None:
        self.shares_cache = shares_cache
        n_nodes = sum(node["Alive"] for node in ray.nodes())
        self._n_gpus = _count_units("GPU")
        cpu_cores = _count_units("CPU")
        resources = f"{n_nodes} nodes, {cpu_cores} CPU cores, {self._n_gpus} GPUs"
        self.description = f"Ray {ray.__version__} ({resources})"
        # max_calls=0 keeps workers and their checkpoints alive, on GPUs too.
        self._remote_function = ray.remote(max_calls=0)(_run_on_worker)

    @property
    def has_gpu(self) -> bool:
        return self._n_gpus > 0

    def map(
        self, function: Callable[[Item], Result], items: Iterable[tuple[int, Item]], device: str
    ) -> Iterator[tuple[int, Result]]:
        resources = (
            {"num_gpus": 1, "runtime_env": KEEP_ALL_GPUS_VISIBLE} if device == "cuda" else {}
        )
        remote_function = self._remote_function.options(num_cpus=1, **resources)
        function_ref = ray.put(pickle.dumps(function))
        fingerprint = hash_package()
        pending_items = iter(items)
        running_tasks: dict[ray.ObjectRef[Result], int] = {}
        try:
            while True:
                # nodes may join or leave
                n_workers = max(1, _count_units("GPU" if device == "cuda" else "CPU"))
                queue_size = TASKS_PER_WORKER * n_workers
                for index, item in islice(pending_items, max(0, queue_size - len(running_tasks))):
                    running_tasks[remote_function.remote(function_ref, item, fingerprint)] = index
                if not running_tasks:
                    return
                [ref], _ = ray.wait(list(running_tasks))
                yield running_tasks.pop(ref), _get_result(ref)
        finally:  # cancel the remaining tasks after a failure or if the consumer stops
            for ref in running_tasks:
                ray.cancel(ref)


@contextmanager
def connect(address: str | None, shares_cache: bool = False) -> Iterator[RayEngine]:
    """Connect to the cluster at HOST:PORT, which includes this machine; None: start a local one.

    Raises UsageError if the cluster cannot be reached or Ray cannot be started.
    """
    logging.getLogger("ray").setLevel(logging.ERROR)
    with ExitStack() as stack:
        init_args = {"address": address} if address else _build_local_cluster_args(stack)
        stack.callback(ray.shutdown, wait_for_processes=True)
        try:
            if address:
                host, port = address.split(":")
                # Ray itself would wait for minutes
                socket.create_connection((host, int(port)), CONNECT_TIMEOUT).close()
            # workers import the code from here
            with _preserve_signal_handlers(), chdir(PACKAGE_DIR.parent):
                ray.init(**init_args, configure_logging=False, log_to_driver=False)
        except Exception as error:  # Ray raises Exception itself if a node does not start
            hint = "run on a node of the cluster, with the HOST:PORT printed by `ray start`"
            problem = (
                f"no cluster at {address} ({error}); {hint}"
                if address
                else f"cannot start Ray ({error}); omit --engine ray"
            )
            raise UsageError(f"--engine ray: {problem}") from None
        yield RayEngine(shares_cache)


def _build_local_cluster_args(stack: ExitStack) -> dict[str, Any]:
    temp_dir = stack.enter_context(
        TemporaryDirectory(prefix="aragorn-ray-", ignore_cleanup_errors=True)
    )
    stack.enter_context(on_interrupt(lambda: shutil.rmtree(temp_dir, ignore_errors=True)))
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    # otherwise Ray writes a token to the home directory
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    return {
        "address": "local",
        "num_cpus": count_cpu_cores(),
        "include_dashboard": False,
        "_temp_dir": temp_dir,
    }


@contextmanager
def _preserve_signal_handlers() -> Iterator[None]:
    """Restore the signal handlers of this process, which Ray replaces, after the `with` block."""
    handlers = {signum: signal.getsignal(signum) for signum in SIGNAL_EXIT_CODES}
    try:
        yield
    except SystemExit:  # raised by Ray's handler during start-up
        signal.signal(signal.SIGTERM, handlers[signal.SIGTERM])
        signal.raise_signal(signal.SIGTERM)
    finally:
        for signum, handler in handlers.items():
            signal.signal(signum, handler)


def _count_units(resource: str) -> int:
    return int(ray.cluster_resources().get(resource, 0))


def _get_result(ref: ray.ObjectRef[Result]) -> Result:
    try:
        return ray.get(ref)
    except RayTaskError as error:
        if isinstance(error.cause, SubmissionError):
            raise error.cause from None
        raise


def _run_on_worker(function: bytes, item: Any, fingerprint: str) -> Any:
    """Run a pickled function on an item in a worker process, naming the node in errors."""
    torch.set_num_threads(1)
    gpu_ids = ray.get_gpu_ids()
    if gpu_ids:
        torch.cuda.set_device(find_gpu_index(gpu_ids[0], os.environ.get("CUDA_VISIBLE_DEVICES")))
    try:
        if hash_package() != fingerprint:
            raise UsageError(
                f"{PACKAGE_DIR}: code version differs from the driver's; install the same version "
                "on all nodes"
            )
        return _load_function(function)(item)
    except SubmissionError as error:
        raise type(error)(f"node {ray.util.get_node_ip_address()}: {error}") from None


@lru_cache(maxsize=1)
def _load_function(function: bytes) -> Callable[[Any], Any]:
    """Unpickle a function once, so that later items reuse its loaded checkpoints."""
    return pickle.loads(function)  # type: ignore[no-any-return]


def find_gpu_index(gpu_id: int | str, visible_devices: str | None) -> int:
    """Return the torch index of Ray's GPU: its position in CUDA_VISIBLE_DEVICES, else its id."""
    return visible_devices.split(",").index(str(gpu_id)) if visible_devices else int(gpu_id)
