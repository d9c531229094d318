"""SNRM: sparse latent-term vectors of query and document, scored by their dot product.

Zamani, Dehghani, Croft, Learned-Miller, Kamps: From Neural Re-Ranking to Neural Ranking: Learning a
Sparse Representation for Inverted Indexing. CIKM 2018. Entezari 2020, 3.4.5, 4.2.8 and table 4.1:
5-grams, no hidden layer. No bias.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from aragorn.bounds import Exponent, LayerWidths, Rows, Width
from aragorn.explanation import Explanation, Row
from aragorn.models.layers import find_unique_tokens, get_known_mask
from aragorn.models.network import LatentRanker, find_top_positions

WINDOW = 5
HALF_WINDOW = WINDOW // 2  # words on each side of a window's centre
TEXT_BATCH = 8  # texts per batch
LATENT_TERM_BATCH = 250  # latent terms per batch at inference; 60 MB for 12,000 distinct words


class SNRM(LatentRanker):
    """A ReLU network over 5-grams; outputs are summed and divided by a power of their count."""

    version = 1

    half_precision_prefixes = ("embedding.", "layers.")

    @dataclass(frozen=True)
    class Config:
        """Configuration of the network; `vocabulary` counts embedding rows.

        `padded`: Texts are zero-padded so that each word is the centre of a window, as in the
        authors' code; otherwise windows lie inside the text (Entezari 2020, eq. 3.17). `length`:
        The sum is divided by the number of windows to this power. 1 gives the mean (eq. 3.17),
        which favours short premises; 0 gives, up to a constant, the authors' mean over a fixed
        number of positions, which favours long premises.
        """

        vocabulary: Rows
        dimensions: Width = 300
        latent: Width = 2000
        hidden: LayerWidths = ()  # sizes of hidden layers
        padded: bool = False
        length: Exponent = 1.0

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.embedding = nn.Embedding(config.vocabulary, config.dimensions, padding_idx=0)
        sizes = [config.dimensions, *config.hidden, config.latent]
        self.layers = nn.ModuleList(
            nn.Conv1d(size, next_size, 1 if depth else WINDOW, bias=False)
            for depth, (size, next_size) in enumerate(pairwise(sizes))
        )

    def encode(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Encode texts as latent vectors (B, latent); that of an empty text is zero.

        Without `padded`, texts of fewer than 5 words are zero-padded to one window.
        """
        total = self.compute_activations(ids, mask).sum(2)
        return torch.div(total, self._count_windows(mask).to(total.dtype) ** self.config.length)

    def encode_batch(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Encode as `encode` does; without hidden layers, convolve each distinct word once."""
        filters, *hidden_weights = self.layers.parameters()  # weights (C, E, 5) and (C, C, 1)
        if hidden_weights:
            batches = zip(torch.split(ids, TEXT_BATCH), torch.split(mask, TEXT_BATCH), strict=True)
            return torch.cat([self.encode(*batch) for batch in batches])
        token_ids, index = find_unique_tokens(
            self._pad_for_windows(ids * get_known_mask(ids, mask)), self.config.vocabulary
        )
        windows = self._count_windows(mask)  # (B, 1)
        vectors = self.embedding(token_ids)
        # (B, W)
        is_window = (torch.arange(index.shape[1] - WINDOW + 1, device=ids.device) < windows).to(
            vectors.dtype
        )
        weights = is_window / windows.to(vectors.dtype) ** self.config.length
        # (B, W, 5)
        rows = index.unfold(1, WINDOW, 1) + torch.arange(WINDOW, device=ids.device) * len(vectors)
        totals = []
        size = len(filters) if torch.is_grad_enabled() else LATENT_TERM_BATCH
        for terms in torch.split(filters, size):
            # (5 · T, c)
            products = torch.cat([vectors @ terms[:, :, offset].t() for offset in range(WINDOW)])
            totals.append(_WeightedActivationSum.apply(products, rows, weights))  # type: ignore[no-untyped-call]
        return torch.cat(totals, dim=1)

    def compute_activations(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Compute the activations (B, latent, W) of windows; 0 past the text's end."""
        vectors = self.embedding(ids) * get_known_mask(ids, mask).unsqueeze(-1)  # (B, L, E)
        values = self._pad_for_windows(vectors.transpose(1, 2))  # (B, E, ·)
        for layer in self.layers:
            values = layer(values).relu()  # (B, ·, W)
        # (B, W)
        is_window = values.new_ones(values.shape[2]).cumsum(0) <= self._count_windows(mask)
        return values * is_window.unsqueeze(1)

    def _pad_for_windows(self, texts: Tensor) -> Tensor:
        """Zero-pad texts (…, L) on both sides if `padded`, else to at least one window."""
        if self.config.padded:
            return functional.pad(texts, (HALF_WINDOW, HALF_WINDOW))
        return functional.pad(texts, (0, max(0, WINDOW - texts.shape[-1])))

    def _count_windows(self, mask: Tensor) -> Tensor:
        """Return the number of windows (B, 1) of each text, at least one."""
        words = mask.sum(1, keepdim=True)
        return (words if self.config.padded else words - WINDOW + 1).clamp(min=1)

    def explain(
        self, query: Tensor, query_mask: Tensor, document: Tensor, document_mask: Tensor
    ) -> Explanation:
        """Break the score down by latent term, with the positions of its highest activations.

        A window's position is its centre if `padded`, else its start.
        """
        query_vector = self.encode(query, query_mask)[0]  # (latent,)
        document_vector = self.encode(document, document_mask)[0]
        query_windows = self.compute_activations(query, query_mask)[0]  # (latent, W)
        document_windows = self.compute_activations(document, document_mask)[0]
        products = query_vector * document_vector
        rows = []
        for term in products.nonzero().flatten().tolist():
            note = f"query {query_vector[term]:.4f} × document {document_vector[term]:.4f}"
            rows.append(
                Row(
                    products[term].item(),
                    f"latent term {term}",
                    note,
                    query_position=int(query_windows[term].argmax()),
                    document_positions=find_top_positions(document_windows[term], 0.0),
                )
            )
        return Explanation(self(query, query_mask, document, document_mask).item(), rows)


class _WeightedActivationSum(torch.autograd.Function):
    """Weighted sum of ReLU activations over the windows of each text, in batches of texts.

    The backward pass sums only over the few positive activations; autograd would fill a gradient
    matrix over all distinct words for each batch.
    """

    @staticmethod
    def forward(ctx: Any, products: Tensor, rows: Tensor, weights: Tensor) -> Tensor:
        """Compute the sums (B, C).

        `products` (R, C) are those of distinct words with the weights of each window position,
        `rows` (B, W, h) those that each window sums, `weights` (B, W) those of the windows.
        """
        sums = []
        positive_indices = []
        for batch, batch_weights in _iter_batches(rows, weights):
            # (b · W, C)
            activations = functional.embedding_bag(
                batch.flatten(0, 1), products, mode="sum"
            ).relu_()
            if ctx.needs_input_grad[0]:
                positive_indices.append(activations.nonzero())  # (N, 2)
            # (b, C)
            sums.append(
                (batch_weights.unsqueeze(1) @ activations.view(*batch_weights.shape, -1)).squeeze(1)
            )
        ctx.positive_indices = positive_indices
        ctx.size = products.shape
        ctx.save_for_backward(rows, weights)
        return torch.cat(sums)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        """Compute the gradient (R, C) of the products from that of the sums (B, C)."""
        [gradient] = gradients
        result = gradient.new_zeros(ctx.size)
        batches = zip(
            _iter_batches(*ctx.saved_tensors),
            torch.split(gradient, TEXT_BATCH),
            ctx.positive_indices,
            strict=True,
        )
        for (batch, weights), batch_gradient, indices in batches:
            window, term = indices.unbind(1)
            value = batch_gradient[window // weights.shape[1], term] * weights.flatten()[window]
            for row in batch.flatten(0, 1).unbind(1):
                result.view(-1).index_add_(0, row[window] * result.shape[1] + term, value)
        return result, None, None


def _iter_batches(rows: Tensor, weights: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield batches of rows (b, W, h) and weights (b, W), trimmed to their longest text."""
    for batch, batch_weights in zip(
        torch.split(rows, TEXT_BATCH), torch.split(weights, TEXT_BATCH), strict=True
    ):
        length = max(1, int((batch_weights > 0).sum(1).max()))
        yield batch[:, :length], batch_weights[:, :length]
