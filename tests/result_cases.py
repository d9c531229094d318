"""Compute tiny results of each component, by which tests/contract/test_results.py notices changes.

`tests/run --record NAME …` writes tests/results/NAME.json after the version of a component was
raised.
"""

import json
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import torch

from aragorn.cache import open_cache
from aragorn.index import dense, inverted, weighting
from aragorn.index.weighting import BM25, RM3, Dirichlet
from aragorn.inference import checkpoint, enrichment, pair_scoring
from aragorn.inference.checkpoint import RankerCheckpoint, TaggerCheckpoint
from aragorn.io import collection, document_store, runs, tirex, touche
from aragorn.io.dataset import Dataset
from aragorn.io.document_store import open_document_store
from aragorn.io.runs import sort_ranking
from aragorn.models.bert import BERTNetwork
from aragorn.models.network import pad
from aragorn.models.rankers import get_ranker_class, list_rankers
from aragorn.models.taggers.deepct import DeepCT
from aragorn.models.taggers.targer import TARGER
from aragorn.pipeline.session import CheckpointStore
from aragorn.systems import conclusions, latent, lexical, quality, weighted_sum
from aragorn.systems.catalogue import STAGES
from aragorn.systems.conclusions import ConclusionIndex
from aragorn.systems.dense import DenseConclusionStage
from aragorn.systems.enrichment import Enrichment
from aragorn.systems.lexical import IndexSettings, TermIndex, build_term_index, search_all
from aragorn.systems.quality import QualityInterpolation
from aragorn.systems.weighted_sum import LengthFeature, Member, WeightedSum
from aragorn.text import index_terms, normalisation, passages, surface_tokens, tokenisers
from aragorn.text.index_terms import TermAnalyser
from aragorn.text.passages import WordPiecePassageTokeniser
from aragorn.text.porter import stem
from aragorn.text.surface_tokens import SurfaceTokeniser
from aragorn.text.tokenisers import MaxLengths, Vocabulary, WordPieceTokeniser, WordTokeniser
from aragorn.versions import describe_sources
from aragorn_training.fitting.fit import save_network
from tests.conftest import (
    UNTRAINED,
    build_deepct,
    build_targer,
    build_text_lookup,
    build_tiny_ranker,
    build_tiny_tokenizer,
    make_argument,
    open_retrieval,
    write_lexical,
    write_parameters,
    write_topics,
)

RESULTS_DIR = Path(__file__).parent / "results"
QUERIES = ["Are zoos cruel?", "Should cars be banned from all cities in 2030?", "zzz", ""]
TEXTS = [
    "Zoos aren't cruel: they protect 1,000 endangered species!",
    "Cars pollute cities; ban cars. Public transport, e.g. trains, is cleaner than cars.",
    "See https://example.org/zoos?a=1 for the zoos' costs … “cruel”, isn’t it?",
    "Ａ café ﬁnds naïve 東京 😀 zo\u200bos",  # noqa: RUF001  full-width and composed letters
    "running runners ran; relational conditional probabilities of the the and",
    "",
]
# at least one word for each rule of the stemmer, in the order of its steps
STEMMED_WORDS = (
    "classes ties press laws agreed speed banned red voting king educated enabled legalized "
    "stopped falling taxing family fly educational conditional frequency vacancy organizer "
    "possibly legally differently solely dangerously civilization legislation dictator capitalism "
    "talkativeness usefulness seriousness criticality sensitivity possibility ideology "
    "communicate alternative generalize electricity political powerful fairness arrival insurance "
    "difference prisoner academic preventable reversible vigilant replacement investment dependent "
    "adoption religion dangerous terrorism participate immunity offensive penalize debate cease "
    "case controll by"
)
WORDS = ["zoos", "are", "cruel", "cars", "cities", "ban", "public", "transport", "they", "species"]


@dataclass(frozen=True)
class Case:
    """Computation of a result with the versions that it stands for."""

    sources: tuple[ModuleType | type, ...]
    compute: Callable[[], Any]  # returns JSON
    tolerance: float = 0.0  # absolute, and relative above 1

    @property
    def version(self):
        """Versions in the keys of such results."""
        return describe_sources(self.sources)


def fill(network):
    """Set the parameters of a network by a formula, so that they do not depend on a generator."""
    with torch.no_grad():
        for position, (name, tensor) in enumerate(network.state_dict().items()):
            if tensor.is_floating_point() and "transitions" not in name:
                steps = torch.arange(tensor.numel(), dtype=torch.float64) * 0.7 + position
                steps += tensor.numel() == 1  # or else a scale in the first place is 0
                scale = 3.0 if "embeddings" in name else 0.5
                tensor.copy_((scale * torch.sin(steps**2)).reshape(tensor.shape))
    network.eval()


