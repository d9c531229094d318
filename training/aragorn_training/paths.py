"""Define the paths of results and templates."""

from pathlib import Path

PACKAGE_DIR = Path(__file__).resolve().parent
RESULTS = (PACKAGE_DIR / "results").resolve()  # in a checkout, a symbolic link to training/results
PUBLISHED = RESULTS / "published"  # figures of the publications, and where ours are
STEP_SECONDS = RESULTS / "step_seconds.csv"  # of the steps of `all` on the excerpt
