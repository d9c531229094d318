"""Paths of the project's own files."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).parent
ROOT = PACKAGE.parent
CHECKPOINTS = ROOT / "checkpoints"
ENCODERS = CHECKPOINTS / "encoders"  # where pretrained encoders are put that no package carries, each under its name
SAMPLE = PACKAGE / "sample" / "input"
STOP_WORDS = PACKAGE / "text" / "nltk_data" / "corpora" / "stopwords" / "english"
