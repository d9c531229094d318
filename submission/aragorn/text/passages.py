"""Split texts into passages of whole sentences (Hollatz 2022, section 3.2; Dai & Callan 2020)."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, pairwise
from pathlib import Path
from typing import Any, Self

from tokenizers import Tokenizer

from aragorn.text.normalisation import remove_urls
from aragorn.text.tokenisers import BaseWordPieceTokeniser, load_tokenizer

VERSION = 1  # of passages of subwords
COMPUTES_WITH = ("aragorn.text.normalisation", "aragorn.text.tokenisers", "tokenizers")

# without the lookbehind, matching takes quadratic time
SENTENCE_END = re.compile(r"[.!?…][\"'”’)\]]*\s+|(?<!\s)\s*\n\s*")
WORD = re.compile(r"\S+")
UNKNOWN_PIECE = "[UNK]"

Span = tuple[int, int]  # character offsets


@dataclass(frozen=True)
class Passage:
    """Passage with its subwords and its tokens (words and punctuation marks)."""

    text: str
    piece_ids: list[int]  # at most `max_pieces` of the tokeniser
    # lower-cased tokens, joined from their subwords; "" if unknown to the tokenizer
    words: list[str]
    spans: list[Span]  # character spans of the tokens in the text
    first_pieces: list[int]  # index of each token's first subword

    def __len__(self) -> int:
        return len(self.piece_ids)


class WordPiecePassageTokeniser(BaseWordPieceTokeniser):
    """Tokeniser of passages of at most `max_words` words, truncated to `max_pieces` subwords."""

    def __init__(self, tokenizer: Tokenizer, max_words: int, max_pieces: int) -> None:
        super().__init__(tokenizer)
        self._max_words = max_words
        self._max_pieces = max_pieces

    @classmethod
    def load(cls, directory: Path, config: Any) -> Self:
        """Load a tokeniser with the passage lengths in a network's Config."""
        return cls(load_tokenizer(directory), config.words, config.pieces)

    def split(self, text: str) -> list[Passage]:
        """Split a raw text into passages, omitting its URLs."""
        return [
            self.encode(passage) for passage in split_passages(remove_urls(text), self._max_words)
        ]

    def encode(self, text: str) -> Passage:
        """Encode a text as one passage, truncated to `max_pieces` subwords."""
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        # Store attributes: each access builds a new list.
        ids = encoding.ids
        tokens = encoding.tokens
        offsets = encoding.offsets
        words = []
        spans = []
        first_pieces = []
        for _, group in groupby(range(len(ids)), encoding.word_ids.__getitem__):
            indices = list(group)
            first_piece = indices[0]
            if first_piece >= self._max_pieces:
                break
            word = "".join(tokens[index].removeprefix("##") for index in indices)
            words.append("" if word == UNKNOWN_PIECE else word)
            spans.append((offsets[first_piece][0], offsets[indices[-1]][1]))
            first_pieces.append(first_piece)
        return Passage(text, ids[: self._max_pieces], words, spans, first_pieces)


def split_passages(text: str, max_words: int) -> list[str]:
    """Split a text into passages of whole sentences, or parts of long ones, with at most
    `max_words` words."""
    spans = [match.span() for match in WORD.finditer(text)]
    sentence_starts = {match.end() for match in SENTENCE_END.finditer(text)}
    slices = find_passages(spans, max_words, lambda end: spans[end][0] in sentence_starts)
    return [text[spans[words.start][0] : spans[words.stop - 1][1]] for words in slices]


def find_passages(
    spans: Sequence[Span], max_tokens: int, is_sentence_end: Callable[[int], bool]
) -> list[slice]:
    """Return the slice of `spans`, the token spans of a text, for each passage.

    A passage consists of as many whole sentences as fit in `max_tokens` tokens. Overlong sentences
    are split at whitespace if possible. `is_sentence_end` tells whether a sentence ends before the
    token with an index, which whitespace precedes.
    """
    slices = []
    start = 0
    while start < len(spans):
        limit = min(start + max_tokens, len(spans))
        ends = range(limit, start, -1)
        whitespace_ends = [
            end for end in ends if end == len(spans) or spans[end - 1][1] < spans[end][0]
        ]
        sentence_ends = (
            end for end in whitespace_ends if end == len(spans) or is_sentence_end(end)
        )
        end = next(chain(sentence_ends, whitespace_ends, ends))
        slices.append(slice(start, end))
        start = end
    return slices


def iter_sentences(text: str, max_words: int) -> Iterator[tuple[int, int, int]]:
    """Yield start, end and word count of each sentence, or of each chunk of `max_words` words."""
    ends = [match.end() for match in SENTENCE_END.finditer(text)]
    for start, end in pairwise([0, *ends, len(text)]):
        words = [match.span() for match in WORD.finditer(text, start, end)]
        for first in range(0, len(words), max_words):
            chunk = words[first : first + max_words]
            yield chunk[0][0], chunk[-1][1], len(chunk)
