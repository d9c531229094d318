"""Rank documents for all topics and write one TREC run per system."""

import logging
import time

from aragorn.cache import open_cache
from aragorn.engine.base import Engine
from aragorn.engine.device import choose_device, choose_precision, count_threads
from aragorn.engine.factory import open_chosen_engine
from aragorn.errors import (
    InputError,
    OutputError,
    SubmissionError,
    SystemsFailedError,
    abbreviate_list,
    as_memory_errors,
)
from aragorn.io.dataset import Dataset
from aragorn.io.runs import find_run, list_other_runs
from aragorn.output.ir_metadata import build_run_entry, load_run_entries, write_ir_metadata
from aragorn.output.runs import check_tag, format_run
from aragorn.rankings import DEFAULT_DEPTH, MAX_DEPTH, truncate_rankings
from aragorn.storage.recorded_files import RunFiles, open_run_directory
from aragorn.systems import catalogue
from aragorn.systems.catalogue import System
from aragorn.systems.execution import CheckpointStore, Execution
from aragorn.verbs import RankOptions
from aragorn.versions import hash_package

log = logging.getLogger(__name__)


def rank(options: RankOptions) -> None:
    """Write the runs of all requested systems (default: all available), and the primary system's
    run as run.txt.

    Run files are named <team>[-<label>]-<system>.txt. The primary system is the first requested
    one, else fusion. Systems whose run exists for the same inputs, settings, checkpoints and code
    are skipped.

    Raises:
        UsageError, InputError, OutputError: If an option, the input or a directory is invalid.
        Exception: If all systems failed; the error is that of the first system.
        SystemsFailedError: If some systems failed; the runs of the others are written.
    """
    check_tag(options.tag_prefix)
    with open_chosen_engine(options) as engine:
        _rank_all(options, engine)


def _rank_all(options: RankOptions, engine: Engine) -> None:
    device = choose_device(options.device, engine)
    checkpoints = CheckpointStore(
        options.checkpoint_dir, choose_precision(options.precision, device)
    )
    systems = catalogue.select_systems(options.systems, checkpoints)
    primary = catalogue.get_system(
        options.systems[0] if options.systems else catalogue.PRIMARY_SYSTEM
    )
    if not options.systems and len(systems) < len(catalogue.SYSTEMS):
        omitted_names = [
            name for name, system in catalogue.SYSTEMS.items() if system not in systems
        ]
        log.warning("systems omitted, as checkpoints are missing: %s", ", ".join(omitted_names))
    log.info("device %s, %d threads, engine %s", device, count_threads(), engine.description)
    dataset = Dataset(*options.inputs, input_run=options.input_run, order=options.order)
    log.info("%s", dataset.description)
    if options.input_run and (other_runs := list_other_runs(options.input_run)):
        message = "re-ranking %s; for another run, pass its file to --input-run: %s"
        log.info(message, find_run(options.input_run), abbreviate_list(other_runs))
    depth = _choose_depth(options, dataset)
    failures: dict[str, Exception] = {}
    with (
        open_run_directory(options.output_dir),
        open_cache(options.cache_dir, options.output_dir) as cache,
    ):
        execution = Execution(dataset, checkpoints, device, cache, engine)
        settings = {
            "input": dataset.fingerprint,
            "team or label": options.tag_prefix,
            "depth": str(depth),
        }
        names = [f"{_make_tag(options, system)}.txt" for system in systems]
        output = RunFiles(options.output_dir, settings, names, options.overwrite)
        previous_entries = load_run_entries(options.output_dir, options.overwrite)
        entries = {tag: entry for tag, entry in previous_entries.items() if f"{tag}.txt" in output}
        for system in systems:
            start = time.monotonic()
            try:
                with dataset.stopwatch.stage(system.name), as_memory_errors():
                    is_up_to_date, omitted_count = _write_run(
                        system, options, depth, execution, output, system == primary
                    )
            except (InputError, OutputError):
                raise  # affects all systems
            except Exception as error:
                failures[system.name] = error
                log.error(
                    "%s: failed: %s",
                    system.name,
                    error,
                    exc_info=not isinstance(error, SubmissionError | OSError | RecursionError),
                )
            else:
                state = "up to date, skipped" if is_up_to_date else "done"
                log.info("%s: %s (%.1f s)", system.name, state, time.monotonic() - start)
                if not is_up_to_date or _make_tag(options, system) not in entries:
                    seconds = dataset.stopwatch.seconds[system.name]
                    entries[_make_tag(options, system)] = build_run_entry(
                        system, execution, seconds, depth, omitted_count
                    )
        # else keep the metadata of the execution that wrote the runs
        if entries != previous_entries:
            tag = _make_tag(options, primary)
            write_ir_metadata(
                options.output_dir, options.team, tag, options.argv, primary, entries, execution
            )
        if options.cache_dir and (unused := cache.describe_unused()):
            log.info("%s: %s", options.cache_dir, unused)
    if failures and len(failures) == len(systems):
        raise next(iter(failures.values()))
    if failures:
        cause = f"systems failed: {', '.join(failures)} (see the errors above)"
        raise SystemsFailedError(f"{cause}; the other runs are in {options.output_dir}")
    log.info("%d runs in %s", len(systems), options.output_dir)


def _choose_depth(options: RankOptions, dataset: Dataset) -> int:
    """Return the requested depth, else that of the input run up to MAX_DEPTH, else DEFAULT_DEPTH;
    warn of truncation."""
    input_depth = dataset.input_depth
    depth = options.depth or min(input_depth or DEFAULT_DEPTH, MAX_DEPTH)
    if input_depth and input_depth > depth:
        message = "%s has up to %d documents per topic; runs truncated to %d; change with --depth"
        log.warning(message, dataset.ranking_file, input_depth, depth)
    return depth


def _write_run(
    system: System,
    options: RankOptions,
    depth: int,
    execution: Execution,
    run_files: RunFiles,
    is_primary: bool,
) -> tuple[bool, int]:
    """Write a system's run unless it is up to date; return whether it is, and the number of
    documents omitted (0 if it is)."""
    key = f"{execution.compute_cache_key(system.stage)} {hash_package()}"
    name = f"{_make_tag(options, system)}.txt"
    is_up_to_date = run_files.is_up_to_date(name, key)
    omitted_count = 0
    if not is_up_to_date:
        rankings = execution.get_ranking(system.stage)
        truncated_rankings = truncate_rankings(rankings, depth)
        omitted_count = len(rankings) - len(truncated_rankings)
        if omitted_count:
            message = "%s: truncated to %d documents per topic, %d documents omitted"
            log.info(message, system.name, depth, omitted_count)
        text = format_run(truncated_rankings, _make_tag(options, system))
        run_files.write_run(name, text, key)
    if is_primary:
        run_files.write_primary_run(name, key)
    return is_up_to_date, omitted_count


def _make_tag(options: RankOptions, system: System) -> str:
    return f"{options.tag_prefix}-{system.name}"
