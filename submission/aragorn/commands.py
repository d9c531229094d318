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
    from aragorn.explain import explain
    from aragorn.io.dataset import Dataset
    from aragorn.pipeline.collection import Collection
    from aragorn.pipeline.retrieval import Retrieval
    from aragorn.pipeline.session import open_session
    from aragorn.systems.catalogue import get_system

    system = get_system(options.system)
    dataset = Dataset(
        *options.inputs, input_run=options.input_run, qid=options.qid, order=options.order
    )
    with open_session(options, options.cache_dir, Path()) as session:
        retrieval = Retrieval(dataset, Collection(dataset, session))
        print(explain(system, options.docnos, retrieval, sys.stdout.isatty()), end="")


def list_systems(options: CheckpointOptions) -> None:
    """Print each system with its availability, description and formula."""
    from aragorn.pipeline.session import CheckpointStore
    from aragorn.systems.catalogue import SYSTEMS

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
