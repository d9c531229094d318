"""Build teachers (cross-encoders) and students (bi-encoders), score pairs, serialise weights."""

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

from aragorn_training.fitting.frozen_layer_cache import FrozenLayerCache

BATCH_SIZE = 64

Loss = Literal["cross_entropy", "cosine", "cosent", "multiple_negatives"]
Network = CrossEncoder | SentenceTransformer  # teacher or student


@dataclass(frozen=True)
class TrainingConfig:
    """Settings of training a network; the loss determines whether it is a teacher or a student."""

    loss: Loss  # cross_entropy (on soft labels): cross-encoder; others: bi-encoder
    learning_rate: float  # peak; linear decay to 0 after warm-up
    max_length: int  # maximum subwords; of both texts together for a cross-encoder
    swap_pairs: bool = False  # also train on each pair in swapped order
    batch_size: int = 16  # pairs
    epochs: int = 1
    warmup_ratio: float = 0.1  # fraction of all steps
    # number of frozen lowest blocks (embeddings are frozen too); -1: train everything
    frozen_blocks: int = 3
    # False: training is 1.4 times as fast on long texts, slower on short texts
    attention_dropout: bool = True
    # autocast for training and labelling; weights, optimiser and evaluation use float32
    bfloat16: bool = True


def build_network(
    encoder: Path,
    training: TrainingConfig,
    seed: int,
    device: str,
    frozen_layers: FrozenLayerCache | None = None,
) -> Network:
    """Build a teacher or student from a local BERT directory in Hugging Face format, and freeze its
    lowest blocks.

    `seed` is of the global random generators, which initialise a cross-encoder's head; bi-encoders
    may share `frozen_layers`.
    """
    _silence_libraries()
    transformers.set_seed(seed)
    local: dict[str, Any] = {"local_files_only": True}
    if training.loss == "cross_entropy":
        model: Network = CrossEncoder(
            str(encoder), num_labels=1, max_length=training.max_length, device=device, **local
        )
    else:
        options = dict.fromkeys(("model_kwargs", "processor_kwargs", "config_kwargs"), local)
        transformer = Transformer(str(encoder), max_seq_length=training.max_length, **options)
        pooling = Pooling(transformer.get_embedding_dimension(), "mean")
        model = SentenceTransformer(modules=[transformer, pooling], device=device)
    bert = get_encoder(model)
    for block in [] if training.attention_dropout else bert.encoder.layer:
        block.attention.self.dropout.p = 0.0
    if training.frozen_blocks >= 0:
        for module in (bert.embeddings, *bert.encoder.layer[: training.frozen_blocks]):
            _freeze(module)
    if frozen_layers:
        frozen_layers.attach_to(bert)
    return model


def build_frozen_layers(encoder: Path, training: TrainingConfig, device: str) -> FrozenLayerCache:
    """Build the cached frozen layers that bi-encoders with these settings share."""
    return FrozenLayerCache(
        get_encoder(build_network(encoder, training, 0, device)), training.frozen_blocks
    )


def predict_labels(model: Network, pairs: pd.DataFrame, training: TrainingConfig) -> np.ndarray:
    """Return a teacher's labels (pairs,) float32 of pairs, in the precision of training."""
    with torch.autocast(model.device.type, torch.bfloat16, enabled=training.bfloat16):
        return score_pairs(model, pairs)


def score_pairs(model: Network, pairs: pd.DataFrame) -> np.ndarray:
    """Return scores (pairs,) float32: in [0, 1] of a cross-encoder, cosines of a bi-encoder."""
    if isinstance(model, CrossEncoder):
        text_pairs = list(zip(pairs["first"], pairs["second"], strict=True))
        return np.asarray(model.predict(text_pairs, batch_size=BATCH_SIZE, show_progress_bar=False))
    indices, texts = pd.factorize(pd.concat([pairs["first"], pairs["second"]]))
    embeddings = encode_texts(model, list(texts))
    first, second = np.split(indices, 2)
    return np.asarray((embeddings[first] * embeddings[second]).sum(axis=1))


def encode_texts(model: Network, texts: list[str]) -> np.ndarray:
    """Encode texts as unit vectors (texts, dimensions) float32; TypeError for a cross-encoder."""
    if not isinstance(model, SentenceTransformer):
        raise TypeError("a cross-encoder cannot encode single texts; use score_pairs")
    vectors = model.encode(
        texts, batch_size=BATCH_SIZE, normalize_embeddings=True, show_progress_bar=False
    )
    return np.asarray(vectors)


def serialise_trainable_state(model: Network) -> bytes:
    """Serialise the trainable weights of a network in safetensors format."""
    weights = {
        name: value.detach().contiguous()
        for name, value in model.named_parameters()
        if value.requires_grad
    }
    return bytes(save(weights))


def load_trainable_state(model: Network, weights: bytes) -> None:
    """Load the weights of `serialise_trainable_state`; raise ValueError if names differ."""
    absent, unknown = model.load_state_dict(load(weights), strict=False)
    trainable = {name for name, value in model.named_parameters() if value.requires_grad}
    if (missing := trainable & {*absent}) or unknown:
        raise ValueError(f"weights do not match the network: {missing} missing, {unknown} unknown")


def get_encoder(model: Network) -> Any:
    """Return the BERT of a network, without pooling or a classification head."""
    network: Any = model[0].model
    return getattr(network, network.base_model_prefix, network)


def _freeze(module: torch.nn.Module) -> None:
    """Freeze layers and disable their dropout, which would take a third of a step's time."""
    module.requires_grad_(False)
    for submodule in module.modules():
        if isinstance(submodule, torch.nn.Dropout):
            submodule.p = 0.0


def _silence_libraries() -> None:
    """Disable progress bars, and log messages below ERROR, of the Hugging Face libraries."""
    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    transformers.utils.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    datasets.disable_progress_bars()
    for library in ("sentence_transformers", "datasets", "accelerate"):
        logging.getLogger(library).setLevel(logging.ERROR)
