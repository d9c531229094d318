"""Tests of published qrels: repeated, contradictory and annotated judgments."""

import logging

import pytest

from aragorn.errors import InputError
from aragorn.io.qrels import read_qrels

REPEATED = {  # qrels; judgments that are read; number of dropped judgments
    "equal lines": ("1 0 a 2\n1 0 b 0\n1 0 a 2\n1 0 a 2\n", [("1", "a", 2), ("1", "b", 0)], "2 repeated judgments"),
    "equal grades, written differently": ("1 0 a 2\n1 0 a 2.0\n", [("1", "a", 2)], "1 repeated judgment "),
    "equal grades of two annotators": ("1 1 a 1\n1 2 a 1\n", [("1", "a", 1)], "1 repeated judgment "),
    "a document of two topics": ("1 0 a 2\n2 0 a 0\n", [("1", "a", 2), ("2", "a", 0)], ""),
}  # fmt: skip
FIELD_2 = "field 2 differs; select the lines of one annotator or subtopic"
CONTRADICTORY = {  # qrels; parts of the message
    "two grades": (
        "1 0 a 2\n1 0 b 1\n1 0 a 0\n1 0 b 0\n1 0 b 0\n",
        ["line 3: grade 0 of document a for topic 1 contradicts grade 2 in line 1", "(3 contradictory judgments in"],
    ),
    "unjudged and relevant": ("1 0 a -1\n1 0 a 1\n", ["line 2: grade 1 of", "grade -1 in line 1 (1 contradictory judgment in"]),
    "one of two annotators twice": ("1 1 a 2\n1 1 a 0\n1 2 a 0\n", ["line 2: grade 0 of", FIELD_2]),
    "two annotators": ("1 1 a 2\n1 2 a 0\n1 1 b 1\n", ["line 2: grade 0 of", FIELD_2]),
}  # fmt: skip


@pytest.mark.parametrize("name", REPEATED)
def test_repeated_judgments_are_dropped_and_counted(name, tmp_path, caplog):
    qrels, expected, message = REPEATED[name]
    (tmp_path / "qrels").write_text(qrels)
    assert [*read_qrels(tmp_path / "qrels").itertuples(index=False, name=None)] == expected
    warnings = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == bool(message)
    assert message in "".join(warnings)


@pytest.mark.parametrize("name", CONTRADICTORY)
def test_contradictory_judgments_are_refused_and_counted(name, tmp_path):
    qrels, messages = CONTRADICTORY[name]
    (tmp_path / "qrels").write_text(qrels)
    with pytest.raises(InputError) as error:
        read_qrels(tmp_path / "qrels")
    assert all(message in str(error.value) for message in messages), error.value
    assert (FIELD_2 in str(error.value)) == ("two annotators" in name)
