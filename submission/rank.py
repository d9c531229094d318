"""The main job: topics and corpus in, one TREC run per system out."""

from __future__ import annotations

import hashlib
import logging
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd
import torch

from submission import systems
from submission.checkpoint import Checkpoint, open_checkpoint
from submission.corpus import corpus_files, input_hashes, long_enough, read_corpus
from submission.device import choose_device
from submission.errors import InputError, OutputError, SubmissionError, SystemsFailedError
from submission.files import sha256
from submission.output import PRIMARY, Output
from submission.retrieval.bm25 import candidates
from submission.runs import check_tag, cut, ranked, run_text
from submission.scoring import score
from submission.topics import read_topics, topic_files

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Job:
    """What to rank and where to write it; the flags of `rank`."""

    input: Path
    output: Path
    systems: list[str]
    team: str
    depth: int
    device: str
    checkpoints: Path
    overwrite: bool


class Data:
    """The stations topics, corpus and candidates, each made when it is first asked for and once."""

    def __init__(self, topics: list[Path], corpus: list[Path]) -> None:
        self._topic_files, self._corpus_files = topics, corpus

    @cached_property
    def topics(self) -> pd.DataFrame:
        """`qid query`."""
        return read_topics(self._topic_files)

    @cached_property
    def corpus(self) -> pd.DataFrame:
        """`docno conclusion premise`, long enough premises only."""
        return long_enough(read_corpus(self._corpus_files))

    @cached_property
    def candidates(self) -> pd.DataFrame:
        """`qid docno rank score`."""
        return candidates(self.topics, self.corpus)

    def fingerprint(self) -> str:
        """The hash of the input files' names and bytes."""
        hashes = input_hashes([*self._topic_files, *self._corpus_files])
        return hashlib.sha256("".join(f"{name} {value}\n" for name, value in hashes.items()).encode()).hexdigest()


def rank(job: Job) -> None:
    """Write `<team>-<system>.txt` for every system and `run.txt`, the run of the primary one (the first named, else knrm).

    A system whose run is already there, made from the same inputs, settings, checkpoint and code, is not computed again.

    Raises:
        UsageError, InputError, CheckpointError, OutputError: nothing could be written.
        SystemsFailedError: some systems failed, the others are written.
    """
    check_tag(job.team)
    chosen = systems.choose(job.systems, job.checkpoints)
    primary = job.systems[0] if job.systems else systems.PRIMARY
    device = choose_device(job.device)
    data = Data(topic_files(_directory(job.input)), corpus_files(job.input))
    failed: dict[str, Exception] = {}
    with Output(job.output) as output:
        settings = {"input": data.fingerprint(), "code": _code(), "team": job.team, "depth": str(job.depth)}
        output.begin(settings, [f"{_tag(job, system)}.txt" for system in chosen], job.overwrite)
        for system in chosen:
            start = time.monotonic()
            try:
                reused = _one(system, job, device, data, output, system.name == primary)
            except (InputError, OutputError):
                raise  # not this system's fault: the others would fail alike
            except Exception as error:
                failed[system.name] = error
                log.error("%s failed: %s", system.name, error, exc_info=not isinstance(error, SubmissionError))
            else:
                log.info("%s: %s (%.1f s)", system.name, "already there" if reused else "done", time.monotonic() - start)
    if failed and len(failed) == len(chosen):
        raise next(iter(failed.values()))
    if failed:
        raise SystemsFailedError(f"failed: {', '.join(failed)}; the runs of the other systems are in {job.output}")
    log.info("%d runs in %s", len(chosen), job.output)


def _one(system: systems.System, job: Job, device: torch.device, data: Data, output: Output, primary: bool) -> bool:
    """Make sure that a system's run is there; true if it was already."""
    checkpoint = open_checkpoint(system.checkpoint) if system.checkpoint else None
    key = f"{checkpoint.fingerprint} {device.type}" if checkpoint else "no checkpoint"
    name = f"{_tag(job, system)}.txt"
    reused = output.finished(name, key)
    text = output.read(name) if reused else run_text(_run(checkpoint, job.depth, device, data), _tag(job, system))
    if not reused:
        output.write(name, text, key)
    if primary:
        output.write(PRIMARY, text, f"{name} {key}")
    return reused


def _tag(job: Job, system: systems.System) -> str:
    return f"{job.team}-{system.name}"


def _run(checkpoint: Checkpoint | None, depth: int, device: torch.device, data: Data) -> pd.DataFrame:
    """`qid docno rank score`, at most `depth` documents a topic."""
    if checkpoint is None:
        return cut(data.candidates, data.topics, depth)
    return ranked(score(data.candidates, data.topics, data.corpus, checkpoint, device), data.topics, depth)


def _directory(path: Path) -> Path:
    try:
        if path.is_dir():
            return path
    except OSError as error:  # a name that is too long, a parent that may not be read
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    raise InputError(f"{path}: no such input directory; expected one with topics*.xml and the args.me JSON files")


def _code() -> str:
    """The hash of everything in this package that decides what a run says."""
    root = Path(__file__).parent
    digest = hashlib.sha256()
    for file in sorted([*root.rglob("*.py"), root / "nltk_data/corpora/stopwords/english"]):
        digest.update(f"{file.relative_to(root)} {sha256(file)}\n".encode())
    return digest.hexdigest()
