"""BERT networks against sentence-transformers' CrossEncoder: same encoder, texts, lengths, batch size, precision, threads."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import CrossEncoder
from tokenizers import Tokenizer
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

from submission.data.dataset import Dataset
from submission.inference.pair_scoring import score
from submission.inference.ranker_checkpoint import load_checkpoint
from submission.inference.token_ids import TokenCache
from submission.paths import CHECKPOINT_DIR
from submission.retrieval.conclusion_bm25 import ConclusionIndex, retrieve
from submission.storage.artifact_store import ArtifactStore
from submission.text.tokenisers import WordPieceTokeniser
from submission.timing import Stopwatch
from tests.benchmarks.benchmark import Benchmark
from tests.benchmarks.synthetic_inputs import collection_of

PAIRS = 640  # at most: evenly spread over the candidates of all topics


def bert(name: str, directory: Path) -> Benchmark:
    """Texts are cut to the pieces that the checkpoint sees before either side gets them.

    A CrossEncoder has a linear head, so the histograms and kernels of CEDR networks are work that it does not do.
    """
    checkpoint = load_checkpoint(CHECKPOINT_DIR / name)
    tokeniser = checkpoint.tokeniser
    assert isinstance(tokeniser, WordPieceTokeniser)
    tokenizer, lengths = Tokenizer.from_str(tokeniser.to_bytes().decode()), tokeniser.lengths
    topics, collection = Dataset(directory).topics.copy(), collection_of(directory)
    everything = retrieve(topics, ConclusionIndex.build(collection))
    few = np.unique(np.linspace(0, len(everything) - 1, PAIRS).astype(int))
    chosen = everything.iloc[few].reset_index(drop=True)
    documents = collection[collection["docno"].isin(set(chosen["docno"]))].reset_index(drop=True)
    documents["premise"] = [tokeniser.truncate(text, lengths.premise) for text in documents["premise"]]
    topics["query"] = [tokeniser.truncate(text, lengths.query) for text in topics["query"]]
    queries, premises = dict(zip(topics["qid"], topics["query"], strict=True)), documents.set_index("docno")["premise"]
    pairs = [(queries[qid], premises[docno]) for qid, docno in zip(chosen["qid"], chosen["docno"], strict=True)]

    with tempfile.TemporaryDirectory() as folder:
        _save_as_cross_encoder(checkpoint.ranker, tokenizer, Path(folder))
        model = CrossEncoder(folder, device="cpu", max_length=lengths.query + lengths.premise + 3)
    size = checkpoint.ranker.cpu_batch_size

    def ours() -> None:
        tokens = TokenCache(topics, lambda docnos: documents, Stopwatch())
        with tempfile.TemporaryDirectory() as directory:  # nothing is kept from one round to the next
            score(chosen, tokens, checkpoint, torch.device("cpu"), ArtifactStore(Path(directory), {}))

    return Benchmark(
        name=name,
        against="CrossEncoder.predict",
        unit="pairs",
        units=len(pairs),
        ours=ours,
        baseline=lambda: model.predict(pairs, batch_size=size),
    )


def _save_as_cross_encoder(ranker: torch.nn.Module, tokenizer: Tokenizer, folder: Path) -> None:
    model = BertForSequenceClassification(BertConfig(**ranker.config.bert, num_labels=1))
    state = {name.removeprefix("encoder."): tensor for name, tensor in ranker.state_dict().items()}
    own = {name: tensor for name, tensor in model.state_dict().items() if name not in state}  # pooler and classifier
    model.load_state_dict(own | {name: tensor for name, tensor in state.items() if name.startswith("bert.")})
    model.save_pretrained(folder)
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(folder)
