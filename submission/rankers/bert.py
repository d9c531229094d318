"""The encoder that BERT rankers share: a pair as [CLS] query [SEP] document [SEP], a long document in several pieces; or a
text alone.

MacAvaney, Yates, Cohan, Goharian: CEDR: Contextualized Embeddings for Document Ranking. SIGIR 2019; the layout is that of
the authors' code, each pair computed as if it were alone in its batch.

Shapes: B pairs, R pieces of all pairs, L layers (embeddings and all blocks), Q query positions (at most 20), D document
positions, T positions of a piece with its query, E dimensions.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.functional import scaled_dot_product_attention
from transformers import BertConfig, BertModel
from transformers.models.bert.modeling_bert import BertLayer

from submission.rankers.base import Ranker
from submission.rankers.bert_config import QUERY_LENGTH, EncoderConfig
from submission.rankers.network import Network

BLOCK = 32  # positions: over whole blocks of them, attention in half precision is up to twice as fast on a CPU
ENCODER_REMARK = "the encoder reads all pieces at once: its vectors are not sums over them"


class Encoded:
    """The encoder's output for pairs, each part computed when it is needed."""

    def __init__(self, layers: tuple[Tensor, ...], cut: Pieces, query: int, document: int) -> None:
        """From the layers' vectors L × (R, T, E), how documents were cut, and the numbers of positions Q and D."""
        self._layers, self._cut, self._query, self._document = layers, cut, query, document

    @property
    def cls(self) -> Tensor:
        """(B, L, E), the mean over the pieces."""
        return self._cut.mean(_full(torch.stack([layer[:, 0] for layer in self._layers], dim=1)))

    @property
    def query(self) -> Tensor:
        """(B, L, Q, E), from the first piece; positions past a query's end hold anything."""
        first = [layer[self._cut.first, 1 : 1 + self._query] for layer in self._layers]
        return _full(torch.stack(first, dim=1))

    @property
    def document(self) -> Tensor:
        """(B, L, D, E), the pieces joined; positions past a document's end hold anything."""
        rows, columns = self._cut.places(self._document)
        return _full(torch.stack([layer[rows, columns + self._query + 2] for layer in self._layers], dim=1))


class BlockForCls(BertLayer):  # type: ignore[no-untyped-call]
    """A last block of which nothing but [CLS] is read: all positions' keys and values, and the rest for [CLS] alone.

    In training it is a whole block unless it is told otherwise, so that dropout falls where it falls in one.
    """

    whole_in_training = True

    def forward(self, hidden_states: Tensor, attention_mask: Tensor | None = None, *others: Any, **named: Any) -> Tensor:
        """(R, 1, E) of (R, T, E)."""
        if self.training and self.whole_in_training:
            whole: Tensor = super().forward(hidden_states, attention_mask, *others, **named)
            return whole
        cls, attention = hidden_states[:, :1], self.attention.self
        query, key, value = (
            vectors.unflatten(-1, (attention.num_attention_heads, -1)).transpose(1, 2)
            for vectors in (attention.query(cls), attention.key(hidden_states), attention.value(hidden_states))
        )
        mask = None if attention_mask is None else attention_mask[:, :, :1]
        dropout = attention.dropout.p if self.training else 0.0
        read = scaled_dot_product_attention(query, key, value, mask, dropout).transpose(1, 2).flatten(2)
        attended = self.attention.output(read, cls)
        block: Tensor = self.output(self.intermediate(attended), attended)
        return block


