"""Enrich a whole collection in cached shards: the word frequencies of their documents, in order."""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain, islice

import msgspec
import numpy as np

from aragorn.cache import Parts
from aragorn.engine import CPU, LOCAL_ENGINE, Engine, Shard, compute_shards
from aragorn.inference.checkpoint import TaggerCheckpoint
from aragorn.inference.device import batch_by_tokens, get_max_batch_tokens, map_batches
from aragorn.models.taggers import TokenAnnotation

VERSION = 1  # of word frequencies of the same tagger
COMPUTES_WITH = ("aragorn.inference.checkpoint", "numpy", "torch")

log = logging.getLogger(__name__)

SHARD_SIZE = 256  # documents
MANY_DOCUMENTS = 100_000  # above which a warning is logged on a CPU

WordFrequencies = Mapping[str, int]
# word frequencies of documents `start` to `end - 1`
FrequencyLoader = Callable[[int, int], Sequence[WordFrequencies]]


def enrich_collection(
    docnos: Sequence[str],
    load_texts: Callable[[Sequence[str]], Sequence[str]],
    checkpoint: TaggerCheckpoint,
    device: str,
    parts: Parts,
    engine: Engine = LOCAL_ENGINE,
) -> FrequencyLoader:
    """Enrich all documents in cached shards; return a function that loads word frequencies.

    `load_texts` loads texts by docno, in order. `parts` are of the same documents, checkpoint and
    device.
    """

    def make_shard(start: int) -> Shard[Sequence[str]]:
        shard_docnos = docnos[start : start + SHARD_SIZE]
        file_name = f"{start // SHARD_SIZE:06}"
        return Shard(file_name, len(shard_docnos), partial(load_texts, shard_docnos))

    shards = [make_shard(start) for start in range(0, len(docnos), SHARD_SIZE)]
    name = checkpoint.network.get_name()
    known_names = set(parts.get_names())
    n_missing = sum(shard.n_units for shard in shards if shard.name not in known_names)
    if n_missing > MANY_DOCUMENTS and device == CPU:
        message = (
            "%s: enriching %d documents on a CPU takes hours; use a GPU, or --cache-dir DIR to "
            "resume after an interruption"
        )
        log.warning(message, name, n_missing)
    read_shard = compute_shards(
        partial(encode_shard, checkpoint, device), shards, parts, engine, device, name, "documents"
    )

    def load_frequencies(start: int, end: int) -> Sequence[WordFrequencies]:
        first_shard = start // SHARD_SIZE
        end_shard = -(-min(end, len(docnos)) // SHARD_SIZE)
        contents = map(read_shard, range(first_shard, end_shard))
        frequencies = [
            *chain.from_iterable(
                msgspec.msgpack.decode(data, type=list[dict[str, int]]) for data in contents
            )
        ]
        return frequencies[start - first_shard * SHARD_SIZE : end - first_shard * SHARD_SIZE]

    return load_frequencies


def encode_shard(checkpoint: TaggerCheckpoint, device: str, texts: Sequence[str]) -> bytes:
    """Enrich the texts of a shard; return their word frequencies as MessagePack."""
    return msgspec.msgpack.encode(enrich_texts(texts, checkpoint, device))


def enrich_separately(
    checkpoint: TaggerCheckpoint, device: str, texts: Sequence[str]
) -> list[WordFrequencies]:
    """Compute the word frequencies of texts one by one, independently of the batch."""
    return [enrich_texts([text], checkpoint, device)[0] for text in texts]


def enrich_texts(
    texts: Sequence[str], checkpoint: TaggerCheckpoint, device: str
) -> list[WordFrequencies]:
    """Compute the word frequencies of texts, with their passages batched together."""
    return [
        checkpoint.network.compute_word_frequencies(passages)
        for passages in annotate_texts(texts, checkpoint, device)
    ]


def annotate_texts(
    texts: Sequence[str], checkpoint: TaggerCheckpoint, device: str
) -> list[list[list[TokenAnnotation]]]:
    """Return each text's annotated passages; the longest first, to allocate GPU memory once."""
    tagger = checkpoint.move_network(device)
    passages_by_text = [checkpoint.tokeniser.split(text) for text in texts]
    passages = list(chain.from_iterable(passages_by_text))

    def compute(rows: np.ndarray) -> list[list[TokenAnnotation]]:
        return tagger.annotate([passages[row] for row in rows])

    max_tokens = max(get_max_batch_tokens(device, checkpoint.precision), tagger.min_batch_tokens)
    batches = batch_by_tokens([len(passage) for passage in passages], max_tokens)
    annotations: dict[int, list[TokenAnnotation]] = {}
    for rows, batch in zip(
        batches,
        map_batches(compute, batches, device, lambda halves: [*chain.from_iterable(halves)]),
        strict=True,
    ):
        annotations |= zip(rows.tolist(), batch, strict=True)
    ordered_annotations = iter([annotations[row] for row in range(len(passages))])
    return [
        list(islice(ordered_annotations, len(text_passages))) for text_passages in passages_by_text
    ]
