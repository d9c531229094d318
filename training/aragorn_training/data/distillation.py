"""Prepare and load lists of documents that a teacher system has scored for debate titles."""

import hashlib
import logging
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import pandas as pd

from aragorn.errors import InputError
from aragorn.io.dataset import Dataset
from aragorn.io.touche import find_corpus_files, read_topics
from aragorn.storage.archives import hash_input_files
from aragorn.storage.recorded_files import MANIFEST, Record, RecordedFiles, read_record
from aragorn.systems.catalogue import System
from aragorn.versions import describe_versions
from aragorn_training.data.corpora import describe_judged_data
from aragorn_training.data.debates import exclude_paraphrases, read_debate_titles
from aragorn_training.data.quality import COLUMNS
from aragorn_training.data.retrieval import DatasetRetrieval
from aragorn_training.data.split import RandomStream, create_generator
from aragorn_training.data.work_directory import convert_table_errors

VERSION = 1  # of the table made from the same rankings

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class DistillationSettings:
    """Options of `prepare distillation` that determine the sample of titles and documents."""

    max_titles: int = 1000
    documents_per_title: int = 24  # half from the top ranks, half sampled from the lower ranks
    seed: int = 0


class DebateTitleInput(Dataset):
    """Input that consists of the corpus of another input and debate titles as topics."""

    def __init__(self, *paths: Path, titles: Sequence[str]) -> None:
        """Create the input from the paths of an input with a corpus, and debate titles."""
        super().__init__(*paths)
        self._titles = titles

    @cached_property
    def topics(self) -> pd.DataFrame:
        """The debate titles as topics `qid query`, numbered from 1."""
        qids = [*map(str, range(1, len(self._titles) + 1))]
        return pd.DataFrame({"qid": qids, "query": self._titles})

    @cached_property
    def file_hashes(self) -> dict[str, str]:
        """The SHA-256 of each input file by name, and that of the titles as `titles`."""
        titles = "\n".join(self._titles).encode()
        return super().file_hashes | {"titles": hashlib.sha256(titles).hexdigest()}


def build_title_input(
    paths: Sequence[Path], excluded_topic_files: Sequence[Path], settings: DistillationSettings
) -> DebateTitleInput:
    """Combine the corpus of an input with at most `settings.max_titles` sampled debate titles that
    paraphrase no topic of the input or of an excluded file; raise InputError if none remains."""
    dataset = Dataset(*paths)
    excluded_topics = dataset.topics["query"].tolist()
    for file in excluded_topic_files:
        excluded_topics += read_topics([file])["query"].tolist()
    all_titles = read_debate_titles(find_corpus_files(*paths))
    titles = exclude_paraphrases(all_titles, excluded_topics)
    log.info(
        "%d debate titles, %d after removing paraphrases of topics", len(all_titles), len(titles)
    )
    if not titles:
        cause = (
            f"all {len(all_titles)} debate titles paraphrase a topic"
            if all_titles
            else "no debate titles"
        )
        raise InputError(f"{dataset.name}: {cause}; use a larger corpus")
    rng = create_generator(settings.seed, RandomStream.DEBATE_TITLES)
    sample = np.sort(rng.permutation(len(titles))[: settings.max_titles])
    return DebateTitleInput(*paths, titles=[titles[index] for index in sample])


def prepare_distillation(
    system: System,
    retrieval: DatasetRetrieval,
    excluded_topic_files: Sequence[Path],
    settings: DistillationSettings,
    overwrite: bool = False,
) -> None:
    """Write documents with a teacher's scores for debate titles to the table of the retrieval's
    working directory, see `get_table_path`; keep a complete table.

    The retrieval is on the result of `build_title_input` with the same topic files and settings.
    """
    cache_key = {
        **describe_judged_data(retrieval.dataset, hash_input_files([*excluded_topic_files])),
        "teacher": {"system": system.name, "key": retrieval.compute_key(system.stage)},
        "version": describe_versions(sys.modules[__name__]),
        **asdict(settings),
    }
    file = get_table_path(retrieval.session.cache.path)
    tables = RecordedFiles(file.parent, cache_key, overwrite)
    tables.build([file.name], partial(_write_scores, system, retrieval, settings))


def get_table_path(work_dir: Path) -> Path:
    """Return the path of the table of scored documents in a working directory."""
    return work_dir / "distilled" / "lists.parquet"


def load_table(work_dir: Path) -> tuple[pd.DataFrame, Record]:
    """Load the scored documents as COLUMNS (title in `debate` and `topic`), and their manifest."""
    file = get_table_path(work_dir)
    with convert_table_errors(file, work_dir, "distillation", "labels"):
        return pd.read_parquet(file, columns=COLUMNS), read_record(file.parent / MANIFEST)


def _write_scores(
    system: System, retrieval: DatasetRetrieval, settings: DistillationSettings, file: Path
) -> None:
    titles = retrieval.topics.set_index("qid")["query"]
    count = settings.documents_per_title
    lists = []
    for qid, ranking in retrieval.rank(system.stage).groupby("qid", sort=False):
        documents = ranking.iloc[_select_ranks(len(ranking), settings, int(str(qid)))]
        if len(documents) == count and documents["score"].nunique() > 1:
            lists.append(documents.assign(data=system.name, debate=titles[qid], topic=titles[qid]))
    if not lists:
        raise InputError(
            f"{retrieval.dataset.name}: for none of {len(titles)} titles does {system.name} rank "
            f"at least {count} documents with different scores; lower --documents or use a larger "
            "corpus"
        )
    table = pd.concat(lists, ignore_index=True)
    texts = retrieval.collection.documents.read_texts(set(table["docno"]))
    premises = table["docno"].map(texts.set_index("docno")["premise"])
    table.assign(premise=premises)[COLUMNS].to_parquet(file, index=False)
    message = "Scored %d documents for each of %d out of %d titles"
    log.info(message, count, len(lists), len(titles))


def _select_ranks(n_documents: int, settings: DistillationSettings, title_index: int) -> np.ndarray:
    """Select at most `documents_per_title` 0-based ranks: half at the top, half sampled below."""
    n_top = min(n_documents, -(-settings.documents_per_title // 2))
    rng = create_generator(settings.seed, RandomStream.DEBATE_TITLES, title_index)
    sample = rng.permutation(n_documents - n_top)[: settings.documents_per_title - n_top]
    return np.concatenate([np.arange(n_top), n_top + np.sort(sample)])
