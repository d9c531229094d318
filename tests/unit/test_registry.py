"""Refusal of classes that lack methods of their base class, and of invalid names of systems."""

import pytest

from aragorn.errors import UsageError
from aragorn.models.network import Ranker
from aragorn.registry import find_class
from aragorn.systems.catalogue import CONCLUSION_BM25, System

DRAFT = "from aragorn.models.network import Ranker\n\n\nclass Draft(Ranker):\n    def forward(self, *tensors):\n        ...\n"


def test_missing_methods_are_named(tmp_path, monkeypatch):
    (tmp_path / "drafts").mkdir()
    (tmp_path / "drafts" / "__init__.py").touch()
    (tmp_path / "drafts" / "draft.py").write_text(DRAFT)
    monkeypatch.syspath_prepend(tmp_path)
    message = r"draft\.py: Draft lacks methods: explain; implement them"
    with pytest.raises(UsageError, match=message):
        find_class("drafts", "draft", Ranker, "ranker")


def test_systems_have_names_without_hyphens():
    with pytest.raises(ValueError, match="invalid system name 'my-system'"):
        System("my-system", CONCLUSION_BM25, "x")
