"""Read TIREx data sets: JSON Lines of queries and documents, or candidates to re-rank.

queries.jsonl    {qid, query}
documents.jsonl  {docno, text}; or corpus.jsonl
rerank.jsonl     {qid, query, docno, text, rank, score}: candidates; also queries and documents if
their files are missing

All files may be gzipped; `tirex_records` lists further field names. Rank and score are optional.
The text combines premises and conclusion, and fills both columns of a document.
"""

import logging
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

import pandas as pd

from aragorn.errors import InputError, abbreviate, pluralise
from aragorn.io import tirex_records as fields
from aragorn.io.input_files import batched, find_files, raise_first, raise_on_error
from aragorn.io.tirex_records import Field, iter_records, read_records
from aragorn.io.topics import TOPIC_FILES, sort_topics
from aragorn.io.unsupported_formats import BEIR_DOCUMENTS_HINT, BEIR_QUERIES_HINT, is_beir_file

log = logging.getLogger(__name__)

QUERIES_FILES, RERANK_FILES = ["queries.jsonl"], ["rerank.jsonl"]
DOCUMENTS_FILES = ["documents.jsonl", "corpus.jsonl"]

Records = tuple[pd.DataFrame, list[str]]  # valid records, and all issues


class TirexReader:
    """Reader of a TIREx data set."""

    format_name = "TIREx format; text is used as conclusion and premise"
    min_premise_words = 0  # texts of other collections need not be arguments

    def __init__(self, *paths: Path) -> None:
        self.rerank_file = _find_file(paths, RERANK_FILES)
        queries, documents = (
            _find_file(paths, names) or self.rerank_file
            for names in (QUERIES_FILES, DOCUMENTS_FILES)
        )
        if not queries or not documents:
            for file, hint in ((queries, BEIR_QUERIES_HINT), (documents, BEIR_DOCUMENTS_HINT)):
                if file and is_beir_file(file):
                    raise InputError(f"{file}: {hint}")
            missing_names = " or ".join(DOCUMENTS_FILES if queries else QUERIES_FILES)
            names = ", ".join(map(str, paths))
            raise InputError(
                f"{names}: no {missing_names} found; add this file or {RERANK_FILES[0]} (optionally .gz)"
            )
        self._queries, self._documents = queries, documents
        self.topic_files = [queries]
        self.corpus_files = list(dict.fromkeys([documents, self.rerank_file or documents]))

    @staticmethod
    def matches(*paths: Path) -> bool:
        """Return whether an input contains files of a TIREx data set."""
        names = [*QUERIES_FILES, *RERANK_FILES, *DOCUMENTS_FILES]
        if find_files(paths, TOPIC_FILES):  # then corpus.jsonl may have any format
            names.remove("corpus.jsonl")
        return _find_file(paths, names) is not None

    def read_topics(self) -> Records:
        records, issues = self._read(self._queries, [fields.QID, fields.QUERY])
        topics, issues = _drop_duplicates(self._queries, records, issues, "qid", "query")
        expected = 'expected lines {"qid": "1", "query": "…"}'
        for qid, line in topics[topics["query"].str.strip() == ""][["qid", "line"]].itertuples(
            index=False
        ):
            issues.append(
                f"{self._queries}, line {line}: topic {abbreviate(qid)} has an empty query; {expected}"
            )
        if not len(topics) and not issues:
            issues.append(f"{self._queries}: no queries; {expected}")
        return sort_topics(topics[["qid", "query"]]), issues

    def read_documents(self) -> Records:
        records, issues = self._read(self._documents, [fields.DOCNO, fields.TEXT])
        documents, issues = _drop_duplicates(self._documents, records, issues, "docno", "text")
        if not issues:
            log.info("%s: %d documents", self._documents.name, len(documents))
            if self._documents != self.rerank_file and len(documents) < len(records):
                log.warning(
                    "dropped %s (same id and text)",
                    pluralise(len(records) - len(documents), "duplicate document"),
                )
        documents = documents.sort_values("docno", ignore_index=True)
        columns = {
            "docno": documents["docno"],
            "conclusion": documents["text"],
            "premise": documents["text"],
        }
        return pd.DataFrame(columns), issues

    def iter_batches(self) -> Iterator[pd.DataFrame]:
        if self._documents == self.rerank_file:
            documents, issues = self.read_documents()
            raise_first(issues)
            yield documents
            return
        for batch in batched(
            raise_on_error(iter_records(self._documents, [fields.DOCNO, fields.TEXT]))
        ):
            docnos, texts, _ = zip(*batch, strict=True)
            yield pd.DataFrame(
                {"docno": docnos, "conclusion": texts, "premise": texts}, dtype=object
            )

    def read_candidates(self) -> pd.DataFrame | None:
        if not self.rerank_file:
            return None
        candidates, issues = self._candidates
        raise_first(issues)
        return candidates[["qid", "docno", "rank", "score", "line"]]

    def _read(self, file: Path, columns: Sequence[Field]) -> Records:
        return self._candidates if file == self.rerank_file else read_records(file, columns)

    @cached_property
    def _candidates(self) -> Records:
        """Valid candidates and all issues; candidates include queries or texts that have no
        separate file."""
        assert self.rerank_file
        query_fields = [fields.CANDIDATE_QUERY] if self._queries == self.rerank_file else []
        text_fields = [fields.TEXT] if self._documents == self.rerank_file else []
        columns = [fields.QID, *query_fields, fields.DOCNO, *text_fields, fields.RANK, fields.SCORE]
        return read_records(self.rerank_file, columns)


def _find_file(paths: Sequence[Path], names: Sequence[str]) -> Path | None:
    """Return the first existing file with one of the names, plain or gzipped; None if there is
    none."""
    return next((file for name in names for file in find_files(paths, name)), None)


def _drop_duplicates(
    file: Path, records: pd.DataFrame, issues: list[str], id_column: str, text_column: str
) -> Records:
    """Return the first record of each id, and `issues` followed by an issue for each id with
    different texts."""
    first_records = records.drop_duplicates(id_column)
    first_texts = records[id_column].map(
        dict(zip(first_records[id_column], first_records[text_column], strict=True))
    )
    first_lines = dict(zip(first_records[id_column], first_records["line"], strict=True))
    conflicts = [
        f"{file}, line {line}: {id_column} {abbreviate(identifier)} repeated with different {text_column} "
        f"(first in line {first_lines[identifier]}); ids must be unique"
        for identifier, line in records[first_texts != records[text_column]][
            [id_column, "line"]
        ].itertuples(index=False)
    ]
    return first_records, [*issues, *conflicts]
