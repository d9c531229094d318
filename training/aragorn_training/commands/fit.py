"""Define the commands `fit`, `tune` and `fuse`, which make checkpoints."""

import logging
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from aragorn.engine import CPU, choose_device, has_bfloat16_instructions
from aragorn.errors import UsageError, escape_undecodable
from aragorn.options import argument, option
from aragorn_training.fusion import Options as FuseOptions
from aragorn_training.options import (
    CheckpointOptions,
    DeviceOptions,
    InputOptions,
    TuningOptions,
    WorkOptions,
    get_checkpoint_output,
    index_files_by_name,
    output_option,
    parse_work_dir,
)

log = logging.getLogger(__name__)


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
    output: Path | None = output_option(
        "checkpoint directory (default: WORK_DIR/checkpoints/RECIPE)"
    )
    overwrite: bool = option(
        False,
        help="start over if an interrupted run had another recipe, data or version, "
        "or its state is damaged",
    )


@dataclass(frozen=True, kw_only=True)
class TuneOptions(DeviceOptions, CheckpointOptions, TuningOptions, InputOptions):
    """Options of `tune`."""

    grid: str = argument(
        metavar="GRID",
        help="grid name in training/aragorn_training/configs/grids, .toml file, or `tfr_bert`",
    )
    work_dir: Path | None = option(
        None,
        parse=parse_work_dir,
        metavar="WORK_DIR",
        help="cache of finished points (default: a temporary directory); "
        "for `tfr_bert`: prepared by `prepare quality`",
    )
    output: Path | None = output_option(
        "checkpoint directory (default: WORK_DIR/checkpoints/GRID, or the system's checkpoint)"
    )


def fit_recipe(options: FitOptions) -> None:
    """Train a network from a recipe; an interrupted run is resumed."""
    from aragorn_training.data.word_vectors import get_default_folder_name
    from aragorn_training.data.work_directory import lock_run
    from aragorn_training.fitting.distributed import join_process_group
    from aragorn_training.fitting.fit import fit
    from aragorn_training.tasks import load_recipe

    recipe = load_recipe(options.recipe)
    name = escape_undecodable(Path(options.recipe).stem)
    output = get_checkpoint_output(options, name)
    folder = get_default_folder_name(recipe.task.surface_vector_method)
    vectors = options.vectors or options.work_dir / folder
    device = choose_device(options.device)
    if recipe.encoder.bfloat16 and device == CPU and not has_bfloat16_instructions():
        log.warning(
            "%s: encoder.bfloat16 = true is many times slower than float32 on this CPU, which has "
            "no bfloat16 instructions; set it to false",
            options.recipe,
        )
    with (
        join_process_group(device) as process,
        nullcontext() if process.rank else lock_run(name, options.work_dir),
    ):
        fit(name, recipe, options.work_dir, vectors, output, device, options.overwrite, process)


def tune(options: TuneOptions) -> None:
    """Grid-search parameters on judged topics with cross-validation and write a checkpoint."""
    from aragorn.systems.catalogue import QUALITY_RERANKINGS
    from aragorn_training.data.retrieval import open_retrieval
    from aragorn_training.tuning.grid import load_grid, tune_grid
    from aragorn_training.tuning.quality import tune_quality

    if options.grid in QUALITY_RERANKINGS:
        name = options.grid
        if len(options.qrels) > 1:
            raise UsageError(
                f"tune {name}: {len(options.qrels)} qrels files; pass exactly one --qrels"
            )
        if options.work_dir is None:
            raise UsageError(
                f"tune {name}: no --work-dir; add the directory prepared by `prepare quality`"
            )
        output = get_checkpoint_output(options, QUALITY_RERANKINGS[name].checkpoint)
        with open_retrieval(options, output.parent) as retrieval:
            table = tune_quality(name, options.qrels[0][1], retrieval, output)
    else:
        grid = load_grid(options.grid)
        name = escape_undecodable(Path(options.grid).stem)
        qrels = index_files_by_name(options.qrels, "qrels")
        output = get_checkpoint_output(options, name)
        with open_retrieval(options, output.parent) as retrieval:
            table = tune_grid(name, grid, qrels, retrieval, output, options.measure)
        table = table.sort_values(options.measure, ascending=False).head(10)
    print(table.to_string(index=False, float_format="%.4f"))


def fuse(options: FuseOptions) -> None:
    """Fit the weights of a learned fusion to qrels, or those of an ensemble to validation pairs."""
    from aragorn.systems.catalogue import ENSEMBLES
    from aragorn_training.evaluation.evaluate import HEADLINE_MEASURES
    from aragorn_training.fusion.ensemble import fit_ensemble
    from aragorn_training.fusion.learned import fit_fusion

    inputs = {"-i": options.inputs, "--qrels": options.qrels}
    if options.fusion in ENSEMBLES:
        return fit_ensemble(options)
    if missing := [flag for flag, value in inputs.items() if not value]:
        raise UsageError(
            f"fuse {options.fusion}: a learned fusion is fitted to judgments; add "
            f"{' and '.join(missing)}"
        )
    for table in fit_fusion(options).values():
        is_shown = table["measure"].isin(HEADLINE_MEASURES) if "measure" in table else slice(None)
        print(table[is_shown].to_string(index=False, float_format="%.4f"), end="\n\n")
    return None
