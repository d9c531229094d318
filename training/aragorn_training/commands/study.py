"""Run a study, and write its tables and plots."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from aragorn.storage.atomic_files import create_directory, write_atomic
from aragorn_training.evaluation.plots import PNG_SIGNATURE
from aragorn_training.evaluation.tables import (
    merge_rows,
    read_previous_rows,
    write_csv,
    write_csv_text,
)
from aragorn_training.options import Result, get_output


def run_study(module: Any, options: Any) -> None:
    """Run a study; write its tables and plots, and print the table."""
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
