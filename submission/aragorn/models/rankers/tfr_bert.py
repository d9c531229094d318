"""TFR-BERT: argument quality estimated by a linear layer over BERT's pooled [CLS] vector, trained
with listwise losses.

Han, Wang, Bendersky, Najork: Learning-to-Rank with BERT in TF-Ranking. arXiv 2020. Favreau, Zouaq,
Bhatnagar: Learning to Rank with BERT for Argument Quality Evaluation. FLAIRS 2022.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from aragorn.bounds import Share
from aragorn.models.bert import CLSRanker
from aragorn.models.transformer import EncoderConfig


class TFRBERT(CLSRanker):
    """A linear layer over BERT's pooler, applied to the mean [CLS] vector of a document."""

    version = 1

    @dataclass(frozen=True)
    class Config(EncoderConfig):
        """Configuration of the encoder, its input and the dropout."""

        topic: bool = True  # whether the topic is part of the input
        dropout: Share = 0.1  # before the linear layer

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        width = self.encoder.bert.config.hidden_size
        self.pooler = nn.Linear(width, width)
        self.dropout = nn.Dropout(config.dropout)
        self.linear = nn.Linear(width, 1)

    def pool(
        self, query: Tensor, query_mask: Tensor, document: Tensor, document_mask: Tensor
    ) -> Tensor:
        """Compute tanh(W · [CLS] + b) (B, E); without `config.topic`, the query is ignored."""
        if not self.config.topic:
            query = query[:, :0]
            query_mask = query_mask[:, :0]
        return torch.tanh(self.pooler(super().pool(query, query_mask, document, document_mask)))
