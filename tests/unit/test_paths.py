"""Tests of the commands that install optional packages, which messages name."""

import sys
from pathlib import Path

import pytest

from aragorn import paths
from aragorn.errors import UsageError
from aragorn.io import irds


@pytest.mark.parametrize(
    ("is_checkout", "command"),
    [(True, "submission/install.sh irds"), (False, "pip install 'PROJECT[irds]'")],
)
def test_missing_package_names_its_installation(is_checkout, command, monkeypatch):
    monkeypatch.setattr(paths, "IS_CHECKOUT", is_checkout)
    monkeypatch.setitem(sys.modules, "ir_datasets", None)
    with pytest.raises(UsageError) as error:
        irds.export(Path("irds:vaswani"))
    assert str(error.value) == f"irds:vaswani: ir_datasets is not installed; run `{command}`"
