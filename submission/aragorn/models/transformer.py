"""BERT without its pooler.

Devlin, Chang, Lee, Toutanova: BERT: Pre-training of Deep Bidirectional Transformers for Language
Understanding. NAACL 2019. Tensors have the names, and results the bits, of `BertModel` in Hugging
Face's transformers, which takes seconds to import.

Shapes: R texts, T positions, Q positions whose output is computed, E dimensions.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from aragorn.bounds import (
    Count,
    Deviation,
    FrozenCount,
    LayerCount,
    Length,
    Rows,
    Share,
    TokenId,
    Width,
)

QUERY_LENGTH = 20  # maximum subwords per query


@dataclass(frozen=True)
class BERTConfig:
    """Configuration of BERT, with names and defaults of Hugging Face's config.json."""

    vocab_size: Rows = 30522
    hidden_size: Width = 768
    num_hidden_layers: LayerCount = 12
    num_attention_heads: Count = 12
    intermediate_size: Width = 3072
    hidden_act: str = "gelu"
    max_position_embeddings: Length = 512
    type_vocab_size: Count = 2
    pad_token_id: TokenId = 0
    layer_norm_eps: Share = 1e-12
    hidden_dropout_prob: Share = 0.1
    attention_probs_dropout_prob: Share = 0.1
    initializer_range: Deviation = 0.02  # standard deviation of the initial weights


@dataclass(frozen=True)
class EncoderConfig:
    """Configuration of a BERT encoder, part of the Config of each network that has one."""

    bert: dict[str, Any]  # fields of BERTConfig
    cls: TokenId = 101  # token id of [CLS]
    sep: TokenId = 102  # token id of [SEP]
    # number of frozen lower transformer layers, besides the embeddings; -1: nothing is frozen
    frozen: FrozenCount = -1


class Embeddings(nn.Module):
    """The sum of word, token type and position embeddings, normalised."""

    def __init__(self, config: BERTConfig) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(
            config.vocab_size, config.hidden_size, config.pad_token_id
        )
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, input_ids: Tensor, token_type_ids: Tensor, position_ids: Tensor) -> Tensor:
        """Embed subwords (R, T) as vectors (R, T, E)."""
        vectors = self.word_embeddings(input_ids) + self.token_type_embeddings(token_type_ids)
        output: Tensor = self.dropout(
            self.LayerNorm(vectors + self.position_embeddings(position_ids))
        )
        return output


