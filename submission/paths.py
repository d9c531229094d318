"""Paths of the project's own files."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).parent
ROOT = PACKAGE.parent
CHECKPOINTS = ROOT / "checkpoints"
ENCODERS = CHECKPOINTS / "encoders"  # exported encoders that no package provides, one folder each
SAMPLE = PACKAGE / "sample" / "input"
STOP_WORDS = PACKAGE / "text" / "nltk_data" / "corpora" / "stopwords" / "english"
