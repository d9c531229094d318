from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from submission.disk import fingerprint
from submission.disk.fingerprint import REPORTING, code_fingerprint
from tests.conftest import ROOT


def test_files_that_only_report_are_there() -> None:
    assert all((ROOT / name).is_file() for name in REPORTING)


def test_what_decides_results_and_what_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = Path(shutil.copytree(ROOT / "submission", tmp_path / "submission", ignore=shutil.ignore_patterns("__pycache__")))
    monkeypatch.setattr(fingerprint, "ROOT", tmp_path)
    monkeypatch.setattr(fingerprint, "STOP_WORDS", copy / "text" / "nltk_data" / "corpora" / "stopwords" / "english")

    def found() -> str:
        code_fingerprint.cache_clear()
        return code_fingerprint((copy,))

    first = found()
    for name in (*REPORTING, "submission/search/page.py"):
        (tmp_path / name).write_text("# changed")
        assert found() == first, name
    seen = {first}
    for name in ("lists.py", "rankers/knrm.py", "text/nltk_data/corpora/stopwords/english", "systems/catalogue.py"):
        (copy / name).write_text("# changed")
        seen.add(found())
    assert len(seen) == 5
    monkeypatch.setattr(fingerprint, "version", lambda name: "9.9")
    assert found() not in seen
    code_fingerprint.cache_clear()
