"""Select the texts of arguments to index or enrich."""

from typing import Literal

import pandas as pd

Fields = Literal["conclusion premise", "premise"]


def select_texts(documents: pd.DataFrame, fields: Fields) -> list[str]:
    """Return one text per document, with the selected fields; a TIREx text, stored in both fields,
    is not repeated."""
    if fields == "premise":
        return documents["premise"].tolist()
    rows = zip(documents["conclusion"], documents["premise"], strict=True)
    return [
        premise if conclusion == premise else f"{conclusion} {premise}"
        for conclusion, premise in rows
    ]
