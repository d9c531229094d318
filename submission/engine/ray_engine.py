"""Run work on a Ray cluster.

Ray handles resources, retries and lost nodes. Every node has the same code, checkpoints and Ray version at the same paths, for
example from one image; only inputs and results are transferred.
"""

from __future__ import annotations

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
from joblib import cpu_count
from ray.exceptions import RayError, RayTaskError

from submission.engine.base import Engine, P, R
from submission.errors import SubmissionError, UsageError
from submission.paths import ROOT
from submission.signals import CODES, when_stopped
from submission.storage.code_fingerprint import program_fingerprint

AHEAD = 2  # queued per worker, so that no worker waits
CONNECTION = 10.0  # seconds
ALL_GPUS = {"env_vars": {"RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES": "1"}}  # Ray may assign another GPU to the worker later


class Cluster(Engine):
    """An engine on a Ray cluster. A worker is a CPU core with one thread, or a GPU."""

    def __init__(self, shared: bool = False) -> None:
        """Create the engine of a connected process; `shared`: all nodes mount the cache directory at the same path."""
        self.shared = shared
        nodes, (cpus, self._gpus) = sum(node["Alive"] for node in ray.nodes()), map(_number_of, ("CPU", "GPU"))
        self.about = f"Ray {ray.__version__} ({nodes} nodes, {cpus} CPU cores, {self._gpus} GPUs)"
        self._computed = ray.remote(max_calls=0)(_computed)  # keep workers and their checkpoints alive, also on GPUs

    @property
    def has_gpu(self) -> bool:
        return self._gpus > 0

    def workers(self, device: torch.device) -> int:
        return max(1, _number_of("GPU" if device.type == "cuda" else "CPU"))

    def map(self, function: Callable[[P], R], parts: Iterable[tuple[int, P]], device: torch.device) -> Iterator[tuple[int, R]]:
        resources = {"num_gpus": 1, "runtime_env": ALL_GPUS} if device.type == "cuda" else {}
        remote = self._computed.options(num_cpus=1, **resources)
        function_ref, fingerprint, pending = ray.put(pickle.dumps(function)), program_fingerprint(), iter(parts)
        running: dict[ray.ObjectRef[R], int] = {}
        try:
            while True:
                queue_size = AHEAD * self.workers(device)  # nodes may join or leave
                for index, item in islice(pending, max(0, queue_size - len(running))):
                    running[remote.remote(function_ref, item, fingerprint)] = index
                if not running:
                    return
                [ready], _ = ray.wait(list(running))
                yield running.pop(ready), _got(ready)
        finally:  # after a failure, or if the consumer stops
            for ref in running:
                ray.cancel(ref)


@contextmanager
def connected(address: str | None, shared: bool = False) -> Iterator[Cluster]:
    """Connect to the cluster at HOST:PORT, or start a local one (None) for the duration of the block.

    Args:
        address: HOST:PORT of a cluster that this machine belongs to.
        shared: All nodes mount the cache directory at the same path.

    Raises:
        UsageError: If the cluster cannot be reached or Ray cannot be started.
    """
    logging.getLogger("ray").setLevel(logging.ERROR)
    with ExitStack() as stack:
        init_args = {"address": address} if address else _of_this_machine(stack)
        stack.callback(ray.shutdown, wait_for_processes=True)
        try:
            if address:
                _refuse_silence(*address.split(":"))
            with _heard_as_before(), chdir(ROOT):  # workers import the code from here
                ray.init(**init_args, configure_logging=False, log_to_driver=False)
        except (RayError, OSError, RuntimeError, ValueError) as error:
            hint = "use the HOST:PORT printed by `ray start`, on a node of the cluster"
            problem = f"no cluster at {address} ({error}); {hint}" if address else f"cannot start Ray ({error})"
            raise UsageError(f"--engine ray: {problem}") from None
        yield Cluster(shared)


def _of_this_machine(stack: ExitStack) -> dict[str, Any]:
    """Return Ray's arguments for a temporary cluster on this machine."""
    temp_dir = stack.enter_context(TemporaryDirectory(prefix="aragorn-ray-", ignore_cleanup_errors=True))
    stack.enter_context(when_stopped(lambda: shutil.rmtree(temp_dir, ignore_errors=True)))
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))  # otherwise Ray writes a token to the home directory
    return {"address": "local", "num_cpus": cpu_count(), "include_dashboard": False, "_temp_dir": temp_dir}


@contextmanager
def _heard_as_before() -> Iterator[None]:
    """Restore this process's signal handlers, which Ray replaces."""
    handlers = {signum: signal.getsignal(signum) for signum in CODES}
    try:
        yield
    except SystemExit:  # raised by Ray's handler during start-up
        signal.signal(signal.SIGTERM, handlers[signal.SIGTERM])
        signal.raise_signal(signal.SIGTERM)
    finally:
        for signum, handler in handlers.items():
            signal.signal(signum, handler)


def _refuse_silence(host: str, port: str) -> None:
    """Check that a server listens; Ray itself would wait for minutes.

    Raises:
        OSError: If it does not answer.
    """
    socket.create_connection((host, int(port)), timeout=CONNECTION).close()


def _number_of(resource: str) -> int:
    """Return the cluster's current amount of a resource."""
    return int(ray.cluster_resources().get(resource, 0))


def _got(done: ray.ObjectRef[R]) -> R:
    try:
        return ray.get(done)
    except RayTaskError as error:
        if isinstance(error.cause, SubmissionError):
            raise error.cause from None
        raise


def _computed(function: bytes, part: Any, code: str) -> Any:
    """Run a pickled function on a worker."""
    torch.set_num_threads(1)
    gpus = ray.get_gpu_ids()
    if gpus:
        torch.cuda.set_device(place_of(gpus[0], os.environ.get("CUDA_VISIBLE_DEVICES")))
    try:
        if program_fingerprint() != code:
            raise UsageError(f"{ROOT}: code version differs from the driver's; install the same version on all nodes")
        return _loaded(function)(part)
    except SubmissionError as error:
        raise type(error)(f"node {ray.util.get_node_ip_address()}: {error}") from None


@lru_cache(maxsize=1)
def _loaded(function: bytes) -> Callable[[Any], Any]:
    """Unpickle a function once, so that later items reuse its loaded checkpoints."""
    loaded: Callable[[Any], Any] = pickle.loads(function)
    return loaded


def place_of(gpu: int | str, visible: str | None) -> int:
    """Return torch's index of the GPU that Ray assigned: its position among the visible ones."""
    return visible.split(",").index(str(gpu)) if visible else int(gpu)
