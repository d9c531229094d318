"""Ray: parts are computed by the processors or GPUs of a cluster. Resources, retries and lost nodes are Ray's business.

Every node has this code, the checkpoints and Ray at the same places, as one image has them; nothing is uploaded but parts.
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

from submission.disk.code import code_fingerprint
from submission.engine.engine import Engine, P, R
from submission.errors import SubmissionError, UsageError
from submission.interrupted import CODES, when_stopped
from submission.paths import ROOT

AHEAD = 2  # parts handed out for each worker: the next one is there when one is finished
CONNECTION = 10.0  # seconds, at most, until a cluster answers
ALL_GPUS = {"env_vars": {"RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES": "1"}}  # a worker may be given another one later


class Cluster(Engine):
    """A cluster that this process is connected to. A worker is a processor with one thread, or a GPU."""

    def __init__(self, shared: bool = False) -> None:
        """Of a process that is connected; `shared`: the working directory is at the same place on all nodes."""
        self.shared = shared
        nodes, (cpus, self._gpus) = sum(node["Alive"] for node in ray.nodes()), map(_number_of, ("CPU", "GPU"))
        self.about = f"Ray {ray.__version__} ({nodes} nodes, {cpus} processors, {self._gpus} GPUs)"
        self._computed = ray.remote(max_calls=0)(_computed)  # a worker stays, with what it has opened, on a GPU too

    @property
    def has_gpu(self) -> bool:
        return self._gpus > 0

    def workers(self, device: torch.device) -> int:
        return max(1, _number_of("GPU" if device.type == "cuda" else "CPU"))

    def map(self, function: Callable[[P], R], parts: Iterable[tuple[int, P]], device: torch.device) -> Iterator[tuple[int, R]]:
        needs = {"num_gpus": 1, "runtime_env": ALL_GPUS} if device.type == "cuda" else {}
        remote = self._computed.options(num_cpus=1, **needs)
        pickled, code, waiting = ray.put(pickle.dumps(function)), code_fingerprint(), iter(parts)
        running: dict[ray.ObjectRef[R], int] = {}
        try:
            while True:
                wanted = AHEAD * self.workers(device)  # each time: nodes come and go
                for number, part in islice(waiting, max(0, wanted - len(running))):
                    running[remote.remote(pickled, part, code)] = number
                if not running:
                    return
                [done], _ = ray.wait(list(running))
                yield running.pop(done), _got(done)
        finally:  # where one has failed, or nobody wants them any more
            for one in running:
                ray.cancel(one)


@contextmanager
def connected(address: str | None, shared: bool = False) -> Iterator[Cluster]:
    """The cluster at an address HOST:PORT, of which this machine is a node; None: one of this machine alone, while it lasts.

    Args:
        address: HOST:PORT.
        shared: the working directory is at the same place on all nodes.

    Raises:
        UsageError: there is no such cluster, or Ray cannot be started.
    """
    logging.getLogger("ray").setLevel(logging.ERROR)
    with ExitStack() as stack:
        where = {"address": address} if address else _of_this_machine(stack)
        stack.callback(ray.shutdown, wait_for_processes=True)
        try:
            if address:
                _refuse_silence(*address.split(":"))
            with _heard_as_before(), chdir(ROOT):  # where workers import from: not the caller's directory
                ray.init(**where, configure_logging=False, log_to_driver=False)
        except (RayError, OSError, RuntimeError, ValueError) as error:
            expected = "what `ray start` said on this machine, a node of the cluster: ray://HOST:PORT"
            what = f"no cluster at {address} ({error}); expected {expected}" if address else f"Ray does not start ({error})"
            raise UsageError(f"--engine ray: {what}") from None
        yield Cluster(shared)


def _of_this_machine(stack: ExitStack) -> dict[str, Any]:
    """Return Ray's arguments for a cluster on this machine that leaves nothing behind."""
    folder = stack.enter_context(TemporaryDirectory(prefix="aragorn-ray-", ignore_cleanup_errors=True))
    stack.enter_context(when_stopped(lambda: shutil.rmtree(folder, ignore_errors=True)))
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))  # else Ray writes one into the user's home
    return {"address": "local", "num_cpus": cpu_count(), "include_dashboard": False, "_temp_dir": folder}


@contextmanager
def _heard_as_before() -> Iterator[None]:
    """Hear signals as this process does: Ray puts a handler of its own in place, which raises SystemExit while it starts."""
    heard = {number: signal.getsignal(number) for number in CODES}
    try:
        yield
    except SystemExit:
        signal.signal(signal.SIGTERM, heard[signal.SIGTERM])
        signal.raise_signal(signal.SIGTERM)
    finally:
        for number, handler in heard.items():
            signal.signal(number, handler)


def _refuse_silence(host: str, port: str) -> None:
    """Raises OSError: nobody answers there. Ray itself would wait for minutes."""
    socket.create_connection((host, int(port)), timeout=CONNECTION).close()


def _number_of(resource: str) -> int:
    """Count the resources of a kind that the cluster has at the moment."""
    return int(ray.cluster_resources().get(resource, 0))


def _got(done: ray.ObjectRef[R]) -> R:
    try:
        return ray.get(done)
    except RayTaskError as error:
        if isinstance(error.cause, SubmissionError):
            raise error.cause from None
        raise


def _computed(function: bytes, part: Any, code: str) -> Any:
    """On a worker: what a function gives of a part."""
    torch.set_num_threads(1)
    gpus = ray.get_gpu_ids()
    if gpus:
        torch.cuda.set_device(place_of(gpus[0], os.environ.get("CUDA_VISIBLE_DEVICES")))
    try:
        if code_fingerprint() != code:
            raise UsageError(f"{ROOT} has another version of the code than where this was begun; install the same one")
        return _loaded(function)(part)
    except SubmissionError as error:
        raise type(error)(f"node {ray.util.get_node_ip_address()}: {error}") from None


@lru_cache(maxsize=1)
def _loaded(function: bytes) -> Callable[[Any], Any]:
    """The function of the parts that come one after another, with what it has opened and computed for all of them."""
    loaded: Callable[[Any], Any] = pickle.loads(function)
    return loaded


def place_of(gpu: int | str, visible: str | None) -> int:
    """Return the index by which torch knows the GPU that Ray has assigned: its place among those visible to the process."""
    return visible.split(",").index(str(gpu)) if visible else int(gpu)
