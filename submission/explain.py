"""Why a document has its score for a topic: the parts that sum to it, and the words they come from."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import torch

from submission.checkpoint import Checkpoint, open_checkpoint
from submission.data import Data
from submission.encoding import pad
from submission.ensemble import LISTED
from submission.ensemble import NAME as ENSEMBLE
from submission.errors import InputError, UsageError, nearest
from submission.making import Maker
from submission.rankers.base import Part, Ranker
from submission.scoring import BATCH
from submission.systems import BM25, all_systems
from submission.work import Work

SHOWN = 15  # parts of a kind; the others are summed
PRECISION = 1e-4  # relative above 1: what the parts' sum may differ from the score by


def explain(system: str, qid: str, docno: str, data: Data, checkpoints: Path, device: torch.device) -> None:
    """Print why a document has its score.

    Args:
        system: its name.
        qid: a topic of the input.
        docno: a document of the input, a candidate or not.
        data: the input.
        checkpoints: where they are.
        device: where to compute.

    Raises:
        UsageError: no such system, topic or document. CheckpointError: the system's checkpoint cannot be used.
        InputError: the document is no candidate, which the ensemble needs.
    """
    names = [known.name for known in all_systems(checkpoints)]
    queries, documents = data.topics.set_index("qid")["query"], data.documents.set_index("docno")
    for what, given, valid in (("system", system, names), ("topic", qid, queries.index)):
        if given not in valid:
            raise UsageError(f"unknown {what} {given!r}; {nearest(given, valid)}")
    if docno not in documents.index:
        raise UsageError(f"unknown document {docno!r}; expected the id of an argument of the input")
    print(f"topic {qid}: {queries[qid]}\ndocument {docno}: {documents.loc[docno, 'conclusion']}\n")
    if system == BM25:
        _of_bm25(queries[qid], docno, data)
    elif system == ENSEMBLE:
        with Work(None, Path()) as work:
            _of_ensemble(docno, Maker(checkpoints, LISTED, device, data.only(qid), work))
    else:
        _of_network(open_checkpoint(checkpoints / system), queries[qid], str(documents.loc[docno, "premise"]), device)


def _of_bm25(query: str, docno: str, data: Data) -> None:
    if not data.retrieved:
        raise UsageError(f"{BM25}: {data.note}; they were not retrieved here")
    if docno not in set(data.corpus["docno"]):
        raise InputError(f"document {docno}: its premise is too short, so it is not in the collection")
    conclusion = str(data.corpus.set_index("docno").loc[docno, "conclusion"])
    shares = data.index.shares(query, conclusion)
    print(f"score {sum(value for _, value in shares):.6f}, that of its conclusion: a sum over the words of the query\n")
    _print([(value, word, "") for word, value in shares])


def _of_ensemble(docno: str, maker: Maker) -> None:
    lists = {member.name: maker.listed(member.name) for member in maker.ensemble.members}
    combined = maker.ensemble.combine(lists).set_index("docno")["score"]
    if docno not in combined.index:
        raise InputError(f"document {docno}: among the best {LISTED} of no network, so not in the ensemble's list")
    rows = [(maker.ensemble.intercept, "intercept", "")]
    for member in maker.ensemble.members:
        score = lists[member.name].set_index("docno")["score"].get(docno)
        share = 0.0 if score is None else member.coefficient * member.normalised(np.array([score])).item()
        how = f"not among its best {LISTED}" if score is None else f"its score {score:.4f}, times {member.coefficient:.4f}"
        rows.append((share, member.name, how))
    _refuse_other(sum(value for value, _, _ in rows), combined[docno])
    print(f"score {combined[docno]:.6f}: a sum over the networks' scores, each brought to [0, 1], and the intercept\n")
    _print(rows)


@torch.inference_mode()
def _of_network(checkpoint: Checkpoint, query: str, premise: str, device: torch.device) -> None:
    ranker, encoder = checkpoint.ranker.to(device), checkpoint.encoder
    ids = encoder.query(query), encoder.premise(premise)
    words = [encoder.terms(text) for text in ids]
    pair = [tensor.to(device) for text in ids for tensor in pad([text])]
    found, score = ranker.explain(*pair), ranker(*pair).item()
    total = torch.tensor(sum(part.value for part in found.parts))
    _refuse_other(float(total if found.output is None else found.output(total)), score)
    how = "the sum of" if found.output is None else f"{found.output.__name__} of {total:.6f}, the sum of"
    print(f"query seen: {' '.join(words[0])}\npremise seen: {' '.join(words[1])}\n")
    print(f"score {score:.6f}: {how} these parts{f' ({found.remark})' if found.remark else ''}\n")
    _print([(part.value, part.name, _where(part, words)) for part in found.parts])
    by_name: dict[str, float] = defaultdict(float)
    by_query: dict[int, float] = defaultdict(float)
    for part in found.parts:
        by_name[part.name] += part.value
        if part.query is not None:
            by_query[part.query] += part.value
    if len(by_name) < len(found.parts):
        print("\nby part\n")
        _print([(value, name, "") for name, value in by_name.items()])
        print("\nby query word\n")
        _print([(value, words[0][place], "") for place, value in by_query.items()])
    if ranker.form == "bert":
        print("\nwithout a piece of the premise the score changes by (no parts of a sum)\n")
        _print(_without(ranker, ids, words[1], score, device)[:SHOWN])


def _without(
    ranker: Ranker, ids: tuple[list[int], list[int]], words: list[str], score: float, device: torch.device
) -> list[tuple[float, str, str]]:
    """How the score changes when a piece of the premise is left out, the largest change first."""
    query, premise = ids
    rows = []
    for start in range(0, len(premise), BATCH[ranker.form]):
        places = range(start, min(start + BATCH[ranker.form], len(premise)))
        texts = (*pad([query] * len(places)), *pad([premise[:place] + premise[place + 1 :] for place in places]))
        scores = ranker(*(tensor.to(device) for tensor in texts)).tolist()
        rows += [(new - score, words[place], f"place {place + 1}") for place, new in zip(places, scores, strict=True)]
    return sorted(rows, key=lambda row: -abs(row[0]))


def _where(part: Part, words: list[list[str]]) -> str:
    """The words that a part comes from."""
    query = "" if part.query is None else words[0][part.query]
    document = " ".join(words[1][place] for place in part.document if place < len(words[1]))
    return "  ".join(text for text in (" ← ".join(text for text in (query, document) if text), part.note) if text)


def _refuse_other(total: float, score: float) -> None:
    if not abs(total - score) <= PRECISION * max(1, abs(score)):
        raise AssertionError(f"the parts give {total}, the score is {score}: the explanation is wrong")


def _print(rows: list[tuple[float, str, str]]) -> None:
    """The largest rows, and the sum of the others."""
    ordered = sorted(rows, key=lambda row: -abs(row[0]))
    width = max((len(name) for _, name, _ in ordered[:SHOWN]), default=0)
    for value, name, where in ordered[:SHOWN]:
        print(f"{value:+12.6f}  {name:{width}}  {where}".rstrip())
    if len(ordered) > SHOWN:
        print(f"{sum(value for value, _, _ in ordered[SHOWN:]):+12.6f}  {len(ordered) - SHOWN} others")
