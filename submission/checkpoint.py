"""A checkpoint directory: all that it takes to score as the network did when it was trained, and the proof that it still does.

config.json         ranker's name, its Config, text lengths
model.safetensors   weights; word tables and encoders in half precision; without the frozen part of an encoder
vocabulary.txt      one term a line (a BERT network: tokenizer.json)
probe.json          awkward texts with the ids and scores they must give
metrics.json        what validation said
provenance.json     what it was trained on and how; the hashes of the files above
README.md           the same for people
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from submission.disk.files import sha256, write_directory
from submission.encoders import Pretrained
from submission.encoding import Encoder, Lengths, load_encoder, pad
from submission.errors import CheckpointError, UsageError
from submission.rankers import find
from submission.rankers.base import Ranker

CONFIG, WEIGHTS, PROBE = "config.json", "model.safetensors", "probe.json"
METRICS, PROVENANCE, CARD = "metrics.json", "provenance.json", "README.md"
SCORE_TOLERANCE = 1e-4  # relative above 1; machines differ by less

PROBE_PAIRS = (
    ("Should teachers get tenure?", "Teachers, who work hard, should get tenure: it protects them."),
    ("To be, or not to be?", "To be or not to be: that is the question!!! that that is the question"),
    (
        "Don't ban women’s 9/11 memorials",
        "The women's memorial cost $1,000,000 in 2011; see http://example.org/a?b=1 for it.",
    ),
    ("zzyzx qwrtp", "brzgl frmpf"),
    ("", "an argument without a question"),
    ("abortion", ""),
    (
        "École 東京 😀 naïve",
        "L’école de 東京 est ouverte 😀😀 — naïve… 12345678901234567890123456789012345678901234567890",
    ),
    ("long " * 50, "gun control saves lives and guns " * 100),
)


@dataclass(frozen=True)
class Checkpoint:
    """An opened checkpoint: the ranker in evaluation mode, its encoder, and the hash of everything that decides scores."""

    ranker: Ranker
    encoder: Encoder
    fingerprint: str


def open_checkpoint(directory: Path) -> Checkpoint:
    """Open a checkpoint and prove that it computes what it did when it was written.

    Raises:
        CheckpointError: a file is missing, damaged or changed; weights do not fit the network; the probe disagrees.
    """
    if not directory.is_dir():
        present = ", ".join(sorted(d.name for d in directory.parent.glob("*/"))) or "none"
        raise CheckpointError(f"{directory}: no such checkpoint; present: {present}. `python -m training fit` makes one")
    hashes = verified_hashes(directory, {CONFIG, WEIGHTS, PROBE})
    try:
        config = _load_json(directory / CONFIG)
        ranker_class = find(config["ranker"])
        ranker = ranker_class(ranker_class.Config(**config["config"]))
        tensors = safetensors.torch.load_file(directory / WEIGHTS) | _frozen(directory, ranker, config.get("pretrained"))
        ranker.load_state_dict({name: tensor.float() for name, tensor in tensors.items()}, strict=True)
        encoder = load_encoder(ranker.form, directory, Lengths(**config["lengths"]))
        expected = _load_json(directory / PROBE)
    except (OSError, KeyError, TypeError, ValueError, RuntimeError, UsageError, safetensors.SafetensorError) as error:
        raise CheckpointError(f"{directory}: does not fit this version of the code ({error}); train it again") from None
    _check_probe(directory, expected, _probe(ranker, encoder))
    decisive = json.dumps([config, *(hashes[name] for name in (WEIGHTS, encoder.file))], sort_keys=True)
    return Checkpoint(ranker, encoder, hashlib.sha256(decisive.encode()).hexdigest())


def write_checkpoint(
    directory: Path,
    ranker: Ranker,
    encoder: Encoder,
    metrics: Mapping[str, Any],
    provenance: Mapping[str, Any],
    card: str,
    pretrained: Pretrained | None = None,
) -> None:
    """Write a checkpoint directory as a whole: an older one in its place stays until the new one is complete.

    The ranker's own weights are rounded to what is stored, so that it computes what the checkpoint will. Of a pretrained
    encoder with frozen parts only name and hash are stored, with what was trained.

    Raises:
        OutputError: it cannot be written; an older one is still there.
    """
    half, absent = ranker.stored_in_half, ranker.not_stored()
    state = {name: tensor for name, tensor in ranker.state_dict().items() if name not in absent}
    stored = {name: tensor.half() if name.startswith(half) else tensor for name, tensor in state.items()}
    ranker.load_state_dict({**ranker.state_dict(), **{name: tensor.float() for name, tensor in stored.items()}})
    config = {
        "ranker": ranker.name(),
        "config": asdict(ranker.config),
        "lengths": asdict(encoder.lengths),
    }
    if pretrained:
        config["pretrained"] = {"name": pretrained.name, "sha256": pretrained.sha256}
    contents: dict[str, bytes] = {
        CONFIG: _dump_json(config),
        WEIGHTS: safetensors.torch.save({name: tensor.cpu().contiguous() for name, tensor in stored.items()}),
        encoder.file: encoder.dumps(),
        PROBE: _dump_json(_probe(ranker, encoder)),
        METRICS: _dump_json(metrics),
        CARD: card.encode(),
    }
    contents[PROVENANCE] = _dump_json(
        {**provenance, "files": {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}}
    )
    write_directory(directory, contents)


def _frozen(directory: Path, ranker: Ranker, pretrained: Mapping[str, str] | None) -> dict[str, torch.Tensor]:
    """The tensors that the checkpoint left to its pretrained encoder, if that is still the same."""
    absent = ranker.not_stored()
    if not absent or not pretrained:
        return {}
    folder = Pretrained(pretrained["name"])
    if folder.sha256 != pretrained["sha256"]:
        raise CheckpointError(
            f"{directory}: was trained on the encoder {pretrained['name']} with SHA-256 {pretrained['sha256'][:12]}…, "
            f"{folder.folder} has {folder.sha256[:12]}…; install the pinned one"
        )
    return {name: tensor for name, tensor in folder.tensors().items() if name in absent}


def verified_hashes(directory: Path, files: set[str]) -> dict[str, str]:
    """The hashes of a directory's files as provenance.json has them, after comparing; it must have those of `files`.

    Raises:
        CheckpointError: a file is missing or damaged.
    """
    try:
        hashes: dict[str, str] = _load_json(directory / PROVENANCE)["files"]
        if not files <= set(hashes):
            raise ValueError("it does not name all files")
        for name, expected in hashes.items():
            if sha256(directory / name) != expected:
                raise CheckpointError(f"{directory / name}: damaged, its SHA-256 is not {expected[:12]}…; restore the file")
    except FileNotFoundError as error:
        raise CheckpointError(f"{error.filename}: missing; restore the checkpoint's directory") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{directory / PROVENANCE}: damaged ({error}); restore the file") from None
    return hashes


@torch.no_grad()
def _probe(ranker: Ranker, encoder: Encoder) -> list[dict[str, Any]]:
    """Awkward pairs, their ids, and the score that the ranker gives each of them alone, on the CPU."""
    device = next(ranker.parameters()).device
    ranker = ranker.cpu().eval()
    rows = []
    for query, premise in PROBE_PAIRS:
        ids = encoder.query(query), encoder.premise(premise)
        score = ranker(*pad([ids[0]]), *pad([ids[1]])).item()
        rows.append({"query": query, "premise": premise, "query_ids": ids[0], "premise_ids": ids[1], "score": score})
    ranker.to(device)
    return rows


def _check_probe(directory: Path, expected: list[dict[str, Any]], found: list[dict[str, Any]]) -> None:
    for old, new in zip(expected, found, strict=True):
        same_ids = {**old, "score": 0} == {**new, "score": 0}
        same_score = abs(old["score"] - new["score"]) <= SCORE_TOLERANCE * max(1, abs(old["score"]))
        if not (same_ids and same_score):
            raise CheckpointError(
                f"{directory / PROBE}: for the query {old['query']!r} this code gives ids {new['query_ids']}, "
                f"{new['premise_ids']} and score {new['score']}, but the checkpoint was trained with {old['query_ids']}, "
                f"{old['premise_ids']} and {old['score']}; the text processing or the network has changed: train it again"
            )


def _load_json(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


def _dump_json(value: object) -> bytes:
    return (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode()
