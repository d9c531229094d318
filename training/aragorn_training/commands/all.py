"""Make the checkpoints of all systems from a corpus, and compare their metrics with stored ones."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from aragorn.engine import choose_device
from aragorn.errors import InputError, ReproductionError, SystemsFailedError
from aragorn.storage.atomic_files import create_directory, replace_directory
from aragorn.storage.checkpoint_directory import (
    METRICS,
    PROVENANCE,
    read_json,
    read_provenance,
    require_replaceable,
)
from aragorn.threads import count_cpu_cores
from aragorn_training.commands.all_options import Options
from aragorn_training.evaluation.tables import read_previous_rows, write_csv
from aragorn_training.formatting import CROSS_VALIDATED, DASH

if TYPE_CHECKING:
    from aragorn_training.commands.graph import Step
    from aragorn_training.commands.scheduler import Records


def make_all(options: Options) -> None:
    """Make the checkpoints of all systems from a corpus; compare their metrics with stored ones."""
    from aragorn_training.commands import graph, scheduler  # slow imports

    for path in (options.input_dir, options.data_dir, options.qrels, options.recipes_dir):
        if path and not path.exists():
            raise InputError(f"{path}: not found; check the path")
    create_directory(options.work_dir)
    steps = graph.build_graph(options, scheduler.list_trained(options.work_dir))
    device = choose_device(options.device)
    selection = graph.select_steps(steps, options.only)
    selected_steps = {name: steps[name] for name in selection}
    records = scheduler.Records(selected_steps, options.work_dir)
    relevant_steps = selected_steps if options.only else steps
    print(scheduler.format_plan(relevant_steps, selection, records, device), flush=True)
    if options.plan:
        return
    outputs = {
        name: options.output / name
        for name in graph.list_system_checkpoints()
        if options.output and name in (options.only or selection)
    }
    for output in outputs.values():
        require_replaceable(output)
    checkpoints = options.work_dir / "checkpoints"
    _reuse_stored(selected_steps, records, device, checkpoints)
    gpus = scheduler.list_gpus(device, options.gpu_processes)
    n_processes = options.processes or count_cpu_cores()
    failed = scheduler.Scheduler(steps, records, device, n_processes, gpus).run(
        name for name in selection if records.get_state(name) != scheduler.FINISHED
    )
    finished = [
        name
        for name, step in selected_steps.items()
        if step.output.parent.parent == checkpoints and name not in failed
    ]
    write_step_seconds(options.work_dir / "results" / "step_seconds.csv", selected_steps, records)
    seconds = {name: record.seconds for name in finished if (record := records.read(name))}
    table = compare_checkpoints(seconds, checkpoints, options.checkpoint_dir)
    if finished:
        print(table.to_string(index=False, float_format="%.2f", na_rep=DASH))
    if failed:
        cause = f"steps failed or skipped: {', '.join(failed)}; all others finished"
        raise SystemsFailedError(
            f"{cause}; correct the errors above and run the same command again"
        )
    for name, output in outputs.items():
        if name in finished:
            _copy_checkpoint(checkpoints / name, output)
    if differing := sorted(set(table.loc[table["verdict"] == "FAIL", "checkpoint"])):
        raise ReproductionError(
            f"metrics differ by more than 2 points from those in {options.checkpoint_dir}: "
            f"{', '.join(differing)}"
        )


def _reuse_stored(
    steps: Mapping[str, Step], records: Records, device: str, checkpoints: Path
) -> None:
    """Copy the stored checkpoints that steps reuse, and record these steps as finished."""
    from aragorn_training.commands.scheduler import REUSED, Record

    for name, step in steps.items():
        if step.stored and records.get_state(name) == REUSED:
            _copy_checkpoint(step.stored, checkpoints / name)
            output = step.hash_output()
            records.write(name, Record(records.keys[name], device, output=output, is_reused=True))


def write_step_seconds(file: Path, steps: Mapping[str, Step], records: Records) -> None:
    """Write the seconds that finished steps took as `step device seconds`; rows of other steps or
    devices stay in the file."""
    rows = [
        (name, record.device if step.uses_device else "cpu", f"{record.seconds:.0f}")
        for name, step in steps.items()
        if (record := records.read(name)) and record.is_computed
    ]
    table = pd.DataFrame(rows, columns=["step", "device", "seconds"])
    table = pd.concat([read_previous_rows(file, "step"), table])
    table = table.drop_duplicates(["step", "device"], keep="last")
    create_directory(file.parent)
    write_csv(file, table.sort_values("device", kind="stable"), 0)


def _copy_checkpoint(source: Path, target: Path) -> None:
    """Copy a checkpoint, which replaces one at the target."""
    with replace_directory(target) as temporary:
        shutil.copytree(source, temporary, dirs_exist_ok=True)


# maximum differences in percentage points, explained by rounding (OK) or by training on another
# machine (near)
OK_TOLERANCE = 0.1
CLOSE_TOLERANCE = 2.0
# verdicts on metrics that are not comparable
OTHER_DATA = "other data"
OTHER_RECIPE = "other recipe"
NOT_STORED = "not stored"
COLUMNS = ["checkpoint", "metric", "stored", "reproduced", "difference", "verdict", "seconds"]


def compare_checkpoints(
    seconds: Mapping[str, float], directory: Path, stored_directory: Path
) -> pd.DataFrame:
    """Tabulate the metrics of the checkpoints in two directories, in percent, with verdicts and the
    `seconds` that each checkpoint took, as COLUMNS."""
    tables = []
    for name, duration in seconds.items():
        table = _compare_checkpoint(directory / name, stored_directory / name)
        tables.append(table.assign(checkpoint=name, seconds=duration))
    return pd.concat(tables)[COLUMNS] if tables else pd.DataFrame(columns=COLUMNS)


def _compare_checkpoint(new: Path, stored: Path) -> pd.DataFrame:
    metrics = read_json(new / METRICS)
    if not stored.is_dir():
        table = compare_metrics(metrics, metrics)
        table[["stored", "difference"]] = np.nan
        table["verdict"] = NOT_STORED
    else:
        table = compare_metrics(read_json(stored / METRICS), metrics)
        inputs = [read_provenance(path).training_data.input for path in (new, stored)]
        provenances = [read_json(path / PROVENANCE) for path in (stored, new)]
        recipes = [provenance.get("recipe", {}) for provenance in provenances]
        candidates = [  # an ensemble has no recipe
            provenance.get("validation", recipe.get("validation"))
            for provenance, recipe in zip(provenances, recipes, strict=True)
        ]
        if inputs[0] != inputs[1]:
            table["verdict"] = OTHER_DATA
        elif candidates[0] != candidates[1] or list_recipe_changes(*recipes):
            table["verdict"] = OTHER_RECIPE
    return table.rename_axis("metric").reset_index()


def select_metrics(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Return metrics in percent: of a network's validation, else the cross-validated ones."""
    if "validation" in metrics:
        return dict(metrics["validation"])
    if CROSS_VALIDATED not in metrics:
        return {"R² · 100": 100 * metrics["R²"]}
    values = metrics[CROSS_VALIDATED]
    # whose metrics are grouped by the names of the qrels
    is_fusion = isinstance(next(iter(values.values())), dict)
    by_qrels = values if is_fusion else {"": values}
    return {
        f"{name} {measure}".strip(): 100 * value
        for name, means in by_qrels.items()
        for measure, value in means.items()
        if value is not None
    }


