"""The stages: each a way in which topics get their lists, all of them made of one another as a system needs it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from submission import lists
from submission.disk.kept import Kept
from submission.errors import UsageError
from submission.fusion.regression import LISTED, Regression, open_regression
from submission.fusion.reordering import MARGIN, Reordering, open_reordering
from submission.retrieval.conclusions import CONCLUSIONS, ConclusionIndex, conclusion_index, retrieve
from submission.retrieval.dense import (
    DenseIndex,
    Texts,
    conclusions_of,
    dense_index,
    premises_of,
    represented,
    titles_of,
)
from submission.retrieval.latent import latent_index, nearest
from submission.scoring.checkpoint import Checkpoint, open_checkpoint
from submission.scoring.documents import score
from submission.systems.execution import Execution, Stage
from submission.systems.explained import Explained, Row, by_network
from submission.systems.fusion import Fusion, needed
from submission.systems.remembered import Checkpoints


@dataclass(frozen=True)
class Conclusions(Stage):
    """BM25 over the conclusions, with all their premises (thesis 4.3); or the list that was handed over, as it is."""

    checkpoint = None

    def lists(self, execution: Execution) -> pd.DataFrame:
        return self.search(execution) if execution.given is None else execution.given

    def search(self, execution: Execution) -> pd.DataFrame:
        """The premises of the best conclusions, in the order of these, then by docno."""
        index = self._index(execution)
        with execution.stopwatch.stage("candidates"):
            return retrieve(execution.topics, index)

    def scores(self, execution: Execution, pairs: pd.DataFrame) -> np.ndarray:
        """BM25 of the documents' conclusions, with the statistics of the collection."""
        index = self._index(execution)
        texts = execution.documents.texts(set(pairs["docno"])).set_index("docno")["conclusion"]
        queries = execution.topics.set_index("qid")["query"]
        rows = zip(pairs["qid"], pairs["docno"], strict=True)
        return np.array([sum(value for _, value in index.shares(queries[q], texts[d])) for q, d in rows], dtype=float)

    def explain(self, execution: Execution, qid: str, docno: str) -> Explained:
        """Explain the share of each query word."""
        if execution.given is not None:
            raise UsageError(f"scores are those of {execution.input.list_file}, they were not made here")
        [query], [conclusion] = execution.topics["query"], execution.documents.texts({docno})["conclusion"]
        shares = self._index(execution).shares(query, conclusion)
        how = "that of its conclusion: a sum over the words of the query"
        return Explained(sum(value for _, value in shares), how, [Row(value, word) for word, value in shares])

    def of_list(self, file: Path) -> str:
        return f"{file.name} as it is"

    def _index(self, execution: Execution) -> ConclusionIndex:
        return execution.once_of_collection(type(self), lambda: self._made(execution))

    @staticmethod
    def _made(execution: Execution) -> ConclusionIndex:
        with execution.stopwatch.stage("index"):
            return conclusion_index(execution.documents.collected, execution.place("conclusions"))


class _Network(Stage):
    """A stage that scores by a network: of a topic and a premise, each as text."""

    checkpoint: str

    def opened(self, checkpoints: Checkpoints) -> Checkpoint:
        return checkpoints.opened(self.checkpoint, open_checkpoint)

    def decided_by(self, execution: Execution) -> list[str]:
        """A GPU gives other bits."""
        return [self.opened(execution.checkpoints).fingerprint, execution.device.type]

    def scores(self, execution: Execution, pairs: pd.DataFrame) -> np.ndarray:
        """Scores of finished parts are kept."""
        asked = hashlib.sha256("\n".join(pairs["qid"] + " " + pairs["docno"]).encode()).hexdigest()
        decided_by = [*self.decided_by(execution), execution.input.fingerprint, asked]
        kept = execution.place_of_pairs(f"scores-{self.checkpoint}", *decided_by)
        return score(pairs, execution.tokens, self.opened(execution.checkpoints), execution.device, kept, execution.engine)

    def explain(self, execution: Execution, qid: str, docno: str) -> Explained:
        """Explain the share of each kernel, bin, latent term or word."""
        opened, (what, document) = self.opened(execution.checkpoints), self.read(execution, docno)
        [query] = execution.topics["query"]
        return by_network(opened, opened.tokeniser.query(query), document, what, execution.device)

    def read(self, execution: Execution, docno: str) -> tuple[str, list[int]]:
        """Return the part of a document that the network reads: its name and its ids."""
        [premise] = execution.documents.texts({docno})["premise"]
        return "premise", self.opened(execution.checkpoints).tokeniser.premise(premise)


