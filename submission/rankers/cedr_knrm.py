"""CEDR-KNRM: kernel pooling over the similarities of BERT's vectors in every layer, beside its [CLS] vector.

MacAvaney, Yates, Cohan, Goharian: CEDR. SIGIR 2019, section 3.2. Thesis 3.4.7: 11 kernels, one linear layer over 11 · L + E
features. The kernels are fixed: a trained width of 0.001 moves by its own size in one step.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from submission.rankers.base import Explanation, Part
from submission.rankers.bert import ENCODER_REMARK, BERTRanker, Encoded
from submission.rankers.bert_config import EncoderConfig
from submission.rankers.layers import Kernels, cosine, kernel_parts

MUS = (-0.9, -0.7, -0.5, -0.3, -0.1, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)
SIGMAS = (*[0.1] * 10, 0.001)


class CEDRKNRM(BERTRanker):
    """One linear layer over kernel features of all layers and the last [CLS] vector."""

    @dataclass(frozen=True)
    class Config(EncoderConfig):
        """The encoder, which gives layers and width, and the dropout before the last layer."""

        dropout: float = 0.2

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.kernels = Kernels(MUS, SIGMAS)
        self.dropout = nn.Dropout(config.dropout)
        bert = self.encoder.bert.config
        self.linear = nn.Linear(len(MUS) * (bert.num_hidden_layers + 1) + bert.hidden_size, 1)

    def forward(self, query: Tensor, query_mask: Tensor, document: Tensor, document_mask: Tensor) -> Tensor:
        """Scores (B,): w · [features, kernel by kernel; CLS] + b."""
        encoded = self.encoder(query, query_mask, document, document_mask)
        features = self.shares(encoded, query_mask, document_mask)[1].sum(2)  # (B, L, K)
        both = torch.cat([features.transpose(1, 2).flatten(1), encoded.cls[:, -1]], dim=1)
        score: Tensor = self.linear(self.dropout(both))  # (B, 1)
        return score.squeeze(-1)

    def shares(self, encoded: Encoded, query_mask: Tensor, document_mask: Tensor) -> tuple[Tensor, Tensor]:
        """Similarities (B, L, Q, D), and what each query position adds to the kernel features (B, L, Q, K)."""
        similarity = cosine(encoded.query, encoded.document)
        matches = self.kernels(similarity, document_mask[:, None])  # (B, L, Q, K)
        counted = query_mask & document_mask.any(1, keepdim=True)  # the authors count rows with any similarity
        return similarity, (matches + 1e-6).log() * counted[:, None, :, None]

    def explain(self, query: Tensor, query_mask: Tensor, document: Tensor, document_mask: Tensor) -> Explanation:
        """A sum over layers, kernels and query pieces, what the [CLS] vector gives, and a bias."""
        encoded = self.encoder(query, query_mask, document, document_mask)
        similarity, shares = (values[0] for values in self.shares(encoded, query_mask, document_mask))
        weights, cls = torch.split(self.linear.weight[0], [len(MUS) * len(shares), encoded.cls.shape[-1]])
        parts = [Part("bias", self.linear.bias.item()), Part("[CLS]", (cls @ encoded.cls[0, -1]).item())]
        similarity = similarity.masked_fill(~document_mask[0], -torch.inf)
        for layer, by_kernel in enumerate(weights.reshape(len(MUS), -1).T):
            parts += kernel_parts(self.kernels, similarity[layer], shares[layer] * by_kernel, f"layer {layer}, similarity")
        return Explanation(parts, remark=ENCODER_REMARK, by_omission=True)