class Encoder(nn.Module):
    """BERT, of which some lowest blocks may be frozen, and the precision in which it computes.

    Whoever only reads texts rounds all weights once and computes in half precision throughout. While the weights are
    learned they stay in full precision, and autocast rounds them for each batch.
    """

    def __init__(self, config: EncoderConfig, cls_alone: bool = False) -> None:
        """From its configuration, and whether [CLS] is all that is read of the last block."""
        super().__init__()
        self.special = config.cls, config.sep
        self.bert = BertModel(BertConfig(**config.bert), add_pooling_layer=False)
        if cls_alone:
            with torch.random.fork_rng():  # what is drawn after it does not depend on it
                self.bert.encoder.layer[-1] = BlockForCls(self.bert.config)  # type: ignore[no-untyped-call]
        self.frozen = [self.bert.embeddings, *self.bert.encoder.layer[: config.frozen]] if config.frozen >= 0 else []
        for module in self.frozen:
            module.requires_grad_(False)
        self.autocast: torch.dtype | None = None  # here, and nowhere else in a ranker; None: none
        self._rounded: list[BertModel] = []  # BERT with rounded weights; in a list: it is no part of the module

    @property
    def precision(self) -> torch.dtype | None:
        """The precision that weights are rounded to; None: they are not."""
        return self._rounded[0].dtype if self._rounded else None

    def round(self, precision: torch.dtype | None) -> None:
        """Compute with weights in half precision, as they are now, or with the weights themselves (None); no autocast."""
        self.autocast = None
        if precision != self.precision:
            rounded = [] if precision is None else [deepcopy(self.bert).requires_grad_(False)]
            self._rounded = [bert.to(precision) for bert in rounded]  # type: ignore[arg-type]  # a dtype is one

    def train(self, mode: bool = True) -> Self:
        """Dropout in what is trained only: in frozen blocks it costs time and teaches nothing."""
        super().train(mode)
        for module in self.frozen:
            module.eval()
        return self

    def layers(self, **inputs: Any) -> tuple[Tensor, ...]:
        """The vectors (R, T, E) that embeddings and blocks make of rows."""
        if self._rounded:
            length = inputs["input_ids"].shape[1]
            found = self._rounded[0](**_widened(inputs), output_hidden_states=True).hidden_states
            return tuple(layer[:, :length] for layer in found)
        with torch.autocast(inputs["input_ids"].device.type, dtype=self.autocast, enabled=self.autocast is not None):
            layers: tuple[Tensor, ...] = self.bert(**inputs, output_hidden_states=True).hidden_states
        return layers


class TextEncoder(Encoder):
    """BERT over single texts, [CLS] text [SEP]; what does not fit into its positions is cut off."""

    def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Ids and mask (B, L) of texts → the last block's vectors (B, T, E), float32, and which of them are the text's own
        or its special pieces', (B, T).
        """
        longest = self.bert.config.max_position_embeddings - 2
        ids, mask = ids[:, :longest], mask[:, :longest]
        cls, sep = self.special
        end = 1 + mask.sum(1, keepdim=True)  # (B, 1) the place of [SEP]
        rows = functional.pad(functional.pad(ids * mask, (1, 0), value=cls), (0, 1)).scatter(1, end, sep)
        inside = torch.arange(rows.shape[1], device=ids.device) <= end
        # Texts of one length need no mask, and attention without one is faster.
        vectors = self.layers(input_ids=rows, attention_mask=None if inside.all() else inside.long())[-1]
        return _full(vectors), inside


class PairEncoder(Encoder):
    """BERT over pairs."""

    def __init__(self, config: EncoderConfig, cls_alone: bool = False) -> None:
        """As any encoder."""
        super().__init__(config, cls_alone)
        self.longest = self.bert.config.max_position_embeddings - QUERY_LENGTH - 3  # document positions in a piece

    def forward(self, query: Tensor, query_mask: Tensor, document: Tensor, document_mask: Tensor) -> Encoded:
        """Encode pairs; return all layers. Ids and masks are those of a ranker."""
        cut = Pieces(document_mask.sum(1), self.longest)
        layers = self.layers(**self._inputs(query, query_mask, document, cut))
        return Encoded(layers, cut, query.shape[1], document.shape[1])

    def _inputs(self, query: Tensor, query_mask: Tensor, document: Tensor, cut: Pieces) -> dict[str, Tensor]:
        """Rows [CLS] query [SEP] piece [SEP], one a piece; the last [SEP] comes right after the piece's own size.

        Query positions that are masked in all rows are left out: nothing sees them. The document keeps the positions that it
        has behind 20 of them.
        """
        before = query.shape[1] + 2
        place, real = cut.positions()
        words = document[cut.owner].gather(1, place.clamp(max=document.shape[1] - 1)) * real
        one = torch.ones_like(cut.owner).unsqueeze(1)  # (R, 1)
        cls, sep = (one * special for special in self.special)
        last = (before + cut.size[cut.owner]).unsqueeze(1)
        ids = torch.cat([cls, query[cut.owner], sep, words, one * 0], dim=1).scatter(1, last, sep)
        mask = torch.cat([one, query_mask[cut.owner], one, real, one * 0], dim=1).long().scatter(1, last, one)
        column = torch.arange(ids.shape[1], device=ids.device)
        positions = column + (column >= before - 1) * (QUERY_LENGTH + 2 - before)
        return {
            "input_ids": ids,
            "attention_mask": mask,
            "token_type_ids": (column >= before).long().expand_as(ids),
            "position_ids": positions.expand_as(ids),
        }


class BERTNetwork(Network):
    """A network over an encoder: what is frozen in it stays in the encoder's own folder and out of checkpoints."""

    stored_in_half = ("encoder.",)
    pooled: ClassVar[bool] = False  # whether it has a `pooler` over [CLS], which begins as the encoder's own
    encoder: Encoder

    def use_precision(self, precision: torch.dtype | None) -> None:
        """The encoder alone; its vectors are float32 again where similarities are made of them."""
        self.encoder.round(precision)

    def terms(self) -> int:
        """Return the number of pieces that have a vector."""
        return int(self.encoder.bert.config.vocab_size)

    def not_stored(self) -> set[str]:
        """Return the names of the frozen tensors, which checkpoints leave out."""
        return {f"encoder.{name}" for name, value in self.encoder.named_parameters() if not value.requires_grad}


