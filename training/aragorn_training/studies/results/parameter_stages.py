"""Stages whose parameters are not those of their checkpoint."""

from copy import copy
from dataclasses import dataclass, replace

from aragorn.inference.ranker_checkpoint import RankerCheckpoint
from aragorn.retrieval.lexical import LexicalParameters
from aragorn.systems.execution import CheckpointStore
from aragorn.systems.latent import LatentStage
from aragorn.systems.lexical import LexicalStage


@dataclass(frozen=True, kw_only=True)
class ParameterisedLexicalStage(LexicalStage):
    """Lexical retrieval with the parameters of a grid point."""

    parameters: LexicalParameters

    def load_checkpoint(self, checkpoints: CheckpointStore) -> LexicalParameters:
        return self.parameters


@dataclass(frozen=True)
class ParameterisedLatentStage(LatentStage):
    """Latent retrieval with another exponent of the text length than that of training."""

    exponent: float

    def load_checkpoint(self, checkpoints: CheckpointStore) -> RankerCheckpoint:
        """Load the network, divide texts by their window count to `exponent`, and name the exponent
        in the fingerprint."""
        checkpoint = super().load_checkpoint(checkpoints)
        network = copy(checkpoint.network)
        network.config = replace(checkpoint.network.config, length=self.exponent)
        fingerprint = f"{checkpoint.fingerprint} length {self.exponent}"
        return RankerCheckpoint(
            network, checkpoint.tokeniser, fingerprint, precision=checkpoint.precision
        )
