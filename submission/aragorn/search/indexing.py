"""Run the verb `index`: build what systems need of a collection before they know the topics."""

import logging
import shlex
import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from aragorn.cache import open_cache
from aragorn.engine import LOCAL_ENGINE
from aragorn.errors import pluralise
from aragorn.io.dataset import Dataset
from aragorn.io.document_store import CorpusFrame
from aragorn.paths import PROGRAM
from aragorn.pipeline.retrieval import Component, iter_components
from aragorn.pipeline.session import Collection, open_engine, open_session
from aragorn.progress import announce, log_when_silent, suppress_info
from aragorn.systems.catalogue import PRIMARY_SYSTEM, get_system
from aragorn.verbs import IndexOptions

log = logging.getLogger(__name__)

# documents by which time and space are estimated
SAMPLE_SIZE = 256
WARM_UP_SIZE = 4


def index(options: IndexOptions) -> None:
    """Build the indexes of the named systems (default: the primary one) in the cache."""
    stages = [get_system(name).stage for name in options.systems or [PRIMARY_SYSTEM]]
    components = list(
        dict.fromkeys(component for stage in stages for component in iter_components(stage))
    )
    with (
        open_engine(options) as engine,
        open_session(options, options.cache_dir, Path(), engine) as session,
        log_when_silent(),
    ):
        dataset = Dataset(*options.inputs, has_topics=False)
        log.info("%s; %s", dataset.name, dataset.format_name)
        collection = Collection(dataset, session)
        build_indexes(components, collection)
        n_documents = len(collection.documents.searchable_docnos)
    log.info("index of %s in %s", pluralise(n_documents, "document"), options.cache_dir)


def build_indexes(components: Sequence[Component], collection: Collection) -> None:
    """Estimate time and space of the components' indexes, then build those not cached."""
    n_documents = len(collection.documents.searchable_docnos)
    with announce(lambda: "estimating time and space"):
        seconds, size = _estimate(components, collection)
    free = shutil.disk_usage(collection.session.cache.path).free
    message = (
        "indexing %s: about %.0f s and %.0f MB (%.0f MB free), excluding vectors that "
        "are already cached"
    )
    log.info(message, pluralise(n_documents, "document"), seconds, size / 1e6, free / 1e6)
    for component in components:
        component.build_index(collection)


def format_index_command(paths: Sequence[Path]) -> str:
    """Return the command that encodes all texts of an input in advance."""
    flags = [text for path in paths for text in ("-i", str(path))]
    return shlex.join([PROGRAM, "index", *flags, "--cache-dir", "DIR"])


def _estimate(components: Sequence[Component], collection: Collection) -> tuple[float, float]:
    """Estimate seconds and bytes of the missing indexes from those of a sample."""
    docnos = collection.documents.searchable_docnos
    rows = np.linspace(0, len(docnos) - 1, min(SAMPLE_SIZE, len(docnos)), dtype=int)
    sample = collection.documents.read_texts([docnos[row] for row in np.unique(rows)])
    parts = [
        (component, component.select_unindexed(collection, sample)) for component in components
    ]
    for limit in (WARM_UP_SIZE, len(sample)):  # the first loads networks and libraries
        with open_cache(None, Path()) as cache, suppress_info():
            session = replace(collection.session, cache=cache, engine=LOCAL_ENGINE)
            start = time.monotonic()
            for component, documents in parts:
                if len(documents):
                    component.build_index(Collection(CorpusFrame(documents[:limit]), session))
            seconds = time.monotonic() - start
            size = sum(file.stat().st_size for file in cache.path.rglob("*") if file.is_file())
    scale = len(docnos) / len(sample)
    return scale * seconds, scale * size
