"""Benchmarks of BERT networks, DeepCT, SBERT and TARGER.

A baseline has the same architecture, texts, maximum lengths and number of threads.
"""

import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import CrossEncoder, SentenceTransformer
from tokenizers import Tokenizer
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

from aragorn.engine.base import CPU
from aragorn.engine.device import FLOAT32, choose_precision
from aragorn.index.conclusions import ConclusionIndex, retrieve
from aragorn.index.dense import encode_texts
from aragorn.inference.checkpoint import load_checkpoint, load_tagger
from aragorn.inference.device import move_to_device
from aragorn.inference.enrichment import annotate_texts, enrich_texts
from aragorn.inference.pair_scoring import TokenCache, score_documents
from aragorn.inference.pretrained import PretrainedEncoder
from aragorn.io.dataset import Dataset
from aragorn.paths import CHECKPOINT_DIR
from aragorn.progress import Stopwatch
from aragorn.text.tokenisers import WordPieceTokeniser
from tests.benchmarks.benchmark import Benchmark
from tests.benchmarks.synthetic_inputs import (
    load_collection,
    open_empty_parts,
    sample_premises,
    sample_rows,
)

ENCODER = "all-MiniLM-L6-v2"
BASELINE = "SentenceTransformer.encode"


def build_sbert_benchmark(directory: Path, max_premises: int = 512) -> Benchmark:
    """Build the benchmark of tokenising and encoding premises with SBERT, against
    sentence-transformers."""
    checkpoint = load_checkpoint(CHECKPOINT_DIR / "sbert")
    texts = sample_premises(directory, max_premises)
    model = _load_sentence_transformer(checkpoint.tokeniser.lengths.premise)

    def ours() -> np.ndarray:
        return encode_texts(
            [checkpoint.tokeniser.encode_premise(text) for text in texts], checkpoint.network, CPU
        )

    task = f"sbert: {max_premises} premises, CPU, float32"
    return Benchmark(task, BASELINE, "premises", len(texts), ours, lambda: model.encode(texts), 1.3)


def build_deepct_benchmark(directory: Path, max_documents: int = 200) -> Benchmark:
    """Build the benchmark of splitting and enriching texts with DeepCT, against
    sentence-transformers encoding the passages."""
    checkpoint = load_tagger(CHECKPOINT_DIR / "deepct")
    texts = sample_premises(directory, max_documents)
    model = _load_sentence_transformer(checkpoint.network.config.pieces)
    passages = [passage.text for text in texts for passage in checkpoint.tokeniser.split(text)]
    sides = lambda: enrich_texts(texts, checkpoint, CPU), lambda: model.encode(passages)
    return Benchmark(
        "deepct: passages, CPU, float32", BASELINE, "passages", len(passages), *sides, 1.3
    )


def _load_sentence_transformer(max_pieces: int) -> SentenceTransformer:
    """Load the encoder of both checkpoints for texts of at most `max_pieces` subwords."""
    model = SentenceTransformer(
        str(PretrainedEncoder(ENCODER).folder), device="cpu", local_files_only=True
    )
    model.max_seq_length = max_pieces + 2  # [CLS] and [SEP]
    return model


def build_bfloat16_benchmarks(
    directory: Path, max_documents: int = 200, max_premises: int = 512
) -> list[Benchmark]:
    """Build the benchmarks of encoding documents with DeepCT and premises with SBERT in bfloat16,
    against float32.

    Raises:
        UsageError: If the processor does not support bfloat16.
    """
    deepct = load_tagger(CHECKPOINT_DIR / "deepct")
    sbert = load_checkpoint(CHECKPOINT_DIR / "sbert")
    documents, premises = (sample_premises(directory, n) for n in (max_documents, max_premises))
    ids = [sbert.tokeniser.encode_premise(text) for text in premises]

    def enrich(precision: str) -> object:
        return enrich_texts(documents, replace(deepct, precision=precision), CPU)

    def encode(precision: str) -> object:
        return encode_texts(ids, move_to_device(sbert.network, CPU, precision), CPU, precision)

    bfloat16 = choose_precision("bfloat16", CPU)
    task = "{}: {} of a collection, CPU, bfloat16"
    kinds = (
        ("deepct", "documents", len(documents), enrich),
        ("sbert", "premises", len(premises), encode),
    )
    return [
        Benchmark(
            task.format(name, unit),
            "float32",
            unit,
            n,
            partial(run, bfloat16),
            partial(run, FLOAT32),
            2,
        )
        for name, unit, n, run in kinds
    ]


