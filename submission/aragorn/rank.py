"""Rank documents for all topics and write one TREC run per system."""

import logging
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from aragorn.engine import count_threads
from aragorn.errors import (
    InputError,
    OutputError,
    SubmissionError,
    UsageError,
    abbreviate_list,
    as_memory_errors,
    is_refusal,
    pluralise,
    raise_failures,
)
from aragorn.io.dataset import Dataset
from aragorn.io.runs import find_run, list_other_runs
from aragorn.ir_metadata import build_run_entry, load_run_entries, write_ir_metadata
from aragorn.pipeline.retrieval import Retrieval, iter_components
from aragorn.pipeline.session import Collection, Session, open_engine, open_session
from aragorn.progress import pause_gc
from aragorn.rankings import DEFAULT_DEPTH, MAX_DEPTH, check_tag, format_run, truncate_rankings
from aragorn.storage.recorded_files import RunFiles, open_run_directory
from aragorn.systems.catalogue import PRIMARY_SYSTEM, SYSTEMS, System, get_system, list_incomplete
from aragorn.verbs import RankOptions
from aragorn.versions import hash_package

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Outcome:
    """What became of a system: an error, or a run."""

    system: System
    error: Exception | None = None
    is_up_to_date: bool = False  # the run exists
    n_omitted: int = 0  # documents below the depth of the run


def rank(options: RankOptions) -> None:
    """Write the runs of the requested systems (default: all), and the primary one's as run.txt.

    Run files are named <team>[-<label>]-<system>.txt. The primary system is the first requested
    one, else fusion. Systems whose run is up to date are skipped.

    Raises:
        UsageError, InputError, OutputError: If an option, the input or a directory is invalid.
        Exception: If all systems failed; the error is that of the first system.
        SystemsFailedError: If some systems failed; the runs of the others are written.
    """
    check_tag(options.tag_prefix)
    if os.path.realpath(options.output_dir) in map(os.path.realpath, options.inputs):
        raise UsageError(f"{options.output_dir}: is the input; choose another --output")
    with (
        open_engine(options) as engine,
        open_session(options, options.cache_dir, options.output_dir, engine) as session,
    ):
        systems = _select_systems(options, session)
        log.info(
            "device %s, %d threads, engine %s", session.device, count_threads(), engine.description
        )
        dataset = Dataset(*options.inputs, input_run=options.input_run, order=options.order)
        _import_torch(systems)
        log.info("%s", dataset.description)
        if options.input_run and (other_runs := list_other_runs(options.input_run)):
            message = "re-ranking %s; for another run, pass its file to --input-run: %s"
            log.info(message, find_run(options.input_run), abbreviate_list(other_runs))
        depth = _choose_depth(options.depth, dataset)
        outcomes = _write_runs(options, systems, dataset, depth, session)
        if options.cache_dir and (unused := session.cache.describe_unused()):
            log.info("%s: %s", options.cache_dir, unused)
    errors = {outcome.system.name: outcome.error for outcome in outcomes if outcome.error}
    message = f" (see the errors above); the other runs are in {options.output_dir}"
    raise_failures(errors, len(outcomes), message)
    log.info("%s in %s", pluralise(len(outcomes), "run"), options.output_dir)


def _select_systems(options: RankOptions, session: Session) -> list[System]:
    """Return the requested systems, or the primary one and all others with their checkpoints."""
    if options.systems:
        return [get_system(name) for name in dict.fromkeys(options.systems)]
    # the primary system's run is run.txt
    omitted = [name for name in list_incomplete(session.checkpoints) if name != PRIMARY_SYSTEM]
    if omitted:
        log.warning("systems omitted, as checkpoints are missing: %s", ", ".join(omitted))
    return [system for name, system in SYSTEMS.items() if name not in omitted]


def _import_torch(systems: Sequence[System]) -> None:
    """Import torch before pandas if systems compute with it: its import inspects all imported
    modules, which takes .4 s longer afterwards. Each system that fails to import it says so."""
    components = (part for system in systems for part in iter_components(system.stage))
    if any(component.uses_torch for component in components):
        with pause_gc(freeze=True), suppress(Exception):
            import torch  # noqa: F401


