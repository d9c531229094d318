"""Define the paths of configurations, results and templates in training/."""

from submission.paths import PROJECT_DIR

TRAINING = PROJECT_DIR / "training"
RECIPES = TRAINING / "configs" / "recipes"
GRIDS = TRAINING / "configs" / "grids"
TRIALS = TRAINING / "configs" / "trials"
FUSIONS = TRAINING / "configs" / "fusions"
RESULTS = TRAINING / "results"
PUBLISHED = RESULTS / "published"  # figures of the publications, and where ours are
STEP_SECONDS = RESULTS / "step_seconds.csv"  # durations of the steps of `all` on the excerpt: one core, one H100
REPORT_TEMPLATE = TRAINING / "report" / "report.html.jinja"
