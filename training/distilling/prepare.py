"""Titles of debates → another system's scores of some documents for each: the table that a network is distilled from."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from submission.disk.code import code_fingerprint
from submission.disk.fingerprint import input_hashes
from submission.disk.kept import RECORD, Kept, Record, read_record
from submission.errors import InputError
from submission.input.args_me import corpus_files
from submission.input.directory import Input, refuse
from submission.input.topics import read_topics
from submission.systems.catalogue import System
from submission.systems.execution import Execution
from training.data.seeds import Stream, generator
from training.distilling.titles import titles_of, unlike
from training.quality.tables import COLUMNS

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TitleSettings:
    """The flags of `prepare distilled`."""

    titles: int = 1000  # at most, drawn from all
    documents: int = 24  # of each: half are the best, the others are drawn from what else is listed
    seed: int = 0


class Asked(Input):
    """A corpus that is asked other topics than its own."""

    def __init__(self, directory: Path, titles: Sequence[str]) -> None:
        """Raises InputError: files are missing."""
        super().__init__(directory)
        self._titles = titles

    @cached_property
    def topics(self) -> pd.DataFrame:
        """`qid query`: the titles, numbered."""
        return pd.DataFrame({"qid": [str(number) for number in range(1, len(self._titles) + 1)], "query": self._titles})

    @cached_property
    def hashes(self) -> dict[str, str]:
        """Return the hashes of the files and of the titles. Raises InputError."""
        return super().hashes | {"titles": hashlib.sha256("\n".join(self._titles).encode()).hexdigest()}


def asked(directory: Path, others: Sequence[Path], settings: TitleSettings) -> Asked:
    """An input's corpus with titles of its debates for topics.

    Args:
        directory: an input in Touché's form. No title is one of its topics in other words.
        others: files with topics that no title may be either.
        settings: how many, by which seed.

    Raises:
        InputError: files that cannot be read, or no title is left.
    """
    source = Input(directory)
    topics = source.topics["query"].tolist()
    for file in others:
        found, faults = read_topics([file])
        refuse(faults)
        topics += found["query"].tolist()
    everything = titles_of(corpus_files(directory))
    titles = unlike(everything, topics)
    log.info("%d titles of debates, %d of them unlike all topics", len(everything), len(titles))
    if not titles:
        raise InputError(f"{directory}: no debate has a title that is none of the topics; take a corpus with more debates")
    drawn = generator(settings.seed, Stream.TITLES).permutation(len(titles))[: settings.titles]
    return Asked(directory, [titles[number] for number in np.sort(drawn)])


def prepare_distilled(
    system: System,
    execution: Execution,
    others: Sequence[Path],
    settings: TitleSettings,
    work: Path,
    overwrite: bool = False,
) -> None:
    """Write the table that a network is distilled from into `work`/distilled; a table that is finished is not made again.

    Args:
        system: the teacher.
        execution: on what `asked` gives; what is finished is kept in its working directory.
        others: the files that `asked` was given.
        settings: likewise.
        work: a working directory.
        overwrite: replace a table of something else.

    Raises:
        InputError: documents cannot be read, or no title has as many of different scores as are asked for.
        CheckpointError: the teacher's are missing or damaged. OutputError: something cannot be written, or the directory
            holds a table of something else.
    """
    decided_by = {
        "input": execution.input.hashes | input_hashes(list(others)),
        "teacher": {"system": system.name, "key": execution.key(system.stage)},
        "code": code_fingerprint(__name__),
        **asdict(settings),
    }
    file = place(work)
    kept = Kept(file.parent, decided_by, overwrite)
    kept.make([file.name], partial(_write, system, execution, settings))


def place(work: Path) -> Path:
    """Return the path of the table."""
    return work / "distilled" / "lists.parquet"


def distilled_table(work: Path) -> tuple[pd.DataFrame, Record]:
    """Read the table of scored titles, in the form of `training.quality.tables` with the title as topic, and its record.

    Raises:
        InputError: there is no such table, or it is damaged.
    """
    file = place(work)
    try:
        return pd.read_parquet(file, columns=COLUMNS), read_record(file.parent / RECORD)
    except FileNotFoundError:
        raise InputError(f"{file}: missing; `python -m training prepare distilled -i INPUT --work {work}` makes it") from None
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{file}: damaged ({error}); remove it and run `python -m training prepare distilled` again") from None


def _write(system: System, execution: Execution, settings: TitleSettings, file: Path) -> None:
    titles = execution.topics.set_index("qid")["query"]
    parts = []
    for qid, listed in execution.lists(system.stage).groupby("qid", sort=False):
        chosen = listed.iloc[_chosen(len(listed), settings, int(str(qid)))]
        if len(chosen) == settings.documents and chosen["score"].nunique() > 1:
            parts.append(chosen.assign(data=system.name, debate=titles[qid], topic=titles[qid]))
    if not parts:
        raise InputError(
            f"{execution.input.directory}: {system.name} lists no {settings.documents} documents of different scores for any "
            f"of {len(titles)} titles; ask for fewer, or take a larger corpus"
        )
    table = pd.concat(parts, ignore_index=True)
    texts = execution.documents.texts(set(table["docno"])).set_index("docno")["premise"]
    table.assign(premise=texts.loc[table["docno"]].to_numpy())[COLUMNS].to_parquet(file, index=False)
    log.info("%d of %d titles, %d documents each", len(parts), len(titles), settings.documents)


def _chosen(listed: int, settings: TitleSettings, number: int) -> np.ndarray:
    """Which of so many listed documents, the best first, are taken for a title of that number."""
    best = min(listed, -(-settings.documents // 2))
    others = best + generator(settings.seed, Stream.TITLES, number).permutation(listed - best)
    return np.concatenate([np.arange(best), np.sort(others[: settings.documents - best])])
