"""Catalogue of retrieval systems; a new system is one entry in `SYSTEMS`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from submission.errors import UsageError, abbreviate, suggest
from submission.systems.checkpoint_store import CheckpointStore
from submission.systems.cluster_score import ClusterScoreStage
from submission.systems.conclusion_bm25 import ConclusionStage
from submission.systems.dense import DenseConclusionStage, DensePremiseStage
from submission.systems.enrichment import Enrichment
from submission.systems.ensemble import EnsembleStage
from submission.systems.execution import Stage, iter_components
from submission.systems.latent import Latent
from submission.systems.learned_fusion import LearnedFusionStage
from submission.systems.lexical import LexicalStage
from submission.systems.neural import RerankStage
from submission.systems.quality_reranking import QualityRerankingStage


@dataclass(frozen=True)
class System:
    """A named stage with a one-line description."""

    name: str
    stage: Stage
    description: str

    def __post_init__(self) -> None:
        """Validate the name. Raises ValueError if it contains anything but lower-case letters, digits and underscores."""
        if not re.fullmatch(r"[a-z0-9_]+", self.name):
            raise ValueError(f"invalid system name {self.name!r}: use lower-case letters, digits and underscores")

    def find_missing_checkpoints(self, checkpoints: CheckpointStore) -> list[str]:
        """Return the names of required checkpoints that are missing."""
        return find_missing_checkpoints(self.stage, checkpoints)


def find_missing_checkpoints(stage: Stage, checkpoints: CheckpointStore) -> list[str]:
    """Return the names of required checkpoints that are missing."""
    needed = dict.fromkeys(component.checkpoint for component in iter_components(stage) if component.checkpoint)
    return [name for name in needed if not checkpoints.has(name)]


def index_by_name(*systems: System) -> dict[str, System]:
    """Index systems by name. Raises ValueError if a name occurs twice."""
    by_name = {system.name: system for system in systems}
    if len(by_name) < len(systems):
        raise ValueError("duplicate system name")
    return by_name


CONCLUSION_BM25 = ConclusionStage()
RERANKERS = {
    name: RerankStage(CONCLUSION_BM25, name)
    for name in ("gru", "drmm", "knrm", "conv_knrm", "vanilla_bert", "cedr_drmm", "cedr_knrm")
}
ENSEMBLE_MEMBERS: dict[str, Stage] = {**RERANKERS, "snrm": Latent("snrm")}
LEXICAL_STAGES = {name: LexicalStage(name) for name in ("bm25_arguments", "bm25_rm3", "dirichlet", "dirichlet_rm3")}
DEEPCT_STAGES = {
    name: LexicalStage(name, Enrichment("deepct")) for name in ("deepct_dirichlet", "deepct_dirichlet_rm3", "deepct_bm25_rm3")
}
TARGER_STAGE = LexicalStage("targer_dirichlet", Enrichment("targer_essays"))
FUSION_CANDIDATES: dict[str, Stage] = {  # stages that a learned fusion may combine, by the names stored in its checkpoint
    "bm25": CONCLUSION_BM25,
    **ENSEMBLE_MEMBERS,
    "gru_interaction": RerankStage(CONCLUSION_BM25, "gru_interaction"),
    "vanilla_bert_dirichlet": RerankStage(CONCLUSION_BM25, "vanilla_bert_dirichlet"),
    "vanilla_bert_distilled": RerankStage(CONCLUSION_BM25, "vanilla_bert_distilled"),
    "tfr_bert": RerankStage(CONCLUSION_BM25, "tfr_bert"),
    "sbert": DensePremiseStage(CONCLUSION_BM25, "sbert"),
    "sbert_conclusions": DenseConclusionStage("sbert"),
    **LEXICAL_STAGES,
    "dirichlet_thesis": LexicalStage("dirichlet_thesis"),
    "debates": ClusterScoreStage(LEXICAL_STAGES["dirichlet_rm3"]),
    **DEEPCT_STAGES,
    "targer_dirichlet": TARGER_STAGE,
}
FUSION_MEMBERS = ("bm25_arguments", "debates", "dirichlet", "dirichlet_rm3", "dirichlet_thesis", "sbert")

SYSTEMS = index_by_name(
    System(
        "bm25",
        CONCLUSION_BM25,
        "BM25 over conclusions, returning all premises of each; the candidate set of the neural re-rankers.",
    ),
    System(
        "gru",
        RERANKERS["gru"],
        "GRU: siamese bidirectional GRU; its score adds a query and a premise term, so the topic does not affect the ranking.",
    ),
    System(
        "gru_interaction",
        FUSION_CANDIDATES["gru_interaction"],
        "GRU with interaction features: absolute difference and element-wise product of the query and premise vectors.",
    ),
    System(
        "drmm",
        RERANKERS["drmm"],
        "DRMM: feed-forward network over the matching histogram of each query term, with term gating.",
    ),
    System("knrm", RERANKERS["knrm"], "KNRM: kernel pooling over the cosine similarities of query and premise terms."),
    System("conv_knrm", RERANKERS["conv_knrm"], "Conv-KNRM: kernel pooling over convolutional n-gram embeddings."),
    System(
        "snrm",
        FUSION_CANDIDATES["snrm"],
        "SNRM: learned sparse representations, retrieved from an inverted index of latent terms over all premises.",
    ),
    System("vanilla_bert", RERANKERS["vanilla_bert"], "Vanilla BERT: cross-encoder with a linear layer over [CLS]."),
    System(
        "cedr_drmm",
        RERANKERS["cedr_drmm"],
        "CEDR-DRMM: DRMM histograms over the contextual embeddings of all BERT layers, combined with [CLS].",
    ),
    System(
        "cedr_knrm",
        RERANKERS["cedr_knrm"],
        "CEDR-KNRM: kernel pooling over the contextual embeddings of all BERT layers, combined with [CLS].",
    ),
    System("sbert", FUSION_CANDIDATES["sbert"], "SBERT: bi-encoder, ranking premises by cosine similarity to the topic."),
    System("bm25_arguments", LEXICAL_STAGES["bm25_arguments"], "BM25 over full arguments (conclusion and premise)."),
    System("bm25_rm3", LEXICAL_STAGES["bm25_rm3"], "BM25 with RM3 query expansion over full arguments."),
    System("dirichlet", LEXICAL_STAGES["dirichlet"], "Query likelihood with Dirichlet smoothing over full arguments."),
    System(
        "dirichlet_rm3",
        LEXICAL_STAGES["dirichlet_rm3"],
        "Query likelihood with Dirichlet smoothing and RM3 query expansion over full arguments.",
    ),
    System(
        "deepct_dirichlet",
        DEEPCT_STAGES["deepct_dirichlet"],
        "Query likelihood with Dirichlet smoothing over premises with DeepCT weights.",
    ),
    System(
        "deepct_dirichlet_rm3",
        DEEPCT_STAGES["deepct_dirichlet_rm3"],
        "Query likelihood with Dirichlet smoothing and RM3 over premises with DeepCT weights (best nDCG@5 in Hollatz 2022).",
    ),
    System(
        "deepct_bm25_rm3",
        DEEPCT_STAGES["deepct_bm25_rm3"],
        "BM25 with RM3 over premises with DeepCT weights (best Bpref in Hollatz 2022).",
    ),
    System(
        "targer_dirichlet",
        TARGER_STAGE,
        "Query likelihood with Dirichlet smoothing over the tokens that TARGER tags as claim or premise.",
    ),
    System(
        "tfr_bert",
        QualityRerankingStage(LEXICAL_STAGES["dirichlet"], RerankStage(LEXICAL_STAGES["dirichlet"], "tfr_bert"), "quality"),
        "TFR-BERT: re-ranks the top documents of `dirichlet` by a weighted sum of relevance and predicted argument quality.",
    ),
    System(
        "ensemble",
        EnsembleStage(tuple(ENSEMBLE_MEMBERS.items()), "ensemble"),
        "Ensemble: linear regression over the scores of eight neural rankers.",
    ),
    System(
        "fusion",
        LearnedFusionStage(tuple((name, FUSION_CANDIDATES[name]) for name in FUSION_MEMBERS), "fusion"),
        "Learned fusion: weighted sum of four lexical rankers, debate cluster scores and SBERT, fitted to Touché 2020 qrels.",
    ),
)
PRIMARY_SYSTEM = "fusion"  # its run is run.txt unless --system is given


def get_system(name: str) -> System:
    """Return the system with this name. Raises UsageError if there is none."""
    if name not in SYSTEMS:
        raise UsageError(f"unknown system '{abbreviate(name)}'; {suggest(name, SYSTEMS)}")
    return SYSTEMS[name]


def select_systems(names: list[str], checkpoints: CheckpointStore) -> list[System]:
    """Return the named systems in order, without duplicates; without names, all runnable systems and the primary one.

    Raises:
        UsageError: a name is unknown.
    """
    if names:
        return [get_system(name) for name in dict.fromkeys(names)]
    # The primary system is always included, because run.txt is its run.
    return [
        system
        for system in SYSTEMS.values()
        if system.name == PRIMARY_SYSTEM or not system.find_missing_checkpoints(checkpoints)
    ]


def get_stage_name(stage: Stage) -> str:
    """Return the name of a stage as a system, else as a fusion member, else its repr."""
    names = {member: name for name, member in FUSION_CANDIDATES.items()} | {
        system.stage: system.name for system in SYSTEMS.values()
    }
    return names.get(stage) or repr(stage)
