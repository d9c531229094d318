"""Benchmark of BERT networks against sentence-transformers' CrossEncoder.

Both sides use the same encoder, texts, maximum lengths, batch size, precision and number of threads.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import CrossEncoder
from tokenizers import Tokenizer
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

from submission.data.dataset import Dataset
from submission.inference.pair_scoring import TokenCache, score_documents
from submission.inference.ranker_checkpoint import load_checkpoint
from submission.paths import CHECKPOINT_DIR
from submission.retrieval.conclusion_bm25 import ConclusionIndex, retrieve
from submission.storage.artifact_store import ArtifactStore
from submission.text.tokenisers import WordPieceTokeniser
from submission.timing import Stopwatch
from tests.benchmarks.benchmark import Benchmark
from tests.benchmarks.synthetic_inputs import load_collection

PAIRS = 640  # maximum number of pairs, evenly spaced over the candidates of all topics


def build_benchmark(name: str, directory: Path) -> Benchmark:
    """Build the benchmark of a network on texts truncated to the maximum lengths of the checkpoint.

    The head of a CrossEncoder is linear, so the baseline omits the histograms and kernels of CEDR networks.
    """
    checkpoint = load_checkpoint(CHECKPOINT_DIR / name)
    tokeniser = checkpoint.tokeniser
    assert isinstance(tokeniser, WordPieceTokeniser)
    hf_tokenizer, lengths = Tokenizer.from_str(tokeniser.to_bytes().decode()), tokeniser.lengths
    topics, collection = Dataset(directory).topics.copy(), load_collection(directory)
    candidates = retrieve(topics, ConclusionIndex.build(collection))
    rows = np.unique(np.linspace(0, len(candidates) - 1, PAIRS).astype(int))
    sample = candidates.iloc[rows].reset_index(drop=True)
    documents = collection[collection["docno"].isin(set(sample["docno"]))].reset_index(drop=True)
    documents["premise"] = [tokeniser.truncate(text, lengths.premise) for text in documents["premise"]]
    topics["query"] = [tokeniser.truncate(text, lengths.query) for text in topics["query"]]
    queries, premises = dict(zip(topics["qid"], topics["query"], strict=True)), documents.set_index("docno")["premise"]
    pairs = [(queries[qid], premises[docno]) for qid, docno in zip(sample["qid"], sample["docno"], strict=True)]

    with tempfile.TemporaryDirectory() as folder:
        _save_as_cross_encoder(checkpoint.network, hf_tokenizer, Path(folder))
        model = CrossEncoder(folder, device="cpu", max_length=lengths.query + lengths.premise + 3)
    batch_size = checkpoint.network.cpu_batch_size

    def ours() -> None:
        tokens = TokenCache(topics, lambda docnos: documents, Stopwatch())
        with tempfile.TemporaryDirectory() as cache_dir:  # a new cache in each round
            score_documents(sample, tokens, checkpoint, torch.device("cpu"), ArtifactStore(Path(cache_dir), {}))

    return Benchmark(
        name=name,
        baseline_name="CrossEncoder.predict",
        unit="pairs",
        units=len(pairs),
        ours=ours,
        baseline=lambda: model.predict(pairs, batch_size=batch_size),
    )


def _save_as_cross_encoder(ranker: torch.nn.Module, hf_tokenizer: Tokenizer, folder: Path) -> None:
    """Save a ranker's encoder with an untrained head in the format of CrossEncoder."""
    model = BertForSequenceClassification(BertConfig(**ranker.config.bert, num_labels=1))
    state = {name.removeprefix("encoder."): tensor for name, tensor in ranker.state_dict().items()}
    head = {name: tensor for name, tensor in model.state_dict().items() if name not in state}  # pooler, classifier
    model.load_state_dict(head | {name: tensor for name, tensor in state.items() if name.startswith("bert.")})
    model.save_pretrained(folder)
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
    PreTrainedTokenizerFast(tokenizer_object=hf_tokenizer, **special).save_pretrained(folder)
