"""TARGER: a tagger that says of each word whether it is of a claim or of a premise, and keeps those that are; BiLSTM-CNN-CRF.

Chernodub et al.: TARGER: Neural Argument Mining at Your Fingertips. ACL 2019. Ma, Hovy: End-to-end Sequence Labeling via
Bi-directional LSTM-CNNs-CRF. ACL 2016. Documents reduced to what it keeps: Hollatz 2022, 4.2.

Shapes: B passages, L words of the longest, W different words of all of them, E and F dimensions of a word's and of a letter's
vector, K filters, H units a direction, S states of the CRF.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from submission.enrichment.base import Enricher, Word
from submission.enrichment.crf import CRF
from submission.rankers.layers import read_both_ways, taken
from submission.scoring.batches import pad
from submission.text.ids import PADDING
from submission.text.written import SLOTS, SPELLING_IDS, WrittenPassage, WrittenReader, spelling

KEPT = {"P": "premise", "C": "claim", "MC": "claim"}  # kinds of components whose words stay; MC: an essay's major claim
CELLS = {"lstm": nn.LSTM, "gru": nn.GRU}
WORDS_AT_A_TIME = 32  # that are spelt: few, so that what is made of them stays in the processor's cache

Batch = tuple[Tensor, Tensor, Tensor, Tensor]


class TARGER(Enricher[WrittenPassage]):
    """A word's vector beside what a convolution finds in its letters; a recurrent layer each way; a CRF.

    Letters are dropped alike wherever a word stands in a batch: each different word is spelt once.
    """

    Reader = WrittenReader
    value = "whether it is kept"
    fields = "conclusion premise"  # all that is searched where nothing reduces it
    parts = ("claim", "premise")
    together = 16_384  # a recurrent layer takes a step for each place of a passage, whatever the number of passages
    stored_in_half = ("embedding.", "ahead.", "back.")

    @dataclass(frozen=True)
    class Config:
        """Sizes; rows of the word table and of the letters' include padding and unknown."""

        vocabulary: int
        tags: tuple[str, ...]  # O, and B- and I- of each kind; number 1 is the first
        letters: int = SPELLING_IDS
        dimensions: int = 100
        letter_dimensions: int = 25
        filters: int = 30  # for each dimension of a letter's vector
        window: int = 3
        cell: Literal["lstm", "gru"] = "lstm"
        hidden: int = 100  # a direction
        dropout: float = 0.5  # of what the recurrent layer reads
        output_dropout: float = 0.0  # of what it says: the authors have none, Ma and Hovy as much
        longest: int = 512  # words of a passage

    def __init__(self, config: Config) -> None:
        """Raises ValueError: a window that no word is as wide as, or passages of no words."""
        super().__init__(config)
        if not 0 < config.window <= SLOTS or config.longest < 1:
            raise ValueError(f"window is {config.window}, longest {config.longest}; expected 1 to {SLOTS}, and 1 or more")
        self.embedding = _embedding(config.vocabulary, config.dimensions)
        self.letters = _embedding(config.letters, config.letter_dimensions)
        width = config.letter_dimensions * config.filters
        self.convolution = nn.Conv1d(config.letter_dimensions, width, config.window, groups=config.letter_dimensions)
        cell = CELLS[config.cell]
        self.ahead, self.back = (cell(config.dimensions + width, config.hidden, batch_first=True) for _ in range(2))
        self.emission = nn.Linear(2 * config.hidden, len(config.tags) + 2)
        self.crf = CRF(len(config.tags))
        self.dropout, self.output_dropout = nn.Dropout(config.dropout), nn.Dropout(config.output_dropout)

    def words(self, passages: Sequence[WrittenPassage]) -> list[list[Word]]:
        """The words with their best tags; the weight of one that is kept is 1, of others 0."""
        batch = self.batch(passages)
        found = self.crf.best(self(*batch), batch[-1]).tolist()
        labels = ["", *self.config.tags]
        return [
            [
                Word(word, start, end, float(kind(labels[tag]) in KEPT), labels[tag])
                for word, (start, end), tag in zip(passage.words, passage.places, tags, strict=False)
            ]
            for passage, tags in zip(passages, found, strict=True)
        ]

    def part(self, word: Word) -> str:
        """Claim or premise."""
        return KEPT.get(kind(word.label), "")

    def frequencies(self, passages: Sequence[Sequence[Word]]) -> Counter[str]:
        """What is kept, each as often as it is: words and marks without a blank between them are one, as in the text."""
        return Counter(text for passage in passages for text in joined(passage))

    def batch(self, passages: Sequence[WrittenPassage]) -> Batch:
        """Passages as `forward` takes them, on the network's device."""
        known = {word: number for passage in passages for word, number in zip(passage.words, passage.ids, strict=True)}
        numbers = {word: number for number, word in enumerate(known)}
        words, mask = pad([[numbers[word] for word in passage.words] for passage in passages])
        ids, letters = torch.tensor(list(known.values())), torch.tensor([spelling(word) for word in known])
        device = self.embedding.weight.device
        return ids.to(device), letters.to(device), words.to(device), mask.to(device)

    def forward(self, ids: Tensor, letters: Tensor, words: Tensor, mask: Tensor) -> Tensor:
        """What each word says for each state of the CRF, emissions (B, L, S); arguments are those of `states`."""
        emissions: Tensor = self.emission(self.output_dropout(torch.cat(self.states(ids, letters, words, mask), dim=2)))
        return emissions

    def states(self, ids: Tensor, letters: Tensor, words: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """What the recurrent layer says of each word: ahead, of it and those before it; back, of it and those behind it.

        Args:
            ids: (W,) int64, of the different words' forms.
            letters: (W, 20) int64, theirs.
            words: (B, L) int64, which of these each word is; any outside the mask.
            mask: (B, L) bool, true on the passage's own words, one at least.

        Returns:
            two of (B, L, H).
        """
        own = self.dropout(functional.embedding(words, self.embedding(ids)))  # (B, L, E)
        spelt = functional.embedding(words, self.spelt(letters))  # (B, L, F · K)
        inputs = torch.cat([own, spelt], dim=2)
        ahead, back, mirrored = read_both_ways(self.ahead, self.back, inputs, mask)
        return ahead, taken(back, mirrored)

    def spelt(self, letters: Tensor) -> Tensor:
        """What the convolution finds in words' letters (W, 20): the most of each filter over all places, (W, F · K)."""
        vectors = self.dropout(self.letters(letters))  # (W, 20, F)
        weight = self.convolution.weight.view(vectors.shape[2], -1, self.config.window)  # (F, K, window)
        windows = vectors.unfold(1, self.config.window, 1)  # (W, places, F, window)
        # torch's own convolution takes four times as long where each dimension is a group.
        found = [torch.einsum("wpfh,fkh->wpfk", part, weight).max(1).values for part in windows.split(WORDS_AT_A_TIME)]
        return torch.cat(found).flatten(1) + self.convolution.bias  # type: ignore[operator]  # it has one


def kind(tag: str) -> str:
    """Of what a word with a tag is a part; of O, of nothing."""
    return tag.partition("-")[2]


def joined(words: Sequence[Word]) -> list[str]:
    """The kept words of a passage, those that no blank and no other word parts in one."""
    found: list[str] = []
    end = -1
    for word in words:
        if word.weight:
            if word.start == end:
                found[-1] += word.text
            else:
                found.append(word.text)
            end = word.end
    return found


def _embedding(rows: int, dimensions: int) -> nn.Embedding:
    """Vectors as Ma and Hovy begin with: uniform, of variance 1 / dimensions; zero for padding."""
    table = nn.Embedding(rows, dimensions, padding_idx=PADDING)
    bound = (3 / dimensions) ** 0.5
    with torch.no_grad():
        table.weight[PADDING + 1 :].uniform_(-bound, bound)
    return table
