"""Tests that keys of kept results have the versions of all modules that compute them.

A module with a VERSION names the modules that it calls in COMPUTES_WITH, a class with a `version` in
`computes_with`. Each must name all modules with a VERSION, and all libraries, that its file imports,
directly or through modules without a VERSION; so must each call of `describe_versions`. Classes with
a version (components, networks, tasks) are described by the keys of the objects that use them.
"""

import ast
import re
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from aragorn.index.weighting import BM25
from aragorn.inference.checkpoint import RankerCheckpoint
from aragorn.io import runs, tirex, touche
from aragorn.models.network import Network
from aragorn.models.rankers.tfr_bert import TFRBERT
from aragorn.pipeline.retrieval import READERS
from aragorn.systems import lexical
from aragorn.systems.lexical import IndexSettings, LexicalParameters
from aragorn.text import normalisation
from aragorn.versions import list_sources
from aragorn_training.evaluation import evaluate
from aragorn_training.fitting.initialisation import TextNetworkSpec
from aragorn_training.tuning import grid
from aragorn_training.tuning import quality as tuning
from tests.conftest import SAMPLE
from tests.unit.test_architecture import (
    FILES,
    get_path,
    list_imported_files,
    list_imports,
)

# Import name of each library whose version changes results, and name of its distribution. Others
# display, distribute, or read and write files without loss.
LIBRARIES = {
    "datasets": "datasets",
    "gensim": "gensim",
    "inflect": "inflect",
    "ir_measures": "ir-measures",
    "lightgbm": "lightgbm",
    "numpy": "numpy",
    "pandas": "pandas",
    "rank_bm25": "rank-bm25",
    "rapidfuzz": "rapidfuzz",
    "scipy": "scipy",
    "sentence_transformers": "sentence-transformers",
    "seqeval": "seqeval",
    "sklearn": "scikit-learn",
    "tokenizers": "tokenizers",
    "torch": "torch",
    "transformers": "transformers",
    "trectools": "trectools",
}
# Modules at which the search for imports ends.
ENDS = {
    # they hold components, which their keys describe: `describe_results`, `compute_key`
    "aragorn/pipeline/retrieval.py",
    "aragorn/pipeline/session.py",
    "aragorn/systems/catalogue.py",
    "aragorn_training/data/retrieval.py",
    # input: `describe_request`, `describe_documents`
    "aragorn/io/dataset.py",
    "aragorn/io/document_store.py",
    # prepared tables and vectors, whose hashes are in the key
    "aragorn_training/data/distillation.py",
    "aragorn_training/data/quality.py",
    "aragorn_training/data/tagged_documents.py",
    "aragorn_training/data/term_weighting.py",
    "aragorn_training/data/word_vectors.py",
    # order of rankings, with numpy and pandas: `Stage`
    "aragorn/rankings.py",
    # they change no result: messages, progress, explanations, cards, plots, options, distribution
    "aragorn/cache.py",
    "aragorn/engine/__init__.py",
    "aragorn/errors.py",
    "aragorn/explanation.py",
    "aragorn/inference/pair_explanation.py",
    "aragorn/progress.py",
    "aragorn/storage/archives.py",
    "aragorn_training/cards/__init__.py",
    "aragorn_training/data/corpora.py",
    "aragorn_training/evaluation/overlap.py",
    "aragorn_training/evaluation/plots.py",
    "aragorn_training/evaluation/tables.py",
    "aragorn_training/formatting.py",
    "aragorn_training/mapping.py",
    "aragorn_training/options.py",
}
# What keys lack on purpose, by the start of the name of a case.
HELD = {"numpy", "pandas"}  # only hold what is read
EXCEPTIONS = {
    "aragorn.io.collection": {"numpy"},
    "aragorn.io.document_store": {"pandas"},
    "aragorn.io.runs": HELD,
    "aragorn.io.touche": HELD,
    # vectors and indexes need neither the number of conclusions nor the frames of stages
    "aragorn.systems.dense: ": {"aragorn.systems.conclusions", "pandas"},
    "aragorn.systems.lexical": {"pandas"},
    "aragorn_training.data.pairs": {"aragorn.text.tokenisers"},  # names of its input units only
    # random generators need no pandas, but the splits in their module do
    "aragorn_training.data.word_vectors": {"pandas"},
    "aragorn_training.fitting.": {"pandas"},
    # correlations of lists, in the module of those of runs
    "aragorn_training.tasks.distillation": {"aragorn.io.runs"},
    "aragorn_training.tasks.quality": {"aragorn.io.runs"},
    "aragorn_training.tuning.quality": {"aragorn.io.runs"},
    # fitted to the scores that are kept
    "aragorn_training.fusion.ensemble: ": {
        "aragorn.systems.weighted_sum",
        "aragorn_training.fusion.learners",
        "scikit-learn",
    },
    # the baselines and tables, which are not kept
    "aragorn_training.studies.argument_quality: ": {
        "aragorn.index.dense",
        "aragorn.io.runs",
        "aragorn_training.tuning.quality",
        "scikit-learn",
    },
    # type of parameters only
    "aragorn_training.studies.results.nested": {"aragorn.systems.latent"},
}
# Files whose keys have the versions of objects that are passed to them, tested below.
DESCRIBES_OBJECTS = {
    "aragorn/pipeline/retrieval.py",
    "aragorn/pipeline/session.py",
    "aragorn_training/commands/graph.py",
}
# Bases of the objects whose classes are arguments of `describe_versions`.
OBJECTS = {"type(recipe.task)": TextNetworkSpec, "type(network)": Network, "network_class": Network}