@dataclass(frozen=True)
class Rerank(_Network):
    """A network over another stage's documents."""

    first: Stage
    checkpoint: str

    def made_of(self) -> tuple[Stage, ...]:
        return (self.first,)

    def search(self, execution: Execution) -> pd.DataFrame:
        """All documents of the first stage, by the network's scores."""
        pairs = execution.lists(self.first)[["qid", "docno"]]
        return lists.ranked(pairs.assign(score=self.scores(execution, pairs)), execution.topics)

    def metadata(self, name: Callable[[Stage], str]) -> dict[str, Any]:
        return {"reranks": name(self.first)}


@dataclass(frozen=True)
class Latent(_Network):
    """A network that finds its documents in the whole collection, by an inverted index of latent terms."""

    checkpoint: str

    def search(self, execution: Execution) -> pd.DataFrame:
        """The documents with the highest scores above 0."""
        opened, documents = self.opened(execution.checkpoints), execution.documents
        kept = execution.place(f"index-{self.checkpoint}", *self.decided_by(execution))
        index = latent_index(documents.collection, documents.texts, opened, execution.device, kept, execution.engine)
        return lists.ranked(nearest(execution.topics, documents.collection, opened, index), execution.topics)


class _Vectors(_Network):
    """A stage whose scores are the cosines of a topic's vector with those of other texts, as an index has them."""

    def explain(self, execution: Execution, qid: str, docno: str) -> Explained:
        """Explain the share of each piece of the text, and the effect of keeping vectors in half precision."""
        found = super().explain(execution, qid, docno)
        [score] = self.scores(execution, pd.DataFrame({"qid": [qid], "docno": [docno]})).tolist()
        rounding = Row(score - found.score, "rounding", "of the text's vector to 16 bits")
        views = {how: [*rows, rounding] for how, rows in found.views.items()}
        return replace(found, score=score, parts=[*found.parts, rounding], views=views)

    def _cosines(self, execution: Execution, pairs: pd.DataFrame, names: np.ndarray, index: DenseIndex) -> np.ndarray:
        """Compute the cosines of pairs' topics with texts, by their names in an index."""
        topics = execution.topics[execution.topics["qid"].isin(set(pairs["qid"]))]
        of_topic = dict(zip(topics["qid"], self._titles(execution, topics), strict=True))
        scores = np.zeros(len(pairs))
        for qid, places in pairs.groupby("qid").indices.items():
            scores[places] = index.scores(of_topic[qid], names[places].tolist())
        return scores

    def _titles(self, execution: Execution, topics: pd.DataFrame) -> np.ndarray:
        """The vectors of topics."""
        opened = self.opened(execution.checkpoints)
        return represented(topics["query"].tolist(), opened, execution.device, execution.engine)

    def _index(self, execution: Execution, texts: Texts, kept: Kept) -> DenseIndex:
        """The vectors of some texts."""
        return dense_index(texts, self.opened(execution.checkpoints), execution.device, kept, execution.engine)

    def _index_of(self, execution: Execution, texts: Texts, place: Callable[..., Kept], name: str) -> DenseIndex:
        """The same, kept for these very texts in a place of the execution."""
        of = hashlib.sha256("\n".join(texts.names).encode()).hexdigest()
        return self._index(execution, texts, place(f"{name}-{self.checkpoint}", *self.decided_by(execution), of))


@dataclass(frozen=True)
class DenseConclusions(_Vectors):
    """The premises of the conclusions that are nearest to the topic, both read as titles are."""

    checkpoint: str

    def search(self, execution: Execution) -> pd.DataFrame:
        """The premises of the best conclusions, by the conclusions' cosines."""
        topics, kept = execution.topics, execution.place(f"conclusions-{self.checkpoint}", *self.decided_by(execution))
        members = conclusions_of(execution.documents.collected, kept)
        index, vectors = self._index(execution, titles_of(list(members)), kept), self._titles(execution, topics)
        rows = [
            (qid, docno, score)
            for qid, (conclusions, scores) in zip(topics["qid"], index.nearest(vectors, CONCLUSIONS), strict=True)
            for conclusion, score in zip(conclusions, scores.tolist(), strict=True)
            for docno in members[conclusion]
        ]
        return lists.ranked(pd.DataFrame(rows, columns=["qid", "docno", "score"]), topics)

    def scores(self, execution: Execution, pairs: pd.DataFrame) -> np.ndarray:
        """The cosines of titles and conclusions, whatever the length of the premises."""
        texts = execution.documents.texts(set(pairs["docno"])).set_index("docno")["conclusion"]
        index = self._index_of(execution, titles_of(sorted(set(texts))), execution.place_of_pairs, "conclusion-vectors")
        return self._cosines(execution, pairs, texts.loc[pairs["docno"]].to_numpy(), index)

    def read(self, execution: Execution, docno: str) -> tuple[str, list[int]]:
        """The conclusion."""
        [conclusion] = execution.documents.texts({docno})["conclusion"]
        return "conclusion", self.opened(execution.checkpoints).tokeniser.query(conclusion)


