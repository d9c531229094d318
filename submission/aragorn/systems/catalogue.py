"""Catalogue of retrieval systems; to add a system, add entries to `STAGES` and `DESCRIPTIONS`.

The modules imported here import pandas and torch in the functions that need them: listing
systems and parsing options take a third of a second.
"""

import re
from dataclasses import dataclass

from aragorn.errors import UsageError, abbreviate, suggest
from aragorn.pipeline.retrieval import Stage
from aragorn.pipeline.session import CheckpointStore
from aragorn.systems.cluster_score import ClusterScoreStage
from aragorn.systems.conclusions import ConclusionStage
from aragorn.systems.dense import DenseConclusionStage, DensePremiseStage
from aragorn.systems.enrichment import Enrichment
from aragorn.systems.fusion import EnsembleStage, LearnedFusionStage
from aragorn.systems.latent import LatentStage
from aragorn.systems.lexical import LexicalStage
from aragorn.systems.neural import RerankStage
from aragorn.systems.quality import QualityRerankingStage


@dataclass(frozen=True)
class System:
    """A named stage with a one-line description."""

    name: str
    stage: Stage
    description: str

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9_]+", self.name):
            raise ValueError(
                f"invalid system name {self.name!r}: use lower-case letters, digits and underscores"
            )


CONCLUSION_BM25 = ConclusionStage()
RERANKERS = {
    name: RerankStage(CONCLUSION_BM25, name)
    for name in ("gru", "drmm", "knrm", "conv_knrm", "vanilla_bert", "cedr_drmm", "cedr_knrm")
}
ENSEMBLE_MEMBERS: dict[str, Stage] = {**RERANKERS, "snrm": LatentStage("snrm")}
LEXICAL_STAGES = {
    name: LexicalStage(name)
    for name in ("bm25_arguments", "bm25_rm3", "dirichlet", "dirichlet_rm3")
}
DEBATES = ClusterScoreStage(LEXICAL_STAGES["dirichlet_rm3"])
# stages that a learned fusion may combine, by the names stored in its checkpoint
FUSION_CANDIDATES: dict[str, Stage] = {
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
    "debates": DEBATES,
    **{
        name: LexicalStage(name, Enrichment("deepct"))
        for name in ("deepct_dirichlet", "deepct_dirichlet_rm3", "deepct_bm25_rm3")
    },
    "targer_dirichlet": LexicalStage("targer_dirichlet", Enrichment("targer_essays")),
}
FUSION_MEMBERS = (
    "bm25_arguments",
    "debates",
    "dirichlet",
    "dirichlet_rm3",
    "dirichlet_thesis",
    "sbert",
)

QUALITY_RERANKINGS = {
    "tfr_bert": QualityRerankingStage(
        LEXICAL_STAGES["dirichlet"], RerankStage(LEXICAL_STAGES["dirichlet"], "tfr_bert"), "quality"
    )
}
ENSEMBLES = {
    "ensemble": EnsembleStage(tuple(ENSEMBLE_MEMBERS.items()), "ensemble"),
    "ensemble_thesis": EnsembleStage(tuple(RERANKERS.items()), "ensemble_thesis"),
}
LEARNED_FUSIONS = {
    "fusion": LearnedFusionStage(
        tuple((name, FUSION_CANDIDATES[name]) for name in FUSION_MEMBERS), "fusion"
    )
}

STAGES: dict[str, Stage] = {
    **FUSION_CANDIDATES,
    **QUALITY_RERANKINGS,
    **ENSEMBLES,
    **LEARNED_FUSIONS,
}
DESCRIPTIONS = {
    "bm25": (
        "BM25 over conclusions, returning all premises of the top conclusions; the candidate set "
        "of the neural re-rankers."
    ),
    "gru": (
        "GRU: siamese bidirectional GRU; adds separate scores of query and premise, so the topic "
        "does not affect the ranking."
    ),
    "gru_interaction": (
        "GRU with interaction features: absolute difference and element-wise product of the query "
        "and premise vectors."
    ),
    "drmm": (
        "DRMM: feed-forward network over the matching histogram of each query term, with term "
        "gating."
    ),
    "knrm": "KNRM: kernel pooling over the cosine similarities of query and premise terms.",
    "conv_knrm": "Conv-KNRM: kernel pooling over convolutional n-gram embeddings.",
    "snrm": (
        "SNRM: learned sparse representations, retrieved from an inverted index of latent terms "
        "over all premises."
    ),
    "vanilla_bert": "Vanilla BERT: cross-encoder with a linear layer over [CLS].",
    "cedr_drmm": (
        "CEDR-DRMM: DRMM histograms over the contextual embeddings of all BERT layers, combined "
        "with [CLS]."
    ),
    "cedr_knrm": (
        "CEDR-KNRM: kernel pooling over the contextual embeddings of all BERT layers, combined "
        "with [CLS]."
    ),
    "sbert": "SBERT: bi-encoder, ranking premises by cosine similarity to the topic.",
    "bm25_arguments": "BM25 over full arguments (conclusion and premise).",
    "bm25_rm3": "BM25 with RM3 query expansion over full arguments.",
    "dirichlet": "Query likelihood with Dirichlet smoothing over full arguments.",
    "dirichlet_rm3": (
        "Query likelihood with Dirichlet smoothing and RM3 query expansion over full arguments."
    ),
    "deepct_dirichlet": (
        "Query likelihood with Dirichlet smoothing over premises with DeepCT weights."
    ),
    "deepct_dirichlet_rm3": (
        "Query likelihood with Dirichlet smoothing and RM3 over premises with DeepCT weights (best "
        "nDCG@5 in Hollatz 2022)."
    ),
    "deepct_bm25_rm3": (
        "BM25 with RM3 over premises with DeepCT weights (best Bpref in Hollatz 2022)."
    ),
    "targer_dirichlet": (
        "Query likelihood with Dirichlet smoothing over the tokens that TARGER tags as claim or "
        "premise."
    ),
    "tfr_bert": (
        "TFR-BERT: re-ranks the top documents of `dirichlet` by a weighted sum of relevance and "
        "predicted argument quality."
    ),
    "ensemble": "Ensemble: linear regression over the scores of eight neural rankers.",
    "ensemble_thesis": "Ensemble of Entezari 2020 (section 4.5): `ensemble` without SNRM.",
    "fusion": (
        "Learned fusion: weighted sum of four lexical rankers, debate cluster scores and SBERT, "
        "fitted to Touché 2020 qrels."
    ),
}
SYSTEMS = {
    name: System(name, STAGES[name], description) for name, description in DESCRIPTIONS.items()
}
PRIMARY_SYSTEM = "fusion"  # its run is run.txt unless --system is given


def get_system(name: str) -> System:
    """Return the system with this name. Raises UsageError if the name is unknown."""
    if name not in SYSTEMS:
        raise UsageError(f"unknown system '{abbreviate(name)}'; {suggest(name, SYSTEMS)}")
    return SYSTEMS[name]


def list_incomplete(checkpoints: CheckpointStore) -> list[str]:
    """Return the names of the systems that lack a checkpoint."""
    return [
        name
        for name, system in SYSTEMS.items()
        if system.stage.find_missing_checkpoints(checkpoints)
    ]


def get_stage_name(stage: Stage) -> str:
    """Return the name of a stage as a system, else as a fusion candidate, else its repr."""
    name_by_stage = {candidate: name for name, candidate in FUSION_CANDIDATES.items()}
    return (name_by_stage | {system.stage: system.name for system in SYSTEMS.values()}).get(
        stage
    ) or repr(stage)
