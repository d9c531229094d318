"""Benchmarks of scoring pairs of token ids, against a forward pass over padded batches."""

from copy import deepcopy
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch.nn import functional

from aragorn.engine import CPU, LOCAL_ENGINE
from aragorn.errors import UsageError
from aragorn.inference.checkpoint import load_checkpoint
from aragorn.inference.pair_scoring import TokenCache, score_documents
from aragorn.models.network import pad
from aragorn.paths import CHECKPOINT_DIR
from aragorn.systems.catalogue import CONCLUSION_BM25
from tests.benchmarks.synthetic_inputs import load_collection, open_empty_parts
from tests.conftest import open_retrieval

BATCH_SIZE = 32
BASELINE = f"forward pass over padded batches of {BATCH_SIZE}"
DOCUMENTS = 1024  # number of documents for SNRM's index; the baseline takes 30 s


@dataclass(frozen=True)
class TokenIds(TokenCache):
    """Token ids, precomputed to keep tokenisation out of the measured time."""

    queries: dict[str, list[int]]
    premises: dict[str, np.ndarray]

    def get_query_token_ids(self, tokeniser):
        return self.queries

    def get_premise_token_ids(self, tokeniser, docnos):
        return self.premises


def load_candidates(directory, tokeniser):
    """Load the candidates `qid docno` of an input, and the token ids of their texts."""
    with open_retrieval(directory) as retrieval:
        candidates = retrieval.rank(CONCLUSION_BM25)
        tokens = retrieval.tokens
        premises = tokens.get_premise_token_ids(tokeniser, candidates["docno"])
        return candidates, TokenIds(tokens.get_query_token_ids(tokeniser), premises)


def score_with_empty_cache(pairs, tokens, checkpoint, device=CPU, engine=LOCAL_ENGINE):
    """Return the scores of pairs `qid docno`, in order, computed with an empty cache."""
    with open_empty_parts() as store:
        return score_documents(pairs, tokens, checkpoint, device, store, engine)


def measure(name, target, inputs, is_gpu=False):
    """Compare a word network on the CPU, or a BERT network on a GPU, with a plain forward pass.

    The baseline pads each batch to its longest text or, on a GPU, to the maximum length; it
    computes in float32.

    Raises:
        AssertionError: If the scores differ from the baseline's by more than 1e-5, or 0.1 on a GPU.
    """
    checkpoint = load_checkpoint(CHECKPOINT_DIR / name)
    device = "cuda" if is_gpu else CPU
    candidates, ids = load_candidates(inputs.directory, checkpoint.tokeniser)
    pairs = list(zip(candidates["qid"], candidates["docno"], strict=True))
    lengths = checkpoint.tokeniser.lengths
    network = deepcopy(checkpoint.network).to(device)

    def pad_texts(texts, length):
        if not is_gpu:
            return list(pad(texts))
        return [
            functional.pad(tensor, (0, length - tensor.shape[1])).to(device)
            for tensor in pad(texts)
        ]

    @torch.inference_mode()
    def baseline():
        scores = []
        for start in range(0, len(pairs), BATCH_SIZE):
            batch = pairs[start : start + BATCH_SIZE]
            query = pad_texts([ids.queries[qid] for qid, _ in batch], lengths.query)
            premise = pad_texts([ids.premises[docno] for _, docno in batch], lengths.premise)
            scores.append(network(*query, *premise))
        return torch.cat(scores).cpu()

    def ours():
        return torch.from_numpy(score_with_empty_cache(candidates, ids, checkpoint, device))

    check_equal(ours(), baseline(), 0.1 if is_gpu else 1e-5)
    task = f"{name}: the candidates of all topics, {'GPU, float16' if is_gpu else 'CPU'}"
    baseline_name = f"float32, padded batches of {BATCH_SIZE}" if is_gpu else BASELINE
    return inputs.compare(task, baseline_name, "pairs", len(pairs), ours, baseline, target)


def measure_on_gpu(inputs):
    """Compare three BERT networks on a GPU in float16 with float32.

    Raises:
        UsageError: If the machine has no CUDA device.
    """
    if not torch.cuda.is_available():
        raise UsageError("this machine has no CUDA device; use a machine with a GPU")
    names = ("vanilla_bert", "cedr_drmm", "cedr_knrm")
    return [measure(name, 4, inputs, is_gpu=True) for name in names]


def measure_snrm(inputs):
    """Compare SNRM's `encode_batch`, which its index uses, with `encode`."""
    checkpoint = load_checkpoint(CHECKPOINT_DIR / "snrm")
    collection = load_collection(inputs.directory)
    premises = (collection["premise"].tolist() * (1 + DOCUMENTS // len(collection)))[:DOCUMENTS]
    ids = [np.array(checkpoint.tokeniser.encode_premise(text), dtype=np.int32) for text in premises]
    ranker = checkpoint.network

    @torch.inference_mode()
    def encode(forward, size, n):
        starts = range(0, n, size)
        return torch.cat([forward(*pad(ids[start : min(start + size, n)])) for start in starts])

    ours = partial(encode, ranker.encode_batch, 2048)
    baseline = partial(encode, ranker.encode, BATCH_SIZE)
    check_equal(ours(256), baseline(256), 1e-5)
    sides = partial(ours, DOCUMENTS), partial(baseline, DOCUMENTS)
    task = "snrm: document vectors for the index, CPU"
    return inputs.compare(task, BASELINE, "documents", DOCUMENTS, *sides, 2)


def check_equal(ours, baseline, tolerance):
    """Raise AssertionError if scores differ by more than the tolerance, relative above 1."""
    difference = ((ours - baseline).abs() / baseline.abs().clamp(min=1)).max().item()
    if not difference <= tolerance:
        message = f"scores differ from the baseline by {difference:g}, more than {tolerance:g}"
        raise AssertionError(message)