@dataclass(frozen=True)
class Dense(_Vectors):
    """A network that finds its documents by vectors: in the whole collection or, as its checkpoint says, among the premises
    of the nearest conclusions and those that another stage lists.
    """

    others: Stage
    checkpoint: str

    def made_of(self) -> tuple[Stage, Stage]:
        return DenseConclusions(self.checkpoint), self.others

    def search(self, execution: Execution) -> pd.DataFrame:
        """The documents with the highest cosines."""
        opened, topics = self.opened(execution.checkpoints), execution.topics
        if opened.ranker.config.scope == "conclusions":
            candidates = [execution.lists(stage)[["qid", "docno"]] for stage in self.made_of()]
            pairs = pd.concat(candidates, ignore_index=True).drop_duplicates(ignore_index=True)
            return lists.ranked(pairs.assign(score=self.scores(execution, pairs)), topics)
        index = self._premises(execution, execution.documents.collection, execution.place, "index")
        vectors = self._titles(execution, topics)
        rows: list[tuple[str, str, int, float]] = []
        for qid, (docnos, scores) in zip(topics["qid"], index.nearest(vectors, lists.DEEPEST), strict=True):
            rows += [
                (qid, docno, rank, score) for rank, (docno, score) in enumerate(zip(docnos, scores.tolist(), strict=True), 1)
            ]
        return lists.of_rows(rows)

    def scores(self, execution: Execution, pairs: pd.DataFrame) -> np.ndarray:
        """The cosines, with documents' vectors as an index has them."""
        index = self._premises(execution, sorted(set(pairs["docno"])), execution.place_of_pairs, "vectors")
        return self._cosines(execution, pairs, pairs["docno"].to_numpy(), index)

    def metadata(self, name: Callable[[Stage], str]) -> dict[str, Any]:
        return {"adds": name(self.others)}

    def _premises(self, execution: Execution, docnos: list[str], place: Callable[..., Kept], name: str) -> DenseIndex:
        return self._index_of(execution, premises_of(docnos, execution.documents.texts), place, name)


@dataclass(frozen=True)
class Fuse(Fusion):
    """A regression over the scores of the members' best documents (thesis 3.6)."""

    def opened(self, checkpoints: Checkpoints) -> Regression:
        """Raises CheckpointError: it was fitted with other members, or with other checkpoints of these."""
        return self.model(checkpoints, open_regression)

    def search(self, execution: Execution) -> pd.DataFrame:
        """All documents that a member lists among its best."""
        combined = self.opened(execution.checkpoints).combine(self._listed(execution))
        return lists.ranked(combined, execution.topics)

    def scores(self, execution: Execution, pairs: pd.DataFrame) -> np.ndarray:
        """A document that no member lists among its best has the intercept."""
        regression = self.opened(execution.checkpoints)
        combined = regression.combine(self._listed(execution))
        found = pairs[["qid", "docno"]].merge(combined, on=["qid", "docno"], how="left")["score"]
        return found.fillna(regression.intercept).to_numpy()

    def explain(self, execution: Execution, qid: str, docno: str) -> Explained:
        """Explain the share of each member."""
        regression, listed = self.opened(execution.checkpoints), self._listed(execution)
        rows = [Row(regression.intercept, "intercept")]
        for member in regression.members:
            score = listed[member.name].set_index("docno")["score"].get(docno)
            share = 0.0 if score is None else member.coefficient * member.normalised(np.array([score])).item()
            how = f"not among its best {LISTED}" if score is None else f"its score {score:.4f}, times {member.coefficient:.4f}"
            rows.append(Row(share, member.name, how))
        how = "a sum over the members' scores, each brought to [0, 1], and the intercept"
        if not any((lists["docno"] == docno).any() for lists in listed.values()):
            how = f"the intercept: it is not among the best {LISTED} of any member"
        [total] = self.scores(execution, pd.DataFrame({"qid": [qid], "docno": [docno]}))
        return Explained(total, how, rows)

    def formula(self, checkpoints: Checkpoints) -> str:
        return f"score = {checkpoints.opened(self.checkpoint, open_regression).formula()}"

    def _listed(self, execution: Execution) -> dict[str, pd.DataFrame]:
        """Return each member's best documents, which are taken from it."""
        found = {}
        for name, stage in self.members:
            with needed(name):
                found[name] = lists.cut(execution.lists(stage), LISTED)
        return found


