"""The frozen blocks of an encoder, shared by networks that read the same texts: what they make of a text is computed once."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class FrozenLayers(nn.Module):
    """The embeddings and lowest blocks of a BERT, which are frozen; it stands for the embeddings of those that share it.

    A text is computed by itself, in float32, so that what comes of it depends neither on those beside it nor on who asks first.
    All of it is kept, in memory.
    """

    def __init__(self, bert: Any, blocks: int) -> None:
        """Take the frozen embeddings and lowest blocks of an encoder, which keeps them."""
        super().__init__()
        # A list: as modules of those that share them, they would be asked for what they find there.
        self.parts = [bert.embeddings, *bert.encoder.layer[:blocks]]
        for part in self.parts:
            part.eval()
        self._width: int = bert.config.hidden_size
        self._padding: int = bert.config.pad_token_id
        self._found: dict[bytes, Tensor] = {}

    def give(self, bert: Any) -> None:
        """Replace the frozen layers of another encoder, which has the same weights there, by this cache."""
        bert.embeddings = self
        del bert.encoder.layer[: len(self.parts) - 1]

    def forward(
        self, input_ids: Tensor, token_type_ids: Tensor | None = None, position_ids: Tensor | None = None, **others: object
    ) -> Tensor:
        """Vectors (R, T, E) of pieces (R, T), 0 where there is padding: behind a row's pieces or amid them.

        Args:
            input_ids: of pieces.
            token_type_ids: of pieces; without them, all are 0.
            position_ids: of pieces; without them, they are counted from each row's beginning.
            others: what embeddings get for uses that this is not for.
        """
        types = torch.zeros_like(input_ids) if token_type_ids is None else token_type_ids
        places = torch.arange(input_ids.shape[1], device=input_ids.device) if position_ids is None else position_ids
        found = input_ids.new_zeros((*input_ids.shape, self._width), dtype=torch.float32)
        for own, row in zip(found, torch.stack([input_ids, types, places.expand_as(input_ids)], dim=1), strict=True):
            inside = row[0] != self._padding
            own[inside] = self._of(row[:, inside])
        return found

    def _of(self, row: Tensor) -> Tensor:
        """Vectors (T, E) of a text's pieces, types and places (3, T)."""
        name = row.cpu().numpy().tobytes()
        if name not in self._found:
            ids, types, places = row[:, None]
            with torch.no_grad(), torch.autocast(row.device.type, enabled=False):
                embeddings, *blocks = self.parts
                vectors = embeddings(input_ids=ids, token_type_ids=types, position_ids=places)
                for block in blocks:
                    vectors = block(vectors)
            self._found[name] = vectors[0]
        return self._found[name]
