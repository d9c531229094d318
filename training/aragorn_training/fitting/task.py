"""Define training tasks (examples, loss and validation), their learning curves (Entezari 2020,
figures 4.2-4.9) and the networks that they train."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from aragorn.errors import TrainingError, UsageError
from aragorn.inference.checkpoint import NetworkCheckpoint
from aragorn.inference.pretrained import PretrainedEncoder
from aragorn.models.network import Network
from aragorn_training.evaluation.plots import create_figure, render_png

NetworkT = TypeVar("NetworkT", bound=Network)

CURVE_COLOURS = ("#d1495b", "#30638e", "#3c8d5a")
# latent networks only
SPARSITY_COLOURS = {"query sparsity": "#7b4b94", "document sparsity": "#c98b1b"}


@dataclass(frozen=True)
class CurveSpec:
    """Labels of a task's learning curve, and the rule that selects a network from the log."""

    loss_label: str
    measures: tuple[str, str, str]  # validation metrics to plot
    selection_metric: str  # selects the checkpoint, unless `keep_last`
    metric_label: str  # axis label of the metrics
    validation_unit: str  # unit of the validation items, plural
    keep_last: bool = False  # select the last network, not the best

    def select(self, rows: list[dict[str, float]]) -> dict[str, float]:
        """Return the log row of the selected network: the (first) best, or the last."""
        return rows[-1] if self.keep_last else max(rows, key=lambda row: row[self.selection_metric])


def plot_learning_curve(title: str, curve: CurveSpec, rows: list[dict[str, float]]) -> bytes:
    """Plot the rows of a training log over epochs, the selected one marked; return a PNG file."""
    colours = {name: colour for name, colour in SPARSITY_COLOURS.items() if name in rows[0]}
    n_panels = 3 if colours else 2
    figure = create_figure(7, 3 * n_panels)
    loss_axes, metric_axes, *sparsity_axes = figure.subplots(n_panels, 1, sharex=True)
    epochs = [row["epoch"] for row in rows]
    loss_axes.plot(epochs, [row["loss"] for row in rows], color="#444444", marker=".")
    loss_axes.set(title=title, ylabel=curve.loss_label)
    if min(row["loss"] for row in rows) >= 0:
        loss_axes.set(ylim=(0, None))
    for name, colour in zip(curve.measures, CURVE_COLOURS, strict=True):
        metric_axes.plot(epochs, [row[name] for row in rows], color=colour, marker=".", label=name)
    selected_row = curve.select(rows)
    metric = curve.selection_metric
    value = selected_row[curve.selection_metric]
    kind = "last" if curve.keep_last else "best"
    label = f"{kind} {metric}: {value:.1f} at epoch {selected_row['epoch']:.2f}"
    metric_axes.plot(selected_row["epoch"], value, "o", color="blue", markersize=8, label=label)
    metric_axes.set(ylabel=curve.metric_label)
    for axes in sparsity_axes:
        for name, colour in colours.items():
            axes.plot(epochs, [row[name] for row in rows], color=colour, marker=".", label=name)
        axes.set(ylabel="zeros in latent vectors (%)")
        axes.legend(loc="best", frameon=False)
    (sparsity_axes or [metric_axes])[-1].set(xlabel="epoch")
    columns = 4 if max(map(len, curve.measures)) <= 10 else 2
    position = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "ncols": columns}
    metric_axes.legend(**position, frameon=False, columnspacing=1.2, handletextpad=0.4)
    for axes in (loss_axes, metric_axes, *sparsity_axes):
        axes.grid(alpha=0.3)
    return render_png(figure)


class Task(ABC, Generic[NetworkT]):
    """Training examples with a loss, addressed by row number, and separate validation data."""

    data_description: str  # origin, licence and labelling, for the card
    metrics_description: str  # definition of the metrics, for the card
    # pool and rule of the candidates, if there are any
    validation_settings: dict[str, str] = {}  # noqa: RUF012 never changed
    train_size: int  # number of examples per epoch
    validation_size: int  # number of validation items, see `CurveSpec.validation_unit`
    training_data: dict[str, Any]  # origin of the examples, for the provenance
    file_hashes: dict[str, str]  # hashes of the files that the run depends on, by name

    @abstractmethod
    def compute_loss(self, network: NetworkT, micro_batch: np.ndarray, batch: np.ndarray) -> Tensor:
        """Return a micro-batch's (b,) contribution, a scalar, to the loss of its batch (B,)."""

    @abstractmethod
    def measure_baselines(self) -> dict[str, dict[str, float]]:
        """Return the validation metrics of each baseline, by baseline name."""

    @abstractmethod
    def validate(self, network: NetworkT, step: int) -> dict[str, float]:
        """Return metrics; raise TrainingError if scores are not finite or all equal."""

    def validate_final(self, network: NetworkT, step: int) -> dict[str, float]:
        """Return the selected network's metrics on all data; by default those of `validate`."""
        return self.validate(network, step)


