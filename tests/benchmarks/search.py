"""Benchmarks of the primary system's answers to new questions, from an index of the collection.

The index contains random vectors instead of SBERT's: times and sizes do not depend on the values,
and encoding takes hours.
"""

import statistics
from functools import partial
from pathlib import Path
from unittest.mock import patch
from urllib.parse import urlencode

import numpy as np

from aragorn.cache import encode_npy, open_cache
from aragorn.engine import CPU
from aragorn.index.dense import get_dense_ranker
from aragorn.io.dataset import Dataset
from aragorn.io.touche import find_corpus_files
from aragorn.paths import CHECKPOINT_DIR
from aragorn.pipeline.retrieval import iter_components
from aragorn.pipeline.session import CheckpointStore, Collection, Session
from aragorn.search.indexing import build_indexes
from aragorn.search.searcher import SearchOptions
from aragorn.search.server import SearchServer
from aragorn.systems.catalogue import PRIMARY_SYSTEM, get_system
from tests.benchmarks.benchmark import Result, compare_with_target, run_process, time_call
from tests.benchmarks.synthetic_inputs import describe_corpus, load_collection, sample_rows
from tests.conftest import SAMPLE, argv, open_searcher


def measure_search(directory, cache_dir, limit, repetitions, question_count=50):
    """Compare the times of answers with targets, and the size of the index with the corpus's.

    Args:
        directory: Input whose conclusions are asked as questions.
        cache_dir: Cache directory for the index, which is built if it is missing.
        limit: Target of the median time of further answers, in seconds.
        repetitions: Number of processes whose first answer is timed.
        question_count: Number of further questions per interface.
    """
    system = get_system(PRIMARY_SYSTEM)
    checkpoints = CheckpointStore(CHECKPOINT_DIR)
    corpus = Dataset(directory, has_topics=False)
    collection = load_collection(directory)
    with (
        open_cache(cache_dir, Path()) as cache,
        patch("aragorn.index.dense.encode_shard", draw_vectors),
    ):
        components = list(iter_components(system.stage))
        build_indexes(components, Collection(corpus, Session(checkpoints, CPU, cache)))
    files = [file for file in cache_dir.rglob("*") if file.is_file()], find_corpus_files(directory)
    sizes = [sum(file.stat().st_size for file in part) for part in files]
    conclusions = collection[["conclusion"]].drop_duplicates()
    rows = sample_rows(conclusions, 2 * question_count + 2, can_repeat=True)
    first, second, *questions = rows["conclusion"].str[:200]
    flags = argv("-i", directory, "--cache-dir", cache_dir, "--device cpu --system", PRIMARY_SYSTEM)
    start = partial(run_process, "-m", "aragorn", "search", *flags, first)
    starts = [time_call(start) for _ in range(repetitions)]
    with (
        open_searcher(corpus, checkpoints, CPU, cache_dir) as searcher,
        SearchServer(searcher, Dataset(SAMPLE), [system], 5, 0) as server,
    ):
        ask = partial(searcher.search, systems=[system], options=SearchOptions())
        ask(second)
        times = [time_call(partial(ask, question)) for question in questions[:question_count]]
        queries = [urlencode({"q": question}) for question in questions[question_count:]]
        page_times = [time_call(partial(server.respond, query)) for query in queries]
    task = f"{PRIMARY_SYSTEM}, {describe_corpus(directory)}, indexed"
    results = [
        compare_with_target(f"{task}: {name}", statistics.median(seconds), target, "s", digits)
        for name, seconds, target, digits in (
            ("start to first answer", starts, 3, 2),
            ("further answer in Python", times, limit, 3),
            ("further answer on the page", page_times, limit, 3),
        )
    ]
    cells = [f"{n / len(collection):,.0f} bytes" for n in sizes]
    return [*results, Result(f"{task}: index per document", "corpus", *cells, sizes[1] / sizes[0])]


def draw_vectors(checkpoint, input_type, device, texts):
    """Draw random vectors instead of encoding texts; arguments as for `encode_shard`."""
    shape = (len(texts), get_dense_ranker(checkpoint).dimension)
    vectors = np.random.default_rng(0).standard_normal(shape)
    return encode_npy((vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float16))
