"""Benchmarks of BERT networks on a CPU against BERT in OpenVINO and in ONNX Runtime.

The baselines compute the last layer's hidden states of the same texts, tokenised beforehand and
sorted by length, in batches of the same size, one batch per thread.
"""

import io
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import numpy as np
import onnxruntime
import openvino
import torch
from torch import Tensor, nn
from transformers import BertConfig, BertModel

from aragorn.engine.base import CPU
from aragorn.engine.device import FLOAT32, choose_precision
from aragorn.errors import UsageError
from aragorn.index.conclusions import ConclusionIndex, retrieve
from aragorn.index.dense import encode_texts
from aragorn.inference.checkpoint import load_checkpoint, load_tagger
from aragorn.inference.device import batch_by_length, batch_by_tokens, move_to_device
from aragorn.inference.enrichment import enrich_texts
from aragorn.inference.pair_scoring import TokenCache, TokenisedPairs, score_pairs
from aragorn.io.dataset import Dataset
from aragorn.models.bert import Encoder
from aragorn.models.padding import TokenIds, pad
from aragorn.paths import CHECKPOINT_DIR
from aragorn.progress import Stopwatch
from tests.benchmarks.benchmark import Benchmark
from tests.benchmarks.synthetic_inputs import load_collection, sample_premises, sample_rows

Batch = tuple[np.ndarray, np.ndarray]  # ids and mask (B, T) int64
Run = Callable[[Sequence[Batch]], object]
MAX_TOKENS = 2048  # per batch of premises or passages