def build_divergence_error(step: int, cause: str) -> TrainingError:
    """Return the error for a non-finite value; `cause`, e.g. "a weight is not finite"."""
    return TrainingError(f"step {step}: {cause}; lower training.learning_rate in the recipe")


def check_scores(scores: np.ndarray, step: int) -> None:
    """Raise TrainingError if a validation score is not finite, or all (of each row) are equal."""
    if not np.isfinite(scores).all():
        raise build_divergence_error(step, "a validation score is not finite")
    if (scores == scores[..., :1]).all():
        raise TrainingError(
            f"step {step}: all validation scores are identical; lower training.learning_rate or "
            "check the vectors"
        )


def check_weights(network: Network, step: int) -> None:
    """Raise TrainingError if a weight of a network is not finite."""
    if not all(bool(parameter.isfinite().all()) for parameter in network.parameters()):
        raise build_divergence_error(step, "a weight is not finite")


class LazyAdam(torch.optim.Adam):
    """Adam that, for sparse gradients (`nn.Embedding(sparse=True)`), updates only the rows that
    have a gradient.

    Rows with a gradient are updated as by Adam, with the parameter's step count. Other rows and
    their moments stay unchanged, whereas Adam would decay the moments and keep updating the rows.
    Parameters with dense gradients are updated as by torch's Adam. torch.optim.SparseAdam adds
    epsilon before the bias correction, so its effective epsilon at the first step is 1e-8 / 0.03,
    too large for a word's gradient.
    """

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]  # without a closure
        """Update all parameters and clear sparse gradients."""
        for param_group in self.param_groups:
            for parameter in param_group["params"]:
                if parameter.grad is not None and parameter.grad.is_sparse:
                    self._update_rows(parameter, param_group)
                    parameter.grad = None  # super().step() skips it
        super().step()

    def _update_rows(self, parameter: Tensor, param_group: dict[str, Any]) -> None:
        # sums over occurrences and micro-batches
        gradient = parameter.grad.coalesce()  # type: ignore[union-attr]
        rows = gradient.indices()[0]  # (R,)
        values = gradient.values()  # (R, E)
        state = self.state[parameter]
        if not state:
            state["step"] = torch.tensor(0.0)
            state["exp_avg"] = torch.zeros_like(parameter)
            state["exp_avg_sq"] = torch.zeros_like(parameter)
        state["step"] += 1
        moments = []
        for name, power, beta in zip(
            ("exp_avg", "exp_avg_sq"), (values, values.square()), param_group["betas"], strict=True
        ):
            moment = state[name].index_select(0, rows).lerp_(power, 1 - beta)  # (R, E)
            state[name].index_copy_(0, rows, moment)
            moments.append(moment.div_(1 - beta ** state["step"].item()))  # bias correction
        first_moment, second_moment = moments
        update = first_moment.div_(second_moment.sqrt_().add_(param_group["eps"]))
        parameter.index_add_(0, rows, update, alpha=-param_group["lr"])


@dataclass(frozen=True)
class TrainableNetwork:
    """A network to train with tokeniser, and checkpoint class and provenance to save it with."""

    checkpoint_class: type[NetworkCheckpoint[Any, Any]]
    network: Any
    tokeniser: Any
    pretrained: PretrainedEncoder | None  # None if the network is not a BERT
    provenance: dict[str, Any]  # hashes and origin of the word vectors or of the pretrained encoder

    def check_trainable(self, epochs: int) -> bool:
        """Return whether anything is trainable; raise UsageError if `epochs` contradicts this."""
        is_trainable = any(parameter.requires_grad for parameter in self.network.parameters())
        if is_trainable and not epochs:
            raise UsageError(
                "training.epochs is 0 but the network has trainable parameters; set it to 1 or "
                "more, or freeze all layers"
            )
        if epochs and not is_trainable:
            raise UsageError(
                f"training.epochs is {epochs} but all parameters are frozen; set it to 0"
            )
        return is_trainable

    def build_optimiser(self, learning_rate: float, encoder_learning_rate: float) -> LazyAdam:
        """Build the optimiser, with a separate learning rate for the pretrained encoder."""
        head: list[nn.Parameter] = []
        encoder: list[nn.Parameter] = []
        for name, parameter in self.network.named_parameters():
            if parameter.requires_grad:
                (encoder if name.startswith("encoder.") else head).append(parameter)
        rates = [(head, learning_rate), (encoder, encoder_learning_rate)]
        groups = [
            {"params": group, "lr": rate, "initial_lr": rate} for group, rate in rates if group
        ]
        return LazyAdam(groups)
