"""The systems: the one list of them. A new system is one entry."""

from __future__ import annotations

import re
from dataclasses import dataclass

from submission.errors import UsageError, nearest, short
from submission.systems.cluster_score import ClusterScore
from submission.systems.conclusions import Conclusions
from submission.systems.dense import Dense, DenseConclusions
from submission.systems.enrichment import Enrichment
from submission.systems.ensemble import Ensemble
from submission.systems.execution import Stage, walk
from submission.systems.learned_fusion import LearnedFusion
from submission.systems.lexical import Lexical
from submission.systems.neural import Latent, Rerank
from submission.systems.quality_reranking import QualityReranking
from submission.systems.remembered import Checkpoints


@dataclass(frozen=True)
class System:
    """A name for a stage, and a line on what it is."""

    name: str
    stage: Stage
    about: str

    def __post_init__(self) -> None:
        """Raises ValueError: a name that cannot end a tag."""
        if not re.fullmatch(r"[a-z0-9_]+", self.name):
            raise ValueError(f"system {self.name!r}: expected small letters, digits and _ in its name")

    def missing(self, checkpoints: Checkpoints) -> list[str]:
        """The checkpoints that it needs and that are not there."""
        return missing(self.stage, checkpoints)


def missing(stage: Stage, checkpoints: Checkpoints) -> list[str]:
    """The checkpoints that a stage needs and that are not there."""
    needed = dict.fromkeys(part.checkpoint for part in walk(stage) if part.checkpoint)
    return [name for name in needed if not checkpoints.has(name)]


def named(*systems: System) -> dict[str, System]:
    """Systems by their names. Raises ValueError: two of one name."""
    found = {system.name: system for system in systems}
    if len(found) < len(systems):
        raise ValueError("two systems of one name")
    return found


CONCLUSIONS = Conclusions()
NETWORKS = {
    name: Rerank(CONCLUSIONS, name) for name in ("gru", "drmm", "knrm", "conv_knrm", "vanilla_bert", "cedr_drmm", "cedr_knrm")
}
ENSEMBLE: dict[str, Stage] = {**NETWORKS, "snrm": Latent("snrm")}
LEXICAL = {name: Lexical(name) for name in ("bm25_arguments", "bm25_rm3", "dirichlet", "dirichlet_rm3")}
DEEPCT = {name: Lexical(name, Enrichment("deepct")) for name in ("deepct_dirichlet", "deepct_dirichlet_rm3", "deepct_bm25_rm3")}
TARGER = Lexical("targer_dirichlet", Enrichment("targer_essays"))
MEMBERS: dict[str, Stage] = {  # what a learned fusion may be made of, by the names that it knows them by
    "bm25": CONCLUSIONS,
    **ENSEMBLE,
    "gru_interaction": Rerank(CONCLUSIONS, "gru_interaction"),
    "vanilla_bert_dirichlet": Rerank(CONCLUSIONS, "vanilla_bert_dirichlet"),
    "vanilla_bert_distilled": Rerank(CONCLUSIONS, "vanilla_bert_distilled"),
    "tfr_bert": Rerank(CONCLUSIONS, "tfr_bert"),
    "sbert": Dense(CONCLUSIONS, "sbert"),
    "sbert_conclusions": DenseConclusions("sbert"),
    **LEXICAL,
    "dirichlet_thesis": Lexical("dirichlet_thesis"),
    "debates": ClusterScore(LEXICAL["dirichlet_rm3"]),
    **DEEPCT,
    "targer_dirichlet": TARGER,
}
FUSED = ("bm25_arguments", "debates", "dirichlet", "dirichlet_rm3", "dirichlet_thesis", "sbert")