def _choose_depth(requested_depth: int | None, dataset: Dataset) -> int:
    """Return the requested depth, that of the input run up to MAX_DEPTH, or the default."""
    input_depth = dataset.input_depth
    depth = requested_depth or min(input_depth or DEFAULT_DEPTH, MAX_DEPTH)
    if input_depth and input_depth > depth:
        message = "%s has up to %d documents per topic; runs truncated to %d; change with --depth"
        log.warning(message, dataset.ranking_file, input_depth, depth)
    return depth


def _write_runs(
    options: RankOptions, systems: Sequence[System], dataset: Dataset, depth: int, session: Session
) -> list[Outcome]:
    primary = get_system(options.systems[0] if options.systems else PRIMARY_SYSTEM)
    tags = {system: f"{options.tag_prefix}-{system.name}" for system in systems}
    collection = Collection(dataset, session)
    outcomes = []
    with open_run_directory(options.output_dir):
        settings = {
            "input": dataset.fingerprint,
            "team or label": options.tag_prefix,
            "depth": str(depth),
        }
        names = [f"{tag}.txt" for tag in tags.values()]
        run_files = RunFiles(options.output_dir, settings, names, options.overwrite)
        previous_tag, previous_entries = load_run_entries(options.output_dir, options.overwrite)
        entries = {
            tag: entry for tag, entry in previous_entries.items() if f"{tag}.txt" in run_files
        }
        writer = RunWriter(Retrieval(dataset, collection), run_files, depth)
        for system, tag in tags.items():
            outcome = writer.write(system, tag, is_primary=system == primary)
            outcomes.append(outcome)
            # otherwise, the metadata of the process that wrote the run are kept
            if outcome.error is None and not (outcome.is_up_to_date and tag in entries):
                entries[tag] = build_run_entry(
                    system,
                    session.checkpoints,
                    dataset.ranking_file,
                    collection.stopwatch.seconds[system.name],
                    depth,
                    outcome.n_omitted,
                )
        is_written = any(
            outcome.error is None and not outcome.is_up_to_date for outcome in outcomes
        )
        if is_written or (tags[primary], entries) != (previous_tag, previous_entries):
            write_ir_metadata(options, tags[primary], primary, entries, dataset, collection)
    return outcomes


@dataclass(frozen=True)
class RunWriter:
    """Writer of the runs of a retrieval, each with at most `depth` documents per topic."""

    retrieval: Retrieval
    run_files: RunFiles
    depth: int

    def write(self, system: System, tag: str, is_primary: bool) -> Outcome:
        """Write a run unless up to date; raise InputError and OutputError, which affect all."""
        start = time.monotonic()
        try:
            with self.retrieval.collection.stopwatch.stage(system.name), as_memory_errors():
                outcome = self._rank_and_write(system, tag, is_primary)
        except (InputError, OutputError):
            raise
        except Exception as error:
            is_internal = not isinstance(error, SubmissionError) and not is_refusal(error)
            log.error("%s: failed: %s", system.name, error, exc_info=is_internal)
            return Outcome(system, error)
        state = "up to date, skipped" if outcome.is_up_to_date else "done"
        log.info("%s: %s (%.1f s)", system.name, state, time.monotonic() - start)
        return outcome

    def _rank_and_write(self, system: System, tag: str, is_primary: bool) -> Outcome:
        key = f"{self.retrieval.compute_key(system.stage)} {hash_package()}"
        name = f"{tag}.txt"
        if self.run_files.is_up_to_date(name, key):
            outcome = Outcome(system, is_up_to_date=True)
        else:
            ranking = self.retrieval.rank(system.stage)
            top_ranking = truncate_rankings(ranking, self.depth)
            outcome = Outcome(system, n_omitted=len(ranking) - len(top_ranking))
            if outcome.n_omitted:
                message = "%s: truncated to %d documents per topic, %d documents omitted"
                log.info(message, system.name, self.depth, outcome.n_omitted)
            self.run_files.write_run(name, format_run(top_ranking, tag), key)
        if is_primary:
            self.run_files.write_primary_run(name, key)
        return outcome