class SelfAttention(nn.Module):
    """Multi-head attention."""

    def __init__(self, config: BERTConfig) -> None:
        super().__init__()
        self.query, self.key, self.value = (
            nn.Linear(config.hidden_size, config.hidden_size) for _ in range(3)
        )
        self.n_heads = config.num_attention_heads
        self.dropout = nn.Dropout(config.attention_probs_dropout_prob)
        # OpenVINO would round the default to bfloat16
        self.scale = (config.hidden_size // config.num_attention_heads) ** -0.5

    def forward(self, queries: Tensor, vectors: Tensor, mask: Tensor | None) -> Tensor:
        """Compute contexts (R, Q, E) of queries (R, Q, E) among (R, T, E); mask (R, 1, 1, T)."""
        query, key, value = (
            projected.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
            for projected in (self.query(queries), self.key(vectors), self.value(vectors))
        )
        dropout = self.dropout.p if self.training else 0.0
        contexts = functional.scaled_dot_product_attention(
            query, key, value, mask, dropout, scale=self.scale
        )
        return contexts.transpose(1, 2).flatten(2)


class Output(nn.Module):
    """A linear layer with dropout, a residual connection and normalisation."""

    def __init__(self, in_size: int, config: BERTConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(in_size, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, vectors: Tensor, residual: Tensor) -> Tensor:
        output: Tensor = self.LayerNorm(self.dropout(self.dense(vectors)) + residual)
        return output


class Layer(nn.Module):
    """A transformer layer: self-attention, then a feed-forward network."""

    def __init__(self, config: BERTConfig) -> None:
        super().__init__()
        self.attention = nn.ModuleDict(
            {"self": SelfAttention(config), "output": Output(config.hidden_size, config)}
        )
        self.intermediate = nn.ModuleDict(
            {"dense": nn.Linear(config.hidden_size, config.intermediate_size)}
        )
        self.output = Output(config.intermediate_size, config)
        self.activation = getattr(functional, config.hidden_act)

    def forward(self, vectors: Tensor, mask: Tensor | None = None) -> Tensor:
        """Compute the output (R, T, E) from vectors (R, T, E)."""
        return self.transform(vectors, vectors, mask)

    def transform(self, queries: Tensor, vectors: Tensor, mask: Tensor | None) -> Tensor:
        """Compute the output (R, Q, E) of queries (R, Q, E), a part of the vectors (R, T, E)."""
        attended = self.attention["output"](self.attention["self"](queries, vectors, mask), queries)
        output: Tensor = self.output(
            self.activation(self.intermediate["dense"](attended)), attended
        )
        return output


class ClsOnlyLayer(Layer):
    """A last transformer layer whose output is computed only for [CLS].

    In training, the full layer runs by default, so that dropout masks are those of plain BERT.
    """

    full_in_training = True

    def forward(self, vectors: Tensor, mask: Tensor | None = None) -> Tensor:
        """Compute (R, 1, E), or (R, T, E) if the full layer runs, from vectors (R, T, E)."""
        is_full = self.training and self.full_in_training
        return self.transform(vectors if is_full else vectors[:, :1], vectors, mask)


class BERT(nn.Module):
    """BERT, which computes the hidden states of all layers."""

    def __init__(self, config: BERTConfig, cls_only: bool = False) -> None:
        """Create BERT with random weights; with `cls_only`, the last layer outputs only [CLS]."""
        super().__init__()
        if config.hidden_size % config.num_attention_heads:
            raise ValueError(
                f"num_attention_heads is {config.num_attention_heads}; expected a divisor of "
                f"hidden_size, {config.hidden_size}"
            )
        self.config = config
        self.embeddings = Embeddings(config)
        layers = [Layer(config) for _ in range(config.num_hidden_layers - 1)]
        self.encoder = nn.ModuleDict(
            {"layer": nn.ModuleList([*layers, (ClsOnlyLayer if cls_only else Layer)(config)])}
        )
        self.apply(partial(_initialise, config.initializer_range))

    @property
    def layers(self) -> nn.ModuleList:
        layers = self.encoder["layer"]
        assert isinstance(layers, nn.ModuleList)
        return layers

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
    ) -> tuple[Tensor, ...]:
        """Compute the hidden states (R, T, E) of the embeddings and of each layer.

        Args:
            input_ids: (R, T) int64, subwords with [CLS] and [SEP].
            attention_mask: (R, T), 1 for subwords, 0 for padding; None: there is no padding.
            token_type_ids: (R, T) int64, 0 for the first text, 1 for the second; None: 0.
            position_ids: (R, T) int64; None: 0 to T - 1.
        """
        types = torch.zeros_like(input_ids) if token_type_ids is None else token_type_ids
        positions = (
            torch.arange(input_ids.shape[1], device=input_ids.device)
            if position_ids is None
            else position_ids
        )
        if attention_mask is not None:  # without a mask, attention is faster
            attention_mask = None if attention_mask.all() else attention_mask[:, None, None].bool()
        hidden_states = [self.embeddings(input_ids, types, positions)]
        for layer in self.layers:
            hidden_states.append(layer(hidden_states[-1], attention_mask))
        return tuple(hidden_states)


def _initialise(std: float, module: nn.Module) -> None:
    """Draw the initial weights of a linear layer or of embeddings, as BERT's authors do."""
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=std)
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)
    if isinstance(module, nn.Embedding) and module.padding_idx is not None:
        nn.init.zeros_(module.weight[module.padding_idx])
