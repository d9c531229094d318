"""Tests that every setting of every network has bounds, which are checked before it is built."""

from dataclasses import fields
from math import inf, nan
from typing import get_type_hints

import msgspec
import pytest

from aragorn.index.weighting import BM25, RM3, Dirichlet
from aragorn.inference.checkpoint import build_from_config
from aragorn.models.rankers import get_ranker_class, list_rankers
from aragorn.models.taggers import get_tagger_class
from aragorn.models.transformer import BERTConfig
from aragorn.systems.latent import LatentParameters
from aragorn.systems.quality import QualityInterpolation
from aragorn.systems.weighted_sum import LengthFeature, Member, WeightedSum
from aragorn.text.tokenisers import MaxLengths
from aragorn_training.fitting.recipe import ClusterInitialisation, EncoderSettings, TrainingSettings
from aragorn_training.fusion.recipe import FitSettings, LambdaMARTSettings, RankNetSettings
from aragorn_training.tasks import find_task_spec, list_task_names

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


PARAMETERS = [
    BM25, Dirichlet, RM3, Member, LengthFeature, WeightedSum, QualityInterpolation, LatentParameters,
    FitSettings, LambdaMARTSettings, RankNetSettings, EncoderSettings, TrainingSettings, ClusterInitialisation,
    *(find_task_spec([name]) for name in list_task_names()),
]  # fmt: skip


@pytest.mark.parametrize("struct", PARAMETERS)
def test_every_number_of_a_checkpoint_or_recipe_is_bounded(struct):
    hints = get_type_hints(struct, include_extras=True)
    for field in msgspec.structs.fields(struct):
        for value in (1e300, -1e300, 10**30, inf, nan):
            with pytest.raises(msgspec.ValidationError):
                raise AssertionError(f"{field.name}: {msgspec.convert(value, hints[field.name])}")


DIVISORS = [
    (Dirichlet, "mu"), (LengthFeature, "cap"), (FitSettings, "alpha"), (CONFIGS["drmm"], "smoothing"),
    (TrainingSettings, "learning_rate"),
]  # fmt: skip


@pytest.mark.parametrize(("config", "setting"), DIVISORS)
def test_numbers_with_infinite_reciprocals_are_refused(config, setting):
    assert convert(config, setting, 1e-9) == {setting: 1e-9}
    for value in (0, 5e-324, 1e-320, 1e-30, -1):
        with pytest.raises(msgspec.ValidationError, match="Expected `float` >= 1e-09"):
            convert(config, setting, value)
