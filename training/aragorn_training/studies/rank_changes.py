"""Compare ranks and term frequencies before and after an enrichment (Hollatz 2022, sec. 5.2)."""

from dataclasses import dataclass
from itertools import chain

import pandas as pd

from aragorn import __version__
from aragorn.errors import InputError
from aragorn.index.weighting import BM25
from aragorn.io.qrels import read_qrels
from aragorn.options import argument, option
from aragorn.systems.enrichment import Enrichment
from aragorn.systems.lexical import IndexSettings, LexicalParameters, get_term_index
from aragorn_training.data.retrieval import DatasetRetrieval, load_input_fields, open_retrieval
from aragorn_training.options import (
    CheckpointOptions,
    InputOptions,
    PrecisionOptions,
    QrelsOptions,
    StudyOptions,
)
from aragorn_training.tuning.grid import rank_with

FILE = "rank_changes.csv"
FIRST_COLUMNS = ("docno", "label", "words")
DIGITS = 0
DEPTH = 25  # ranks compared, as in Hollatz 2022
ORIGINAL = "original"
ENRICHED = "enriched"


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions, PrecisionOptions, CheckpointOptions, QrelsOptions, InputOptions):
    """Options of the study."""

    enrichment: str | None = argument(
        default=None,
        help="name of a tagger's checkpoint (default: none, the original documents only)",
    )
    topic: str = option("1", metavar="QID", help="topic; that of Hollatz 2022, section 5.2: 1")


def run(options: Options) -> pd.DataFrame:
    """Rank the documents of a topic by BM25 with default parameters before and after an enrichment.

    Returns:
        One row per document among the first DEPTH of either ranking: `docno label`, the `words` of
        its premise; and for ORIGINAL and ENRICHED, its 1-based rank (`rank_VARIANT`), its length in
        index terms (`length_VARIANT`) and the frequency of each query term (`TERM_VARIANT`).
    """
    qid = options.topic
    qrels = read_qrels(options.qrels)
    with open_retrieval(options, options.work_dir) as retrieval:
        if qid not in (queries := retrieval.topics.set_index("qid")["query"]):
            raise InputError(f"topic {qid}: not in the input; choose another topic")
        points = _build_points(options.enrichment, retrieval)
        rankings = {variant: _rank(point, qid, retrieval) for variant, point in points.items()}
        tops = [ranking[ranking <= DEPTH].index for ranking in rankings.values()]
        docnos = list(dict.fromkeys(chain.from_iterable(tops)))
        labels = qrels[qrels["qid"] == qid].set_index("docno")["rel"].reindex(docnos)
        premises = retrieval.collection.documents.read_texts(docnos)["premise"]
        table = pd.DataFrame({"docno": docnos, "label": labels.array})
        table["words"] = [len(premise.split()) for premise in premises]
        collection = retrieval.collection.documents.searchable_docnos
        for variant, point in points.items():
            point_enrichment = Enrichment(point.enrichment) if point.enrichment else None
            index = get_term_index(retrieval.collection, point.index, point_enrichment)
            counts = [
                dict(zip(*index.get_document_terms(collection.index(docno)), strict=True))
                for docno in docnos
            ]
            table[f"rank_{variant}"] = rankings[variant].reindex(docnos).array
            table[f"length_{variant}"] = [sum(frequencies.values()) for frequencies in counts]
            for term in index.analyse_query(queries[qid]):
                table[f"{term}_{variant}"] = [frequencies.get(term, 0) for frequencies in counts]
        return table


def _build_points(
    enrichment: str | None, retrieval: DatasetRetrieval
) -> dict[str, LexicalParameters]:
    """Build the parameters of ORIGINAL and, with an enrichment, of ENRICHED."""
    settings = IndexSettings(stemmer="porter")
    points = {ORIGINAL: LexicalParameters(__version__, settings, BM25(), None)}
    if enrichment:
        [fields] = load_input_fields([enrichment], retrieval).values()
        settings = IndexSettings(fields=fields, stemmer="porter")
        points[ENRICHED] = LexicalParameters(__version__, settings, BM25(), None, enrichment)
    return points


def _rank(point: LexicalParameters, qid: str, retrieval: DatasetRetrieval) -> pd.Series:
    """Rank the documents of a topic; return their ranks by docno."""
    run = rank_with(point, retrieval)
    return run[run["qid"] == qid].set_index("docno")["rank"]
