"""Adam for networks with a large word table, of which a batch has few words."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class LazyAdam(torch.optim.Adam):
    """Adam that moves the rows with a gradient alone where a gradient is sparse, as an `nn.Embedding(sparse=True)` makes it.

    A row with a gradient moves as under Adam, by its own running moments and the number of steps so far. The others stay as
    they are, bit for bit, and so do their moments: Adam would let the moments fade and go on moving the row by them. Dense
    gradients are Adam's. (torch's SparseAdam has another epsilon: at the first step Adam's 1e-8 divided by .03, which is no
    longer small beside the gradient of a word.)
    """

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]  # without torch's closure
        """Move all parameters; sparse gradients are used up."""
        for group in self.param_groups:
            for table in group["params"]:
                if table.grad is not None and table.grad.is_sparse:
                    self._move(table, group)
                    table.grad = None  # Adam passes over it
        super().step()

    def _move(self, table: Tensor, group: dict[str, Any]) -> None:
        gradient = table.grad.coalesce()  # type: ignore[union-attr]  # sums over a word's occurrences and over micro batches
        rows, values = gradient.indices()[0], gradient.values()  # (R,) and (R, E)
        state = self.state[table]
        if not state:
            state |= {"step": torch.tensor(0.0), "exp_avg": torch.zeros_like(table), "exp_avg_sq": torch.zeros_like(table)}
        state["step"] += 1
        moments = []
        for name, value, beta in zip(("exp_avg", "exp_avg_sq"), (values, values.square()), group["betas"], strict=True):
            moment = state[name].index_select(0, rows).lerp_(value, 1 - beta)  # (R, E)
            state[name].index_copy_(0, rows, moment)
            moments.append(moment.div_(1 - beta ** state["step"].item()))  # it began at zero
        mean, square = moments
        table.index_add_(0, rows, mean.div_(square.sqrt_().add_(group["eps"])), alpha=-group["lr"])
