"""Define the commands `study NAME`, which compare methods with published results."""

import ast
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aragorn.cli import Commands
from aragorn.registry import list_module_names
from aragorn_training.options import add_command, get_output

if TYPE_CHECKING:
    import pandas as pd

STUDIES = Path(__file__).resolve().parent.parent / "studies"


def list_studies() -> dict[str, str]:
    """Return the names of the modules of all studies by the names of the studies, sorted."""
    return {name.replace("_", "-"): name for name in list_module_names([str(STUDIES)])}


def add_studies(commands: Commands, selected: str) -> None:
    """Add all studies, with options only for the selected one, as importing takes seconds."""
    studies = commands.add_group("study", "reproduce published experiments", "NAME")
    for name, module_name in list_studies().items():
        description = _read_description(module_name)
        if name == selected:
            module = import_module(f"aragorn_training.studies.{module_name}")
            add_command(studies, name, partial(run_study, module), description, module.Options)
        else:
            studies.add(name, lambda args: None, description)


def _read_description(module_name: str) -> str:
    """Read the first sentence of a study's docstring, without importing it."""
    file = STUDIES / f"{module_name}.py"
    file = file if file.exists() else STUDIES / module_name / "__init__.py"
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    sentence = " ".join(text.split(".\n")[0].split()).rstrip(".")
    return sentence[:1].lower() + sentence[1:]


def run_study(module: Any, options: Any) -> None:
    """Run a study; write its tables and plots, and print the table."""
    from aragorn.storage.atomic_files import create_directory, write_atomic
    from aragorn_training.evaluation.plots import PNG_SIGNATURE
    from aragorn_training.evaluation.tables import (
        merge_rows,
        read_previous_rows,
        write_csv,
        write_csv_text,
    )
    from aragorn_training.options import Result

    output = get_output(options, "results", *filter(None, [module.FILE.format(options=options)]))
    create_directory(output.parent if module.FILE else output)
    key = getattr(module, "KEY", "")
    # read first, to fail before hours of training
    previous = read_previous_rows(output, key) if key else None
    result: pd.DataFrame | Result | Mapping[str, pd.DataFrame] = module.run(options)
    if isinstance(result, Mapping):
        for name, table in result.items():
            write_csv(output / f"{name}.csv", table, module.DIGITS)
        return
    table, plots, tables = result if isinstance(result, Result) else Result(result)
    for name, plot in plots.items():
        file = output.with_name(f"{output.stem}{name and '_'}{name}.png")
        write_atomic(file, plot, PNG_SIGNATURE)
    for name, further_table in tables.items():
        write_csv(output.with_name(f"{output.stem}_{name}.csv"), further_table, module.DIGITS)
    if previous is None:
        write_csv(output, table, module.DIGITS)
    else:
        write_csv_text(output, merge_rows(table, previous, key, module.ORDER, module.DIGITS))
    print(table.to_string(index=False, float_format=f"%.{module.DIGITS}f", na_rep=""))