def build_tagging_benchmark(directory: Path, max_premises: int = 512) -> Benchmark:
    """Build the benchmark of tagging words with TARGER in batches, against tagging passage by
    passage."""
    texts = sample_premises(directory, max_premises)
    checkpoint = load_tagger(CHECKPOINT_DIR / "targer_essays")
    passages = [passage for text in texts for passage in checkpoint.tokeniser.split(text)]

    @torch.inference_mode()
    def tag_one_by_one() -> list[object]:
        return [checkpoint.network.annotate([passage]) for passage in passages]

    ours = partial(annotate_texts, texts, checkpoint, CPU)
    task = f"targer: the words of {max_premises} premises, CPU"
    return Benchmark(
        task, "passage by passage", "words", sum(map(len, passages)), ours, tag_one_by_one, 1.5
    )


def build_bert_benchmark(
    name: str, directory: Path, target: float, max_pairs: int = 640
) -> Benchmark:
    """Build the benchmark of scoring pairs with a BERT network, against a CrossEncoder with the
    same encoder.

    The pairs are evenly spaced over the candidates of all topics, and their texts are truncated to
    the checkpoint's maximum lengths. The head of a CrossEncoder is linear, so the baseline omits
    the histograms and kernels of CEDR networks.
    """
    checkpoint = load_checkpoint(CHECKPOINT_DIR / name)
    tokeniser = checkpoint.tokeniser
    lengths = checkpoint.tokeniser.lengths
    assert isinstance(tokeniser, WordPieceTokeniser)
    topics = Dataset(directory).topics.copy()
    collection = load_collection(directory)
    sample = sample_rows(retrieve(topics, ConclusionIndex.build(collection)), max_pairs)
    documents = collection[collection["docno"].isin(set(sample["docno"]))].reset_index(drop=True)
    documents["premise"] = [
        tokeniser.truncate(text, lengths.premise) for text in documents["premise"]
    ]
    topics["query"] = [tokeniser.truncate(text, lengths.query) for text in topics["query"]]
    queries = topics.set_index("qid")["query"]
    premises = documents.set_index("docno")["premise"]
    pairs = [
        (queries[qid], premises[docno])
        for qid, docno in zip(sample["qid"], sample["docno"], strict=True)
    ]
    with tempfile.TemporaryDirectory() as folder:
        _save_as_cross_encoder(
            checkpoint.network, Tokenizer.from_str(tokeniser.to_bytes().decode()), Path(folder)
        )
        model = CrossEncoder(folder, device="cpu", max_length=lengths.query + lengths.premise + 3)

    def ours() -> np.ndarray:
        with open_empty_parts() as store:
            return score_documents(
                sample, TokenCache(topics, lambda _: documents, Stopwatch()), checkpoint, CPU, store
            )

    baseline = partial(model.predict, pairs, batch_size=checkpoint.network.cpu_batch_size)
    task = f"{name}: {max_pairs} pairs, CPU, float32"
    return Benchmark(task, "CrossEncoder.predict", "pairs", len(pairs), ours, baseline, target)


def _save_as_cross_encoder(ranker: torch.nn.Module, hf_tokenizer: Tokenizer, folder: Path) -> None:
    """Save a ranker's encoder with an untrained head in the format of CrossEncoder."""
    model = BertForSequenceClassification(BertConfig(**ranker.config.bert, num_labels=1))
    state = {name.removeprefix("encoder."): tensor for name, tensor in ranker.state_dict().items()}
    # pooler, classifier
    head = {name: tensor for name, tensor in model.state_dict().items() if name not in state}
    model.load_state_dict(
        head | {name: tensor for name, tensor in state.items() if name.startswith("bert.")}
    )
    model.save_pretrained(folder)
    special = {
        f"{name.lower()}_token": f"[{name}]" for name in ("PAD", "UNK", "CLS", "SEP", "MASK")
    }
    PreTrainedTokenizerFast(tokenizer_object=hf_tokenizer, **special).save_pretrained(folder)
