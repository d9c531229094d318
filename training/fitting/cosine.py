"""The cosine of two texts by the untrained encoder: what is printed beside a BERT network."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import BertConfig, BertModel

from submission.scoring.batches import Padded
from submission.scoring.pretrained import Pretrained
from training.data.tables import Queries
from training.fitting.validation import Scorer

BATCH = 32  # texts computed at a time


def by_cosine(pretrained: Pretrained, device: torch.device) -> Scorer:
    """Scores of the encoder as it comes: each text by itself, [CLS] text [SEP], the mean over all of these positions."""
    config = pretrained.config(frozen=-1)
    bert = BertModel(BertConfig(**config["bert"]), add_pooling_layer=False)
    bert.load_state_dict({name.removeprefix("encoder.bert."): tensor for name, tensor in pretrained.tensors().items()})
    nn.Module.to(bert.train(False), device)  # not bert.to: transformers hides its signature behind a decorator

    def vectors(texts: Padded, rows: np.ndarray) -> Tensor:
        """Compute vectors (len(rows), E) of length 1."""
        parts = []
        for part in np.split(rows, range(BATCH, len(rows), BATCH)):
            ids, mask = texts.take(part, device)
            end = 1 + mask.sum(1, keepdim=True)  # (B, 1) the place of [SEP]
            ids = functional.pad(functional.pad(ids * mask, (1, 0), value=config["cls"]), (0, 1)).scatter(1, end, config["sep"])
            inside = (torch.arange(ids.shape[1], device=device) <= end).long()
            hidden = bert(input_ids=ids, attention_mask=inside).last_hidden_state  # (B, T, E)
            parts.append((hidden * inside.unsqueeze(-1)).sum(1))
        return functional.normalize(torch.cat(parts), dim=1)

    @torch.inference_mode()
    def score(queries: Queries, chosen: np.ndarray) -> np.ndarray:
        candidates = queries.candidates[chosen]
        premises, places = np.unique(candidates, return_inverse=True)
        own, documents = vectors(queries.queries, chosen), vectors(queries.premises, premises)
        found = documents[torch.as_tensor(places.reshape(candidates.shape))]  # (queries, 105, E)
        return np.asarray((found @ own.unsqueeze(-1)).squeeze(-1).cpu())

    return score
