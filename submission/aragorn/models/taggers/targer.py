"""TARGER, a BiLSTM-CNN-CRF tagger that labels claims and premises; only labelled tokens are
indexed.

Chernodub et al.: TARGER: Neural Argument Mining at Your Fingertips. ACL 2019. Ma, Hovy: End-to-end
Sequence Labeling via Bi-directional LSTM-CNNs-CRF. ACL 2016. Document reduction: Hollatz 2022,
section 4.2.

Shapes: B passages, L tokens, W distinct tokens, E and F dimensions of word and character vectors, K
filters per character dimension, H units per direction, S CRF states, 20 characters per token
(CHARACTERS_PER_TOKEN).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from aragorn.bounds import Count, Length, Names, Rows, Share, Width
from aragorn.models.layers import gather_positions, run_bidirectional
from aragorn.models.network import pad
from aragorn.models.taggers import Tagger, TokenAnnotation
from aragorn.text.surface_tokens import (
    CHARACTERS_PER_TOKEN,
    N_CHARACTER_IDS,
    SurfacePassage,
    SurfaceTokeniser,
)
from aragorn.text.surface_tokens import encode_characters as get_character_ids
from aragorn.text.tokenisers import PADDING_ID

PADDING_STATE = 0
FORBIDDEN_SCORE = -9999.0  # finite, but too low for any best path


class CRF(nn.Module):
    """Transition scores of a linear-chain CRF, with Viterbi decoding (Lafferty et al., ICML 2001;
    Lample et al., NAACL 2016).

    State 0 is padding, the last state is the start, and the others are tags. The score of tags y
    with emissions e and transitions T[to, from] is Σ_t e_t[y_t] + T[y_t, y_{t-1}], with y_0 the
    start; there is no end state. A sequence has at least one token; padding contributes nothing to
    its score.
    """

    def __init__(self, n_tags: int) -> None:
        """Create transitions between tags; those to the start, and of padding, are forbidden."""
        super().__init__()
        self.start = n_tags + 1
        transitions = torch.empty(n_tags + 2, n_tags + 2).normal_(-1, 0.1)
        transitions[self.start] = transitions[PADDING_STATE] = transitions[:, PADDING_STATE] = (
            FORBIDDEN_SCORE
        )
        transitions[PADDING_STATE, PADDING_STATE] = 0
        self.transitions = nn.Parameter(transitions)  # (S, S), to × from

    @torch.no_grad()
    def decode(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """Find the best tags (B, L) int64 of emissions (B, L, S) by Viterbi decoding."""
        # (B, S), score of the best path that ends in each state
        score = emissions[:, 0] + self.transitions[:, self.start]
        identity = torch.arange(score.shape[1], device=score.device).expand_as(score)
        back_pointers = []
        for emission, is_token in zip(emissions.unbind(1)[1:], mask.unbind(1)[1:], strict=True):
            path_score, back_pointer = (score[:, None] + self.transitions).max(dim=2)
            score = torch.where(is_token[:, None], path_score + emission, score)
            # (B, S), best previous state
            back_pointers.append(torch.where(is_token[:, None], back_pointer, identity))
        state = score.argmax(1, keepdim=True)
        states = [state]
        for back_pointer in reversed(back_pointers):
            state = back_pointer.gather(1, state)
            states.append(state)
        return torch.cat(states[::-1], dim=1).masked_fill(~mask, PADDING_STATE)


# Components whose tokens are indexed, by code; MC is the major claim of an essay
INDEXED_COMPONENTS = {"P": "premise", "C": "claim", "MC": "claim"}
RNN_CLASSES = {"lstm": nn.LSTM, "gru": nn.GRU}
# words per batch of the character CNN; small batches stay in the CPU cache
CHARACTER_CNN_BATCH = 32

Batch = tuple[Tensor, Tensor, Tensor, Tensor]


class TARGER(Tagger):
    """A CRF tagger whose bidirectional RNN reads word vectors and character-CNN features.

    Each distinct word of a batch is encoded once, with one character dropout.
    """

    version = 1
    computes_with = ("aragorn.text.surface_tokens",)

    tokeniser_class = SurfaceTokeniser
    output_name = "kept"
    input_fields = "conclusion premise"  # all fields of the unenriched index
    component_types = ("claim", "premise")
    # the RNN's time depends on the length of passages and hardly on their number
    min_batch_tokens = 16_384
    half_precision_prefixes = ("embedding.", "forward_rnn.", "backward_rnn.")

    @dataclass(frozen=True)
    class Config:
        """Configuration of the network; `vocabulary` and `characters` count embedding rows."""

        vocabulary: Rows
        tags: Names  # O, and B- and I- for each component; ids start at 1; none: a language model
        characters: Rows = N_CHARACTER_IDS
        dimensions: Width = 100
        character_dimensions: Width = 25
        filters: Count = 30  # filters per character dimension
        window: Count = 3
        cell: Literal["lstm", "gru"] = "lstm"
        hidden: Width = 100  # units per direction
        dropout: Share = 0.5  # on the RNN's input
        # on the RNN's output; 0 in the authors' code, equal to `dropout` in Ma and Hovy
        output_dropout: Share = 0.0
        longest: Length = 512  # maximum number of tokens per passage

    def __init__(self, config: Config) -> None:
        """Build the network; raise ValueError if `window` or `longest` is out of bounds."""
        super().__init__(config)
        if not 0 < config.window <= CHARACTERS_PER_TOKEN:
            raise ValueError(
                f"window is {config.window} characters; expected 1 to {CHARACTERS_PER_TOKEN}"
            )
        if config.longest < 1:
            raise ValueError(
                f"longest (maximum passage length in tokens) is {config.longest}; expected at "
                "least 1"
            )
        self.embedding = _create_embedding(config.vocabulary, config.dimensions)
        self.char_embedding = _create_embedding(config.characters, config.character_dimensions)
        character_width = config.character_dimensions * config.filters
        self.convolution = nn.Conv1d(
            config.character_dimensions,
            character_width,
            config.window,
            groups=config.character_dimensions,
        )
        rnn_class = RNN_CLASSES[config.cell]
        width = config.dimensions + character_width
        self.forward_rnn, self.backward_rnn = (
            rnn_class(width, config.hidden, batch_first=True) for _ in range(2)
        )
        self.emission = nn.Linear(2 * config.hidden, len(config.tags) + 2)
        self.crf = CRF(len(config.tags))
        self.dropout = nn.Dropout(config.dropout)
        self.output_dropout = nn.Dropout(config.output_dropout)

    def annotate(self, passages: Sequence[SurfacePassage]) -> list[list[TokenAnnotation]]:
        """Annotate tokens with their best tags, and with weight 1 if they are indexed, else 0."""
        batch = self.collate(passages)
        best_tags = self.crf.decode(self(*batch), batch[-1]).tolist()
        outcomes = [
            (0.0, ""),
            *(
                (float(parse_component_code(tag) in INDEXED_COMPONENTS), tag)
                for tag in self.config.tags
            ),
        ]
        annotations = []
        for passage, tags in zip(passages, best_tags, strict=True):
            tokens = zip(passage.tokens, passage.spans, tags, strict=False)  # tags are padded
            annotations.append(
                [TokenAnnotation(token, *span, *outcomes[tag]) for token, span, tag in tokens]
            )
        return annotations

    def get_component_type(self, token: TokenAnnotation) -> str:
        """Return `claim`, `premise`, or "" for a token outside components."""
        return INDEXED_COMPONENTS.get(parse_component_code(token.label), "")

    def compute_word_frequencies(
        self, passages: Sequence[Sequence[TokenAnnotation]]
    ) -> Counter[str]:
        """Count the words of indexed tokens; adjacent tokens are one word."""
        return Counter(word for passage in passages for word in join_adjacent(passage))

    def collate(self, passages: Sequence[SurfacePassage]) -> Batch:
        """Build the arguments of `forward` on the network's device."""
        vocabulary: dict[str, int] = {}
        for passage in passages:
            vocabulary |= zip(passage.tokens, passage.token_ids, strict=True)
        positions = {word: position for position, word in enumerate(vocabulary)}
        index, mask = pad([[positions[word] for word in passage.tokens] for passage in passages])
        ids = torch.tensor(list(vocabulary.values()))
        characters = torch.tensor([get_character_ids(word) for word in vocabulary])
        device = self.embedding.weight.device
        return ids.to(device), characters.to(device), index.to(device), mask.to(device)

    def forward(self, ids: Tensor, characters: Tensor, index: Tensor, mask: Tensor) -> Tensor:
        """Compute emissions (B, L, S); arguments as for `encode`."""
        emissions: Tensor = self.emission(
            self.output_dropout(torch.cat(self.encode(ids, characters, index, mask), dim=2))
        )
        return emissions

    def encode(
        self, ids: Tensor, characters: Tensor, index: Tensor, mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Compute the forward and the backward RNN states, (B, L, H) each, in token order.

        `ids` (W,) int64 and `characters` (W, 20) int64 are of the distinct tokens, `index` (B, L)
        int64 is each token's among them; `mask` (B, L) bool has at least one token per passage.
        """
        word_vectors = self.dropout(functional.embedding(index, self.embedding(ids)))  # (B, L, E)
        # (B, L, F · K)
        character_features = functional.embedding(index, self.encode_characters(characters))
        inputs = torch.cat([word_vectors, character_features], dim=2)
        forward, backward, reversal = run_bidirectional(
            self.forward_rnn, self.backward_rnn, inputs, mask
        )
        return forward, gather_positions(backward, reversal)

    def encode_characters(self, characters: Tensor) -> Tensor:
        """Compute features (W, F · K) of character ids (W, 20): each filter's maximum."""
        vectors = self.dropout(self.char_embedding(characters))  # (W, 20, F)
        # (F, K, window)
        weight = self.convolution.weight.view(vectors.shape[2], -1, self.config.window)
        windows = vectors.unfold(1, self.config.window, 1)  # (W, positions, F, window)
        # Equivalent to nn.Conv1d, which is four times slower with one group per dimension.
        features = [
            torch.einsum("wpfh,fkh->wpfk", batch, weight).max(1).values
            for batch in windows.split(CHARACTER_CNN_BATCH)
        ]
        return torch.cat(features).flatten(1) + self.convolution.bias  # type: ignore[operator]


def parse_component_code(tag: str) -> str:
    """Return the component code of a tag, e.g. P for B-P; "" for O."""
    return tag.partition("-")[2]


def join_adjacent(tokens: Sequence[TokenAnnotation]) -> list[str]:
    """Return the indexed tokens as words, joining adjacent tokens that no whitespace separates."""
    words: list[str] = []
    end = -1
    for token in tokens:
        if not token.weight:
            continue
        if token.start == end:
            words[-1] += token.surface
        else:
            words.append(token.surface)
        end = token.end
    return words


def _create_embedding(n_rows: int, dimensions: int) -> nn.Embedding:
    """Create embeddings as Ma and Hovy: uniform with variance 1 / dimensions, 0 for padding."""
    table = nn.Embedding(n_rows, dimensions, padding_idx=PADDING_ID)
    bound = (3 / dimensions) ** 0.5
    with torch.no_grad():
        table.weight[PADDING_ID + 1 :].uniform_(-bound, bound)
    return table
