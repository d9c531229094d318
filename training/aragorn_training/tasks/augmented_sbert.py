"""Load the weights of an Augmented SBERT student, see aragorn_training.sbert, and validate it."""

from pathlib import Path
from typing import ClassVar, Literal

from aragorn.bounds import PositiveInt
from aragorn.models.network import Network
from aragorn_training.fitting.initialisation import TextNetworkSpec
from aragorn_training.fitting.recipe import Recipe
from aragorn_training.fitting.task import TrainableNetwork
from aragorn_training.tasks.pairs import PairwiseSpec, PairwiseTask


class AugmentedSBERTSpec(TextNetworkSpec, frozen=True):
    """Settings of an Augmented SBERT student, with learning rate and layers of [encoder]."""

    version: ClassVar[int] = 1
    computes_with: ClassVar[tuple[str, ...]] = ("aragorn_training.sbert.students",)

    curve: ClassVar = PairwiseSpec.curve
    is_trained_externally: ClassVar = True
    supported_networks: ClassVar = ("sbert",)
    validates_on_candidates: ClassVar = True
    loss: Literal["cosine", "cosent", "multiple_negatives"]
    pairs: Literal["gold", "silver", "gold and silver"]
    gold_arguments: PositiveInt = 2500  # each yields a positive and a negative gold pair
    bm25_depth: PositiveInt = 3  # premises of other conclusions that BM25 retrieves per conclusion
    max_silver_pairs: PositiveInt = 5000  # maximum number of pairs labelled by the teacher
    teacher_encoder: str = ""  # encoder name or folder; empty: the student's
    train_teacher: bool = True  # fine-tune the teacher on gold pairs; false: the initial one

    def build_task(
        self, recipe: Recipe, trainee: TrainableNetwork, work_dir: Path, device: str
    ) -> PairwiseTask:
        """Load the pairwise task, for validation only."""
        return PairwiseTask.load(recipe, trainee, work_dir, device)

    def load_or_train_weights(
        self, recipe: Recipe, network: Network, work_dir: Path, device: str
    ) -> None:
        """Load the student's weights into the network; train it first if they are not cached."""
        from aragorn_training.sbert import students  # slow import

        students.load_or_train_student(network, recipe, work_dir, device)