# calls that keep results, and the files that define them or receive what keeps a result
KEEPS = re.compile(
    r"\.parts\(|\bParts\(|\.directory\(|\.get_or_build|\bmap_cached\(|\bRecordedFiles\("
)
KEEPERS = {
    "aragorn/engine/__init__.py",
    "aragorn/index/dense.py",
    "aragorn_training/mapping.py",
}
CLASS_VERSION = re.compile(r"^    version(: ClassVar\[int\])? = \d", re.M)


def get_name(file):
    """Return the dotted name of a module from its file."""
    path = get_path(file).with_suffix("")
    return ".".join(path.parts).removesuffix(".__init__")


def is_versioned(file):
    return "\nVERSION = " in file.read_text(encoding="utf-8")


def list_requirements(file):
    """Return the versioned modules and the libraries that a file computes with, by name."""
    names = set()
    visited = {file}
    pending = [file]
    while pending:
        current = pending.pop()
        packages = {name.split(".")[0] for name in list_imports(current, runtime_only=True)}
        names |= {LIBRARIES[package] for package in packages & LIBRARIES.keys()}
        for imported in list_imported_files(current, runtime_only=True) - visited:
            visited.add(imported)
            if get_path(imported).as_posix() in ENDS:
                continue
            if is_versioned(imported):
                names.add(get_name(imported))
            elif not CLASS_VERSION.search(imported.read_text(encoding="utf-8")):
                pending.append(imported)
    return names


def find_missing(case):
    """Return the names of what the file of a case computes with that its sources lack."""
    file, sources = CASES[case]
    listed = {getattr(source, "__name__", source) for source in list_sources(*sources)}
    return list_requirements(file) - listed


def list_cases():
    """Return (file, sources) of each module and class with a version, and of each call."""
    cases = {}
    for file in FILES:
        text = file.read_text(encoding="utf-8")
        name = get_name(file)
        if is_versioned(file):
            cases[name] = (file, [name])
        if CLASS_VERSION.search(text):
            for cls in vars(import_module(name)).values():
                is_local = isinstance(cls, type) and cls.__module__ == name
                if is_local and isinstance(vars(cls).get("version"), int):
                    cases[f"{name}.{cls.__name__}"] = (file, [cls])
        if get_path(file).as_posix() not in DESCRIBES_OBJECTS:
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Call) and ast.unparse(node.func) == "describe_versions":
                    cases[f"{name}: {ast.unparse(node)}"] = (file, list_arguments(name, node))
    return cases


def list_arguments(name, call):
    """Return the arguments of a call that are constants of the module."""
    module = import_module(name)
    sources = []
    for argument in call.args:
        if isinstance(argument, ast.Constant):
            sources.append(argument.value)
        elif isinstance(argument, ast.Name) and argument.id in vars(module):
            sources.append(vars(module)[argument.id])
        elif cls := OBJECTS.get(ast.unparse(argument)):
            sources.append(cls)
    return sources


