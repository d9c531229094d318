"""Run the verbs `systems` and `cache`."""

import json
from itertools import groupby

from aragorn.errors import escape_name, escape_unprintable, pluralise
from aragorn.verbs import CacheDirectoryOptions, SystemsOptions

SECONDS_PER_DAY = 86400

# Imports are local, so that no verb waits for the modules of another.


def list_systems(options: SystemsOptions) -> None:
    """Print each system with its availability, description and formula."""
    from aragorn.pipeline.session import CheckpointStore
    from aragorn.systems.catalogue import SYSTEMS

    checkpoints = CheckpointStore(options.checkpoint_dir)
    directory = escape_unprintable(str(checkpoints.directory))
    width = max(map(len, SYSTEMS))
    for system in SYSTEMS.values():
        missing_names = system.stage.find_missing_checkpoints(checkpoints)
        formula = "" if missing_names else system.stage.format_formula(checkpoints)
        if options.json:
            fields = {
                "system": system.name,
                "description": system.description,
                "missing_checkpoints": missing_names,
                "formula": formula,
            }
            print(json.dumps(fields))
            continue
        availability = "ready"
        if missing_names:
            availability = f"missing checkpoint {', '.join(missing_names)} in {directory}"
        print(f"{system.name:{width}} {availability:14} {system.description}")
        if formula:
            print(f"{'':{width}} {'':14} {escape_unprintable(formula)}")


def show_cache(options: CacheDirectoryOptions) -> None:
    """Print number, size and age of the results in a cache by name, or remove unused ones."""
    from aragorn.cache import list_entries, prune

    if options.prune is not None:
        removed_entries = prune(options.directory, options.prune * SECONDS_PER_DAY)
        size = sum(entry.size for entry in removed_entries) / 1e6
        print(f"removed {pluralise(len(removed_entries), 'result')} ({size:.1f} MB)")
        return
    entries = list_entries(options.directory)
    if not entries:
        print(f"{escape_name(str(options.directory))}: no cached results")
        return
    print(f"{'result':32} {'number':>6} {'MB':>10}  {'last used':>12}")
    for name, group in groupby(entries, key=lambda entry: entry.name):
        members = list(group)
        size = sum(entry.size for entry in members) / 1e6
        days = min(entry.age for entry in members) / SECONDS_PER_DAY
        print(f"{name:32} {len(members):6} {size:10.1f}  {days:3.0f} days ago")
    total = sum(entry.size for entry in entries) / 1e6
    print(f"{'all':32} {len(entries):6} {total:10.1f}")
