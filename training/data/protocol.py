"""The thesis' validation (3.3, 4.2): which arguments validate, and what a query ranks."""

from __future__ import annotations

TRAIN, VALIDATION = "train", "validation"
RELATED = 5  # premises of a validation query: conclusions with exactly so many validate
UNRELATED = {TRAIN: 1, VALIDATION: 20}  # premises of other conclusions, for each argument
CANDIDATES = RELATED + RELATED * UNRELATED[VALIDATION]  # premises that a validation query ranks, the related ones first
ARGUMENTS = 4_885  # that validate, at most
DEPTH = 20  # of the measures
