"""Verify the ids of args.me 2020-04-01, in which the part after -A is a hash of premise and
conclusion."""

import re

import numpy as np
import pandas as pd

from aragorn.progress import track

HASHED_ID = re.compile(r"S[0-9a-f]{1,8}-A(0|[1-9a-f][0-9a-f]{0,7})")


def find_mismatched_ids(documents: pd.DataFrame) -> tuple[pd.Series, int]:
    """Find documents `docno conclusion premise` whose texts differ from args.me 2020-04-01, to
    which the judgments refer.

    Returns:
        The docnos whose hash is not that of the text, and the number of docnos with a hash (0 for
        corpus version 1).
    """
    matches = [HASHED_ID.fullmatch(docno) for docno in documents["docno"]]
    documents = documents[[match is not None for match in matches]]
    expected_hashes = [match[1] for match in matches if match]
    texts = track(
        list(zip(documents["premise"], documents["conclusion"], strict=True)),
        "verifying ids",
        "arguments",
    )
    hashes = [
        f"{(31 * hash_java_string(premise) + hash_java_string(conclusion)) % 2**32:x}"
        for premise, conclusion in texts
    ]
    is_mismatched = np.array(hashes, dtype=object) != np.array(expected_hashes, dtype=object)
    return documents["docno"][is_mismatched], len(documents)


def hash_java_string(text: str) -> int:
    """Return Java's unsigned String.hashCode: Σᵢ cᵢ · 31^(n - 1 - i) mod 2³², where the cᵢ are the
    n UTF-16 code units."""
    code_units = np.frombuffer(text.encode("utf-16-le", "surrogatepass"), dtype="<u2").astype(
        np.uint32
    )
    powers = np.full(len(code_units), 31, dtype=np.uint32)
    powers[:1] = 1
    return int((code_units * np.multiply.accumulate(powers)[::-1]).sum(dtype=np.uint32))
