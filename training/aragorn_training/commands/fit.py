"""Define the command `fit`."""

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from aragorn_training.options import DeviceOptions, WorkOptions, argument, get_output, option


@dataclass(frozen=True, kw_only=True)
class FitOptions(DeviceOptions, WorkOptions):
    """Options of `fit`."""

    recipe: str = argument(
        metavar="RECIPE",
        help="recipe name in training/aragorn_training/configs/recipes, or .toml file",
    )
    vectors: Path | None = option(
        None, help="directory of the word vectors (default: the output of `prepare vectors`)"
    )
    output: Path | None = option(
        None,
        "-o",
        "--output",
        help="checkpoint directory (default: WORK_DIR/checkpoints/RECIPE)",
    )
    restart: bool = option(False, help="discard an interrupted run and start again")


def fit_recipe(options: FitOptions) -> None:
    """Train a network from a recipe; an interrupted run is resumed."""
    from aragorn.errors import escape_undecodable
    from aragorn.inference.device import choose_device

    from aragorn_training.data.word_vectors import get_default_folder_name
    from aragorn_training.data.work_directory import lock_run
    from aragorn_training.fitting.distributed import join_process_group
    from aragorn_training.fitting.fit import fit
    from aragorn_training.tasks import load_recipe

    recipe = load_recipe(options.recipe)
    name = escape_undecodable(Path(options.recipe).stem)
    output = get_output(options, "checkpoints", name)
    folder = get_default_folder_name(recipe.task.surface_vector_method)
    vectors = options.vectors or options.work_dir / folder
    device = choose_device(options.device)
    with (
        join_process_group(device) as process,
        nullcontext() if process.rank else lock_run(name, options.work_dir),
    ):
        fit(name, recipe, options.work_dir, vectors, output, device, options.restart, process)
