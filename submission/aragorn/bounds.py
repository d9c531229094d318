"""Bounds of settings that files contain: types whose range msgspec checks before anything is built.

The upper bounds are far above those of published networks, and low enough to be computed with.
"""

from typing import Annotated

from msgspec import Meta

Rows = Annotated[int, Meta(ge=1, le=10_000_000)]  # rows of an embedding table
TokenId = Annotated[int, Meta(ge=0, lt=10_000_000)]
Width = Annotated[int, Meta(ge=1, le=32_768)]  # dimensions, units or channels
OptionalWidth = Annotated[int, Meta(ge=0, le=32_768)]  # 0: no such layer
Count = Annotated[int, Meta(ge=1, le=1_000)]  # of parts that are built one by one
KernelCount = Annotated[int, Meta(ge=2, le=1_000)]  # the exact match and at least one more
LayerCount = Annotated[int, Meta(ge=1, le=100)]
FrozenCount = Annotated[int, Meta(ge=-1, le=100)]  # -1: nothing is frozen
Length = Annotated[int, Meta(ge=1, le=100_000)]  # words, subwords or tokens
Share = Annotated[float, Meta(ge=0, le=1)]
Scale = Annotated[int, Meta(ge=1, le=1_000_000)]
Deviation = Annotated[float, Meta(ge=0, le=100)]
# excludes subnormal numbers, whose reciprocals overflow
Positive = Annotated[float, Meta(ge=1e-9, lt=1e9)]
NonNegative = Annotated[float, Meta(ge=0, lt=1e9)]
Bounded = Annotated[float, Meta(gt=-1e9, lt=1e9)]
PositiveInt = Annotated[int, Meta(ge=1, lt=1_000_000_000)]
NonNegativeInt = Annotated[int, Meta(ge=0, lt=1_000_000_000)]
Exponent = Annotated[float, Meta(ge=0, le=10)]
LayerWidths = Annotated[tuple[Width, ...], Meta(max_length=10)]
Name = Annotated[str, Meta(pattern=r"^\w{1,100}\Z")]
Names = Annotated[tuple[Annotated[str, Meta(max_length=1_000)], ...], Meta(max_length=1_000)]
