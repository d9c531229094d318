"""Compare losses and training pairs of Augmented SBERT on args.me."""

from dataclasses import dataclass

import pandas as pd

from aragorn.engine import choose_device
from aragorn.errors import UsageError
from aragorn.options import option
from aragorn_training.data.work_directory import lock_work_directory
from aragorn_training.mapping import map_cached
from aragorn_training.options import DeviceOptions, StudyOptions
from aragorn_training.sbert.networks import Loss
from aragorn_training.sbert.students import (
    BOTH,
    GOLD,
    SILVER,
    TEACHER,
    UNTRAINED,
    StudentResult,
    StudentTraining,
    TrainingVariant,
)
from aragorn_training.tasks import load_recipe
from aragorn_training.tasks.augmented_sbert import AugmentedSBERTSpec

FILE = "augmented_sbert_students.csv"
FIRST_COLUMNS = ("loss", "training_pairs", "n_pairs")
DIGITS = 2
STUDENT_LOSSES: tuple[Loss, ...] = ("cosine", "cosent", "multiple_negatives")
VARIANTS = (
    UNTRAINED,
    TEACHER,
    *(TrainingVariant(loss, pairs) for pairs in (GOLD, SILVER, BOTH) for loss in STUDENT_LOSSES),
)


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions, DeviceOptions):
    """Options of the study."""

    recipe: str = option(
        "sbert",
        metavar="RECIPE",
        help="recipe with an [augmented_sbert] table; loss and training pairs are varied",
    )


def run(options: Options) -> pd.DataFrame:
    """Train and evaluate all VARIANTS on the pairs of `prepare pairs`; tabulate, in percent, MAP@20
    over validation candidates, and recall, MRR and nDCG over all premises."""
    recipe = load_recipe(options.recipe)
    if not isinstance(recipe.task, AugmentedSBERTSpec):
        raise UsageError(
            f"--recipe {options.recipe}: no [augmented_sbert] table; choose a recipe that has one"
        )
    device = choose_device(options.device)
    with lock_work_directory(options.work_dir):
        training = StudentTraining(options.work_dir, recipe, device)
        results = map_cached(
            training.measure,
            VARIANTS,
            options.work_dir,
            name="students",
            key=training.cache_key,
            result_type=StudentResult,
        )
    rows = []
    for variant, result in results.items():
        row: dict[str, object] = {"loss": variant.loss or "", "training_pairs": variant.pairs}
        row |= {"n_pairs": result.n_pairs, "MAP@20": result.map_at_20, **result.retrieval}
        rows.append(row | {"seconds": result.seconds})
    return pd.DataFrame(rows)
