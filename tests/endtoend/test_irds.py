"""Tests of inputs that ir_datasets provides, with data sets that are registered for the tests."""

from pathlib import Path

import pandas as pd
import pytest

from aragorn.__main__ import main
from aragorn.cache import open_cache
from aragorn.errors import InputError
from aragorn.io import irds
from aragorn.io.dataset import Dataset
from aragorn.io.document_store import ArgumentMetadata, open_document_store

ir_datasets = pytest.importorskip("ir_datasets", reason="requirements-irds.lock is not installed")
from ir_datasets.formats import BaseDocs, BaseQueries, GenericDoc, GenericQuery, argsme  # noqa: E402

pytestmark = pytest.mark.slow
TOPICS = {"1": "Should zoos be <abolished> & closed?", "2": "Should voting be compulsory?"}
PREMISE = "zoos keep animals in cages and " + "nobody knows whether this is good for them " * 2


class Documents(BaseDocs):
    """Documents of one class of ir_datasets; reading them may raise an error, as a download does."""

    def __init__(self, *documents, error=None):
        self._documents = documents
        self._error = error

    def docs_iter(self):
        yield from self._documents
        if self._error:
            raise self._error

    def docs_count(self):
        return len(self._documents)

    def docs_cls(self):
        return type(self._documents[0])


class Topics(BaseQueries):
    def queries_iter(self):
        return iter([GenericQuery(*topic) for topic in TOPICS.items()])


def make_argument(docno):
    return argsme.ArgsMeDoc(*[None] * len(argsme.ArgsMeDoc._fields))._replace(
        doc_id=docno,
        conclusion="Zoos should be abolished",
        premises=[argsme.ArgsMePremise(PREMISE, argsme.ArgsMeStance.CON, [])],
        premises_texts=PREMISE,
        source_id="s",
        source_domain=argsme.ArgsMeSourceDomain.debateorg,
    )


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """Register data sets, and return the directory of ir_datasets."""
    monkeypatch.setenv("IR_DATASETS_HOME", str(tmp_path / "home"))
    documents = Documents(GenericDoc("d1", "Zoos are cruel"), GenericDoc("d2", "Vote"))
    data_sets = {
        "aragorn/arguments": (Documents(make_argument("Sa-A1"), make_argument("Sa-A2")), Topics()),
        "aragorn/texts": (documents, Topics()),
        "aragorn/topics": (None, Topics()),
        "aragorn/broken": (
            Documents(GenericDoc("d1", "Zoos"), error=OSError("connection reset")),
            Topics(),
        ),
        "aragorn/offline": (
            Documents(GenericDoc("d1", "Zoos"), error=RuntimeError("no source")),
            Topics(),
        ),
    }
    for name, handlers in data_sets.items():
        monkeypatch.setitem(ir_datasets.registry._registered, name, ir_datasets.Dataset(*handlers))
    return tmp_path / "home"


def test_arguments_have_conclusions_premises_and_stances(tmp_path):
    dataset = Dataset(Path("irds:aragorn/arguments"))
    assert dataset.topics.to_numpy().tolist() == [list(topic) for topic in TOPICS.items()]
    rows = [[docno, "Zoos should be abolished", PREMISE] for docno in ("Sa-A1", "Sa-A2")]
    expected = pd.DataFrame(rows, columns=["docno", "conclusion", "premise"], dtype=object)
    pd.testing.assert_frame_equal(dataset.documents, expected)
    with open_cache(None, tmp_path) as cache:
        metadata = open_document_store(dataset, cache).read_metadata(["Sa-A1"])
    assert metadata == {"Sa-A1": ArgumentMetadata("CON", "debateorg")}


def test_other_texts_are_ranked(tmp_path):
    command = ["rank", "-i", "irds:aragorn/texts", "--system=dirichlet", "-o", str(tmp_path / "o")]
    assert main(command) == 0
    run = (tmp_path / "o" / "run.txt").read_text()
    assert [line.split()[:3] for line in run.splitlines()] == [["1", "Q0", "d1"]]


def test_a_data_set_is_exported_once(home, monkeypatch):
    first = Dataset(Path("irds:aragorn/texts"))
    monkeypatch.setattr(Documents, "docs_iter", None)  # a call would fail
    assert Dataset(Path("irds:aragorn/texts")).fingerprint == first.fingerprint
    assert [path.name for path in (home / irds.FORMAT / "aragorn").iterdir()] == ["texts"]


@pytest.mark.parametrize(
    ("name", "message"),
    {
        "aragorn/none": "irds:aragorn/none: no such data set in ir_datasets",
        "aragorn/topics": "irds:aragorn/topics: the data set has no documents",
        "aragorn/broken": r"irds:aragorn/broken: cannot be .* exported \(connection reset\)",
        "aragorn/offline": r"irds:aragorn/offline: cannot be .* exported \(no source\)",
    }.items(),
)
def test_unusable_data_sets_are_refused(name, message, home):
    with pytest.raises(InputError, match=message):
        Dataset(Path(f"irds:{name}"))
    folder = home / irds.FORMAT / "aragorn"
    assert not folder.exists() or not list(folder.iterdir())
