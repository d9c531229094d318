"""Ids of args.me 2020-04-01 prove their texts: the part behind `-A` is a hash of premise and conclusion."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from submission.progress import progress

HASHED = re.compile(r"S[0-9a-f]{1,8}-A(0|[1-9a-f][0-9a-f]{0,7})")


def differing(documents: pd.DataFrame) -> tuple[pd.Series, int]:
    """Arguments whose id is not made of their text, so that judgments of that id are of another text.

    Args:
        documents: `docno conclusion premise`.

    Returns:
        The docnos that differ, and the number of ids that have this form at all (those of corpus version 1 do not).
    """
    found = [HASHED.fullmatch(docno) for docno in documents["docno"]]
    with_hash = documents[[match is not None for match in found]]
    expected = [match[1] for match in found if match]
    texts = list(zip(with_hash["premise"], with_hash["conclusion"], strict=True))
    pairs = progress(texts, "texts and their ids", "arguments")
    own = [f"{(31 * java_hash(premise) + java_hash(conclusion)) % 2**32:x}" for premise, conclusion in pairs]
    return with_hash["docno"][np.array(own, dtype=object) != np.array(expected, dtype=object)], len(with_hash)


def java_hash(text: str) -> int:
    """Java's String.hashCode as an unsigned number: Σ unit · 31^(units behind it) modulo 2^32, over UTF-16 units."""
    units = np.frombuffer(text.encode("utf-16-le", "surrogatepass"), dtype="<u2").astype(np.uint32)
    powers = np.full(len(units), 31, dtype=np.uint32)
    powers[:1] = 1
    return int((units * np.multiply.accumulate(powers)[::-1]).sum(dtype=np.uint32))