def compare_metrics(stored: Mapping[str, Any], reproduced: Mapping[str, Any]) -> pd.DataFrame:
    """Tabulate the metrics of two checkpoints as `stored reproduced difference verdict`."""
    table = pd.DataFrame(
        {"stored": select_metrics(stored), "reproduced": select_metrics(reproduced)}, dtype=float
    )
    table["difference"] = table["reproduced"] - table["stored"]
    distance = table["difference"].abs()  # NaN if one of the checkpoints lacks the metric: FAIL
    table["verdict"] = np.select(
        [distance <= OK_TOLERANCE, distance <= CLOSE_TOLERANCE], ["OK", "near"], "FAIL"
    )
    return table


def list_recipe_changes(stored_recipe: Mapping[str, Any], recipe: Mapping[str, Any]) -> list[str]:
    """Describe the stored settings that differ between the recipes of two provenances."""
    current = _flatten(json.loads(json.dumps(recipe)))
    return [
        f"{setting} was {value}, is now {current.get(setting)}"
        for setting, value in _flatten(stored_recipe).items()
        if setting != "name" and current.get(setting) != value
    ]


def _flatten(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings by name, those of tables as TABLE.NAME."""
    return {
        f"{key}.{name}" if name else key: item
        for key, value in settings.items()
        for name, item in (value.items() if isinstance(value, dict) else [("", value)])
    }