def build_ranker(name):
    """Build a tiny ranker with fixed parameters, and its tokeniser."""
    ranker, tokeniser = build_tiny_ranker(name, WORDS)
    fill(ranker)
    return ranker, tokeniser


def build_tagger(name):
    """Build a tiny tagger with fixed parameters, and its passage tokeniser."""
    tagger, reader = build_deepct() if name == "deepct" else build_targer(WORDS)
    fill(tagger)
    with torch.no_grad():  # annotations of all kinds
        if isinstance(tagger, DeepCT):
            tagger.linear.bias.fill_(0.4)
            tagger.linear.weight.mul_(0.1)
        else:
            tagger.embedding.weight.mul_(9)
    return tagger, reader


def read_documents():
    premise = "fourteen words are too few for an argument that is searched in this collection"
    short = make_argument("d2", "Too short", premise)
    arguments = [make_argument("d1"), short, make_argument("d0", "Cars", f"{TEXTS[1]} {TEXTS[0]}")]
    queries = [{"qid": "1", "query": "zoos"}, {"qid": "2", "query": "cars"}]
    texts = [{"docno": f"t{row}", "text": text} for row, text in enumerate(TEXTS)]
    topics = "<topics><topic><number>1</number><title> Are zoos\n cruel? </title></topic></topics>"
    tirex_files = {"queries": queries, "documents": texts}
    inputs = {
        "args.me": {"topics.xml": topics, "args-me.json": json.dumps({"arguments": arguments})},
        "TIREx": {
            f"{file}.jsonl": "\n".join(map(json.dumps, rows)) for file, rows in tirex_files.items()
        },
    }
    results = {}
    for name, files in inputs.items():
        with tempfile.TemporaryDirectory() as folder, open_cache(None, Path()) as cache:
            for file, content in files.items():
                (Path(folder) / file).write_text(content, encoding="utf-8")
            dataset = Dataset(Path(folder))
            store = open_document_store(dataset, cache)
            documents = store.read_texts(sorted(store.read_all_docnos()))
            frames = [dataset.topics, documents]
            results[name] = [
                *(frame.to_numpy().tolist() for frame in frames),
                store.collection_docnos,
            ]
    return results


def order_run():
    rows = [("1", "a", 2, 0.5), ("1", "b", 1, 0.5), ("1", "c", 3, 0.1), ("2", "d", 1, 1e40)]
    rows += [("2", "e", 2, 2e39), ("1", "f", 4, 0.1 - 1e-9)]
    frame = pd.DataFrame(rows, columns=["qid", "docno", "rank", "score"])
    orders = ("auto", "rank", "score")
    frame["line"] = range(1, 7)
    return {order: sort_ranking(frame, order, "run")["docno"].tolist() for order in orders}


def normalise_texts():
    functions = (
        normalisation.normalise,
        normalisation.tokenise_query,
        normalisation.tokenise_premise,
    )
    return [[function(text) for text in TEXTS] for function in functions]


def analyse_terms():
    stems = {word: stem(word) for word in STEMMED_WORDS.split()}
    analysers = (TermAnalyser(stemmer) for stemmer in ("none", "porter"))
    return [stems, *([analyser.analyse(text) for text in TEXTS] for analyser in analysers)]


def split_passages():
    reader = WordPiecePassageTokeniser(build_tiny_tokenizer(), 6, 20)
    passages = [reader.split(text) for text in TEXTS]
    return [[[item.text, item.piece_ids, item.words] for item in items] for items in passages]


def split_surface_tokens():
    reader = SurfaceTokeniser(Vocabulary(WORDS), 8)
    passages = [reader.split(text) for text in TEXTS]
    return [
        [[item.text, [*item.tokens], [*item.token_ids]] for item in items] for items in passages
    ]


def encode_texts_of_both_units():
    words = WordTokeniser(Vocabulary(WORDS), MaxLengths(4, 7))
    pieces = WordPieceTokeniser(build_tiny_tokenizer(), MaxLengths(6, 12))
    return [
        [[*map(int, unit.encode_query(text))], [*map(int, unit.encode_premise(text))]]
        for unit in (words, pieces)
        for text in TEXTS
    ]


DOCUMENTS = pd.DataFrame(
    {
        "docno": [f"d{row}" for row in range(6)],
        "conclusion": ["Zoos are cruel", "Ban cars", "zoos ARE cruel!", "Cities", "cars", "zoos"],
        "premise": [f"{TEXTS[row]} zoos {'cars ' * row}" for row in range(6)],
    }
)


