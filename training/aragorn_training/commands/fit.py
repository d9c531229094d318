"""Define the commands `fit`, `tune` and `fuse`, which make checkpoints."""

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import msgspec

from aragorn.engine import choose_device
from aragorn.errors import UsageError, escape_undecodable
from aragorn.options import argument, option
from aragorn.pipeline.session import CheckpointStore
from aragorn.storage.checkpoint_directory import require_replaceable
from aragorn.systems.catalogue import ENSEMBLES, QUALITY_RERANKINGS
from aragorn.systems.fusion import EnsembleStage
from aragorn_training.data.retrieval import open_retrieval
from aragorn_training.data.word_vectors import get_default_folder_name
from aragorn_training.data.work_directory import lock_run
from aragorn_training.evaluation.evaluate import HEADLINE_MEASURES
from aragorn_training.fitting.distributed import join_process_group
from aragorn_training.fitting.fit import fit
from aragorn_training.fusion.ensemble import fit_ensemble
from aragorn_training.fusion.learned import fit_fusion
from aragorn_training.fusion.recipe import read_recipe
from aragorn_training.options import (
    QRELS_HELP,
    CheckpointOptions,
    DeviceOptions,
    InputOptions,
    NamedPath,
    TuningOptions,
    WorkOptions,
    get_output,
    index_files_by_name,
    input_option,
    output_option,
    parse_work_dir,
    qrels_option,
)
from aragorn_training.tasks import load_recipe
from aragorn_training.tuning.grid import load_grid, tune_grid
from aragorn_training.tuning.quality import tune_quality


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
    restart: bool = option(False, help="discard an interrupted run and start again")


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


@dataclass(frozen=True, kw_only=True)
class FuseOptions(DeviceOptions, CheckpointOptions, WorkOptions):
    """Options of `fuse`."""

    fusion: str = argument(
        metavar="FUSION",
        help="name in training/aragorn_training/configs/fusions, .toml file, or ensemble system",
    )
    qrels: tuple[NamedPath, ...] = qrels_option(
        f"learned fusion only: {QRELS_HELP}; with a second file, e.g. quality=FILE, labels are "
        "weighted means of both",
        (),
    )
    inputs: tuple[Path, ...] = input_option(
        "learned fusion only: judged input (topics and corpus); repeatable", (), metavar="INPUT"
    )
    output: Path | None = output_option(
        "checkpoint directory (default: WORK_DIR/checkpoints/FUSION)"
    )
    non_negative: bool = option(False, help="ensemble only: require weights ≥ 0")
    candidates: bool = option(
        False,
        help="learned fusion only: also evaluate the fusion with each candidate member, "
        "whose networks score the pool",
    )
    results: Path | None = option(
        None,
        help="learned fusion only: directory for the result tables (default: WORK_DIR/results)",
    )


def fit_recipe(options: FitOptions) -> None:
    """Train a network from a recipe; an interrupted run is resumed."""
    recipe = load_recipe(options.recipe)
    name = escape_undecodable(Path(options.recipe).stem)
    output = _get_output(options, name)
    folder = get_default_folder_name(recipe.task.surface_vector_method)
    vectors = options.vectors or options.work_dir / folder
    device = choose_device(options.device)
    with (
        join_process_group(device) as process,
        nullcontext() if process.rank else lock_run(name, options.work_dir),
    ):
        fit(name, recipe, options.work_dir, vectors, output, device, options.restart, process)


def _get_output(options: FitOptions | TuneOptions | FuseOptions, name: str) -> Path:
    """Return the directory of a checkpoint; raise OutputError if it holds other files."""
    output = get_output(options, "checkpoints", name)
    require_replaceable(output)
    return output


def tune(options: TuneOptions) -> None:
    """Grid-search parameters on judged topics with cross-validation and write a checkpoint."""
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
        output = _get_output(options, QUALITY_RERANKINGS[name].checkpoint)
        with open_retrieval(options, options.work_dir, output.parent) as retrieval:
            table = tune_quality(name, options.qrels[0][1], retrieval, output)
    else:
        grid = load_grid(options.grid)
        name = escape_undecodable(Path(options.grid).stem)
        qrels = index_files_by_name(options.qrels, "qrels")
        output = _get_output(options, name)
        with open_retrieval(options, options.work_dir, output.parent) as retrieval:
            table = tune_grid(name, grid, qrels, retrieval, output, options.measure)
        table = table.sort_values(options.measure, ascending=False).head(10)
    print(table.to_string(index=False, float_format="%.4f"))


def fuse(options: FuseOptions) -> None:
    """Fit the weights of a learned fusion to qrels, or those of an ensemble to validation pairs."""
    inputs = {"-i": options.inputs, "--qrels": options.qrels}
    if options.fusion in ENSEMBLES:
        _fuse_ensemble(ENSEMBLES[options.fusion], options)
    elif missing := [flag for flag, value in inputs.items() if not value]:
        raise UsageError(
            f"fuse {options.fusion}: a learned fusion is fitted to judgments; add "
            f"{' and '.join(missing)}"
        )
    else:
        _fuse_learned(options)


def _fuse_ensemble(stage: EnsembleStage, options: FuseOptions) -> None:

    if options.qrels:
        raise UsageError(
            f"fuse {options.fusion}: an ensemble is fitted to the validation pairs in --work-dir; "
            "remove --qrels"
        )
    output = _get_output(options, stage.checkpoint)
    device = choose_device(options.device)
    checkpoints = CheckpointStore(options.checkpoint_dir)
    with lock_run(output.name, options.work_dir):
        fit_ensemble(stage, options.work_dir, checkpoints, output, device, options.non_negative)


def _fuse_learned(options: FuseOptions) -> None:

    recipe = read_recipe(options.fusion)
    name = escape_undecodable(Path(options.fusion).stem)
    if not options.candidates:
        recipe = msgspec.structs.replace(recipe, candidates=())
    output = _get_output(options, name)
    results = options.results or options.work_dir / "results"
    with open_retrieval(options, options.work_dir, output.parent) as retrieval:
        tables = fit_fusion(name, recipe, options.qrels, retrieval, output, results)
    for table in tables.values():
        is_shown = table["measure"].isin(HEADLINE_MEASURES) if "measure" in table else slice(None)
        print(table[is_shown].to_string(index=False, float_format="%.4f"), end="\n\n")
