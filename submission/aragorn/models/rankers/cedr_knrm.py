"""CEDR-KNRM: a linear layer over [CLS] and the kernel features of all BERT layers.

MacAvaney, Yates, Cohan, Goharian: CEDR. SIGIR 2019, section 3.2. Entezari 2020, 3.4.4.3 and 4.2.7:
11 kernels. One linear layer over 11 · L + E features as in the authors' code, or a hidden layer of
five ReLU units as in Entezari 2020 (table 4.1: 911:5:1). The kernels are not trained, because one
optimiser step could change a width by 0.001, the width of the exact-match kernel.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from aragorn.bounds import OptionalWidth, Share
from aragorn.explanation import Explanation, Row
from aragorn.models.bert import ENCODER_CAVEAT, BERTRanker, EncodedPairs
from aragorn.models.layers import Kernels, cosine, explain_kernels
from aragorn.models.transformer import EncoderConfig

MUS = (-0.9, -0.7, -0.5, -0.3, -0.1, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)
SIGMAS = (*[0.1] * 10, 0.001)


class CEDRKNRM(BERTRanker):
    """A linear layer over the kernel features of all layers and the last layer's [CLS] vector."""

    version = 1

    @dataclass(frozen=True)
    class Config(EncoderConfig):
        """Configuration of the encoder, the dropout, and the hidden units; 0: no such layer."""

        dropout: Share = 0.2
        hidden: OptionalWidth = 0

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.kernels = Kernels(MUS, SIGMAS)
        self.dropout = nn.Dropout(config.dropout)
        bert_config = self.encoder.bert.config
        n_features = len(MUS) * (bert_config.num_hidden_layers + 1) + bert_config.hidden_size
        self.linear = nn.Linear(n_features, config.hidden or 1)
        self.output = nn.Linear(config.hidden, 1) if config.hidden else None

    def forward(
        self, query: Tensor, query_mask: Tensor, document: Tensor, document_mask: Tensor
    ) -> Tensor:
        """Compute scores (B,): w · f + b or w · ReLU(W f + b1) + b; f = [kernel features; CLS]."""
        pairs = self.encoder(query, query_mask, document, document_mask)
        # (B, L, K)
        kernel_features = self.compute_kernel_features(pairs, query_mask, document_mask)[1].sum(2)
        features = torch.cat([kernel_features.transpose(1, 2).flatten(1), pairs.cls[:, -1]], dim=1)
        values = self.linear(self.dropout(features))
        return torch.squeeze(self.output(values.relu()) if self.output else values, -1)

    def compute_kernel_features(
        self, pairs: EncodedPairs, query_mask: Tensor, document_mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Compute similarities (B, L, Q, D) and features of query positions (B, L, Q, K)."""
        similarity = cosine(pairs.query, pairs.document)
        matches = self.kernels(similarity, document_mask[:, None])  # (B, L, Q, K)
        # as in the authors' code: 0 for empty documents
        match_mask = query_mask & document_mask.any(1, keepdim=True)
        return similarity, (matches + 1e-6).log() * match_mask[:, None, :, None]

    def explain(
        self, query: Tensor, query_mask: Tensor, document: Tensor, document_mask: Tensor
    ) -> Explanation:
        """Break the score down by layer, kernel and query subword, plus [CLS] and bias."""
        pairs = self.encoder(query, query_mask, document, document_mask)
        similarity, features = (
            tensors[0] for tensors in self.compute_kernel_features(pairs, query_mask, document_mask)
        )
        cls = pairs.cls[0, -1]
        weights, bias = self._linearise(torch.cat([features.sum(1).t().flatten(), cls]))
        weights, cls_weights = torch.split(weights, [len(MUS) * len(features), len(cls)])
        rows = [Row(bias.item(), "bias"), Row((cls_weights @ cls).item(), "[CLS]")]
        similarity = similarity.masked_fill(~document_mask[0], -torch.inf)
        for layer, kernel_weights in enumerate(weights.reshape(len(MUS), -1).T):
            values = features[layer] * kernel_weights
            rows += explain_kernels(
                self.kernels, similarity[layer], values, f"layer {layer}, similarity"
            )
        score = self(query, query_mask, document, document_mask).item()
        return Explanation(score, rows, caveat=ENCODER_CAVEAT)

    def _linearise(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Return weights (F,) and bias of features (F,), around which ReLU units are linear."""
        if not self.output:
            return self.linear.weight[0], self.linear.bias[0]
        unit_weights = self.output.weight[0] * (self.linear(features) > 0)
        return (
            unit_weights @ self.linear.weight,
            unit_weights @ self.linear.bias + self.output.bias[0],
        )
