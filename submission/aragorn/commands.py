"""Run the verbs `check`, `explain` and `systems`."""

import sys
from pathlib import Path

from aragorn.errors import escape_unprintable
from aragorn.verbs import CheckOptions, CheckpointOptions, ExplainOptions

# Imports are local, so that no verb waits for the modules of another.


def check(options: CheckOptions) -> None:
    """Print the report of `aragorn.check.check`. Raises CheckFailedError if it has errors."""
    from aragorn.check import check

    checkpoint_dir = None if options.no_checkpoints else options.checkpoint_dir
    report = check(options.inputs, options.runs, checkpoint_dir, options.mismatched_ids)
    print("\n".join(map(escape_unprintable, report.lines)))
    report.raise_if_errors()


def explain(options: ExplainOptions) -> None:
    """Print the explanation of the score of a document, or the comparison of two."""
    from aragorn.cache import open_cache
    from aragorn.engine.device import choose_device, choose_precision
    from aragorn.explain import explain
    from aragorn.io.dataset import Dataset
    from aragorn.systems.catalogue import get_system
    from aragorn.systems.execution import CheckpointStore, Execution

    system = get_system(options.system)
    device = choose_device(options.device)
    precision = choose_precision(options.precision, device)
    checkpoints = CheckpointStore(options.checkpoint_dir, precision)
    dataset = Dataset(
        *options.inputs, input_run=options.input_run, qid=options.qid, order=options.order
    )
    with open_cache(options.cache_dir, Path()) as cache:
        execution = Execution(dataset, checkpoints, device, cache)
        print(explain(system, options.docnos, execution, sys.stdout.isatty()), end="")


def list_systems(options: CheckpointOptions) -> None:
    """Print each system with its availability, description and formula."""
    from aragorn.systems.catalogue import SYSTEMS
    from aragorn.systems.execution import CheckpointStore

    checkpoints = CheckpointStore(options.checkpoint_dir)
    directory = escape_unprintable(str(checkpoints.directory))
    width = max(map(len, SYSTEMS))
    for system in SYSTEMS.values():
        missing_names = system.stage.find_missing_checkpoints(checkpoints)
        availability = (
            f"missing checkpoint {', '.join(missing_names)} in {directory}"
            if missing_names
            else "ready"
        )
        print(f"{system.name:{width}} {availability:14} {system.description}")
        formula = "" if missing_names else system.stage.format_formula(checkpoints)
        if formula:
            print(f"{'':{width}} {'':14} {formula}")
