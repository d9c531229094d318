"""Tests that every setting of every network has bounds, which are checked before it is built."""

from dataclasses import fields
from typing import get_type_hints

import msgspec
import pytest

from aragorn.inference.checkpoint import build_from_config
from aragorn.models.rankers import get_ranker_class, list_rankers
from aragorn.models.taggers import get_tagger_class
from aragorn.models.transformer import BERTConfig
from aragorn.text.tokenisers import MaxLengths

NETWORKS = {name: get_ranker_class(name) for name in list_rankers()}
NETWORKS |= {name: get_tagger_class(name) for name in ("deepct", "targer")}
CONFIGS = {name: network.Config for name, network in NETWORKS.items()}
CONFIGS |= {"bert": BERTConfig, "lengths": MaxLengths}
SETTINGS = [(name, field.name) for name, config in CONFIGS.items() for field in fields(config)]
UNBOUNDED = {"bert", "hidden_act"}  # checked as BERTConfig, and by name


def convert(config, setting, value):
    """Convert one value as the type of a setting."""
    hints = get_type_hints(config, include_extras=True)
    return msgspec.convert({setting: value}, dict[str, hints[setting]])


@pytest.mark.parametrize(("name", "setting"), SETTINGS)
def test_every_setting_is_bounded(name, setting):
    if setting in UNBOUNDED:
        return
    for value in (-2, 10**9, 10**30, 1e300, float("nan"), float("inf"), [10**9], ["x"] * 10**4):
        with pytest.raises(msgspec.ValidationError):
            raise AssertionError(f"{value!r:.40}: {convert(CONFIGS[name], setting, value)}")


@pytest.mark.parametrize("name", NETWORKS)
def test_bounds_are_checked_before_the_network_is_built(name, monkeypatch):
    def build(*_):
        raise AssertionError("built")

    network = NETWORKS[name]
    monkeypatch.setattr(network, "__init__", build)
    required = {"vocabulary": 5, "tags": ["O"], "bert": {}}
    names = {field.name for field in fields(network.Config)}
    values = {key: value for key, value in required.items() if key in names}
    with pytest.raises(AssertionError, match="built"):
        build_from_config(network, values)
    for setting in names - {"bert"}:
        with pytest.raises(msgspec.ValidationError, match=rf"\$\.{setting}`"):
            build_from_config(network, values | {setting: 10**12})
