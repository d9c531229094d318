"""DeepCT: BERT says of each word of a passage how much it matters there, which becomes how often it counts.

Dai, Callan: Context-Aware Term Weighting For First Stage Passage Retrieval. SIGIR 2020. Hollatz: Precision-Oriented Argument
Retrieval. Halle 2022, 3.2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from submission.enrichment.base import Enricher, Word
from submission.rankers.bert import BERTNetwork, TextEncoder
from submission.rankers.bert_config import EncoderConfig
from submission.scoring.batches import pad
from submission.text.passages import Passage, PassageReader

DEVIATION = 0.02  # of the linear unit's weights as training begins


class DeepCT(BERTNetwork, Enricher[Passage]):
    """One linear unit over what BERT makes of a word's first piece, and no activation."""

    Reader = PassageReader
    value = "weight"

    @dataclass(frozen=True)
    class Config(EncoderConfig):
        """The encoder, how texts are cut, and what a weight of 1 counts."""

        words: int = 220  # of a passage, at most
        pieces: int = 320  # of a passage that are read
        scale: int = 100  # how often a word of weight 1 counts in a passage
        dropout: float = 0.1

    def __init__(self, config: Config) -> None:
        """Raises ValueError: more pieces than the encoder has positions for."""
        super().__init__(config)
        longest = config.bert["max_position_embeddings"] - 2
        if not 0 < config.pieces <= longest:
            raise ValueError(f"pieces is {config.pieces}; the encoder reads 1 to {longest}")
        self.encoder = TextEncoder(config)
        self.dropout = nn.Dropout(config.dropout)
        self.linear = nn.Linear(self.encoder.bert.config.hidden_size, 1)
        nn.init.trunc_normal_(self.linear.weight, std=DEVIATION, a=-2 * DEVIATION, b=2 * DEVIATION)
        nn.init.zeros_(self.linear.bias)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """The weights (B, T) of pieces: ids (B, T) int64, mask (B, T) bool. Those of padding mean nothing."""
        vectors, _ = self.encoder(ids, mask)  # (B, 1 + T + 1, E)
        weights: Tensor = self.linear(self.dropout(vectors[:, 1:-1])).squeeze(-1)
        return weights

    def words(self, passages: Sequence[Passage]) -> list[list[Word]]:
        """Each word with its first piece's weight."""
        device = self.linear.weight.device
        weights = self(*(tensor.to(device) for tensor in pad([passage.ids for passage in passages]))).cpu()  # (B, T)
        return [
            [
                Word(text, *span, weight)
                for text, span, weight in zip(passage.words, passage.spans, own[passage.places].tolist(), strict=True)
            ]
            for passage, own in zip(passages, weights, strict=True)
        ]

    def frequencies(self, passages: Sequence[Sequence[Word]]) -> Mapping[str, int]:
        """The sums over the passages."""
        found: Counter[str] = Counter()
        for passage in passages:
            found.update(term_frequencies(passage, self.config.scale))
        return found


def term_frequencies(passage: Sequence[Word], scale: int) -> dict[str, int]:
    """Compute the term frequency of each word: its largest weight times the scale, rounded half to even, at least 1."""
    largest: dict[str, float] = {}
    for word in passage:
        largest[word.text] = max(word.weight, largest.get(word.text, 0.0))
    counts = {word: round(scale * weight) for word, weight in largest.items() if word}
    return {word: count for word, count in counts.items() if count >= 1}
