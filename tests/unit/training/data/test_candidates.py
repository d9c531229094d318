"""Test the refusal of too few candidates; the study of candidates tests their choice."""

import numpy as np
import pytest

from aragorn.errors import InputError
from aragorn_training.data.candidates import draw_negatives

CONCLUSIONS = np.array(["aaaa"] * 6 + ["zzzz"] * 3, dtype=object)


def test_too_few_arguments_are_refused():
    message = "'zzzz' needs 7 negatives, but only 6 arguments have other conclusions"
    with pytest.raises(InputError, match=message):
        draw_negatives(CONCLUSIONS, np.array(["zzzz"], dtype=object), 7, "random", seed=0)
