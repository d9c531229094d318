"""The main job: topics and corpus in, one TREC run per system out."""

from __future__ import annotations

import hashlib
import logging
import time
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import pandas as pd
import torch

from submission import systems
from submission.checkpoint import Checkpoint, open_checkpoint
from submission.corpus import corpus_files, input_hashes, long_enough, read_corpus
from submission.device import choose_device
from submission.ensemble import LISTED, Ensemble, open_ensemble
from submission.ensemble import NAME as ENSEMBLE
from submission.errors import CheckpointError, InputError, OutputError, SubmissionError, SystemsFailedError
from submission.files import sha256
from submission.output import PRIMARY, Output
from submission.rankers.base import LatentRanker
from submission.retrieval.bm25 import candidates
from submission.retrieval.latent import latent_index, retrieve
from submission.runs import check_tag, cut, ranked, run_text
from submission.scoring import score
from submission.tokens import Tokens
from submission.topics import read_topics, topic_files
from submission.work import Work

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
    work: Path | None
    overwrite: bool


class Data:
    """The stations topics, corpus, candidates and tokens, each made when it is first asked for and once."""

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

    @cached_property
    def tokens(self) -> Tokens:
        """The texts of topics and corpus as ids."""
        return Tokens(self.topics, self.corpus)

    @cached_property
    def corpus_fingerprint(self) -> str:
        """The hash of the corpus files' names and bytes."""
        return _hash(input_hashes(self._corpus_files))

    @cached_property
    def fingerprint(self) -> str:
        """The hash of all input files' names and bytes."""
        return _hash({**input_hashes(self._topic_files), "corpus": self.corpus_fingerprint})


class Systems:
    """How each system comes to its run; scores are made once, also for the ensemble."""

    def __init__(self, job: Job, device: torch.device, data: Data, work: Work) -> None:
        self._job, self._device, self._data, self._work = job, device, data, work
        self._scores: dict[str, pd.DataFrame | Exception] = {}

    @cache  # noqa: B019 one object a process
    def checkpoint(self, name: str) -> Checkpoint:
        """The opened checkpoint of a network."""
        return open_checkpoint(self._job.checkpoints / name)

    @cached_property
    def ensemble(self) -> Ensemble:
        """The ensemble, its members' checkpoints checked."""
        ensemble = open_ensemble(self._job.checkpoints / ENSEMBLE)
        ensemble.refuse_others({member.name: self.checkpoint(member.name).fingerprint for member in ensemble.members})
        return ensemble

    def key(self, name: str) -> str:
        """What decides a system's run beside input, settings and code."""
        if name == systems.BM25:
            return "no checkpoint"
        return f"{self.ensemble.fingerprint if name == ENSEMBLE else self.checkpoint(name).fingerprint} {self._device.type}"

    def run(self, name: str) -> pd.DataFrame:
        """`qid docno rank score`, at most `depth` documents a topic."""
        if name == systems.BM25:
            return cut(self._data.candidates, self._data.topics, self._job.depth)
        return ranked(self.scores(name), self._data.topics, self._job.depth)

    def scores(self, name: str) -> pd.DataFrame:
        """`qid docno score` of all documents that a system scores; a failure is remembered like scores."""
        if name not in self._scores:
            try:
                self._scores[name] = self._made(name)
            except (InputError, OutputError):
                raise  # not this system's fault
            except Exception as error:
                self._scores[name] = error
        found = self._scores[name]
        if isinstance(found, Exception):
            raise found
        return found

    def _made(self, name: str) -> pd.DataFrame:
        data, device = self._data, self._device
        if name == ENSEMBLE:
            return self.ensemble.combine({member.name: self._listed(member.name) for member in self.ensemble.members})
        checkpoint = self.checkpoint(name)
        if isinstance(checkpoint.ranker, LatentRanker):
            place = self._work.place(f"{name}-index", f"{data.corpus_fingerprint} {_code()} {self.key(name)}")
            index = latent_index(data.corpus, checkpoint, device, place)
            return retrieve(data.topics, data.corpus, checkpoint, index, self._job.depth)
        place = self._work.place(name, f"{data.fingerprint} {_code()} {self.key(name)}")
        return score(data.candidates, data.tokens, checkpoint, device, place)

    def _listed(self, name: str) -> pd.DataFrame:
        try:
            return ranked(self.scores(name), self._data.topics, LISTED)
        except (CheckpointError, ValueError, ArithmeticError, RuntimeError) as error:
            raise CheckpointError(f"it needs {name}, which failed: {error}") from None


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
    with Output(job.output) as output, Work(job.work) as work:
        made = Systems(job, device, data, work)
        settings = {"input": data.fingerprint, "code": _code(), "team": job.team, "depth": str(job.depth)}
        output.begin(settings, [f"{_tag(job, system)}.txt" for system in chosen], job.overwrite)
        for system in chosen:
            start = time.monotonic()
            try:
                reused = _one(system, job, made, output, system.name == primary)
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


def _one(system: systems.System, job: Job, made: Systems, output: Output, primary: bool) -> bool:
    """Make sure that a system's run is there; true if it was already."""
    key, name = made.key(system.name), f"{_tag(job, system)}.txt"
    reused = output.finished(name, key)
    text = output.read(name) if reused else run_text(made.run(system.name), _tag(job, system))
    if not reused:
        output.write(name, text, key)
    if primary:
        output.write(PRIMARY, text, f"{name} {key}")
    return reused


def _tag(job: Job, system: systems.System) -> str:
    return f"{job.team}-{system.name}"


def _directory(path: Path) -> Path:
    try:
        if path.is_dir():
            return path
    except OSError as error:  # a name that is too long, a parent that may not be read
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    raise InputError(f"{path}: no such input directory; expected one with topics*.xml and the args.me JSON files")


def _hash(hashes: dict[str, str]) -> str:
    return hashlib.sha256("".join(f"{name} {value}\n" for name, value in hashes.items()).encode()).hexdigest()


@cache
def _code() -> str:
    """The hash of everything in this package that decides what a run says."""
    root = Path(__file__).parent
    digest = hashlib.sha256()
    for file in sorted([*root.rglob("*.py"), root / "nltk_data/corpora/stopwords/english"]):
        digest.update(f"{file.relative_to(root)} {sha256(file)}\n".encode())
    return digest.hexdigest()
