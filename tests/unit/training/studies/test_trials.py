"""Tests of the study that trains variants of recipes."""

import pandas as pd
import pytest

from aragorn.errors import TrainingError, UsageError
from aragorn_training import configs
from aragorn_training.__main__ import main
from aragorn_training.studies import trials
from aragorn_training.studies.trials import COLUMNS, load_plan
from tests.conftest import KNRM_RECIPE, argv

pytestmark = pytest.mark.usefixtures("without_plots")
PLAN = """
[knrm]
recipe = "RECIPE"
[knrm_few_kernels]
recipe = "RECIPE"
network.kernels = 3
training.validations_per_epoch = 1
"""


@pytest.fixture
def plan(tmp_path, write_recipe, monkeypatch):
    recipe = write_recipe(KNRM_RECIPE.replace("epochs = 3", "epochs = 1"))
    (tmp_path / "plans").mkdir()
    (tmp_path / "plans" / "kernels.toml").write_text(PLAN.replace("RECIPE", recipe))
    monkeypatch.setattr(configs, "CONFIGS", tmp_path)
    return "kernels"


@pytest.mark.parametrize("name", configs.list_names("plan"))
def test_plans_are_valid(name):
    plan = load_plan(name, 2)
    assert len({trial.run_name for trial in plan}) == len(plan)
    assert [trial.recipe.seed for trial in plan[:2]] == [0, 1]


def test_trials_change_values_of_recipes(plan):
    first, second = (trial.recipe for trial in load_plan(plan, 1))
    assert second.network == {**first.network, "kernels": 3}
    assert second.training.learning_rate == first.training.learning_rate
    with pytest.raises(UsageError, match="unknown plan 'kernel'"):
        load_plan("kernel", 1)


def test_study_tabulates_curves_and_resumes(plan, work_dir, tmp_path, monkeypatch, caplog):
    def fail_for_few_kernels(name, *arguments):
        if name == "knrm_few_kernels":
            raise TrainingError("the loss is nan")
        train(name, *arguments)

    train = trials.fit
    output = tmp_path / "trials.csv"
    command = argv(
        "study trials", plan, "--work-dir", work_dir, "--device cpu --processes 1 -o", output
    )
    with monkeypatch.context() as patch:
        patch.setattr(trials, "fit", fail_for_few_kernels)
        assert main(command) == 0
    assert pd.read_csv(output)["trial"].unique().tolist() == ["knrm"]
    assert "knrm_few_kernels: the loss is nan" in caplog.text
    assert main(command) == 0
    table = pd.read_csv(output)
    assert table.columns.tolist() == COLUMNS
    assert table["trial"].unique().tolist() == ["knrm", "knrm_few_kernels"]
    assert {*zip(table["pool"], table["rule"], strict=True)} == {("collection", "random")}
    rows = table.query("trial == 'knrm_few_kernels' and measure == 'MAP@20'")
    rows = rows.set_index("row")["value"]
    assert {*rows.index} == {"curve", "selected", "BM25 over premises"}
    assert rows["selected"] == rows[["curve"]].max()
    content = output.read_bytes()
    assert main(command) == 0
    assert output.read_bytes() == content
