"""Build, score and serialise teachers (cross-encoders) and students (bi-encoders)."""

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

from training.fitting.frozen_layer_cache import FrozenLayers

AT_ONCE = 64

Loss = Literal["cross_entropy", "cosine", "cosent", "multiple_negatives"]
Model = CrossEncoder | SentenceTransformer  # teacher or student


@dataclass(frozen=True)
class Training:
    """Training settings; the loss determines the network type."""

    loss: Loss  # cross_entropy (on soft labels): cross-encoder; others: bi-encoder
    learning_rate: float  # peak; linear decay to 0 after warm-up
    pieces: int  # maximum word pieces; of both texts together for a cross-encoder
    both_orders: bool = False  # also train on each pair in swapped order
    batch: int = 16  # pairs
    epochs: int = 1
    warm_up: float = 0.1  # fraction of all steps
    frozen: int = 3  # frozen lowest blocks (and embeddings); -1: train everything
    attention_dropout: bool = True  # False: 1.4 times as fast on long texts, slower on short ones
    bfloat16: bool = True  # autocast for training and labelling; weights, optimiser and evaluation use float32


def built(encoder: Path, training: Training, seed: int, device: torch.device, lowest: FrozenLayers | None = None) -> Model:
    """Build an untrained network.

    Args:
        encoder: Local BERT directory in Hugging Face format.
        training: Network type and frozen blocks.
        seed: Seed of the cross-encoder's head.
        device: Device of the network.
        lowest: Shared frozen layers of this encoder (bi-encoders only).
    """
    _quieten()
    transformers.set_seed(seed)
    if training.loss == "cross_entropy":
        model: Model = CrossEncoder(
            str(encoder), num_labels=1, max_length=training.pieces, device=device.type, local_files_only=True
        )
    else:
        local = {"local_files_only": True}
        transformer = Transformer(
            str(encoder), max_seq_length=training.pieces, model_kwargs=local, processor_kwargs=local, config_kwargs=local
        )
        model = SentenceTransformer(
            modules=[transformer, Pooling(transformer.get_embedding_dimension(), "mean")], device=device.type
        )
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
    """Predict teacher labels (pairs,) float32 in the training precision; students need at most three digits."""
    with torch.autocast(model.device.type, torch.bfloat16, enabled=training.bfloat16):
        return scores(model, pairs)


def scores(model: Model, pairs: pd.DataFrame) -> np.ndarray:
    """Score pairs `first second` (pairs,) float32: in [0, 1] for a cross-encoder, cosine similarity for a bi-encoder."""
    if isinstance(model, CrossEncoder):
        text_pairs = list(zip(pairs["first"], pairs["second"], strict=True))
        return np.asarray(model.predict(text_pairs, batch_size=AT_ONCE, show_progress_bar=False))
    indices, texts = pd.factorize(pd.concat([pairs["first"], pairs["second"]]))
    embeddings = vectors(model, list(texts))
    first, second = np.split(indices, 2)
    return np.asarray((embeddings[first] * embeddings[second]).sum(axis=1))


def vectors(model: Model, texts: list[str]) -> np.ndarray:
    """Encode texts as unit vectors (texts, dimensions) float32 with a bi-encoder."""
    if not isinstance(model, SentenceTransformer):
        raise TypeError("a cross-encoder cannot encode single texts")
    return np.asarray(model.encode(texts, batch_size=AT_ONCE, normalize_embeddings=True, show_progress_bar=False))


def trained(model: Model) -> bytes:
    """Serialise the trainable weights."""
    return bytes(save({name: value.detach().contiguous() for name, value in model.named_parameters() if value.requires_grad}))


def restore(model: Model, weights: bytes) -> None:
    """Load weights serialised by `trained` into a network of the same architecture."""
    missing, unknown = model.load_state_dict(load(weights), strict=False)
    trainable = {name for name, value in model.named_parameters() if value.requires_grad}
    if unknown or trainable & {*missing}:
        raise ValueError("weights do not match the network")


def encoder_of(model: Model) -> Any:
    """Return the network's BERT encoder."""
    network: Any = model[0].model
    return getattr(network, network.base_model_prefix, network)


def _freeze(module: torch.nn.Module) -> None:
    """Freeze layers and disable their dropout, which would cost a third of a step."""
    module.requires_grad_(False)
    for submodule in module.modules():
        if isinstance(submodule, torch.nn.Dropout):
            submodule.p = 0.0


def _quieten() -> None:
    """Disable the libraries' progress bars and log messages."""
    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # transformers: untyped
    transformers.utils.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    datasets.disable_progress_bars()
    for library in ("sentence_transformers", "datasets", "accelerate"):
        logging.getLogger(library).setLevel(logging.ERROR)
