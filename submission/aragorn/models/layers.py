"""Define shared layers: cosine similarity, kernel pooling, histograms, bidirectional RNNs,
convolution of distinct words.

Shapes: B pairs, Q query terms, D document terms, E dimensions, K kernels.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from aragorn.explanation import Row
from aragorn.models.network import find_top_positions
from aragorn.text.tokenisers import PADDING_ID, UNKNOWN_ID

VOCABULARY_BATCH = 512  # vocabulary rows per matrix product; small batches stay in the CPU cache


def get_known_mask(ids: Tensor, mask: Tensor) -> Tensor:
    """Return the mask (B, L) of known words; unknown ones share an id and would match."""
    return mask & (ids != UNKNOWN_ID)


def run_bidirectional(
    forward_rnn: nn.Module, backward_rnn: nn.Module, vectors: Tensor, mask: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Run a forward and a backward RNN, both batch-first, over texts (B, L, E).

    The backward RNN reads each text reversed within its length, so that padding comes last for
    both. Packed sequences are equivalent, but their gradient is several times slower on a CPU.
    Returns forward states (B, L, H), backward states (B, L, H), last token first, and the token
    position (B, L) of each backward state.
    """
    reversal = (
        mask.sum(1, keepdim=True) - 1 - torch.arange(mask.shape[1], device=mask.device)
    ).clamp(min=0)
    return forward_rnn(vectors)[0], backward_rnn(gather_positions(vectors, reversal))[0], reversal


def gather_positions(vectors: Tensor, positions: Tensor) -> Tensor:
    """Reorder vectors (B, L, V): output i of a text is the vector at `positions[:, i]` (B, L)."""
    return vectors.gather(1, positions.unsqueeze(2).expand_as(vectors))


def find_unique_tokens(ids: Tensor, vocabulary_size: int) -> tuple[Tensor, Tensor]:
    """Return the distinct token ids (T,), ascending, with padding; each token's index (B, L)."""
    is_present = torch.zeros(vocabulary_size, dtype=torch.bool, device=ids.device).index_fill_(
        0, ids.flatten(), True
    )
    is_present[PADDING_ID] = True
    index_by_id = is_present.cumsum(0) - 1
    # several times faster than index_by_id[ids]
    index = index_by_id.index_select(0, ids.flatten()).reshape(ids.shape)
    return is_present.nonzero().squeeze(1), index


def convolve_unique(
    vectors: Tensor, index: Tensor, weight: Tensor, batch_size: int
) -> Iterator[Tensor]:
    """Convolve texts without bias, multiplying each distinct word by the weights only once.

    Args:
        vectors: (T, E), vectors of the distinct words.
        index: (B, L), row of `vectors` for each token.
        weight: (C, E, h), convolution weights of C channels and windows of h words.
        batch_size: Number of texts per batch; small batches stay in the CPU cache.

    Yields outputs (b, L - h + 1, C) of each batch of b texts.
    """
    window = weight.shape[2]
    # (h · T, C)
    products = torch.cat([vectors @ weight[:, :, offset].t() for offset in range(window)])
    offsets = torch.arange(window, device=index.device) * len(vectors)
    for batch in torch.split(index, batch_size):
        rows = batch.unfold(1, window, 1) + offsets  # (b, W, h)
        yield functional.embedding_bag(rows.flatten(0, 1), products, mode="sum").reshape(
            *rows.shape[:2], -1
        )


def cosine(query: Tensor, document: Tensor) -> Tensor:
    """Compute cosine similarities (…, Q, D) of vectors (…, Q, E) and (…, D, E)."""
    query, document = (
        functional.normalize(vectors, dim=-1, eps=1e-12) for vectors in (query, document)
    )
    return query @ document.transpose(-1, -2)


class Kernels(nn.Module):
    """RBF kernels, which count terms whose similarity is near mu (Xiong et al. 2017, eq. 4)."""

    mus: Tensor
    sigmas: Tensor

    def __init__(self, mus: Sequence[float], sigmas: Sequence[float]) -> None:
        super().__init__()
        # float64, so that a network converted to double has exact values; cast on use.
        self.register_buffer("mus", torch.tensor(mus, dtype=torch.float64), persistent=False)
        self.register_buffer("sigmas", torch.tensor(sigmas, dtype=torch.float64), persistent=False)

    def forward(self, similarity: Tensor, document_mask: Tensor) -> Tensor:
        """Compute soft counts (…, Q, K) of similarities (…, Q, D) where the mask (…, D) is set."""
        return (self.compute_kernel_values(similarity) * document_mask[..., None, :, None]).sum(-2)

    def compute_kernel_values(self, similarity: Tensor) -> Tensor:
        """Compute the kernel values (…, K) of similarities (…)."""
        mus, factors = (
            buffer.to(similarity.dtype) for buffer in (self.mus, -1 / (2 * self.sigmas**2))
        )
        return torch.exp((similarity.unsqueeze(-1) - mus) ** 2 * factors)