SYSTEMS = named(
    System("bm25", CONCLUSIONS, "BM25 over the conclusions, with all their premises: the candidates of the networks."),
    System(
        "gru",
        NETWORKS["gru"],
        "GRU: a siamese recurrent network that reads query and premise apart and adds their parts: no topic changes its order.",
    ),
    System(
        "gru_interaction",
        MEMBERS["gru_interaction"],
        "GRU with interaction: the same, with the difference and the product of the two vectors beside them.",
    ),
    System("drmm", NETWORKS["drmm"], "DRMM: a network reads, for each query word, a histogram of the similarities to it."),
    System("knrm", NETWORKS["knrm"], "KNRM: kernels count the similarities between query words and premise words softly."),
    System("conv_knrm", NETWORKS["conv_knrm"], "Conv-KNRM: KNRM over word n-grams that a convolution composes."),
    System("snrm", MEMBERS["snrm"], "SNRM: sparse vectors of latent terms, looked up in an inverted index of all premises."),
    System("vanilla_bert", NETWORKS["vanilla_bert"], "Vanilla BERT: a linear layer over BERT's reading of query and premise."),
    System("cedr_drmm", NETWORKS["cedr_drmm"], "CEDR-DRMM: histograms over BERT's vectors in every layer, beside [CLS]."),
    System("cedr_knrm", NETWORKS["cedr_knrm"], "CEDR-KNRM: kernels over BERT's vectors in every layer, beside [CLS]."),
    System("sbert", MEMBERS["sbert"], "SBERT: the cosine of topic and premise, each a vector made by a BERT encoder."),
    System("bm25_arguments", LEXICAL["bm25_arguments"], "BM25 over whole arguments, conclusion and premise."),
    System("bm25_rm3", LEXICAL["bm25_rm3"], "BM25 over whole arguments, the query expanded by RM3."),
    System("dirichlet", LEXICAL["dirichlet"], "Query likelihood over whole arguments, Dirichlet smoothing."),
    System(
        "dirichlet_rm3",
        LEXICAL["dirichlet_rm3"],
        "Query likelihood over whole arguments, Dirichlet smoothing, the query expanded by RM3.",
    ),
    System(
        "deepct_dirichlet",
        DEEPCT["deepct_dirichlet"],
        "Query likelihood over premises, term frequencies by DeepCT.",
    ),
    System(
        "deepct_dirichlet_rm3",
        DEEPCT["deepct_dirichlet_rm3"],
        "Query likelihood with RM3 over premises, term frequencies by DeepCT (the thesis' best by nDCG@5).",
    ),
    System(
        "deepct_bm25_rm3",
        DEEPCT["deepct_bm25_rm3"],
        "BM25 with RM3 over premises, term frequencies by DeepCT (the thesis' best by Bpref).",
    ),
    System(
        "targer_dirichlet",
        TARGER,
        "Query likelihood over the words that TARGER tags as claim or premise.",
    ),
    System(
        "tfr_bert",
        QualityReranking(LEXICAL["dirichlet"], Rerank(LEXICAL["dirichlet"], "tfr_bert"), "quality"),
        "TFR-BERT: the first arguments of the language model, by relevance and by their quality together.",
    ),
    System(
        "ensemble",
        Ensemble(tuple(ENSEMBLE.items()), "ensemble"),
        "Ensemble: a linear regression over eight networks' scores.",
    ),
    System(
        "fusion",
        LearnedFusion(tuple((name, MEMBERS[name]) for name in FUSED), "fusion"),
        "Four searches by words, one of them averaged over debates too, and SBERT's cosine, weighed by judgments of 2020.",
    ),
)
PRIMARY_SYSTEM = "fusion"  # whose run is run.txt where no system was asked for


def find(name: str) -> System:
    """The system of that name. Raises UsageError: there is none."""
    if name not in SYSTEMS:
        raise UsageError(f"unknown system '{short(name)}'; {nearest(name, SYSTEMS)}")
    return SYSTEMS[name]


def choose(names: list[str], checkpoints: Checkpoints) -> list[System]:
    """The systems of those names in that order, each once; when no name is given, all that can run and the primary one.

    Raises:
        UsageError: an unknown name.
    """
    if names:
        return [find(name) for name in dict.fromkeys(names)]
    return [
        system for system in SYSTEMS.values() if system.name == PRIMARY_SYSTEM or not system.missing(checkpoints)
    ]  # without the primary one there would be no run.txt


def name_of(stage: Stage) -> str:
    """The name of a stage's system; of one that is no system, what it is."""
    return next((system.name for system in SYSTEMS.values() if system.stage == stage), repr(stage))
