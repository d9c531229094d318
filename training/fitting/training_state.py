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
from submission.storage.atomic_files import write_atomic
from training.fitting.learning_curve import LearningCurve, plot

log = logging.getLogger(__name__)

STATE_FILE, LOG_FILE, CURVE_FILE = "state.pt", "log.jsonl", "curve.png"


@dataclass
class TrainingState:
    """Progress of a run, next to weights, optimiser and random states."""

    fingerprint: str  # hash of everything the run depends on
    step: int = 0
    losses: list[float] = field(default_factory=list)  # since the last validation
    log_rows: list[dict[str, float]] = field(default_factory=list)  # one row per validation

    def save(self, run_dir: Path, network: Network, optimiser: torch.optim.Optimizer, curve: LearningCurve) -> None:
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
        write_atomic(run_dir / LOG_FILE, "".join(json.dumps(row) + "\n" for row in self.log_rows))
        write_atomic(run_dir / CURVE_FILE, plot(network.get_name(), curve, self.log_rows))
        write_atomic(run_dir / STATE_FILE, buffer.getvalue())

    def load(self, run_dir: Path) -> dict[str, Any] | None:
        """Load the saved state of a run, or None.

        Raises:
            InputError: the state is damaged.
            UsageError: it belongs to another run.
        """
        path = run_dir / STATE_FILE
        if not path.exists():
            return None
        try:
            content: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
            state, _ = TrainingState(**content["state"]), [content[name] for name in ("network", "optimiser", "random")]
        except (OSError, RuntimeError, KeyError, TypeError, ValueError, EOFError, pickle.UnpicklingError) as error:
            raise InputError(f"{path}: damaged ({error}); pass --restart to start over") from None
        if state.fingerprint != self.fingerprint:
            raise UsageError(f"{path}: saved by a run with another recipe, tables or vectors; pass --restart to discard it")
        return content

    def restore(self, load: dict[str, Any], network: Network, optimiser: torch.optim.Optimizer) -> None:
        """Restore a saved run, including random states; nothing may draw random numbers before the next step."""
        network.load_state_dict(load["network"])
        optimiser.load_state_dict(load["optimiser"])
        torch.set_rng_state(load["random"]["cpu"])
        if load["random"]["cuda"]:
            torch.cuda.set_rng_state_all(load["random"]["cuda"])
        self.__dict__.update(load["state"])
        log.info("Resuming at step %d", self.step)
