"""Teacher and student of Augmented SBERT, started from a local encoder: a cross-encoder that labels, a bi-encoder that learns.

Nothing in here knows what the pairs are of: conclusions and premises do as well as two sentences.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import datasets
import numpy as np
import pandas as pd
import torch
import transformers
from safetensors.torch import load, save
from sentence_transformers import CrossEncoder, SentenceTransformer
from sentence_transformers.base.modules import Transformer
from sentence_transformers.sentence_transformer.modules import Pooling

from training.fitting.frozen_layers import FrozenLayers

AT_ONCE = 64  # pairs or texts that are scored together

Loss = Literal["cross_entropy", "cosine", "cosent", "multiple_negatives"]
Model = CrossEncoder | SentenceTransformer  # teacher or student


@dataclass(frozen=True)
class Training:
    """The training of a network; its loss tells a cross-encoder from a bi-encoder."""

    loss: Loss  # cross entropy, of soft labels: a cross-encoder; the others: a bi-encoder
    learning_rate: float  # after the warm-up; it falls to 0 linearly
    pieces: int  # longest text in word pieces; a cross-encoder reads both texts as one
    both_orders: bool = False  # train on each pair both ways
    batch: int = 16  # pairs
    epochs: int = 1
    warm_up: float = 0.1  # of all steps
    frozen: int = 3  # so many lowest blocks are not trained, nor the embeddings; -1: everything is
    attention_dropout: bool = True  # as the encoder has it; without, long texts train 1.4 times as fast, short ones slower
    bfloat16: bool = True  # matrix products while training, and of labels; weights, steps and measured scores are float32


def built(encoder: Path, training: Training, seed: int, device: torch.device, lowest: FrozenLayers | None = None) -> Model:
    """A network as training begins.

    Args:
        encoder: a local folder in Hugging Face form, of a BERT.
        training: which network, and what is frozen in it.
        seed: of the cross-encoder's head.
        device: where it computes.
        lowest: what is frozen of a bi-encoder, of this very encoder; it computes what it has not seen yet.
    """
    _quieten()
    transformers.set_seed(seed)
    if training.loss == "cross_entropy":
        model: Model = CrossEncoder(
            str(encoder), num_labels=1, max_length=training.pieces, device=device.type, local_files_only=True
        )
    else:
        local = {"local_files_only": True}
        reader = Transformer(
            str(encoder), max_seq_length=training.pieces, model_kwargs=local, processor_kwargs=local, config_kwargs=local
        )
        model = SentenceTransformer(modules=[reader, Pooling(reader.get_embedding_dimension(), "mean")], device=device.type)
    bert = encoder_of(model)
    for block in [] if training.attention_dropout else bert.encoder.layer:
        block.attention.self.dropout.p = 0.0
    for module in [bert.embeddings, *bert.encoder.layer[: training.frozen]] if training.frozen >= 0 else []:
        _freeze(module)
    if lowest:
        lowest.give(bert)
    return model


def lowest(encoder: Path, training: Training, device: torch.device) -> FrozenLayers:
    """Return the frozen layers that bi-encoders with these settings share."""
    return FrozenLayers(encoder_of(built(encoder, training, 0, device)), training.frozen)


def labels(model: Model, pairs: pd.DataFrame, training: Training) -> np.ndarray:
    """The scores (pairs,) float32 of a teacher, computed as it was trained: for students, who need three digits at most."""
    with torch.autocast(model.device.type, torch.bfloat16, enabled=training.bfloat16):
        return scores(model, pairs)


def scores(model: Model, pairs: pd.DataFrame) -> np.ndarray:
    """The scores (pairs,) float32 of pairs `first second`: a cross-encoder's from 0 to 1, a bi-encoder's cosines."""
    if isinstance(model, CrossEncoder):
        both = list(zip(pairs["first"], pairs["second"], strict=True))
        return np.asarray(model.predict(both, batch_size=AT_ONCE, show_progress_bar=False))
    numbers, texts = pd.factorize(pd.concat([pairs["first"], pairs["second"]]))
    unit = vectors(model, list(texts))
    first, second = np.split(numbers, 2)
    return np.asarray((unit[first] * unit[second]).sum(axis=1))


def vectors(model: Model, texts: list[str]) -> np.ndarray:
    """The vectors (texts, dimensions) float32 of a bi-encoder, of length 1."""
    if not isinstance(model, SentenceTransformer):
        raise TypeError("a cross-encoder has no vectors of texts")
    return np.asarray(model.encode(texts, batch_size=AT_ONCE, normalize_embeddings=True, show_progress_bar=False))


def trained(model: Model) -> bytes:
    """Serialise the weights that training changes, for `restore`."""
    return bytes(save({name: value.detach().contiguous() for name, value in model.named_parameters() if value.requires_grad}))


def restore(model: Model, weights: bytes) -> None:
    """Give a network that was built alike what `trained` gave."""
    missing, unknown = model.load_state_dict(load(weights), strict=False)
    learned = {name for name, value in model.named_parameters() if value.requires_grad}
    if unknown or learned & {*missing}:
        raise ValueError("weights of another network")


def encoder_of(model: Model) -> Any:
    """The encoder of either network."""
    network: Any = model[0].model
    return getattr(network, network.base_model_prefix, network)


def _freeze(module: torch.nn.Module) -> None:
    """Freeze layers; they compute without dropout in training too, which would take a third of a step."""
    module.requires_grad_(False)
    for part in module.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0


def _quieten() -> None:
    """Keep the libraries' bars and remarks off stderr; the project says itself what it does."""
    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # the library's lack
    transformers.utils.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    datasets.disable_progress_bars()
    for library in ("sentence_transformers", "datasets", "accelerate"):
        logging.getLogger(library).setLevel(logging.ERROR)