load_documents = build_text_lookup(DOCUMENTS)


def score_conclusions():
    index = ConclusionIndex.build(DOCUMENTS[["docno", "conclusion"]])
    tops = [index.find_top_conclusions(query) for query in QUERIES]
    contributions = [index.compute_term_contributions(query, "zoos are new") for query in QUERIES]
    return [index.conclusions, index.docnos, tops, contributions]


@contextmanager
def open_term_index(stemmer="porter"):
    settings = IndexSettings(stemmer=stemmer)
    with tempfile.TemporaryDirectory() as folder:
        build_term_index(Path(folder), [*DOCUMENTS["docno"]], load_documents, settings)
        yield TermIndex(Path(folder), settings)


def count_terms():
    with open_term_index() as index:
        documents = [index.get_document_terms(row) for row in range(len(DOCUMENTS))]
        statistics = index.get_statistics(["zoo", "car", "unknown"])
        pairs = [
            [*zip(*sorted(zip(terms, n.tolist(), strict=True)), strict=True)]
            for terms, n in documents
        ]
        return [pairs, [statistics.df.tolist(), statistics.cf.tolist(), statistics.total_length]]


def score_lexically():
    results = []
    with open_term_index("none") as index:
        for model in (BM25(), Dirichlet(50.0)):
            for expansion in (None, RM3(2, 3, 0.6, max_df_ratio=1.0)):
                hits = search_all(index, QUERIES, model, expansion, 4, "test")
                results += [[hit.documents.tolist(), hit.scores.tolist()] for hit in hits]
    return results


def score_with(name):
    """Score each query with each text by the network's forward."""
    ranker, tokeniser = build_ranker(name)
    with torch.inference_mode():
        return [
            ranker(
                *pad([tokeniser.encode_query(query)]), *pad([[*tokeniser.encode_premise(text)]])
            ).item()
            for query in QUERIES
            for text in TEXTS
        ]


def annotate_with(name):
    tagger, reader = build_tagger(name)
    annotations = [
        tagger.annotate([passage])[0] for text in TEXTS for passage in reader.split(text)
    ]
    return [
        [[list(word) for word in words] for words in annotations],
        dict(tagger.compute_word_frequencies(annotations)),
    ]


def encode_with_bert():
    ranker, tokeniser = build_ranker("sbert")
    with torch.inference_mode():
        return [
            ranker.encode(*pad([[*tokeniser.encode_premise(text)]]))[0].tolist()
            for text in TEXTS[:2]
        ]


def sum_scores():
    columns = {"qid": [*"11122"], "docno": [*"abcab"], "x": [1.0, 2.0, 4.0, 3.0, 3.0]}
    columns |= {"y": [0.5, -0.5, 0.0, 9.0, 1.0]}
    pool = pd.DataFrame(columns | {weighted_sum.LENGTH_FEATURE: [2.0, 5.0, 6.5, 1.0, 1.0]})
    members = (Member("x", {}, 3, 0.7), Member("y", {}, 0, -0.2))
    ranges = (Member("x", {}, 3, 0.7, 1.5, 3.5), Member("y", {}, 2, -0.2, 0.0, 0.0))
    models = [
        WeightedSum("", "z_score", 0.1, members, LengthFeature(6.0, 0.05)),
        WeightedSum("", "min_max", 0.1, ranges),
    ]
    return [model.score(model.normalise(pool, pool)).tolist() for model in models]


