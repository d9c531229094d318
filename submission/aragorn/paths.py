"""Define the paths of the package's files, the name of the program, and its installation."""

import os
from pathlib import Path

# in usage lines and messages; set by run.sh
PROGRAM = os.environ.get("ARAGORN_PROGRAM") or "aragorn"
PACKAGE_DIR = Path(__file__).resolve().parent
PROJECT_DIR = PACKAGE_DIR.parent.parent  # in a checkout
IS_CHECKOUT = (PROJECT_DIR / "pyproject.toml").is_file()
# In a checkout, PACKAGE_DIR / "checkpoints" is a symbolic link to the project's checkpoints.
CHECKPOINT_DIR = Path(
    os.environ.get("ARAGORN_CHECKPOINTS") or PACKAGE_DIR / "checkpoints"
).resolve()
ENCODER_DIR = CHECKPOINT_DIR / "encoders"  # one directory per exported encoder without a package
SAMPLE_INPUT = PACKAGE_DIR / "sample" / "input"
STOP_WORDS_FILE = PACKAGE_DIR / "text" / "nltk_data" / "corpora" / "stopwords" / "english"


def get_install_command(extra: str) -> str:
    """Return the command that installs the packages of an extra."""
    return f"submission/install.sh {extra}" if IS_CHECKOUT else f"pip install 'PROJECT[{extra}]'"
