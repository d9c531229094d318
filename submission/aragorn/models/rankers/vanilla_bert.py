"""Vanilla BERT: a cross-encoder with a linear layer over [CLS].

MacAvaney, Yates, Cohan, Goharian: CEDR. SIGIR 2019, section 3.1. Entezari 2020, 3.4.4.1 and 4.2.5:
dropout 0.1 (0.2 in table 4.1), one linear layer.
"""

from dataclasses import dataclass

from torch import nn

from aragorn.bounds import Share
from aragorn.models.bert import CLSRanker
from aragorn.models.transformer import EncoderConfig


class VanillaBERT(CLSRanker):
    """A linear layer over the mean [CLS] vector of a document's chunks."""

    version = 1

    @dataclass(frozen=True)
    class Config(EncoderConfig):
        """Configuration of the encoder and of the dropout before the linear layer."""

        dropout: Share = 0.1

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.dropout = nn.Dropout(config.dropout)
        self.linear = nn.Linear(self.encoder.bert.config.hidden_size, 1)