class KernelPooling(Kernels):
    """Kernel pooling of KNRM: log soft counts, summed over the query (Xiong et al. 2017, eq. 2-4).

    The first kernel is the exact match (mu 1, sigma 0.001); the others (sigma 0.1) are centred in
    equal bins of [-1, 1], in descending order. The logarithm's floor (1e-10) and factor (0.01) are
    those of the authors' code.
    """

    def __init__(self, n_kernels: int) -> None:
        width = 2 / (n_kernels - 1)
        super().__init__(
            [1.0, *(1 - width / 2 - width * k for k in range(n_kernels - 1))],
            [0.001] + [0.1] * (n_kernels - 1),
        )

    def pool(self, similarity: Tensor, query_mask: Tensor, document_mask: Tensor) -> Tensor:
        """Compute features (B, K) of similarities (B, Q, D) at positions of (B, Q) and (B, D)."""
        return self.compute_features(self(similarity, document_mask), query_mask).sum(1)

    def compute_features(self, soft_counts: Tensor, query_mask: Tensor) -> Tensor:
        """Compute features (B, Q, K) of soft counts (B, Q, K); 0 outside the mask (B, Q)."""
        return 0.01 * soft_counts.clamp(min=1e-10).log() * query_mask[:, :, None]

    def explain(
        self,
        similarity: Tensor,
        query_mask: Tensor,
        document_mask: Tensor,
        weights: Tensor,
        name: str,
    ) -> list[Row]:
        """Return the contributions of query terms and kernels to a pair's score (B = 1).

        The score is `weights` (K,) · features; labels consist of `name` and the kernel's mu.
        """
        values = self.compute_features(self(similarity, document_mask), query_mask)[0] * weights
        return explain_kernels(
            self, similarity[0].masked_fill(~document_mask[0], -torch.inf), values, name
        )


def explain_kernels(kernels: Kernels, similarity: Tensor, values: Tensor, name: str) -> list[Row]:
    """Convert non-zero `values` (Q, K) to contributions, labelled with `name` and the kernel's mu.

    Document positions have the highest kernel values; `similarity` (Q, D) is -inf for padding.
    """
    parts = []
    for query, row in enumerate(values.tolist()):
        for mu, sigma, value in zip(
            kernels.mus.tolist(), kernels.sigmas.tolist(), row, strict=True
        ):
            if value:
                activation = torch.exp(-((similarity[query] - mu) ** 2) / (2 * sigma**2))
                parts.append(
                    Row(
                        value,
                        f"{name} {mu:+.2f}",
                        query_position=query,
                        document_positions=find_top_positions(activation, 0.1),
                    )
                )
    return parts


def build_histogram(
    similarity: Tensor, mask: Tensor, n_bins: int, smoothing: float, dtype: torch.dtype
) -> Tensor:
    """Build log histograms ln(count + smoothing), (…, Q, bins), of (…, Q, D), without gradient.

    As in Guo et al. 2016, with the bins of CEDR's code; `mask` broadcasts to the similarities.
    """
    counts = torch.zeros(*similarity.shape[:-1], n_bins, dtype=dtype, device=similarity.device)
    counts.scatter_add_(-1, compute_bins(similarity, n_bins), mask.to(dtype).expand_as(similarity))
    return (counts + smoothing).log()


def compute_bins(similarity: Tensor, n_bins: int) -> Tensor:
    """Compute bins trunc((similarity + 1 + 1e-6) / 2 · (n_bins - 1)); the last is exact."""
    return ((similarity + 1.000001) / 2 * (n_bins - 1)).long().clamp(0, n_bins - 1)


class FrozenEmbedding(nn.Module):
    """Frozen word embeddings, which map ids (B, L) to vectors (B, L, E)."""

    weight: Tensor

    def __init__(self, n_rows: int, dimensions: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.zeros(n_rows, dimensions))

    def forward(self, ids: Tensor) -> Tensor:
        return functional.embedding(ids, self.weight)
