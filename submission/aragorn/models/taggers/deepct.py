"""DeepCT: BERT estimates the importance of each word in a passage; the estimate replaces the word's
frequency.

Dai, Callan: Context-Aware Term Weighting For First Stage Passage Retrieval. SIGIR 2020. Hollatz:
Precision-Oriented Argument Retrieval. Halle 2022, section 3.2.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from aragorn.bounds import Length, Scale, Share
from aragorn.models.bert import BERTNetwork, TextEncoder
from aragorn.models.network import pad
from aragorn.models.taggers import Tagger, TokenAnnotation
from aragorn.models.transformer import EncoderConfig
from aragorn.text.passages import Passage, WordPiecePassageTokeniser

INIT_STD = 0.02  # standard deviation of the initial weights


class DeepCT(BERTNetwork, Tagger):
    """A linear layer, without activation, over the BERT vector of each word's first subword."""

    version = 1
    computes_with = ("aragorn.text.passages",)

    tokeniser_class = WordPiecePassageTokeniser
    output_name = "weight"

    @dataclass(frozen=True)
    class Config(EncoderConfig):
        """Configuration of the encoder, the passages and the word frequencies."""

        words: Length = 220  # maximum number of words per passage
        pieces: Length = 320  # maximum number of subwords per passage
        scale: Scale = 100  # frequency of a word with weight 1
        dropout: Share = 0.1

    def __init__(self, config: Config) -> None:
        """Build the network; raise ValueError if `pieces` does not fit the encoder."""
        super().__init__(config)
        max_length = config.bert["max_position_embeddings"] - 2
        if not 0 < config.pieces <= max_length:
            raise ValueError(
                f"pieces is {config.pieces}; expected 1 to {max_length} (the encoder's maximum)"
            )
        self.encoder = TextEncoder(config)
        self.dropout = nn.Dropout(config.dropout)
        self.linear = nn.Linear(self.encoder.bert.config.hidden_size, 1)
        nn.init.trunc_normal_(self.linear.weight, std=INIT_STD, a=-2 * INIT_STD, b=2 * INIT_STD)
        nn.init.zeros_(self.linear.bias)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Compute subword weights (B, T) from ids (B, T) int64 and mask (B, T) bool."""
        vectors, _ = self.encoder(ids, mask)  # (B, 1 + T + 1, E)
        return torch.squeeze(self.linear(self.dropout(vectors[:, 1:-1])), -1)

    def annotate(self, passages: Sequence[Passage]) -> list[list[TokenAnnotation]]:
        """Annotate each word with the weight of its first subword."""
        device = self.linear.weight.device
        # (B, T)
        weights = self(
            *(tensor.to(device) for tensor in pad([passage.piece_ids for passage in passages]))
        ).cpu()
        annotations = []
        for passage, piece_weights in zip(passages, weights, strict=True):
            words = zip(
                passage.words,
                passage.spans,
                piece_weights[passage.first_pieces].tolist(),
                strict=True,
            )
            annotations.append(
                [TokenAnnotation(word, *span, weight) for word, span, weight in words]
            )
        return annotations

    def compute_word_frequencies(
        self, passages: Sequence[Sequence[TokenAnnotation]]
    ) -> Mapping[str, int]:
        """Sum the frequency of each word over the passages of a text."""
        frequencies: Counter[str] = Counter()
        for passage in passages:
            frequencies.update(compute_passage_frequencies(passage, self.config.scale))
        return frequencies


def compute_passage_frequencies(passage: Sequence[TokenAnnotation], scale: int) -> dict[str, int]:
    """Compute max weight · scale of each word, rounded half to even; words with 0 are omitted."""
    max_weights: dict[str, float] = {}
    for word in passage:
        max_weights[word.surface] = max(word.weight, max_weights.get(word.surface, 0.0))
    counts = {word: round(scale * weight) for word, weight in max_weights.items() if word}
    return {word: count for word, count in counts.items() if count >= 1}
