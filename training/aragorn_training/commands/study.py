"""Run a study, and write its tables and plots."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from aragorn.storage.atomic_files import check_replaceable, create_directory, write_all_atomic
from aragorn_training.evaluation.plots import PNG_SIGNATURE
from aragorn_training.evaluation.tables import (
    build_csv_pattern,
    format_csv,
    merge_rows,
    read_previous_rows,
    write_csv,
)
from aragorn_training.options import Result, get_output


def run_study(module: Any, options: Any) -> None:
    """Run a study; write its tables and plots, and print the table."""
    output = get_output(options, "results", *filter(None, [module.FILE.format(options=options)]))
    create_directory(output.parent if module.FILE else output)
    key = getattr(module, "KEY", "")
    # refused and read first, to fail before hours of training
    if module.FILE:
        check_replaceable(output, build_csv_pattern(module.FIRST_COLUMNS))
    previous = read_previous_rows(output, key) if key else None
    result: pd.DataFrame | Result | Mapping[str, pd.DataFrame] = module.run(options)
    if isinstance(result, Mapping):
        for name, table in result.items():
            write_csv(output / f"{name}.csv", table, module.DIGITS)
        return
    table, plots, tables = result if isinstance(result, Result) else Result(result)
    text, pattern = format_csv(table, module.DIGITS, index=False)
    if previous is not None:
        text = merge_rows(table, previous, key, module.ORDER, module.DIGITS)
    contents: dict[Path, tuple[str | bytes, bytes]] = {output: (text, pattern)}
    for name, further_table in tables.items():
        file = output.with_name(f"{output.stem}_{name}.csv")
        contents[file] = format_csv(further_table, module.DIGITS, index=False)
    for name, plot in plots.items():
        file = output.with_name(f"{output.stem}{name and '_'}{name}.png")
        contents[file] = plot, PNG_SIGNATURE
    write_all_atomic(contents)
    print(table.to_string(index=False, float_format=f"%.{module.DIGITS}f", na_rep=""))
