"""Read the topics, documents and optional input run of an input on first use.

An input consists of directories, zip archives and files in Touché's or in TIREx's format.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from aragorn.errors import InputError, UsageError, abbreviate, abbreviate_list, suggest
from aragorn.io import Order, tirex, touche
from aragorn.io.collection import MIN_PREMISE_WORDS
from aragorn.io.files import Inputs, batched, select_files
from aragorn.io.runs import find_run, read_run, sort_ranking, validate_input_run
from aragorn.io.tirex import DOCUMENTS_FILES, QUERIES_FILE, RERANK_FILE
from aragorn.io.touche import ARGS_ME_FILES, PORTAL_FILES, TOPIC_FILES
from aragorn.progress import Stopwatch
from aragorn.storage.archives import combine_hashes, hash_input_files
from aragorn.storage.atomic_files import get_printable_name

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger(__name__)

SINGLE_FILES = (TOPIC_FILES, *PORTAL_FILES, QUERIES_FILE, RERANK_FILE)
CORPUS_FILES = (*ARGS_ME_FILES, *DOCUMENTS_FILES)  # each a whole corpus
EXPECTED = (
    "expected topics*.xml, args-me*.json, a portal's .json (also .jsonl), or a file of a TIREx "
    "data set (optionally .gz)"
)


class Dataset:
    """Topics, documents and optional input run of an input.

    Args:
        paths: Directories, zip archives or files with topics and documents in a supported format.
        input_run: Run to re-rank, or a directory with run.txt; None: the candidates, if any.
        qid: Id of the only topic to use; None: all topics.
        order: Order of an input run, see `sort_ranking`.
        has_topics: Whether the input must have topics; false if only its documents are read.

    Raises:
        InputError: If a file is missing, doubled or of an unsupported format.
    """

    def __init__(
        self,
        *paths: Path,
        input_run: Path | None = None,
        qid: str | None = None,
        order: Order = "auto",
        has_topics: bool = True,
    ) -> None:
        self.paths = paths
        self.name = ", ".join(map(str, paths))
        self.stopwatch = Stopwatch()
        self._qid = qid
        self._order = order
        inputs = Inputs(paths)
        _check_files(inputs)
        self._find_files(inputs, has_topics)
        self._run_file = None if input_run is None else find_run(input_run)
        # documents to re-rank; None: systems retrieve
        self.ranking_file = self._run_file or self.rerank_file
        reranking = f"re-ranking the documents of {self.ranking_file}"
        mode = reranking if self.ranking_file else "each system retrieves from the collection"
        n_topic_files = len(self.topic_files)
        merged = f"; topics of {n_topic_files} files together" if n_topic_files > 1 else ""
        self.description = f"{self.format_name}; {mode}{merged}{self._describe_ignored(inputs)}"

    def _find_files(self, inputs: Inputs, has_topics: bool) -> None:
        names = [QUERIES_FILE, RERANK_FILE, *DOCUMENTS_FILES]
        if inputs.find(TOPIC_FILES):  # then corpus.jsonl may have any format
            names.remove("corpus.jsonl")
        self.is_tirex = bool(inputs.find(*names))
        if not self.is_tirex:
            self.format_name = "Touché format"
            self.min_premise_words = MIN_PREMISE_WORDS
            self.topic_files = inputs.require(*touche.TOPICS) if has_topics else []
            self.corpus_files = inputs.require(*touche.CORPUS)
            self.rerank_file = None
            return
        self.format_name = "TIREx format; text is used as conclusion and premise"
        self.min_premise_words = 0  # texts of other collections need not be arguments
        candidates = inputs.find(RERANK_FILE)[:1]
        queries = inputs.find(QUERIES_FILE)[:1] or candidates
        documents = [file for name in DOCUMENTS_FILES for file in inputs.find(name)] or candidates
        if not documents or (has_topics and not queries):
            missing = QUERIES_FILE if documents else " or ".join(DOCUMENTS_FILES)
            fix = f"add this file or {RERANK_FILE} (optionally .gz){tirex.UNSUPPORTED}"
            raise InputError(self.name, "", f"no {missing} found", fix)
        self.topic_files = queries
        self.corpus_files = list(dict.fromkeys([documents[0], *candidates]))
        self.rerank_file = candidates[0] if candidates else None

    def _describe_ignored(self, inputs: Inputs) -> str:
        files = {*self.topic_files, *self.corpus_files, self.rerank_file, self._run_file}
        names = [
            get_printable_name(file)
            for file in inputs.find("[!.]*")
            if file not in files and os.path.isfile(file)  # noqa: PTH113 accepts long names
        ]
        return f"; ignored files: {abbreviate_list(names)}" if names else ""

    @cached_property
    def topics(self) -> pd.DataFrame:
        """Topics `qid query`; raises UsageError if the requested topic does not exist."""
        with self.stopwatch.stage("topics"):
            topics = self.read_topics()
        if self._qid is None:
            return topics
        if self._qid not in set(topics["qid"]):
            hint = suggest(self._qid, topics["qid"])
            raise UsageError(f"unknown topic '{abbreviate(self._qid)}'; {hint}")
        return topics[topics["qid"] == self._qid].reset_index(drop=True)

    def read_topics(self) -> pd.DataFrame:
        """Read all topics `qid query`, sorted; raise InputError for the first error."""
        import pandas as pd

        if not self.is_tirex:
            return touche.read_topics(self.topic_files)
        rows = [row[1:] for row in tirex.read_queries(self.topic_files[0])]
        return touche.sort_topics(pd.DataFrame(rows, columns=["qid", "query"], dtype=object))

    @cached_property
    def documents(self) -> pd.DataFrame:
        """All documents `docno conclusion premise`, of any length; may raise InputError."""
        with self.stopwatch.stage("documents"):
            if not self.is_tirex:
                return touche.read_documents(self.corpus_files)
            documents = _to_documents(tirex.read_unique_documents(self.corpus_files[0]))
            log.info("%s: %d documents", self.corpus_files[0].name, len(documents))
            return documents.sort_values("docno", ignore_index=True)

    def read_topic_file(self, file: Path) -> Iterator[object]:
        """Yield the topics of a single file; raise InputError for the first invalid one."""
        return tirex.read_queries(file) if self.is_tirex else touche.read_topics_xml(file)

    def read_corpus_file(self, file: Path) -> Iterator[object]:
        """Yield the documents of a single file; raise InputError for the first invalid one."""
        if not self.is_tirex:
            return touche.read_arguments(file, touche.Argument)
        if file == self.corpus_files[0]:
            return tirex.read_unique_documents(file)
        return iter(())  # candidates are read as the input run

    def iter_batches(self) -> Iterator[pd.DataFrame]:
        """Yield the documents in batches, in file order, perhaps repeated; may raise InputError."""
        if not self.is_tirex:
            for file in self.corpus_files:
                yield from touche.iter_batches(file)
        elif self.corpus_files[0] == self.rerank_file:
            yield self.documents
        else:
            for batch in batched(tirex.read_documents(self.corpus_files[0])):
                yield _to_documents(batch)

    @cached_property
    def _sorted_ranking(self) -> pd.DataFrame | None:
        """Sorted input run `qid docno rank score`; None if there is none."""
        import pandas as pd

        if self._run_file:
            ranking = read_run(self._run_file, self._order)
        elif self.rerank_file:
            rows = tirex.read_candidates(self.rerank_file)
            candidates = pd.DataFrame(rows, columns=["line", "qid", "docno", "rank", "score"])
            ranking = sort_ranking(candidates, self._order, self.rerank_file)
        else:
            return None
        return ranking if self._qid is None else ranking[ranking["qid"] == self._qid]

    @property
    def input_depth(self) -> int | None:
        """Largest number of documents per topic in the input run; None if there is no ranking."""
        ranking = self._sorted_ranking
        return None if ranking is None else int(ranking["rank"].max() if len(ranking) else 0)

    def get_input_run(
        self, find_unknown: Callable[[Iterable[str]], set[str]]
    ) -> pd.DataFrame | None:
        """Return the validated input run or None; `find_unknown` returns the unknown docnos."""
        ranking = self._sorted_ranking
        if ranking is None:
            return None
        return validate_input_run(
            ranking, self.topics, find_unknown(ranking["docno"]), self.ranking_file
        )

    @cached_property
    def file_hashes(self) -> dict[str, str]:
        """SHA-256 of each input file by name; the name of a run to re-rank is "input run"."""
        with self.stopwatch.stage("hashes"):
            hashes = hash_input_files(dict.fromkeys([*self.topic_files, *self.corpus_files]))
            if self._run_file:
                [hashes["input run"]] = hash_input_files([self._run_file]).values()
            return hashes

    @cached_property
    def corpus_fingerprint(self) -> str:
        """Hash of the names and contents of the corpus files."""
        names = map(get_printable_name, self.corpus_files)
        return combine_hashes({name: self.file_hashes[name] for name in names})

    @property
    def fingerprint(self) -> str:
        """Hash of all input files, the selected topic and the ranking order."""
        topic_part = {"topic": self._qid} if self._qid is not None else {}
        order_part = {"order": self._order} if self.ranking_file and self._order != "auto" else {}
        return combine_hashes(self.file_hashes | topic_part | order_part)


def _check_files(inputs: Inputs) -> None:
    """Raise InputError for a file of an unknown kind, two portals of the same name, two corpora, or
    a file that occurs twice; topic files, of several years, may have the same name."""
    for path, files in inputs.files_by_path:
        if not path.is_dir() and not select_files(files, *SINGLE_FILES, *CORPUS_FILES):
            raise Inputs([path]).build_missing_error("topics or corpus", EXPECTED)
    groups = {"corpus": [*inputs.find(*CORPUS_FILES), *inputs.find(*PORTAL_FILES)[:1]]}
    for file in inputs.find(*SINGLE_FILES):
        groups.setdefault(file.name.split(".")[0], []).append(file)
    for name, files in groups.items():
        are_topics = name.startswith("topics")
        for file in files[1:]:
            if file == files[0] or (file.parent != files[0].parent and not are_topics):
                reason = f"second {name} of the input (first: {files[0]})"
                raise InputError(file, "", reason, "pass only one of them")


def _to_documents(rows: Iterable[tuple[int, str, str]]) -> pd.DataFrame:
    import pandas as pd

    frame = pd.DataFrame(rows, columns=["line", "docno", "text"], dtype=object)
    texts = frame["text"]
    return pd.DataFrame({"docno": frame["docno"], "conclusion": texts, "premise": texts})
