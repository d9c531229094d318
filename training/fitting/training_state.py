"""Save and restore a training run so that it resumes with identical results."""

from __future__ import annotations

import io
import json
import logging
import pickle
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from submission.errors import InputError, UsageError
from submission.models.network import Network
from submission.storage.atomic_files import write_whole
from training.fitting.learning_curve import Curve, draw

log = logging.getLogger(__name__)

STATE, LOG, CURVE = "state.pt", "log.jsonl", "curve.png"


@dataclass
class State:
    """Progress of a run, next to weights, optimiser and random states."""

    fingerprint: str  # hash of everything the run depends on
    step: int = 0
    losses: list[float] = field(default_factory=list)  # since the last validation
    rows: list[dict[str, float]] = field(default_factory=list)  # one row per validation

    def save(self, folder: Path, network: Network, optimiser: torch.optim.Optimizer, curve: Curve) -> None:
        """Write state, log and learning curve. Raises OutputError."""
        cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
        content = {
            "state": asdict(self),
            "network": network.state_dict(),
            "optimiser": optimiser.state_dict(),
            "random": {"cpu": torch.get_rng_state(), "cuda": cuda},
        }
        buffer = io.BytesIO()
        torch.save(content, buffer)
        write_whole(folder / LOG, "".join(json.dumps(row) + "\n" for row in self.rows))
        write_whole(folder / CURVE, draw(network.name(), curve, self.rows))
        write_whole(folder / STATE, buffer.getvalue())

    def saved(self, folder: Path) -> dict[str, Any] | None:
        """Load the saved state of a run, or None.

        Raises:
            InputError: the state is damaged.
            UsageError: it belongs to another run.
        """
        path = folder / STATE
        if not path.exists():
            return None
        try:
            content: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
            state, _ = State(**content["state"]), [content[name] for name in ("network", "optimiser", "random")]
        except (OSError, RuntimeError, KeyError, TypeError, ValueError, EOFError, pickle.UnpicklingError) as error:
            raise InputError(f"{path}: damaged ({error}); pass --restart to start over") from None
        if state.fingerprint != self.fingerprint:
            raise UsageError(f"{path}: saved by a run with another recipe, tables or vectors; pass --restart to discard it")
        return content

    def resume(self, saved: dict[str, Any], network: Network, optimiser: torch.optim.Optimizer) -> None:
        """Restore a saved run, including random states; nothing may draw random numbers before the next step."""
        network.load_state_dict(saved["network"])
        optimiser.load_state_dict(saved["optimiser"])
        torch.set_rng_state(saved["random"]["cpu"])
        if saved["random"]["cuda"]:
            torch.cuda.set_rng_state_all(saved["random"]["cuda"])
        self.__dict__.update(saved["state"])
        log.info("Resuming at step %d", self.step)
