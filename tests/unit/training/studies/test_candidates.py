"""Test the study of candidates, and training that logs all pools and rules."""

import pandas as pd
import pytest
import torch
from msgspec.structs import replace

from aragorn.paths import CHECKPOINT_DIR, SAMPLE_INPUT
from aragorn_training.__main__ import main
from aragorn_training.data.distant_supervision import ALL_SETTINGS, CandidateSettings
from aragorn_training.fitting.initialisation import build_network
from aragorn_training.fitting.recipe import Recipe
from aragorn_training.studies.candidates import BM25, LENGTH, NEGATIVE_COUNT
from aragorn_training.tasks.pairs import PairwiseSpec
from tests.conftest import argv

CPU = "cpu"
# MAP@20 with the least similar of the split, the least similar of the collection, and random
# negatives of the collection
SAMPLE_MAP = {
    "knrm": (32.41, 34.69, 25.06), BM25: (22.56, 22.73, 22.26), NEGATIVE_COUNT: (6.26, 14.68, 6.41), LENGTH: (4.22, 0.95, 2.05),
}  # fmt: skip


def test_sample_has_known_values_with_each_pool_and_rule(tmp_path, caplog):
    caplog.set_level("INFO")
    work = tmp_path / "work"
    output = tmp_path / "candidates.csv"
    assert main(["prepare", "pairs", "-i", str(SAMPLE_INPUT), "--work-dir", str(work)]) == 0
    flags = argv("--work-dir", work, "--checkpoints", CHECKPOINT_DIR, "--device cpu -o", output)
    for name in reversed(SAMPLE_MAP):  # one after the other, which keeps the rows of the others
        assert main(["study", "candidates", f"--scorer={name}", *flags]) == 0
    table = pd.read_csv(output)
    assert table.columns.tolist() == ["scorer", "pool", "rule", "MRR@20", "MAP@20", "nDCG@20"]
    assert table["scorer"].unique().tolist() == [*SAMPLE_MAP]
    values = table.set_index(["pool", "rule", "scorer"])["MAP@20"]
    settings = ("split", "least_similar"), ("collection", "least_similar"), ("collection", "random")
    for name, expected in SAMPLE_MAP.items():
        assert [values[*pair, name] for pair in settings] == pytest.approx(expected, abs=0.1)
    message = f"knrm, collection random: MAP@20 {values[*settings[2], 'knrm']:.2f}"
    assert message in caplog.messages
    counts_file = tmp_path / "negative_counts.csv"
    options = ["--work-dir", str(work), "--repetitions", "2", "-o", str(counts_file)]
    assert main(["study", "negative-counts", *options]) == 0
    counts = pd.read_csv(counts_file).set_index(["ties", "seed", "sample_factor"]).sort_index()
    assert counts.loc[("docno", 0, 20), "MAP@20"] == values[*settings[1], NEGATIVE_COUNT]
    assert counts.loc[("docno", 0), "unused"].is_monotonic_decreasing  # larger samples
    by_docno, at_random = (counts.loc[ties, "MAP@20"] for ties in ("docno", "random"))
    assert (by_docno != at_random).all()
    assert (counts.loc[("docno", 0)] != counts.loc[("docno", 1)]).any(axis=None)


def test_unknown_scorers_are_refused(prepared_work_dir, capsys):
    actual = main(["study", "candidates", "--scorer", "knmr", "--work-dir", str(prepared_work_dir)])
    assert actual == 2
    assert "unknown scorer 'knmr'; did you mean 'knrm'" in capsys.readouterr().err


def test_log_has_the_metrics_with_every_pool_and_rule(prepared_work_dir):
    def validate(settings):
        recipe = Recipe(ranker="knrm", network={"dimensions": 20}, task=PairwiseSpec())
        recipe = replace(recipe, validation=settings)
        trainee = build_network(recipe, prepared_work_dir / "vectors", prepared_work_dir)
        with torch.no_grad():  # more similar premises get higher scores
            trainee.network.linear.weight.fill_(1.0)
        return recipe.task.build_task(recipe, trainee, prepared_work_dir, CPU).validate(
            trainee.network, 1
        )

    logged = validate(CandidateSettings(log_all=True))
    separate = {(settings.pool, settings.rule): validate(settings) for settings in ALL_SETTINGS}
    assert len({metrics["MAP@20"] for metrics in separate.values()}) == len(separate) == 4
    expected = separate["collection", "random"]
    for (pool, rule), metrics in separate.items():
        expected |= {
            f"{measure} ({pool}, {rule})": value
            for measure, value in metrics.items()
            if "(" not in measure
        }
    assert logged == expected
