"""Read the topics, documents and optional supplied ranking of an input on first use."""

from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path

import pandas as pd

from aragorn.errors import UsageError, abbreviate, abbreviate_list, suggest
from aragorn.io.input_files import find_files, raise_first
from aragorn.io.orders import Order
from aragorn.io.readers import open_reader
from aragorn.io.runs import find_run, read_run
from aragorn.io.supplied_rankings import sort_ranking, validate_supplied_ranking
from aragorn.storage.atomic_files import get_printable_name
from aragorn.storage.hashing import combine_hashes, hash_input_files
from aragorn.timing import Stopwatch


class Dataset:
    """Topics, documents and optional supplied ranking of an input.

    Args:
        paths: Directories, zip archives or files with topics and documents in a supported format.
        input_run: Run to re-rank, or a directory with run.txt; None: re-rank the candidates of the
            input, if any.
        qid: Id of the only topic to use; None: all topics.
        order: Order of a supplied ranking, see `sort_ranking`.
    """

    def __init__(
        self,
        *paths: Path,
        input_run: Path | None = None,
        qid: str | None = None,
        order: Order = "auto",
    ) -> None:
        self.paths, self.name, self.reader = paths, ", ".join(map(str, paths)), open_reader(*paths)
        self.stopwatch, self._qid, self._order = Stopwatch(), qid, order
        self._run_file = None if input_run is None else find_run(input_run)
        # documents to re-rank; None: systems retrieve
        self.ranking_file = self._run_file or self.reader.rerank_file
        reranking = f"re-ranking the documents of {self.ranking_file}"
        mode = reranking if self.ranking_file else "each system retrieves from the collection"
        files = {
            *self.reader.topic_files,
            *self.reader.corpus_files,
            self.reader.rerank_file,
            self._run_file,
        }
        ignored_names = [
            get_printable_name(file)
            for file in find_files(paths, "[!.]*")
            if file not in files and file.is_file()
        ]
        suffix = f"; ignored files: {abbreviate_list(ignored_names)}" if ignored_names else ""
        self.description = f"{self.reader.format_name}; {mode}{suffix}"

    @cached_property
    def topics(self) -> pd.DataFrame:
        """Topics `qid query`; raises UsageError if the requested topic does not exist."""
        with self.stopwatch.stage("topics"):
            topics, issues = self.reader.read_topics()
        raise_first(issues)
        if self._qid is None:
            return topics
        if self._qid not in set(topics["qid"]):
            raise UsageError(
                f"unknown topic '{abbreviate(self._qid)}'; {suggest(self._qid, topics['qid'])}"
            )
        return topics[topics["qid"] == self._qid].reset_index(drop=True)

    @cached_property
    def documents(self) -> pd.DataFrame:
        """All documents `docno conclusion premise`, including those too short for the
        collection."""
        with self.stopwatch.stage("documents"):
            documents, issues = self.reader.read_documents()
        raise_first(issues)
        return documents

    @cached_property
    def _sorted_ranking(self) -> pd.DataFrame | None:
        """Sorted supplied ranking `qid docno rank score`; None if there is none."""
        if self._run_file:
            ranking = read_run(self._run_file, self._order)
        elif (candidates := self.reader.read_candidates()) is not None:
            ranking = sort_ranking(candidates, self._order, self.ranking_file)
        else:
            return None
        return ranking if self._qid is None else ranking[ranking["qid"] == self._qid]

    @property
    def supplied_depth(self) -> int | None:
        """Largest number of documents per topic in the supplied ranking; None if there is no
        ranking."""
        ranking = self._sorted_ranking
        return None if ranking is None else int(ranking["rank"].max() if len(ranking) else 0)

    def get_supplied_ranking(
        self, find_unknown: Callable[[Iterable[str]], set[str]]
    ) -> pd.DataFrame | None:
        """Return the validated supplied ranking, None if there is none; `find_unknown` returns
        which docnos the input lacks."""
        ranking = self._sorted_ranking
        if ranking is None:
            return None
        return validate_supplied_ranking(
            ranking, self.topics, find_unknown(ranking["docno"]), self.ranking_file
        )

    @cached_property
    def file_hashes(self) -> dict[str, str]:
        """SHA-256 of each input file by name; the name of a run to re-rank is "input run"."""
        with self.stopwatch.stage("hashes"):
            hashes = hash_input_files(
                dict.fromkeys([*self.reader.topic_files, *self.reader.corpus_files])
            )
            if self._run_file:
                [hashes["input run"]] = hash_input_files([self._run_file]).values()
            return hashes

    @cached_property
    def corpus_fingerprint(self) -> str:
        """Hash of the names and contents of the corpus files."""
        return combine_hashes(
            {
                name: self.file_hashes[name]
                for name in map(get_printable_name, self.reader.corpus_files)
            }
        )

    @property
    def fingerprint(self) -> str:
        """Hash of all input files, the selected topic and the ranking order."""
        topic_part = {"topic": self._qid} if self._qid is not None else {}
        order_part = {"order": self._order} if self.ranking_file and self._order != "auto" else {}
        return combine_hashes(self.file_hashes | topic_part | order_part)
