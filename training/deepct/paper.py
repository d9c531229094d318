"""The thesis' own figures: its training samples without a word that matters, and with some (Hollatz 2022, 3.2)."""

from __future__ import annotations

EMPTY = {  # by documents and reference: samples without, samples with
    ("all", "topic"): (191_651, 640_107),
    ("all", "conclusion"): (191_328, 640_430),
    ("all", "both"): (188_663, 643_095),
    ("unjudged", "topic"): (190_007, 629_174),
    ("unjudged", "conclusion"): (189_654, 629_527),
    ("unjudged", "both"): (187_041, 632_140),
    ("unpooled", "topic"): (174_385, 543_166),
    ("unpooled", "conclusion"): (173_933, 543_618),
    ("unpooled", "both"): (171_707, 545_844),
}
