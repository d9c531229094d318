"""Save trained networks as checkpoints (see `submission.inference.checkpoint_io`)."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import safetensors.torch
import torch

from submission import __version__
from submission.inference.checkpoint_io import PROBE_FILE, WEIGHTS_FILE, NetworkCheckpoint, NetworkT, TokeniserT
from submission.inference.pretrained import PretrainedEncoder
from submission.storage.checkpoint_directory import CARD, CONFIG, METRICS, encode_json, write_with_provenance
from submission.text.tokenisers import Tokeniser


@torch.no_grad()
def save_network(
    directory: Path,
    checkpoint_class: type[NetworkCheckpoint[NetworkT, TokeniserT]],
    network: NetworkT,
    tokeniser: TokeniserT,
    metrics: Mapping[str, Any],
    provenance: Mapping[str, Any],
    card: str,
    pretrained: PretrainedEncoder | None = None,
) -> None:
    """Save a checkpoint directory atomically, replacing an existing one.

    Also rounds the network's weights to the stored precision, so that its output equals the loaded checkpoint's. For
    a pretrained encoder with frozen layers, only its name, hash and trained layers are stored.

    Raises:
        OutputError: If the directory cannot be written; an existing checkpoint is left unchanged.
    """
    network.set_encoder_precision(None)  # the probe is always computed in full precision
    half_prefixes, omitted = network.half_precision_prefixes, network.get_omitted_tensors()
    state = {name: tensor for name, tensor in network.state_dict().items() if name not in omitted}
    stored = {name: tensor.half() if name.startswith(half_prefixes) else tensor for name, tensor in state.items()}
    network.load_state_dict({**network.state_dict(), **{name: tensor.float() for name, tensor in stored.items()}})
    config = {"version": __version__, checkpoint_class.name_key: network.get_name(), "config": asdict(network.config)}
    if isinstance(tokeniser, Tokeniser):
        config |= tokeniser.to_config()
    if pretrained:
        config["pretrained"] = {"name": pretrained.name, "sha256": pretrained.sha256}
    device = next(network.parameters()).device
    probe = checkpoint_class.run_probe(network.cpu().eval(), tokeniser)
    network.to(device)
    contents = {
        CONFIG: encode_json(config),
        WEIGHTS_FILE: safetensors.torch.save({name: tensor.cpu().contiguous() for name, tensor in stored.items()}),
        tokeniser.file: tokeniser.to_bytes(),
        PROBE_FILE: encode_json(msgspec.to_builtins(probe)),
        METRICS: encode_json(metrics),
        CARD: card.encode(),
    }
    write_with_provenance(directory, contents, provenance)
