"""GRU: a siamese bidirectional GRU, with a linear layer over the concatenated mean states of query
and document.

Chung, Gulcehre, Cho, Bengio: Empirical Evaluation of Gated Recurrent Neural Networks on Sequence
Modeling. 2014. Entezari 2020, 3.4.1 and table 4.1: bidirectional, 512 units, one linear layer
2048:1.

In Entezari 2020 the score is a document score plus a query score. The topic thus does not affect
the ranking, which explains GRU's low validation scores there. `interaction` adds joint features
(InferSent: Conneau, Kiela, Schwenk, Barrault, Bordes: Supervised Learning of Universal Sentence
Representations from Natural Language Inference Data. 2017, section 3.1).
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from aragorn.bounds import Rows, Share, Width
from aragorn.explanation import Explanation, Row
from aragorn.models.layers import get_known_mask, run_bidirectional
from aragorn.models.network import SiameseRanker


class GRU(SiameseRanker):
    """A linear layer over the mean hidden states of a bidirectional GRU."""

    version = 1

    half_precision_prefixes = ("embedding.", "forward_rnn.", "backward_rnn.")

    @dataclass(frozen=True)
    class Config:
        """Configuration of the network; `vocabulary` counts embedding rows.

        `interaction`: the linear layer also reads |d - q| and d · q (Conneau et al. 2017). Without
        it (Entezari 2020), the topic does not affect the ranking.
        """

        vocabulary: Rows
        dimensions: Width = 300
        hidden: Width = 512
        dropout: Share = 0.5
        interaction: bool = False

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.embedding = nn.Embedding(config.vocabulary, config.dimensions, padding_idx=0)
        self.forward_rnn, self.backward_rnn = (
            nn.GRU(config.dimensions, config.hidden, batch_first=True) for _ in range(2)
        )
        self.dropout = nn.Dropout(config.dropout)
        self.linear = nn.Linear((8 if config.interaction else 4) * config.hidden, 1)
        if config.interaction:  # initialised as a similarity, because random weights overfit
            for weights, value in zip(
                self.linear.weight.data.chunk(4, dim=1), (0.0, 0.0, -1.0, 1.0), strict=True
            ):
                weights.fill_(value)

    def score_vectors(self, query: Tensor, document: Tensor) -> Tensor:
        """Compute the scores (B,) of vectors: w · [d; q] + b, or w · [d; q; |d - q|; d · q] + b."""
        return torch.squeeze(
            self.linear(
                self.dropout(torch.cat([*self._compute_features(query, document).values()], dim=1))
            ),
            -1,
        )

    def explain(
        self, query: Tensor, query_mask: Tensor, document: Tensor, document_mask: Tensor
    ) -> Explanation:
        """Break the score down by document, query and joint features, plus bias."""
        features = self._compute_features(
            self.encode(query, query_mask), self.encode(document, document_mask)
        )
        weights = self.linear.weight[0].chunk(len(features))
        rows = [
            Row((features[name][0] @ weight).item(), name)
            for name, weight in zip(features, weights, strict=True)
        ]
        rows.append(Row(self.linear.bias.item(), "bias"))
        caveat = (
            "document and query contribute independently: the topic does not affect the ranking"
        )
        score = self(query, query_mask, document, document_mask).item()
        return Explanation(score, rows, caveat="" if self.config.interaction else caveat)

    def _compute_features(self, query: Tensor, document: Tensor) -> dict[str, Tensor]:
        """Compute the linear layer's input features, (B, 2H) each, by name."""
        features = {"document": document, "query": query}
        if self.config.interaction:
            features |= {"difference": (document - query).abs(), "product": document * query}
        return features

    def encode(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Encode texts as the means (B, 2H) of known words' hidden states; 0 without any."""
        is_known = get_known_mask(ids, mask)  # (B, L)
        # (B, L, E)
        vectors = functional.normalize(self.embedding(ids), dim=-1, eps=1e-12) * is_known.unsqueeze(
            -1
        )
        # (B, L, H)
        forward, backward, reversal = run_bidirectional(
            self.forward_rnn, self.backward_rnn, vectors, mask
        )
        is_known_reversed = is_known.gather(1, reversal) & mask
        totals = (
            (forward * is_known.unsqueeze(-1)).sum(1),
            (backward * is_known_reversed.unsqueeze(-1)).sum(1),
        )
        return torch.cat(totals, dim=1) / is_known.sum(1, keepdim=True).clamp(min=1)
