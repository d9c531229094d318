"""Cache the outputs of the frozen layers that several networks share."""

from typing import Any

import torch
from torch import Tensor, nn


class FrozenLayerCache(nn.Module):
    """Frozen embeddings and lowest blocks of a BERT, with a cache of their outputs.

    The cache replaces these layers in the encoders that share it. Each text is encoded alone in
    float32, so its vectors do not depend on batch or order. The cache is in memory and unbounded.
    """

    def __init__(self, bert: Any, n_blocks: int) -> None:
        """Wrap the embeddings and the lowest `n_blocks` blocks of an encoder."""
        super().__init__()
        # A plain list: the encoders that share the layers must not register them as submodules.
        self.layers = [bert.embeddings, *bert.encoder.layer[:n_blocks]]
        for layer in self.layers:
            layer.eval()
        self._hidden_size: int = bert.config.hidden_size
        self._padding_id: int = bert.config.pad_token_id
        self._cache: dict[bytes, Tensor] = {}

    def attach_to(self, bert: Any) -> None:
        """Replace the frozen layers of another encoder with the same weights by this cache."""
        bert.embeddings = self
        del bert.encoder.layer[: len(self.layers) - 1]

    def forward(
        self,
        input_ids: Tensor,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        **unused: object,
    ) -> Tensor:
        """Return vectors (R, T, E) of subwords (R, T), 0 at padding, as BERT embeddings do."""
        types = torch.zeros_like(input_ids) if token_type_ids is None else token_type_ids
        positions = (
            torch.arange(input_ids.shape[1], device=input_ids.device)
            if position_ids is None
            else position_ids
        )
        vectors = input_ids.new_zeros((*input_ids.shape, self._hidden_size), dtype=torch.float32)
        texts = torch.stack([input_ids, types, positions.expand_as(input_ids)], dim=1)  # (R, 3, T)
        for text_vectors, text in zip(vectors, texts, strict=True):
            is_token = text[0] != self._padding_id
            text_vectors[is_token] = self._encode(text[:, is_token])
        return vectors

    def _encode(self, text: Tensor) -> Tensor:
        """Return the vectors (T, E) of ids, types and positions (3, T), which are cached."""
        key = text.cpu().numpy().tobytes()
        if key not in self._cache:
            ids, types, positions = text[:, None]
            with torch.no_grad(), torch.autocast(text.device.type, enabled=False):
                embeddings, *blocks = self.layers
                vectors = embeddings(input_ids=ids, token_type_ids=types, position_ids=positions)
                for block in blocks:
                    vectors = block(vectors)
            self._cache[key] = vectors[0]
        return self._cache[key]