@contextmanager
def open_small_retrieval():
    """Open a retrieval on a small input with tiny checkpoints of all stages in STAGE_NAMES."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "input").mkdir()
        write_topics(folder / "input" / "topics.xml", QUERIES[:2])
        texts = DOCUMENTS[["conclusion", "premise"]].to_numpy().tolist()
        arguments = [
            make_argument(f"S{row % 3}-A{row}", conclusion, f"{premise} {'they ' * 15}")
            for row, (conclusion, premise) in enumerate(texts)
        ]
        (folder / "input" / "args-me.json").write_text(json.dumps({"arguments": arguments}))
        checkpoints = folder / "checkpoints"
        for name in ("knrm", "snrm", "sbert", "tfr_bert"):
            network, reader = build_ranker(name)
            save_network(
                checkpoints / name, RankerCheckpoint, network, reader, {}, UNTRAINED, "# x\n"
            )
        tagger = build_tagger("deepct")
        save_network(checkpoints / "deepct", TaggerCheckpoint, *tagger, {}, UNTRAINED, "# x\n")
        write_lexical(checkpoints, "dirichlet", Dirichlet())
        write_lexical(checkpoints, "dirichlet_rm3", Dirichlet(), RM3(2, 3, 0.5, max_df_ratio=1.0))
        write_lexical(checkpoints, "deepct_dirichlet", Dirichlet(), enrichment="deepct")
        write_parameters(checkpoints / "quality", QualityInterpolation("", 3, 0.8))
        store = CheckpointStore(checkpoints)
        for stage, normaliser in ((ENSEMBLE, "min_max"), (FUSION, "z_score")):
            fingerprints = stage.get_member_fingerprints(store)
            bounds = (-1.0, 1.0) if normaliser == "min_max" else ()
            members = tuple(
                Member(name, fingerprints[name], depth, weight, *bounds)
                for (name, _), depth, weight in zip(stage.members, (2, 3), (0.7, 0.4), strict=True)
            )
            length = LengthFeature(6.0, 0.1) if normaliser == "z_score" else None
            model = WeightedSum("", normaliser, 0.25, members, length)
            write_parameters(checkpoints / stage.checkpoint, model)
        yield stack.enter_context(open_retrieval(folder / "input", checkpoints))


MEMBERS = (("bm25", STAGES["bm25"]), ("knrm", STAGES["knrm"]))
ENSEMBLE = type(STAGES["ensemble"])(MEMBERS, "ensemble")
FUSION = type(STAGES["fusion"])(MEMBERS, "fusion")
STAGE_CASES = {
    "bm25": STAGES["bm25"],
    "lexical": STAGES["dirichlet_rm3"],
    "enriched": STAGES["deepct_dirichlet"],
    "rerank": STAGES["knrm"],
    "latent": STAGES["snrm"],
    "dense_premises": STAGES["sbert"],
    "dense_conclusions": DenseConclusionStage("sbert"),
    "debates": STAGES["debates"],
    "quality_reranking": STAGES["tfr_bert"],
    "ensemble": ENSEMBLE,
    "fusion": FUSION,
}


STAGE_SOURCES = {  # of what these stages compute
    "enriched": (Enrichment, enrichment),
    "rerank": (checkpoint, pair_scoring),
    "latent": (inverted, latent),
    "dense_premises": (dense,),
    "quality_reranking": (quality,),
}


def rank_with(stage):
    with open_small_retrieval() as retrieval:
        ranking = retrieval.rank(stage)
        scores = stage.score(retrieval, ranking[["qid", "docno"]])
        return [ranking.to_numpy().tolist(), np.asarray(scores, float).tolist()]


NETWORKS = {name: get_ranker_class(name) for name in list_rankers()}
CASES = {
    "documents": Case((touche, tirex, collection, document_store), read_documents),
    "input_order": Case((runs,), order_run),
    "normalised_texts": Case((normalisation,), normalise_texts),
    "terms": Case((index_terms,), analyse_terms),
    "tokens": Case((tokenisers,), encode_texts_of_both_units),
    "passages": Case((passages,), split_passages),
    "surface_tokens": Case((surface_tokens,), split_surface_tokens),
    "conclusions": Case((inverted, weighting, conclusions), score_conclusions, 1e-12),
    "term_index": Case((inverted, lexical), count_terms),
    "lexical_scores": Case((weighting,), score_lexically, 1e-9),
    "bert": Case((BERTNetwork,), encode_with_bert, 1e-5),
    "weighted_sum": Case((weighted_sum,), sum_scores, 1e-12),
    **{
        f"ranker_{name}": Case((network,), partial(score_with, name), 1e-5)
        for name, network in NETWORKS.items()
    },
    "tagger_deepct": Case((DeepCT,), partial(annotate_with, "deepct"), 1e-5),
    "tagger_targer": Case((TARGER,), partial(annotate_with, "targer"), 1e-5),
    **{
        f"stage_{name}": Case(
            (type(stage), *STAGE_SOURCES.get(name, ())), partial(rank_with, stage), 1e-4
        )
        for name, stage in STAGE_CASES.items()
    },
}


def compute(name):
    """Compute the result of a case, as it is read from its file."""
    torch.set_num_threads(1)
    return json.loads(json.dumps(CASES[name].compute()))


def record(names):
    """Write the files of results."""
    for name in names:
        content = {"version": CASES[name].version, "expected": compute(name)}
        text = json.dumps(content, ensure_ascii=False) + "\n"
        file = RESULTS_DIR / f"{name}.json"
        file.write_text(text, encoding="utf-8")
        print(f"Recorded {file}: {content['version']}")


if __name__ == "__main__":
    unknown = [name for name in sys.argv[1:] if name not in CASES]
    if unknown or len(sys.argv) < 2:
        sys.exit(f"error: unknown result {', '.join(unknown)}; expected {', '.join(CASES)}")
    record(sys.argv[1:])
