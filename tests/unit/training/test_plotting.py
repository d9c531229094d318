"""Tests of the style of plots."""

from aragorn.systems.catalogue import SYSTEMS
from tests.benchmarks.scaling import get_style


def test_each_system_has_a_style_of_its_own():
    styles = [get_style(name, SYSTEMS) for name in SYSTEMS]
    assert len({tuple(style.values()) for style in styles}) == len(SYSTEMS)
    in_grey = {(style["marker"], style["linestyle"]) for style in styles}
    assert len(in_grey) == len(SYSTEMS)
