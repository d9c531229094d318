"""Lazy Adam for large, sparsely updated embedding tables."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class LazyAdam(torch.optim.Adam):
    """Adam that updates only the rows with a gradient if the gradient is sparse (`nn.Embedding(sparse=True)`).

    Rows with a gradient are updated as by Adam, with the global step count. Other rows and their moments stay unchanged,
    whereas Adam would decay the moments and keep updating. Dense gradients use torch's Adam.
    torch.optim.SparseAdam adds epsilon before the bias correction, so its effective epsilon at the first step is
    1e-8 / 0.03, too large for a word's gradient.
    """

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]  # without torch's closure
        """Update all parameters; sparse gradients are consumed."""
        for param_group in self.param_groups:
            for parameter in param_group["params"]:
                if parameter.grad is not None and parameter.grad.is_sparse:
                    self._update_rows(parameter, param_group)
                    parameter.grad = None  # super().step() skips it
        super().step()

    def _update_rows(self, parameter: Tensor, param_group: dict[str, Any]) -> None:
        gradient = parameter.grad.coalesce()  # type: ignore[union-attr]  # sums over occurrences and micro-batches
        rows, values = gradient.indices()[0], gradient.values()  # (R,) and (R, E)
        state = self.state[parameter]
        if not state:
            state |= {
                "step": torch.tensor(0.0),
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }
        state["step"] += 1
        moments = []
        for name, value, beta in zip(("exp_avg", "exp_avg_sq"), (values, values.square()), param_group["betas"], strict=True):
            moment = state[name].index_select(0, rows).lerp_(value, 1 - beta)  # (R, E)
            state[name].index_copy_(0, rows, moment)
            moments.append(moment.div_(1 - beta ** state["step"].item()))  # bias correction
        mean, square = moments
        parameter.index_add_(0, rows, mean.div_(square.sqrt_().add_(param_group["eps"])), alpha=-param_group["lr"])
