from __future__ import annotations

import pandas as pd
import pytest

from submission.data.args_me_ids import find_mismatched_ids, hash_java_string


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hello", 99162322), ("polygenelubricants", 2**31), ("😀", 1772899),
        ("Zöös are crüel 😀" * 50, 4217171520),
    ],
)  # fmt: skip
def test_hash_java_string_values(text: str, expected: int) -> None:
    assert hash_java_string(text) == expected


def test_find_mismatched_ids_of_changed_texts() -> None:
    matching_id = f"S1-A{(31 * hash_java_string('they suffer') + hash_java_string('zoos are cruel')) % 2**32:x}"
    frame = pd.DataFrame({"docno": [matching_id, "S2-Aff", "c67482ba-2019-04-18T13:32:05Z-00000-000"],
                          "conclusion": "zoos are cruel", "premise": "they suffer"})  # fmt: skip
    docnos, hashed_count = find_mismatched_ids(frame)
    assert (docnos.tolist(), hashed_count) == (["S2-Aff"], 2)
    assert find_mismatched_ids(frame.assign(premise="They suffer"))[0].tolist() == [matching_id, "S2-Aff"]
