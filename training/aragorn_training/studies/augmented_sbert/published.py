"""Load the results of Thakur et al. (2021), in percent, for the networks of the study."""

from typing import NamedTuple

from aragorn_training.published import load_figures, parse_figure

PUBLICATION = "augmented_sbert"
# task → start of its rows
ROWS = {"bws_cross": "BWS (cross-topic)", "bws_in": "BWS (in-topic)", "mrpc": "MRPC"}
MEASURES = {"bws_cross": "ρ × 100", "bws_in": "ρ × 100", "mrpc": "F1 × 100"}  # noqa: RUF001 Spearman's rho
STRATEGIES = {
    "random": "R.S.",
    "kde": "KDE",
    "bm25": "BM25",
    "semantic": "S.S.",
    "bm25_semantic": "BM25+S.S.",
}
NETWORKS = {
    "baseline": "Baseline",
    "cross_encoder": "BERT (upper bound)",
    "bi_encoder": "SBERT (lower bound)",
} | {strategy: f"AugSBERT-{name}" for strategy, name in STRATEGIES.items()}
SINGLE_SEED_NETWORKS = {"cross_encoder": "BERT", "bi_encoder": "SBERT"}


class PublishedResult(NamedTuple):
    """Result of a network: means and standard deviations over seeds."""

    test: float | None = None
    test_sd: float | None = None
    dev: float | None = None
    dev_sd: float | None = None
    silver_pairs: int | None = None


def load_result(task: str, network: str) -> PublishedResult:
    """Load the result of a network from tables 5, 11 and 12; all its values are None if there is
    none."""
    if network not in NETWORKS:
        return PublishedResult()
    key = f"{ROWS[task]}: {NETWORKS[network]}", MEASURES[task]
    test, dev = (
        parse_figure(load_figures(PUBLICATION, table)[key]) for table in ("Table 5", "Table 12")
    )
    silver_pairs = 0
    if network in STRATEGIES:
        silver_pairs = int(
            load_figures(PUBLICATION, "Table 11")[
                f"{ROWS[task]}: {STRATEGIES[network]}", "silver pairs"
            ]
        )
    return PublishedResult(*test, *dev, silver_pairs)


def load_sweep_result(sweep: str, task: str, network: str, value: float) -> float | None:
    """Load the test result of a network at a value of a sweep from tables 5, 9 and 10; None if
    there is none."""
    tables = {
        "single_seed": ("Table 5", f"{SINGLE_SEED_NETWORKS.get(network)}, without seed optimisation"),
        "bm25_k": ("Table 9", f"k = {value:.0f}"), "semantic_k": ("Table 10", f"k = {value:.0f}"),
    }  # fmt: skip
    table, row = tables.get(sweep, ("", ""))
    text = load_figures(PUBLICATION, table).get((f"{ROWS[task]}: {row}", MEASURES[task]))
    return None if text is None else parse_figure(text)[0]