class LastLayer(nn.Module):
    """An unmodified BERT with the weights of an encoder, which returns the hidden states of the
    last layer."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.bert = BertModel(BertConfig(**asdict(encoder.bert.config)), add_pooling_layer=False)
        self.bert.load_state_dict(encoder.bert.state_dict())

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        vectors: Tensor = self.bert(input_ids=ids, attention_mask=mask).last_hidden_state
        return vectors


def build_benchmarks(
    directory: Path, max_pairs: int = 320, max_premises: int = 256, max_documents: int = 200
) -> list[Benchmark]:
    """Build the benchmarks of Vanilla BERT's pairs, SBERT's premises and DeepCT's passages in
    float32 and, if the processor supports it, bfloat16."""
    has_bfloat16 = _has_bfloat16()
    benchmarks = []
    for build in (
        partial(_build_vanilla_bert, directory, max_pairs),
        partial(_build_sbert, directory, max_premises),
        partial(_build_deepct, directory, max_documents),
    ):
        task, unit, units, ours, network, batches = build()
        engines: list[tuple[str, str, Run]] = [
            ("OpenVINO", FLOAT32, _build_openvino(network, "f32")),
            ("ONNX Runtime", FLOAT32, _build_onnxruntime(network)),
        ]
        if has_bfloat16:
            engines.append(("OpenVINO", "bfloat16", _build_openvino(network, "bf16")))
        for name, precision, run in engines:
            line = f"{task}, CPU, {precision}"
            benchmarks.append(
                Benchmark(
                    line, name, unit, units, partial(ours, precision), partial(run, batches), 1
                )
            )
    return benchmarks


def _has_bfloat16() -> bool:
    """Return whether bfloat16 can be measured; print why not."""
    try:
        choose_precision("bfloat16", CPU)
    except UsageError as error:
        print(f"inference_engines: bfloat16 skipped: {error}")
        return False
    return True


Task = tuple[str, str, int, Callable[[str], object], LastLayer, list[Batch]]


def _build_vanilla_bert(directory: Path, max_pairs: int) -> Task:
    topics = Dataset(directory).topics
    collection = load_collection(directory)
    sample = sample_rows(retrieve(topics, ConclusionIndex.build(collection)), max_pairs)
    checkpoint = load_checkpoint(CHECKPOINT_DIR / "vanilla_bert")
    network = checkpoint.network
    cache = TokenCache(
        topics, lambda docnos: collection[collection["docno"].isin(docnos)], Stopwatch()
    )
    queries = cache.get_query_token_ids(checkpoint.tokeniser)
    premises = cache.get_premise_token_ids(checkpoint.tokeniser, sample["docno"])
    keys = list(zip(sample["qid"], sample["docno"], strict=True))
    pairs = TokenisedPairs.from_keys(keys, queries, premises)
    last_layer, (cls, sep) = LastLayer(network.encoder), network.encoder.special_ids
    texts = [[cls, *queries[qid], sep, *premises[docno], sep] for qid, docno in keys]
    batches = batch_by_length([len(text) for text in texts], network.cpu_batch_size)[::-1]

    def score(precision: str) -> np.ndarray:
        return score_pairs(move_to_device(network, CPU, precision), pairs, CPU)

    return (
        f"vanilla_bert: {len(keys)} pairs",
        "pairs",
        len(keys),
        score,
        last_layer,
        _pad_batches(texts, batches),
    )


def _build_sbert(directory: Path, max_premises: int) -> Task:
    checkpoint = load_checkpoint(CHECKPOINT_DIR / "sbert")
    network = checkpoint.network
    last_layer = LastLayer(checkpoint.network.encoder)
    ids = [
        checkpoint.tokeniser.encode_premise(text)
        for text in sample_premises(directory, max_premises)
    ]

    def encode(precision: str) -> np.ndarray:
        return encode_texts(ids, move_to_device(network, CPU, precision), CPU, precision)

    batches = _batch_single_texts(network.encoder, ids)
    return f"sbert: {len(ids)} premises", "premises", len(ids), encode, last_layer, batches


def _build_deepct(directory: Path, max_documents: int) -> Task:
    checkpoint = load_tagger(CHECKPOINT_DIR / "deepct")
    texts = sample_premises(directory, max_documents)
    passages = [passage.piece_ids for text in texts for passage in checkpoint.tokeniser.split(text)]
    last_layer = LastLayer(checkpoint.network.encoder)

    def enrich(precision: str) -> object:
        return enrich_texts(texts, replace(checkpoint, precision=precision), CPU)

    batches = _batch_single_texts(checkpoint.network.encoder, passages)
    return (
        f"deepct: {len(passages)} passages",
        "passages",
        len(passages),
        enrich,
        last_layer,
        batches,
    )


def _batch_single_texts(encoder: Encoder, texts: Sequence[TokenIds]) -> list[Batch]:
    cls, sep = encoder.special_ids
    inputs = [[cls, *text, sep] for text in texts]
    return _pad_batches(inputs, batch_by_tokens([len(text) for text in inputs], MAX_TOKENS))


def _pad_batches(texts: Sequence[TokenIds], batches: Sequence[np.ndarray]) -> list[Batch]:
    padded = [pad([texts[row] for row in rows]) for rows in batches]
    return [(ids.numpy(), mask.long().numpy()) for ids, mask in padded]


def _build_openvino(network: LastLayer, precision: str) -> Run:
    """Compile the network in throughput mode."""
    from openvino.frontend import FrontEndManager
    from openvino.frontend.pytorch.ts_decoder import TorchScriptPythonDecoder

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        decoder = TorchScriptPythonDecoder(network.eval(), example_input=_build_example())
    frontend = FrontEndManager().load_by_framework("pytorch")
    settings = {
        "PERFORMANCE_HINT": "THROUGHPUT",
        "INFERENCE_PRECISION_HINT": precision,
        "INFERENCE_NUM_THREADS": torch.get_num_threads(),
    }
    queue = openvino.AsyncInferQueue(
        openvino.compile_model(frontend.convert(frontend.load(decoder)), "CPU", settings)
    )

    def run(batches: Sequence[Batch]) -> None:
        for batch in batches:
            queue.start_async(list(batch))
        queue.wait_all()

    return run


def _build_onnxruntime(network: LastLayer) -> Run:
    """Export the network to a session that computes each batch on one thread."""
    file = io.BytesIO()
    names = ["ids", "mask"]
    axes = {name: {0: "batch", 1: "length"} for name in (*names, "vectors")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            network.eval(),
            _build_example(),
            file,
            input_names=names,
            output_names=["vectors"],
            dynamic_axes=axes,
            dynamo=False,
        )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        file.getvalue(), options, providers=["CPUExecutionProvider"]
    )

    def run(batches: Sequence[Batch]) -> None:
        with ThreadPoolExecutor(torch.get_num_threads()) as pool:
            list(
                pool.map(
                    lambda batch: session.run(None, dict(zip(names, batch, strict=True))), batches
                )
            )

    return run


def _build_example() -> tuple[Tensor, Tensor]:
    """Return ids and mask of two texts, one of them with padding, so that the converted network
    reads the mask."""
    mask = torch.ones(2, 8, dtype=torch.long)
    mask[1, -1] = 0
    return torch.ones_like(mask), mask
