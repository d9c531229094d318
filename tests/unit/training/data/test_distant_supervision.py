"""Tests of the split by conclusion, and of sampled and retrieved negatives."""

import numpy as np
import pandas as pd
import pytest
from rapidfuzz import fuzz

from aragorn.errors import InputError
from aragorn_training.data.distant_supervision import (
    draw_negatives,
    mine_hard_negatives,
    sample_negatives,
)
from aragorn_training.data.split import split_by_conclusion


def make_arguments(**sizes):
    """Build arguments from numbers of premises by conclusion (with underscores)."""
    rows = [
        (f"{name}-{n}", name.replace("_", " "))
        for name, size in sorted(sizes.items())
        for n in range(size)
    ]
    return pd.DataFrame(rows, columns=["docno", "normalised_conclusion"])


def test_split_validates_on_conclusions_with_five_premises():
    train, validation = split_by_conclusion(make_arguments(a=4, b=5, c=6, d=5), seed=0)
    assert validation["normalised_conclusion"].tolist() == ["b"] * 5 + ["d"] * 5
    assert train["normalised_conclusion"].value_counts().to_dict() == {"c": 6, "a": 4}
    message = r"\(maximum: 4\), .* needs at least 21 conclusions with exactly 5 premises; add"
    with pytest.raises(InputError, match=message):
        split_by_conclusion(make_arguments(a=4, b=2), seed=0)
    with pytest.raises(InputError, match="add conclusions with other numbers of premises"):
        split_by_conclusion(make_arguments(a=5, b=5), seed=0)


def test_split_samples_validation_conclusions_by_seed():
    frame = make_arguments(**{f"c{n:04}": 5 for n in range(1000)})
    shuffled = frame.sample(frac=1, random_state=0)
    first, repeated, reseeded = (
        split_by_conclusion(*inputs)[1] for inputs in ((frame, 0), (shuffled, 0), (frame, 1))
    )
    assert len(first) == 4885
    assert first.equals(repeated)
    assert set(first["normalised_conclusion"]) != set(reseeded["normalised_conclusion"])


@pytest.mark.parametrize("per_argument", [1, 2])
def test_negatives_are_distinct_and_of_other_conclusions(per_argument):
    arguments = make_arguments(
        death_penalty=7, gay_marriage=3, **{f"zoo_{chr(97 + n)}{n}": 1 + n % 3 for n in range(200)}
    )
    rows = sample_negatives(arguments, per_argument, seed=0)
    conclusions = arguments["normalised_conclusion"].to_numpy()
    assert rows.shape == (len(arguments), per_argument)
    assert (conclusions[rows] != conclusions[:, None]).all()
    for _, group in arguments.groupby("normalised_conclusion"):
        negatives = rows[group.index].ravel()
        assert len(set(negatives)) == len(negatives)
    assert (sample_negatives(arguments, per_argument, seed=1) != rows).any()


def test_negatives_are_the_least_similar_of_a_sample():
    # so few that each sample contains all arguments of other conclusions
    arguments = make_arguments(death_penalty=3, death_penalties=2, gay_marriage=2, xyz=2, taxes=2)
    rows = sample_negatives(arguments, 1, seed=0)
    conclusions = arguments["normalised_conclusion"].to_numpy()
    for conclusion, group in arguments.groupby("normalised_conclusion"):
        candidates = conclusions[conclusions != conclusion]
        ratios = [fuzz.ratio(str(conclusion), candidate) for candidate in candidates]
        selected = [fuzz.ratio(str(conclusion), conclusions[row]) for row in rows[group.index, 0]]
        # the first argument gets the least similar
        assert selected == pytest.approx(sorted(ratios)[: len(group)])
    cause = "needs {} negatives, but only {} arguments with other conclusions are in the"
    for sizes, count, numbers, split in (
        ({"a": 5, "b": 5}, 20, (100, 5), "validation set, which needs at least 21 conclusions"),
        ({"a": 3, "b": 2}, 1, (3, 2), "training set; add some"),
    ):
        with pytest.raises(InputError, match=f"{cause.format(*numbers)} {split}"):
            sample_negatives(make_arguments(**sizes), count, seed=0)


ZOOS = pd.DataFrame([  # premises with words of other conclusions
    ("a1", "Zoos are cruel", "zoos cruel", "nothing to be said here"),
    ("a2", "Zoos are cruel", "zoos cruel", "zoos zoos zoos"),
    ("a3", "Zoos are cruel!", "zoos cruel", "the cruel thing about zoos"),
    ("b1", "Golf", "golf", "golf balls are found in zoos"),
    ("c1", "Circuses", "circuses", "cruel as zoos and as cruel"),
    ("d1", "Taxes", "taxes", "golf taxes money"),
    ("e1", "Money", "money", "a golf player has it"),
    ("f1", "Nuclear power", "nuclear power", "unlike all others"),
], columns=["docno", "conclusion", "normalised_conclusion", "premise"])  # fmt: skip


def test_hard_negatives_are_retrieved_for_the_conclusion(tmp_path):
    def mine_negatives(seed):
        least_similar = np.array([7, 6, 5, 7, 6, 7, 7, 3])
        rows = mine_hard_negatives(ZOOS, least_similar, seed)
        return dict(zip(ZOOS["docno"], ZOOS["docno"].to_numpy()[rows], strict=True))

    negatives = mine_negatives(0)
    # two for three arguments: one occurs twice
    assert {negatives[name] for name in ("a1", "a2", "a3")} == {"b1", "c1"}
    assert negatives["b1"] in ("d1", "e1")
    # no premise contains `taxes`: the fallback
    assert (negatives["d1"], negatives["e1"]) == ("f1", "d1")
    assert negatives["f1"] == "b1"
    assert mine_negatives(0) == negatives
    assert len({tuple(mine_negatives(seed).items()) for seed in range(8)}) > 2


def test_too_few_arguments_are_refused():
    conclusions = np.array(["aaaa"] * 6 + ["zzzz"] * 3, dtype=object)
    message = "'zzzz' needs 7 negatives, but only 6 arguments have other conclusions"
    with pytest.raises(InputError, match=message):
        draw_negatives(conclusions, conclusions[-1:], 7, "random", seed=0)
