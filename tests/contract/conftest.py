"""Fixtures of the contract tests."""

import pytest

from aragorn.__main__ import main as aragorn
from aragorn.index.weighting import RM3, Dirichlet
from tests.conftest import copy_with_topics, write_lexical, write_tiny_ranker

KINDS = (  # a system of each kind
    "knrm", "gru", "snrm", "sbert", "dirichlet_rm3", "deepct_dirichlet", "targer_dirichlet", "tfr_bert", "fusion",
)  # fmt: skip
EXIT_CODES = {0, 2, 3, 4, 5, 6, 7, 8, 9}  # all but 1, an internal error


@pytest.fixture
def call(capsys, caplog):
    """Return a function that runs a command and asserts a documented exit code and message."""
    caplog.set_level("INFO")

    def run(*arguments, program=aragorn):
        caplog.clear()
        capsys.readouterr()
        try:
            code = program([*map(str, arguments)])
        except SystemExit as error:  # from argparse
            code = int(str(error.code))
        out, err = capsys.readouterr()
        output = f"{out}\n{err}\n{caplog.text}"
        assert code in EXIT_CODES, output
        assert "Traceback" not in output
        assert code == 0 or any("error: " in line for line in err.splitlines()), output
        assert max(map(len, err.splitlines()), default=0) < 4000
        return code, output

    return run


@pytest.fixture(scope="session")
def tiny_models(tmp_path_factory):
    """Write checkpoints of KNRM, SNRM and Dirichlet with RM3, for tests that only read them."""
    directory = tmp_path_factory.mktemp("checkpoints")
    for seed, name in enumerate(("knrm", "snrm")):
        write_tiny_ranker(directory, name, seed)
    write_lexical(directory, "dirichlet_rm3", Dirichlet(), RM3(max_df_ratio=1.0))
    return directory


@pytest.fixture(scope="module")
def topics_and_corpus(corpus, tmp_path_factory):
    """Write an input of `corpus` and three topics, for tests that only read it."""
    return copy_with_topics(corpus, tmp_path_factory.mktemp("input") / "input")
