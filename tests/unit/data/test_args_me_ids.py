from __future__ import annotations

import pandas as pd
import pytest

from submission.data.args_me_ids import find_mismatches, java_string_hash


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hello", 99162322), ("polygenelubricants", 2**31), ("😀", 1772899),
        ("Zöös are crüel 😀" * 50, 4217171520),
    ],
)  # fmt: skip
def test_java_string_hash_values(text: str, expected: int) -> None:
    assert java_string_hash(text) == expected


def test_find_mismatches_of_changed_texts() -> None:
    matching_id = f"S1-A{(31 * java_string_hash('they suffer') + java_string_hash('zoos are cruel')) % 2**32:x}"
    frame = pd.DataFrame({"docno": [matching_id, "S2-Aff", "c67482ba-2019-04-18T13:32:05Z-00000-000"],
                          "conclusion": "zoos are cruel", "premise": "they suffer"})  # fmt: skip
    docnos, hashed_count = find_mismatches(frame)
    assert (docnos.tolist(), hashed_count) == (["S2-Aff"], 2)
    assert find_mismatches(frame.assign(premise="They suffer"))[0].tolist() == [matching_id, "S2-Aff"]
