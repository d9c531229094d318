"""Prepare and load lists of documents that a teacher system has scored for debate titles."""

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import pandas as pd

from aragorn.cache import open_cache
from aragorn.engine import choose_device
from aragorn.errors import InputError
from aragorn.io.dataset import Dataset
from aragorn.io.touche import find_corpus_files, read_topics
from aragorn.options import integer_between, option
from aragorn.pipeline.session import CheckpointStore, Session
from aragorn.storage.archives import hash_input_files
from aragorn.storage.recorded_files import MANIFEST, Record, RecordedFiles, read_record
from aragorn.systems.catalogue import System, get_system
from aragorn.versions import describe_versions
from aragorn_training.data.corpora import describe_judged_data
from aragorn_training.data.debates import exclude_paraphrases, read_debate_titles
from aragorn_training.data.quality import COLUMNS
from aragorn_training.data.retrieval import DatasetRetrieval
from aragorn_training.data.split import RandomStream, create_generator
from aragorn_training.data.work_directory import convert_table_errors
from aragorn_training.options import (
    CheckpointOptions,
    DefaultInputOptions,
    DeviceOptions,
    PrepareOptions,
    SeedOptions,
    parse_positive_int,
)

VERSION = 1  # of the table made from the same rankings
COMPUTES_WITH = (
    "aragorn.io.touche",
    "aragorn.text.index_terms",
    "aragorn.text.normalisation",
    "aragorn_training.data.quality",
    "numpy",
    "pandas",
    "rapidfuzz",
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Options(DeviceOptions, CheckpointOptions, SeedOptions, PrepareOptions, DefaultInputOptions):
    """Options of `prepare distillation`."""

    exclude_topics: tuple[Path, ...] = option(
        (),
        metavar="FILE",
        help="XML file of topics; titles similar to these or to the input's topics are dropped; "
        "repeatable",
    )
    teacher: str = option("fusion", metavar="SYSTEM", help="name of the teacher system")
    titles: int = option(1000, parse=parse_positive_int, help="maximum number of titles")
    # half from the top ranks, half sampled from the lower ranks
    documents: int = option(
        24, parse=integer_between(2, 1000), help="number of documents per title"
    )


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


def prepare_distillation(options: Options) -> None:
    """Score documents for debate titles with a teacher system."""
    system = get_system(options.teacher)
    checkpoints = CheckpointStore(options.checkpoint_dir)
    with open_cache(options.work_dir, options.work_dir) as cache:
        dataset = _build_title_input(options)
        session = Session(checkpoints, choose_device(options.device), cache)
        retrieval = DatasetRetrieval(dataset, session)
        cache_key = {
            **describe_judged_data(dataset, hash_input_files([*options.exclude_topics])),
            "teacher": {"system": system.name, "key": retrieval.compute_key(system.stage)},
            "version": describe_versions(__name__),
            "max_titles": options.titles,
            "documents_per_title": options.documents,
            "seed": options.seed,
        }
        file = get_table_path(options.work_dir)
        tables = RecordedFiles(file.parent, cache_key, options.overwrite)
        tables.build([file.name], partial(_write_scores, system, retrieval, options))


def _build_title_input(options: Options) -> DebateTitleInput:
    """Combine the corpus of the input with sampled debate titles that paraphrase no topic of the
    input or of an excluded file; raise InputError if none remains."""
    dataset = Dataset(*options.inputs)
    excluded_topics = dataset.topics["query"].tolist()
    for file in options.exclude_topics:
        excluded_topics += read_topics([file])["query"].tolist()
    all_titles = read_debate_titles(find_corpus_files(*options.inputs))
    titles = exclude_paraphrases(all_titles, excluded_topics)
    log.info(
        "%d debate titles, %d after removing paraphrases of topics", len(all_titles), len(titles)
    )
    if not titles:
        cause = f"all {len(all_titles)} debate titles paraphrase a topic"
        cause = cause if all_titles else "no debate titles"
        raise InputError(f"{dataset.name}: {cause}; use a larger corpus")
    rng = create_generator(options.seed, RandomStream.DEBATE_TITLES)
    sample = np.sort(rng.permutation(len(titles))[: options.titles])
    return DebateTitleInput(*options.inputs, titles=[titles[index] for index in sample])


def get_table_path(work_dir: Path) -> Path:
    """Return the path of the table of scored documents in a working directory."""
    return work_dir / "distilled" / "lists.parquet"


def load_table(work_dir: Path) -> tuple[pd.DataFrame, Record]:
    """Load the scored documents as COLUMNS (title in `debate` and `topic`), and their manifest."""
    file = get_table_path(work_dir)
    with convert_table_errors(file, work_dir, "distillation", "labels"):
        return pd.read_parquet(file, columns=COLUMNS), read_record(file.parent / MANIFEST)


def _write_scores(
    system: System, retrieval: DatasetRetrieval, options: Options, file: Path
) -> None:
    titles = retrieval.topics.set_index("qid")["query"]
    count = options.documents
    lists = []
    for qid, ranking in retrieval.rank(system.stage).groupby("qid", sort=False):
        documents = ranking.iloc[_select_ranks(len(ranking), options, int(str(qid)))]
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


def _select_ranks(n_documents: int, options: Options, title_index: int) -> np.ndarray:
    """Select the 0-based ranks of at most `documents`: half at the top, half sampled below."""
    n_top = min(n_documents, -(-options.documents // 2))
    rng = create_generator(options.seed, RandomStream.DEBATE_TITLES, title_index)
    sample = rng.permutation(n_documents - n_top)[: options.documents - n_top]
    return np.concatenate([np.arange(n_top), n_top + np.sort(sample)])