@dataclass(frozen=True)
class Reorder(Stage):
    """The first documents of one stage by its scores and another's together; those behind them stay behind, as they are."""

    relevance: Stage
    quality: Stage  # scores these documents; its lists are not asked for
    checkpoint: str

    def made_of(self) -> tuple[Stage, ...]:
        return (self.relevance, self.quality)

    def opened(self, checkpoints: Checkpoints) -> Reordering:
        return checkpoints.opened(self.checkpoint, open_reordering)

    def lists(self, execution: Execution) -> pd.DataFrame:
        """Of a list that was handed over too: it is ranked by relevance before."""
        return self.search(execution)

    def search(self, execution: Execution) -> pd.DataFrame:
        """All that is listed by relevance; of equal ones the first there."""
        return lists.in_given_order(self._scored(execution), execution.topics)

    def scores(self, execution: Execution, pairs: pd.DataFrame) -> np.ndarray:
        """A document that is not listed by relevance is behind those that are."""
        scored = self._scored(execution)
        found = pairs[["qid", "docno"]].merge(scored, on=["qid", "docno"], how="left")["score"]
        behind = pairs["qid"].map(scored.groupby("qid")["score"].min()).fillna(0.0).to_numpy() - MARGIN
        return np.where(found.isna(), behind, found)

    def explain(self, execution: Execution, qid: str, docno: str) -> Explained:
        """Explain the shares of relevance and quality, and the effect of each piece of the premise on the latter."""
        reordering, scored = self.opened(execution.checkpoints), self._scored(execution)
        first = scored[scored["quality"].notna()].reset_index(drop=True)
        [score] = self.scores(execution, pd.DataFrame({"qid": [qid], "docno": [docno]})).tolist()
        if docno not in set(first["docno"]):
            how = f"it is not among the {len(first)} documents that are ordered by quality too, and stays behind them"
            return Explained(score, how, [Row(score, "behind")])
        place, found = first.index[first["docno"] == docno][0], self.quality.explain(execution, qid, docno)
        shares = reordering.shares(first["relevance"].to_numpy(), first["quality"].to_numpy())
        rows = [
            Row(shares[0][place], "relevance", f"z of {first['relevance'][place]:.4f}"),
            Row(shares[1][place], "quality", f"z of {found.score:.4f}, times {reordering.weight:.3f}"),
        ]
        deviation = first["quality"].std(ddof=0)
        slope = reordering.weight / deviation if deviation else 0.0
        return Explained(
            score,
            f"the sum of these parts, z over the first {len(first)} documents of the topic",
            rows,
            seen=found.seen,
            views={f"quality {found.score:.6f}: {found.how}": found.parts},
            omissions=[replace(row, value=slope * row.value) for row in found.omissions],
        )

    def formula(self, checkpoints: Checkpoints) -> str:
        return f"score = {self.opened(checkpoints).formula()}"

    def metadata(self, name: Callable[[Stage], str]) -> dict[str, Any]:
        return {"reranks": name(self.relevance)}

    def _scored(self, execution: Execution) -> pd.DataFrame:
        """`qid docno relevance quality score` in the order of relevance; quality is NaN behind the first documents."""
        return execution.once(("scored", self), lambda: self._made(execution))

    def _made(self, execution: Execution) -> pd.DataFrame:
        reordering, listed = self.opened(execution.checkpoints), execution.lists(self.relevance)
        first = lists.cut(listed, reordering.documents)[["qid", "docno"]]
        quality = first.assign(quality=self.quality.scores(execution, first).astype(float))
        scored = listed.rename(columns={"score": "relevance"}).merge(quality, on=["qid", "docno"], how="left")
        parts = [
            reordering.scores(rows["relevance"].to_numpy(), rows["quality"].dropna().to_numpy())
            for _, rows in scored.groupby("qid", sort=False)
        ]
        return scored.assign(score=np.concatenate([np.empty(0), *parts]))
