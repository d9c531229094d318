"""Split and distant labels: the rule of the design, on arguments whose right answers are known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rapidfuzz import fuzz

from submission.errors import InputError
from submission.storage.artifact_store import ArtifactStore
from training.data import distant_supervision
from training.data.distant_supervision import mine_hard_negatives, sample_negatives
from training.data.split import split_by_conclusion


def arguments(**sizes: int) -> pd.DataFrame:
    """Arguments sorted by conclusion: so many for each normalised conclusion (underscores are blanks)."""
    rows = [(f"{name}-{number}", name.replace("_", " ")) for name, size in sorted(sizes.items()) for number in range(size)]
    return pd.DataFrame(rows, columns=["docno", "normalised_conclusion"])


MANY = arguments(
    death_penalty=7,
    death_penalty_allowed=6,
    gay_marriage=3,
    **{f"zoo_{chr(97 + n)}{n}": 1 + n % 3 for n in range(200)},
)


def test_split_takes_at_most_4885_arguments_of_conclusions_with_exactly_five_premises() -> None:
    train, validation = split_by_conclusion(arguments(a=4, b=5, c=6, d=5), seed=0)
    assert validation["normalised_conclusion"].tolist() == ["b"] * 5 + ["d"] * 5
    assert train["normalised_conclusion"].value_counts().to_dict() == {"c": 6, "a": 4}
    with pytest.raises(InputError, match=r"exactly 5 premises .*\(maximum: 4\).*use a larger corpus"):
        split_by_conclusion(arguments(a=4, b=2), seed=0)

    frame = arguments(**{f"c{number:04}": 5 for number in range(1000)}).sample(frac=1, random_state=0)
    first = split_by_conclusion(frame, seed=0)[1]
    assert len(first) == 4885
    assert first.equals(split_by_conclusion(frame, seed=0)[1])
    assert set(first["normalised_conclusion"]) != set(split_by_conclusion(frame, seed=1)[1]["normalised_conclusion"])


@pytest.mark.parametrize("each", [1, 2])
def test_never_of_the_same_conclusion_and_distinct_within_one(each: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = sample_negatives(MANY, each, seed=0)
    assert rows.shape == (len(MANY), each)
    conclusions = MANY["normalised_conclusion"].to_numpy()
    assert (conclusions[rows] != conclusions[:, None]).all()
    for _, group in MANY.groupby("normalised_conclusion"):
        used = rows[group.index].ravel()
        assert len(set(used)) == len(used)
    assert (sample_negatives(MANY, each, seed=1) != rows).any()
    monkeypatch.setattr(distant_supervision, "COMPARISONS_PER_CHUNK", 50)
    assert (sample_negatives(MANY, each, seed=0) == rows).all()


def test_the_least_similar_of_twenty_times_as_many_are_dealt_out_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    # So few arguments that the sample of a conclusion is everything else.
    few = arguments(death_penalty=3, death_penalties=2, gay_marriage=2, xyz=2, taxes=2)
    rows = sample_negatives(few, 1, seed=0)
    conclusions = few["normalised_conclusion"].to_numpy()
    for conclusion, group in few.groupby("normalised_conclusion"):
        others = [fuzz.ratio(str(conclusion), other) for other in conclusions if other != conclusion]
        kept = [fuzz.ratio(str(conclusion), conclusions[row]) for row in rows[group.index, 0]]
        assert kept == pytest.approx(sorted(others)[: len(group)])  # the first argument gets the least similar
    with pytest.raises(InputError, match="the most frequent conclusion needs 100 negatives"):
        sample_negatives(arguments(a=5, b=5), 20, seed=0)

    sizes = []

    class Counting(np.random.Generator):
        def choice(self, a: int, size: int, replace: bool) -> np.ndarray:  # type: ignore[override]
            sizes.append((a, size, replace))
            return super().choice(a, size=size, replace=replace)

    monkeypatch.setattr(np.random, "default_rng", lambda seed: Counting(np.random.PCG64(0)))
    sample_negatives(MANY, 1, seed=0)
    assert (len(MANY) - 7, 140, False) in sizes
    assert (len(MANY) - 3, 60, False) in sizes


ZOOS = pd.DataFrame(  # what has words of which conclusion is plain to see
    [
        ("a1", "Zoos are cruel", "zoos cruel", "nothing to be said here"),
        ("a2", "Zoos are cruel", "zoos cruel", "zoos zoos zoos"),
        ("a3", "Zoos are cruel!", "zoos cruel", "the cruel thing about zoos"),
        ("b1", "Golf", "golf", "golf balls are found in zoos"),
        ("c1", "Circuses", "circuses", "cruel as zoos and as cruel"),
        ("d1", "Taxes", "taxes", "golf taxes money"),
        ("e1", "Money", "money", "a golf player has it"),
        ("f1", "Nuclear power", "nuclear power", "unlike all others"),
    ],
    columns=["docno", "conclusion", "normalised_conclusion", "premise"],
)
LEAST_SIMILAR = np.array([7, 6, 5, 7, 6, 7, 7, 3])


def found(arguments: pd.DataFrame, place: Path, seed: int = 0) -> dict[str, str]:
    rows = mine_hard_negatives(arguments, LEAST_SIMILAR, seed, ArtifactStore(place, {}))
    return dict(zip(arguments["docno"], arguments["docno"].to_numpy()[rows], strict=True))


def test_what_a_search_finds_is_dealt_out_the_first_hundred_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dealt = found(ZOOS, tmp_path / "index")
    assert {dealt[name] for name in ("a1", "a2", "a3")} == {"b1", "c1"}  # two are found for three: one of them twice
    assert dealt["b1"] in ("d1", "e1")
    assert (dealt["d1"], dealt["e1"]) == ("f1", "d1")  # no other has `taxes`: what the least similar conclusions gave stays
    assert dealt["f1"] == "b1"
    assert found(ZOOS, tmp_path / "index") == dealt
    assert len({tuple(found(ZOOS, tmp_path / "index", seed).items()) for seed in range(8)}) > 2
    assert distant_supervision.RETRIEVAL_DEPTH == 100
    monkeypatch.setattr(distant_supervision, "RETRIEVAL_DEPTH", 1)
    dealt = found(ZOOS, tmp_path / "index")
    assert {dealt[name] for name in ("a1", "a2", "a3")} == {"c1"}  # both words, one of them twice