CASES = list_cases()


@pytest.mark.parametrize("case", CASES)
def test_key_has_the_versions_of_all_that_computes(case):
    allowed = [names for start, names in EXCEPTIONS.items() if case.startswith(start)]
    assert find_missing(case) - set().union(*allowed) == set()


def test_all_keys_are_made_of_versions():
    """Each file that keeps results describes versions, or gets its key from one that does."""
    for file in FILES:
        text = file.read_text(encoding="utf-8")
        if KEEPS.search(text) and get_path(file).as_posix() not in KEEPERS:
            assert re.search(r"describe_\w+\(|compute_key\(|\bcache_key\b", text), file


def test_exceptions_are_needed():
    missing = {case: find_missing(case) for case in CASES}
    for start, names in EXCEPTIONS.items():
        needed = set().union(*(missing[case] for case in CASES if case.startswith(start)))
        assert names - needed == set(), start


def test_readers_of_an_input_are_described():
    dataset = next(file for file in FILES if get_name(file) == "aragorn.io.dataset")
    listed = {getattr(source, "__name__", source) for source in list_sources(*READERS)}
    assert list_requirements(dataset) - HELD - listed == set()


def test_missing_names_are_found(monkeypatch):
    monkeypatch.setattr(normalisation, "COMPUTES_WITH", ())
    names = ("aragorn.text.index_terms", "aragorn.io.collection")
    monkeypatch.setattr(lexical, "COMPUTES_WITH", names)
    assert find_missing("aragorn.text.normalisation") == {"inflect"}
    assert find_missing("aragorn.systems.lexical") == {
        "aragorn.index.inverted",
        "aragorn.index.weighting",
        "numpy",
        "pandas",
    }


def test_keys_of_grids_have_the_versions_of_readers_and_measures(make_retrieval, monkeypatch):
    point = LexicalParameters("", IndexSettings(), BM25(), None)
    judged = grid.JudgedTopics(pd.DataFrame(), {}, [], np.array([]))
    retrieval = make_retrieval(SAMPLE)
    keys = []

    def map_cached(*arguments, key, **options):
        keys.append(repr(key))
        return {point: np.zeros((0, 1))}

    monkeypatch.setattr(grid, "map_cached", map_cached)
    for owner in (None, touche, tirex, runs, normalisation, evaluate):
        with monkeypatch.context() as patch:
            if owner:
                patch.setattr(owner, "VERSION", 2)
            grid.evaluate_grid("bm25", grid.Grid({}, [point]), judged, retrieval)
    assert len({*keys}) == 6
    assert "trectools " in keys[0]


def test_keys_of_quality_scores_have_the_versions_of_network_and_libraries(
    make_retrieval, monkeypatch
):
    retrieval = make_retrieval(SAMPLE)
    [stage] = tuning.QUALITY_RERANKINGS.values()
    names = ["topic", "premise", "qid", "score", "relevance", *tuning.MODELS]
    judgments = pd.DataFrame([["zoos", "cruel", "1", 1.0, 1.0, *[1] * len(tuning.MODELS)]])
    judgments.columns = names
    keys = []
    parts = SimpleNamespace(get_or_build_array=lambda part, build: np.zeros(1))
    monkeypatch.setattr(tuning, "load_table", lambda *arguments, columns: judgments)
    monkeypatch.setattr(tuning, "evaluate_quality_grid", lambda table, quality: np.zeros((1, 1, 1)))
    checkpoint = object.__new__(RankerCheckpoint)
    monkeypatch.setattr(type(stage.quality), "load_checkpoint", lambda *arguments: checkpoint)
    monkeypatch.setattr(
        retrieval.session.cache, "parts", lambda name, key: keys.append(key) or parts
    )
    tuning.evaluate_webis_topics(stage, retrieval)
    for owner, name in (
        (TFRBERT, "version"),
        (type(stage.quality), "version"),
        (tuning, "VERSION"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, 2)
            tuning.evaluate_webis_topics(stage, retrieval)
    assert len({*keys}) == 4
