"""Contract tests of all systems in the catalogue; a new entry is covered automatically."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from submission.data.dataset import Dataset
from submission.engine.base import CPU, LOCAL_ENGINE, Item, LocalEngine, Result
from submission.models.bert import BERTRanker
from submission.models.ranker import Ranker
from submission.paths import CHECKPOINT_DIR
from submission.rankings import COLUMNS, validate_rankings
from submission.retrieval import dense, latent, term_index
from submission.search.corpus import Corpus
from submission.search.searcher import Searcher, SearchOptions
from submission.storage.cache_directory import CacheDirectory
from submission.systems.catalogue import SYSTEMS
from submission.systems.conclusion_bm25 import ConclusionStage
from submission.systems.enrichment import Enrichment
from submission.systems.execution import CheckpointStore, Execution, Stage, iter_components
from submission.systems.lexical import LexicalStage
from tests.conftest import copy_with_topics

MakeExecution = Callable[..., Execution]


@pytest.fixture(params=SYSTEMS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def execution(corpus: Path, all_checkpoints_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Execution]:
    """Create the reference execution, which ranks each system once."""
    directory = copy_with_topics(corpus, tmp_path_factory.mktemp("input") / "input")
    with CacheDirectory(None, directory) as work:
        yield Execution(Dataset(directory), CheckpointStore(all_checkpoints_dir), CPU, work)


def write_supplied_run(execution: Execution, directory: Path) -> Path:
    """Write a run that includes short documents and documents without query terms, which no system retrieves."""
    documents = execution.input.documents["docno"].tolist()
    lines = [
        f"{qid} Q0 {docno} {rank} {-rank} other\n"
        for topic_index, qid in enumerate(execution.topics["qid"])
        for rank, docno in enumerate(documents[topic_index :: 40 + topic_index], 1)
    ]
    (directory / "run.txt").write_text("".join(lines))
    return directory / "run.txt"


def test_rankings_have_the_documented_form(name: str, execution: Execution) -> None:
    lists = execution.get_ranking(SYSTEMS[name].stage)
    assert lists.columns.tolist() == COLUMNS
    assert [str(dtype) for dtype in lists.dtypes] == ["object", "object", "int64", "float64"]
    validate_rankings(lists, execution.topics, execution.documents.find_unknown(lists["docno"]))
    assert set(lists["docno"]) <= set(execution.documents.searchable_docnos)
    assert set(lists["qid"]) == set(execution.topics["qid"])


def test_rankings_are_deterministic(name: str, execution: Execution, make_execution: MakeExecution) -> None:
    again = make_execution(execution.input.directory, checkpoints=execution.checkpoints.directory)
    stage = SYSTEMS[name].stage
    pd.testing.assert_frame_equal(again.get_ranking(stage), execution.get_ranking(stage), check_exact=True)
    assert again.compute_cache_key(stage) == execution.compute_cache_key(stage)


class RemoteEngine(LocalEngine):
    """An engine that pickles inputs and results, as for remote processes, and completes the last shard first."""

    def map(
        self, function: Callable[[Item], Result], parts: Iterable[tuple[int, Item]], device: torch.device
    ) -> Iterator[tuple[int, Result]]:
        handed_out = [pickle.dumps((function, index, part)) for index, part in parts]
        for pickled in handed_out[::-1]:
            unpickled, index, part = pickle.loads(pickled)
            yield index, pickle.loads(pickle.dumps(unpickled(part)))


def test_system_results_do_not_depend_on_the_engine(
    name: str, execution: Execution, make_execution: MakeExecution, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind, size in ((Ranker, 40), (BERTRanker, 40)):
        monkeypatch.setattr(kind, "shard_size", size)
        monkeypatch.setattr(kind, "cpu_batch_size", 16)
    for module in (dense, latent, term_index):
        monkeypatch.setattr(module, "SHARD_SIZE", 50)
    directory, checkpoints, stage = execution.input.directory, execution.checkpoints.directory, SYSTEMS[name].stage
    local, remote = (
        make_execution(directory, checkpoints=checkpoints, engine=engine) for engine in (LOCAL_ENGINE, RemoteEngine())
    )
    pd.testing.assert_frame_equal(remote.get_ranking(stage), local.get_ranking(stage), check_exact=True)
    assert remote.compute_cache_key(stage) == local.compute_cache_key(stage)  # either engine resumes what the other began


def test_pair_scores_equal_ranking_scores(name: str, execution: Execution) -> None:
    lists = execution.get_ranking(SYSTEMS[name].stage)
    pairs = lists.sample(frac=0.3, random_state=1)
    scores = SYSTEMS[name].stage.score(execution, pairs[["qid", "docno"]].reset_index(drop=True))
    np.testing.assert_allclose(scores, pairs["score"], rtol=1e-5, atol=1e-5)


def test_search_equals_ranking_the_same_topic(name: str, execution: Execution) -> None:
    listed, stage = execution.get_ranking(SYSTEMS[name].stage), SYSTEMS[name].stage
    corpus = Corpus.from_directory(execution.input.directory)
    exact = all(isinstance(part, LexicalStage | ConclusionStage | Enrichment) for part in iter_components(stage))
    with Searcher(corpus, execution.checkpoints, CPU) as searcher:
        rankings = searcher.rank(stage, execution.topics)
        pd.testing.assert_frame_equal(rankings, listed, check_exact=exact, rtol=1e-5, atol=1e-5)
        for qid, query in zip(execution.topics["qid"], execution.topics["query"], strict=True):
            [answered] = searcher.search(
                query, [SYSTEMS[name]], SearchOptions(5, lambda system, docno: True, highlight=True)
            ).systems
            hits = listed[listed["qid"] == qid]
            assert (answered.error, answered.total) == (None, len(hits))
            assert [hit.docno for hit in answered.hits] == hits["docno"].tolist()[:5]
            scores = [hit.score for hit in answered.hits]
            np.testing.assert_allclose(scores, hits["score"][:5], rtol=0 if exact else 1e-5, atol=0 if exact else 1e-5)
            assert scores == pytest.approx([hit.explanation.score for hit in answered.hits if hit.explanation], abs=1e-5)


def test_input_run_is_reranked_completely(
    name: str, execution: Execution, make_execution: MakeExecution, tmp_path: Path
) -> None:
    run = write_supplied_run(execution, tmp_path)
    reranking = make_execution(execution.input.directory, input_run=run, checkpoints=execution.checkpoints.directory)
    assert reranking.supplied_ranking is not None
    listed = reranking.get_ranking(SYSTEMS[name].stage)
    validate_rankings(listed, reranking.topics, set())
    pairs = ["qid", "docno"]
    assert sorted(map(tuple, listed[pairs].to_numpy())) == sorted(map(tuple, reranking.supplied_ranking[pairs].to_numpy()))
    if name != "bm25":  # returns the supplied ranking
        scores = SYSTEMS[name].stage.score(reranking, listed[pairs])
        np.testing.assert_allclose(scores, listed["score"], rtol=1e-5, atol=1e-5)


def test_explanations_sum_to_scores(name: str, execution: Execution, make_execution: MakeExecution) -> None:
    stage = SYSTEMS[name].stage
    for qid, group in execution.get_ranking(stage).groupby("qid"):
        alone = make_execution(execution.input.directory, checkpoints=execution.checkpoints.directory, qid=qid)
        explain(stage, alone, group.head(2))


def explain(stage: Stage, alone: Execution, rows: pd.DataFrame) -> None:
    """Explain some documents of a topic in an execution of that topic alone."""
    for row in rows.itertuples():
        explanation = stage.explain(alone, row.qid, row.docno)
        assert explanation.score == pytest.approx(row.score, rel=1e-5, abs=1e-5)
        total = sum(part.value for part in explanation.contributions)
        assert (total if explanation.activation is None else explanation.activation(total)) == pytest.approx(
            explanation.score, rel=1e-4, abs=1e-4
        )
        assert explanation.contributions


def test_finished_results_are_reused(
    name: str,
    rank_all: Callable[..., int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flags = ["--system", name, "--cache-dir", str(tmp_path / "work")]
    assert rank_all("first", *flags) == 0
    for function in (
        "systems.execution.encode_rankings",
        "inference.pair_scoring.RemoteScorer",
        "retrieval.latent._build_index",
        "retrieval.dense._build_vectors",
        "data.args_me.read_arguments",
    ):
        monkeypatch.setattr(f"submission.{function}", None)  # a call would fail
    assert rank_all("second", *flags) == 0
    run = f"aragorn-{name}.txt"
    assert (tmp_path / "second" / run).read_bytes() == (tmp_path / "first" / run).read_bytes()


def test_missing_checkpoint_is_named(
    name: str,
    rank_all: Callable[..., int],
    checkpoints_copy: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    needed = [part.checkpoint for part in iter_components(SYSTEMS[name].stage) if part.checkpoint]
    if not needed:
        pytest.skip("it needs none")
    shutil.rmtree(checkpoints_copy / needed[0])
    assert rank_all("out", "--system", name) == 4
    assert f"{checkpoints_copy / needed[0]}: checkpoint not found" in capsys.readouterr().err


def test_catalogue_matches_shipped_checkpoints() -> None:
    needed = {part.checkpoint for system in SYSTEMS.values() for part in iter_components(system.stage) if part.checkpoint}
    stored = {path.name for path in CHECKPOINT_DIR.iterdir() if (path / "config.json").exists()}
    assert stored == needed
