"""Score documents for debate titles with a teacher system."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import pandas as pd

from submission.data.args_me import corpus_files
from submission.data.dataset import Input, refuse
from submission.data.topics import read_topics
from submission.errors import InputError
from submission.storage.artifact_store import RECORD, Kept, Record, read_record
from submission.storage.code_fingerprint import code_fingerprint
from submission.storage.hashing import input_hashes
from submission.systems.catalogue import System
from submission.systems.execution import Execution
from training.data.debates import titles_of, unlike
from training.data.quality import COLUMNS
from training.data.seeds import Stream, generator
from training.data.work_directory import reading

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TitleSettings:
    """Options of `prepare distilled`."""

    titles: int = 1000  # titles to sample, at most
    documents: int = 24  # per title; half are the top ranks, half are sampled from the rest of the ranking
    seed: int = 0


class Asked(Input):
    """A corpus with debate titles as topics."""

    def __init__(self, directory: Path, titles: Sequence[str]) -> None:
        """Create the input. Raises InputError if files are missing."""
        super().__init__(directory)
        self._titles = titles

    @cached_property
    def topics(self) -> pd.DataFrame:
        """Return the numbered titles, `qid query`."""
        return pd.DataFrame({"qid": [str(index) for index in range(1, len(self._titles) + 1)], "query": self._titles})

    @cached_property
    def hashes(self) -> dict[str, str]:
        """Return the hashes of files and titles. Raises InputError."""
        return super().hashes | {"titles": hashlib.sha256("\n".join(self._titles).encode()).hexdigest()}


def asked(directory: Path, others: Sequence[Path], settings: TitleSettings) -> Asked:
    """Combine an input's corpus with debate titles as topics.

    Args:
        directory: input in Touché's format; titles that paraphrase its topics are excluded.
        others: further topic files to exclude.
        settings: sample size and seed.

    Raises:
        InputError: unreadable files, or no title remains.
    """
    source = Input(directory)
    excluded_topics = source.topics["query"].tolist()
    for file in others:
        topics, faults = read_topics([file])
        refuse(faults)
        excluded_topics += topics["query"].tolist()
    all_titles = titles_of(corpus_files(directory))
    titles = unlike(all_titles, excluded_topics)
    log.info("%d debate titles, %d after removing paraphrases of topics", len(all_titles), len(titles))
    if not titles:
        raise InputError(f"{directory}: every debate title paraphrases a topic; use a corpus with more debates")
    sample = generator(settings.seed, Stream.TITLES).permutation(len(titles))[: settings.titles]
    return Asked(directory, [titles[index] for index in np.sort(sample)])


def prepare_distilled(
    system: System,
    execution: Execution,
    others: Sequence[Path],
    settings: TitleSettings,
    work: Path,
    overwrite: bool = False,
) -> None:
    """Write the teacher's scores into `work`/distilled; skip a complete table.

    Args:
        system: the teacher.
        execution: execution on `asked`.
        others: as for `asked`.
        settings: as for `asked`.
        work: working directory.
        overwrite: replace a table of other data.

    Raises:
        InputError: unreadable documents, or no title has enough documents.
        CheckpointError: the teacher's checkpoints are missing or damaged.
        OutputError: the directory is not writable or holds another table.
    """
    cache_key = {
        "input": execution.input.hashes | input_hashes(list(others)),
        "teacher": {"system": system.name, "key": execution.key(system.stage)},
        "code": code_fingerprint(__name__),
        **asdict(settings),
    }
    file = place(work)
    store = Kept(file.parent, cache_key, overwrite)
    store.make([file.name], partial(_write, system, execution, settings))


def place(work: Path) -> Path:
    """Return the path of the table."""
    return work / "distilled" / "lists.parquet"


def distilled_table(work: Path) -> tuple[pd.DataFrame, Record]:
    """Load the teacher's scores (columns as of quality tables, topic = title) and their record.

    Raises:
        InputError: the table is missing or damaged.
    """
    file = place(work)
    with reading(file, "distilled", f"-i INPUT --work {work}"):
        return pd.read_parquet(file, columns=COLUMNS), read_record(file.parent / RECORD)


def _write(system: System, execution: Execution, settings: TitleSettings, file: Path) -> None:
    titles = execution.topics.set_index("qid")["query"]
    parts = []
    for qid, ranking in execution.lists(system.stage).groupby("qid", sort=False):
        selected = ranking.iloc[_chosen(len(ranking), settings, int(str(qid)))]
        if len(selected) == settings.documents and selected["score"].nunique() > 1:
            parts.append(selected.assign(data=system.name, debate=titles[qid], topic=titles[qid]))
    if not parts:
        raise InputError(
            f"{execution.input.directory}: {system.name} ranks fewer than {settings.documents} documents, or all with "
            f"equal scores, for each of {len(titles)} titles; lower --documents or use a larger corpus"
        )
    table = pd.concat(parts, ignore_index=True)
    texts = execution.documents.texts(set(table["docno"])).set_index("docno")["premise"]
    table.assign(premise=texts.loc[table["docno"]].to_numpy())[COLUMNS].to_parquet(file, index=False)
    log.info("Wrote %d of %d titles with %d documents each", len(parts), len(titles), settings.documents)


def _chosen(listed: int, settings: TitleSettings, number: int) -> np.ndarray:
    """Select ranks of `listed` documents for the title with this number: the top half, and a sample of the others."""
    top = min(listed, -(-settings.documents // 2))
    sample = top + generator(settings.seed, Stream.TITLES, number).permutation(listed - top)
    return np.concatenate([np.arange(top), np.sort(sample[: settings.documents - top])])
