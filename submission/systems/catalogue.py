"""Catalogue of retrieval systems; a new system is one entry in `SYSTEMS`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from submission.errors import UsageError, nearest, short
from submission.systems.checkpoint_store import Checkpoints
from submission.systems.cluster_score import ClusterScore
from submission.systems.conclusion_bm25 import Conclusions
from submission.systems.dense import Dense, DenseConclusions
from submission.systems.enrichment import Enrichment
from submission.systems.ensemble import Ensemble
from submission.systems.execution import Stage, walk
from submission.systems.latent import Latent
from submission.systems.learned_fusion import LearnedFusion
from submission.systems.lexical import Lexical
from submission.systems.neural import Rerank
from submission.systems.quality_reranking import QualityReranking


@dataclass(frozen=True)
class System:
    """A named stage with a one-line description."""

    name: str
    stage: Stage
    about: str

    def __post_init__(self) -> None:
        """Validate the name. Raises ValueError if it contains anything but lower-case letters, digits and underscores."""
        if not re.fullmatch(r"[a-z0-9_]+", self.name):
            raise ValueError(f"invalid system name {self.name!r}: use lower-case letters, digits and underscores")

    def missing(self, checkpoints: Checkpoints) -> list[str]:
        """Return the names of required checkpoints that are missing."""
        return missing(self.stage, checkpoints)


def missing(stage: Stage, checkpoints: Checkpoints) -> list[str]:
    """Return the names of required checkpoints that are missing."""
    needed = dict.fromkeys(component.checkpoint for component in walk(stage) if component.checkpoint)
    return [name for name in needed if not checkpoints.has(name)]


def named(*systems: System) -> dict[str, System]:
    """Index systems by name. Raises ValueError if a name occurs twice."""
    by_name = {system.name: system for system in systems}
    if len(by_name) < len(systems):
        raise ValueError("duplicate system name")
    return by_name


CONCLUSIONS = Conclusions()
NETWORKS = {
    name: Rerank(CONCLUSIONS, name) for name in ("gru", "drmm", "knrm", "conv_knrm", "vanilla_bert", "cedr_drmm", "cedr_knrm")
}
ENSEMBLE: dict[str, Stage] = {**NETWORKS, "snrm": Latent("snrm")}
LEXICAL = {name: Lexical(name) for name in ("bm25_arguments", "bm25_rm3", "dirichlet", "dirichlet_rm3")}
DEEPCT = {name: Lexical(name, Enrichment("deepct")) for name in ("deepct_dirichlet", "deepct_dirichlet_rm3", "deepct_bm25_rm3")}
TARGER = Lexical("targer_dirichlet", Enrichment("targer_essays"))
MEMBERS: dict[str, Stage] = {  # stages that a learned fusion may combine, by the names stored in its checkpoint
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
    System(
        "bm25",
        CONCLUSIONS,
        "BM25 over conclusions, returning all premises of each; the candidate set of the neural re-rankers.",
    ),
    System(
        "gru",
        NETWORKS["gru"],
        "GRU: siamese bidirectional GRU; its score adds a query and a premise term, so the topic does not affect the ranking.",
    ),
    System(
        "gru_interaction",
        MEMBERS["gru_interaction"],
        "GRU with interaction features: absolute difference and element-wise product of the query and premise vectors.",
    ),
    System(
        "drmm", NETWORKS["drmm"], "DRMM: feed-forward network over the matching histogram of each query term, with term gating."
    ),
    System("knrm", NETWORKS["knrm"], "KNRM: kernel pooling over the cosine similarities of query and premise terms."),
    System("conv_knrm", NETWORKS["conv_knrm"], "Conv-KNRM: kernel pooling over convolutional n-gram embeddings."),
    System(
        "snrm",
        MEMBERS["snrm"],
        "SNRM: learned sparse representations, retrieved from an inverted index of latent terms over all premises.",
    ),
    System("vanilla_bert", NETWORKS["vanilla_bert"], "Vanilla BERT: cross-encoder with a linear layer over [CLS]."),
    System(
        "cedr_drmm",
        NETWORKS["cedr_drmm"],
        "CEDR-DRMM: DRMM histograms over the contextual embeddings of all BERT layers, combined with [CLS].",
    ),
    System(
        "cedr_knrm",
        NETWORKS["cedr_knrm"],
        "CEDR-KNRM: kernel pooling over the contextual embeddings of all BERT layers, combined with [CLS].",
    ),
    System("sbert", MEMBERS["sbert"], "SBERT: bi-encoder, ranking premises by cosine similarity to the topic."),
    System("bm25_arguments", LEXICAL["bm25_arguments"], "BM25 over full arguments (conclusion and premise)."),
    System("bm25_rm3", LEXICAL["bm25_rm3"], "BM25 with RM3 query expansion over full arguments."),
    System("dirichlet", LEXICAL["dirichlet"], "Query likelihood with Dirichlet smoothing over full arguments."),
    System(
        "dirichlet_rm3",
        LEXICAL["dirichlet_rm3"],
        "Query likelihood with Dirichlet smoothing and RM3 query expansion over full arguments.",
    ),
    System(
        "deepct_dirichlet",
        DEEPCT["deepct_dirichlet"],
        "Query likelihood with Dirichlet smoothing over premises with DeepCT weights.",
    ),
    System(
        "deepct_dirichlet_rm3",
        DEEPCT["deepct_dirichlet_rm3"],
        "Query likelihood with Dirichlet smoothing and RM3 over premises with DeepCT weights (best nDCG@5 in Hollatz 2022).",
    ),
    System(
        "deepct_bm25_rm3",
        DEEPCT["deepct_bm25_rm3"],
        "BM25 with RM3 over premises with DeepCT weights (best Bpref in Hollatz 2022).",
    ),
    System(
        "targer_dirichlet",
        TARGER,
        "Query likelihood with Dirichlet smoothing over the tokens that TARGER tags as claim or premise.",
    ),
    System(
        "tfr_bert",
        QualityReranking(LEXICAL["dirichlet"], Rerank(LEXICAL["dirichlet"], "tfr_bert"), "quality"),
        "TFR-BERT: re-ranks the top documents of `dirichlet` by a weighted sum of relevance and predicted argument quality.",
    ),
    System(
        "ensemble",
        Ensemble(tuple(ENSEMBLE.items()), "ensemble"),
        "Ensemble: linear regression over the scores of eight neural rankers.",
    ),
    System(
        "fusion",
        LearnedFusion(tuple((name, MEMBERS[name]) for name in FUSED), "fusion"),
        "Learned fusion: weighted sum of four lexical rankers, debate cluster scores and SBERT, fitted to Touché 2020 qrels.",
    ),
)
PRIMARY_SYSTEM = "fusion"  # its run is run.txt unless --system is given


def find(name: str) -> System:
    """Return the system with this name. Raises UsageError if there is none."""
    if name not in SYSTEMS:
        raise UsageError(f"unknown system '{short(name)}'; {nearest(name, SYSTEMS)}")
    return SYSTEMS[name]


def choose(names: list[str], checkpoints: Checkpoints) -> list[System]:
    """Return the named systems in order, without duplicates; without names, all runnable systems and the primary one.

    Raises:
        UsageError: a name is unknown.
    """
    if names:
        return [find(name) for name in dict.fromkeys(names)]
    # The primary system is always included, because run.txt is its run.
    return [system for system in SYSTEMS.values() if system.name == PRIMARY_SYSTEM or not system.missing(checkpoints)]


def name_of(stage: Stage) -> str:
    """Return the name of a stage as a system, else as a fusion member, else its repr."""
    names = {member: name for name, member in MEMBERS.items()} | {system.stage: system.name for system in SYSTEMS.values()}
    return names.get(stage) or repr(stage)
