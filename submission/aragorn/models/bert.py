"""Encode single texts and query-document pairs with BERT; long documents of pairs are split into
chunks.

MacAvaney, Yates, Cohan, Goharian: CEDR: Contextualized Embeddings for Document Ranking. SIGIR 2019.
Pairs are encoded as in the authors' code, but independently of the rest of the batch.

Shapes: B pairs, R chunks of all pairs, L layers (embeddings and transformer layers), Q query
positions (at most 20), D document positions, S document positions of a chunk, T positions of an
encoder input, E dimensions.
"""

import sys
from collections.abc import Callable
from copy import deepcopy
from typing import Any, ClassVar, Self

import msgspec
import torch
from torch import Tensor, nn
from torch.nn import functional

from aragorn.explanation import Explanation, Row
from aragorn.models.network import Network, Ranker, is_full_precision
from aragorn.models.transformer import BERT, QUERY_LENGTH, BERTConfig, EncoderConfig

# float16 inputs are padded to a multiple of this: attention on a GPU copies masks that are not
# aligned
PADDING_BLOCK = 32
ENCODER_CAVEAT = "BERT's vectors depend on all subwords and are not sums over them"


class DocumentChunks:
    """Division of each document into max(1, ceil(length / max_size)) chunks of equal size."""

    def __init__(self, lengths: Tensor, max_size: int) -> None:
        self.lengths = lengths
        self.chunk_counts = (-(-lengths // max_size)).clamp(min=1)  # (B,)
        self.chunk_sizes = -(-lengths // self.chunk_counts)  # (B,)
        # (B,) chunk row of each pair's first chunk
        self.first_rows = self.chunk_counts.cumsum(0) - self.chunk_counts
        self.pair_rows = torch.repeat_interleave(self.chunk_counts)  # (R,) pair row of each chunk

    def get_positions(self) -> tuple[Tensor, Tensor]:
        """Return the document position (R, S) of each chunk position, and the mask (R, S)."""
        column = torch.arange(int(self.chunk_sizes.max()), device=self.pair_rows.device)
        size = self.chunk_sizes[self.pair_rows].unsqueeze(1)
        chunk = (
            torch.arange(len(self.pair_rows), device=self.pair_rows.device)
            - self.first_rows[self.pair_rows]
        ).unsqueeze(1)
        position = chunk * size + column
        return position, (column < size) & (position < self.lengths[self.pair_rows].unsqueeze(1))

    def locate(self, width: int) -> tuple[Tensor, Tensor]:
        """Return chunk row and column (B, D) of D positions; padding maps to the last token."""
        last_position = (self.lengths - 1).clamp(min=0).unsqueeze(1)
        position = torch.arange(width, device=self.pair_rows.device).minimum(last_position)
        size = self.chunk_sizes.clamp(min=1).unsqueeze(1)
        return self.first_rows.unsqueeze(1) + position // size, position % size

    def average(self, values: Tensor) -> Tensor:
        """Return the means (B, …) of values (R, …) over chunks, summed in a fixed order."""
        total = values[self.first_rows]
        for chunk in range(1, int(self.chunk_counts.max())):
            pairs = (self.chunk_counts > chunk).nonzero().squeeze(1)
            total = total.index_copy(
                0, pairs, total[pairs] + values[self.first_rows[pairs] + chunk]
            )
        return total / self.chunk_counts.reshape(-1, *[1] * (values.dim() - 1))


class EncodedPairs:
    """Vectors of a batch of encoded pairs; each property is computed on access."""

    def __init__(
        self,
        layers: tuple[Tensor, ...],
        chunks: DocumentChunks,
        query_length: int,
        document_length: int,
    ) -> None:
        """Store the hidden states (R, T, E) of each layer, the chunks, and the lengths Q and D."""
        self._layers = layers
        self._chunks = chunks
        self._query_length = query_length
        self._document_length = document_length

    @property
    def cls(self) -> Tensor:
        """Return the [CLS] vectors (B, L, E), averaged over chunks."""
        return self._chunks.average(
            _to_float32(torch.stack([layer[:, 0] for layer in self._layers], dim=1))
        )

    @property
    def query(self) -> Tensor:
        """Return the query vectors (B, L, Q, E) of the first chunk; undefined for padding."""
        vectors = [
            layer[self._chunks.first_rows, 1 : 1 + self._query_length] for layer in self._layers
        ]
        return _to_float32(torch.stack(vectors, dim=1))

    @property
    def document(self) -> Tensor:
        """Return the document vectors (B, L, D, E) of all chunks; undefined for padding."""
        rows, columns = self._chunks.locate(self._document_length)
        return _to_float32(
            torch.stack(
                [layer[rows, columns + self._query_length + 2] for layer in self._layers], dim=1
            )
        )


class Encoder(nn.Module):
    """BERT with optionally frozen lower layers, in full or half precision.

    Half-precision inference uses a rounded copy of the weights: in bfloat16 with OpenVINO on a CPU,
    in float16 with torch. In training, autocast rounds full-precision weights in each batch.
    """

    reads_all_layers = False  # whether the hidden states of lower layers are used

    def __init__(self, config: EncoderConfig, cls_only: bool = False) -> None:
        """Create the encoder; with `cls_only`, the last layer outputs only [CLS]."""
        super().__init__()
        self.special_ids = config.cls, config.sep
        BERTConfig(**config.bert)  # rejects unknown fields, which msgspec would ignore
        self.bert = BERT(msgspec.convert(config.bert, BERTConfig), cls_only)
        self.frozen_modules = (
            [self.bert.embeddings, *self.bert.layers[: config.frozen]] if config.frozen >= 0 else []
        )
        for module in self.frozen_modules:
            module.requires_grad_(False)
        self.autocast_dtype: torch.dtype | None = None  # only the encoder uses autocast; None: off
        # half precision of inference; None: weights are not rounded
        self.precision: torch.dtype | None = None
        self._compute_rounded: Callable[..., tuple[Tensor, ...]] | None = None

    def set_precision(self, precision: torch.dtype | None) -> None:
        """Disable autocast; use the original weights (None) or a copy rounded once."""
        self.autocast_dtype = None
        if precision != self.precision:
            self._compute_rounded = None if precision is None else self._round_bert(precision)
            self.precision = precision

    def _round_bert(self, precision: torch.dtype) -> Callable[..., tuple[Tensor, ...]]:
        """Return a function like `BERT.forward` with rounded weights."""
        if precision == torch.bfloat16:
            sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]  # OpenVINO would send usage data when imported
            from aragorn.models.openvino_bert import OpenVINOBERT  # optional dependency

            return OpenVINOBERT(self.bert, self.reads_all_layers)
        bert = deepcopy(self.bert).requires_grad_(False).to(precision)

        def compute(**inputs: Any) -> tuple[Tensor, ...]:
            length = inputs["input_ids"].shape[1]
            padded_layers = bert(**_pad_to_block(inputs))
            return tuple(layer[:, :length] for layer in padded_layers)

        return compute

    def train(self, mode: bool = True) -> Self:
        """Set the training mode; to save time, frozen layers always run without dropout."""
        super().train(mode)
        for module in self.frozen_modules:
            module.eval()
        return self

    def compute_hidden_states(self, **inputs: Any) -> tuple[Tensor, ...]:
        """Compute the hidden states (R, T, E) of embeddings and layers, as `BERT`.

        In bfloat16, those of the last layer suffice unless `reads_all_layers`.
        """
        dtype = None if is_full_precision.get() else self.autocast_dtype
        if self._compute_rounded and not is_full_precision.get():
            return self._compute_rounded(**inputs)
        device = inputs["input_ids"].device.type
        with torch.autocast(device, dtype=dtype, enabled=dtype is not None):
            layers: tuple[Tensor, ...] = self.bert(**inputs)
        return layers


class TextEncoder(Encoder):
    """An encoder of texts as [CLS] text [SEP], truncated to BERT's maximum length."""

    def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Encode (B, L) as vectors (B, T, E) float32 and mask (B, T), with [CLS] and [SEP]."""
        max_length = self.bert.config.max_position_embeddings - 2
        ids = ids[:, :max_length]
        mask = mask[:, :max_length]
        cls, sep = self.special_ids
        end = 1 + mask.sum(1, keepdim=True)  # (B, 1) position of [SEP]
        input_ids = functional.pad(functional.pad(ids * mask, (1, 0), value=cls), (0, 1)).scatter(
            1, end, sep
        )
        input_mask = torch.arange(input_ids.shape[1], device=ids.device) <= end
        # Without padding no mask is needed, and attention is faster.
        attention_mask = None if input_mask.all() else input_mask.long()
        vectors = self.compute_hidden_states(input_ids=input_ids, attention_mask=attention_mask)[-1]
        return _to_float32(vectors), input_mask


class PairEncoder(Encoder):
    """An encoder of query-document pairs as [CLS] query [SEP] chunk [SEP]."""

    def __init__(self, config: EncoderConfig, cls_only: bool = False) -> None:
        super().__init__(config, cls_only)
        self.reads_all_layers = not cls_only
        # document positions per chunk
        self.chunk_length = self.bert.config.max_position_embeddings - QUERY_LENGTH - 3

    def forward(
        self, query: Tensor, query_mask: Tensor, document: Tensor, document_mask: Tensor
    ) -> EncodedPairs:
        """Encode pairs; arguments as for `Ranker.forward`."""
        chunks = DocumentChunks(document_mask.sum(1), self.chunk_length)
        layers = self.compute_hidden_states(
            **self._build_inputs(query, query_mask, document, chunks)
        )
        return EncodedPairs(layers, chunks, query.shape[1], document.shape[1])

    def _build_inputs(
        self, query: Tensor, query_mask: Tensor, document: Tensor, chunks: DocumentChunks
    ) -> dict[str, Tensor]:
        """Build BERT's inputs [CLS] query [SEP] chunk [SEP].

        Document tokens have the same position ids for all queries: those after 20 subwords.
        """
        document_start = query.shape[1] + 2
        chunk_positions, is_token = chunks.get_positions()
        tokens = (
            document[chunks.pair_rows].gather(1, chunk_positions.clamp(max=document.shape[1] - 1))
            * is_token
        )
        is_special = torch.ones_like(chunks.pair_rows).unsqueeze(1)  # (R, 1)
        padding = torch.zeros_like(is_special)
        cls, sep = (is_special * token_id for token_id in self.special_ids)
        # position of the last [SEP]
        end = (document_start + chunks.chunk_sizes[chunks.pair_rows]).unsqueeze(1)
        ids = torch.cat([cls, query[chunks.pair_rows], sep, tokens, padding], dim=1).scatter(
            1, end, sep
        )
        is_query_token = query_mask[chunks.pair_rows]
        mask = (
            torch.cat([is_special, is_query_token, is_special, is_token, padding], dim=1)
            .long()
            .scatter(1, end, is_special)
        )
        column = torch.arange(ids.shape[1], device=ids.device)
        position_ids = column + (column >= document_start - 1) * (QUERY_LENGTH + 2 - document_start)
        return {
            "input_ids": ids,
            "attention_mask": mask,
            "token_type_ids": (column >= document_start).long().expand_as(ids),
            "position_ids": position_ids.expand_as(ids),
        }


class BERTNetwork(Network):
    """A network with a BERT encoder; checkpoints omit frozen layers of the pretrained one."""

    version = 1

    half_precision_prefixes = ("encoder.",)
    encoder: Encoder

    def set_encoder_precision(self, precision: torch.dtype | None) -> None:
        """Set the encoder's precision; the encoder's output is always converted to float32."""
        self.encoder.set_precision(precision)

    def get_vocabulary_size(self) -> int:
        return int(self.encoder.bert.config.vocab_size)

    def get_frozen_tensors(self) -> set[str]:
        return {
            f"encoder.{name}"
            for name, value in self.encoder.named_parameters()
            if not value.requires_grad
        }


class BERTRanker(BERTNetwork, Ranker):
    """A ranker with a BERT encoder; by default a cross-encoder of query-document pairs."""

    token_unit = "pieces"
    cpu_batch_size = 32
    shard_size = 512
    uses_occlusion = True
    cls_only: ClassVar[bool] = False  # whether the ranker reads only the last layer's [CLS] vector

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.encoder = self.build_encoder(config)

    def build_encoder(self, config: Any) -> Encoder:
        return PairEncoder(config, self.cls_only)


class CLSRanker(BERTRanker):
    """Ranker with a linear layer over the mean [CLS] vector of a document's chunks."""

    cls_only = True
    dropout: nn.Dropout
    linear: nn.Linear

    def pool(
        self, query: Tensor, query_mask: Tensor, document: Tensor, document_mask: Tensor
    ) -> Tensor:
        """Compute the vectors (B, E) that are the linear layer's input."""
        pairs: EncodedPairs = self.encoder(query, query_mask, document, document_mask)
        return pairs.cls[:, -1]

    def forward(
        self, query: Tensor, query_mask: Tensor, document: Tensor, document_mask: Tensor
    ) -> Tensor:
        """Compute the scores (B,) of pairs: w · vector + b."""
        return torch.squeeze(
            self.linear(self.dropout(self.pool(query, query_mask, document, document_mask))), -1
        )

    def explain(
        self, query: Tensor, query_mask: Tensor, document: Tensor, document_mask: Tensor
    ) -> Explanation:
        """Break the score down into the contribution of the [CLS] vector and the bias."""
        [vector] = self.pool(query, query_mask, document, document_mask)
        rows = [
            Row((self.linear.weight[0] @ vector).item(), "[CLS]"),
            Row(self.linear.bias.item(), "bias"),
        ]
        score = self(query, query_mask, document, document_mask).item()
        return Explanation(score, rows, caveat=ENCODER_CAVEAT)


def _pad_to_block(inputs: dict[str, Any]) -> dict[str, Any]:
    """Pad inputs with masked positions to a multiple of PADDING_BLOCK, from two blocks on."""
    ids = inputs["input_ids"]
    padding = -ids.shape[1] % PADDING_BLOCK
    if not padding or ids.shape[1] < 2 * PADDING_BLOCK:
        return inputs
    mask = torch.ones_like(ids) if inputs["attention_mask"] is None else inputs["attention_mask"]
    return {
        name: functional.pad(value, (0, padding))
        for name, value in {**inputs, "attention_mask": mask}.items()
    }


def _to_float32(vectors: Tensor) -> Tensor:
    """Convert half-precision vectors to float32, which similarities need."""
    return vectors.float() if vectors.dtype in (torch.bfloat16, torch.float16) else vectors