class BERTRanker(BERTNetwork, Ranker):
    """A ranker over an encoder."""

    reads = "pieces"
    batch, kept_together = 32, 512
    cls_alone: ClassVar[bool] = False  # whether the network reads nothing but [CLS] of the last block

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.encoder = self.encoder_of(config)

    def encoder_of(self, config: Any) -> Encoder:
        """Return the encoder of a configuration."""
        return PairEncoder(config, self.cls_alone)


class Pieces:
    """The cutting of documents into P = ceil(length / longest) pieces, at least one, each of ceil(length / P) positions."""

    def __init__(self, lengths: Tensor, longest: int) -> None:
        self.lengths = lengths
        self.number = (-(-lengths // longest)).clamp(min=1)  # (B,)
        self.size = -(-lengths // self.number)  # (B,)
        self.first = self.number.cumsum(0) - self.number  # (B,) the row of a pair's first piece
        self.owner = torch.repeat_interleave(self.number)  # (R,) the pair of a piece

    def positions(self) -> tuple[Tensor, Tensor]:
        """The document position at each place of each piece, and whether there is a word: (R, S) both."""
        column = torch.arange(int(self.size.max()), device=self.owner.device)
        size = self.size[self.owner].unsqueeze(1)
        piece = (torch.arange(len(self.owner), device=self.owner.device) - self.first[self.owner]).unsqueeze(1)
        position = piece * size + column
        return position, (column < size) & (position < self.lengths[self.owner].unsqueeze(1))

    def places(self, width: int) -> tuple[Tensor, Tensor]:
        """Row and column (B, D) of each document position; those past a document's end are its last one's."""
        last = (self.lengths - 1).clamp(min=0).unsqueeze(1)
        position = torch.arange(width, device=self.owner.device).minimum(last)
        size = self.size.clamp(min=1).unsqueeze(1)
        return self.first.unsqueeze(1) + position // size, position % size

    def mean(self, rows: Tensor) -> Tensor:
        """Means (B, …) over each pair's pieces of (R, …), added in order, so that they are the same each time."""
        total = rows[self.first]
        for piece in range(1, int(self.number.max())):
            has = (self.number > piece).nonzero().squeeze(1)
            total = total.index_copy(0, has, total[has] + rows[self.first[has] + piece])
        return total / self.number.reshape(-1, *[1] * (rows.dim() - 1))


def _widened(inputs: dict[str, Any]) -> dict[str, Any]:
    """Pad rows to whole blocks of positions, which nothing sees; short rows would be much longer, and stay as they are."""
    ids = inputs["input_ids"]
    missing = -ids.shape[1] % BLOCK
    if not missing or ids.shape[1] < 2 * BLOCK:
        return inputs
    mask = torch.ones_like(ids) if inputs["attention_mask"] is None else inputs["attention_mask"]
    given = {**inputs, "attention_mask": mask}
    return {name: functional.pad(value, (0, missing)) for name, value in given.items()}


def _full(vectors: Tensor) -> Tensor:
    """Convert an encoder's output in half precision to float32, which similarities need."""
    return vectors.float() if vectors.dtype in (torch.bfloat16, torch.float16) else vectors
