"""Select the texts of arguments to index or enrich."""

from typing import Literal

import pandas as pd

Fields = Literal["conclusion premise", "premise"]


def select_texts(documents: pd.DataFrame, fields: Fields) -> list[str]:
    """Return the texts to index; a TIREx text, stored as both conclusion and premise, is indexed once."""
    if fields == "premise":
        return documents["premise"].tolist()
    rows = zip(documents["conclusion"], documents["premise"], strict=True)
    return [premise if conclusion == premise else f"{conclusion} {premise}" for conclusion, premise in rows]
