"""Search arguments from a terminal, a web page or Python; errors are SubmissionErrors."""

from aragorn.search.api import load_system as load_system
