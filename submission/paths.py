"""Define the paths of the project's files."""

from pathlib import Path

PACKAGE_DIR = Path(__file__).parent
PROJECT_DIR = PACKAGE_DIR.parent
CHECKPOINT_DIR = PROJECT_DIR / "checkpoints"
ENCODER_DIR = CHECKPOINT_DIR / "encoders"  # one directory per exported encoder that no package provides
SAMPLE_INPUT = PACKAGE_DIR / "sample" / "input"
STOP_WORDS_FILE = PACKAGE_DIR / "text" / "nltk_data" / "corpora" / "stopwords" / "english"
