"""Split texts into surface tokens with character spans, for taggers with character inputs."""

import re
import string
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from aragorn.text.passages import Span, find_passages
from aragorn.text.tokenisers import FIRST_TERM_ID, PADDING_ID, UNKNOWN_ID, Vocabulary

VERSION = 1  # of passages of surface tokens
COMPUTES_WITH = ("aragorn.text.passages", "aragorn.text.tokenisers")

CHARACTERS_PER_TOKEN = 20  # longer tokens are truncated
ALPHABET = string.ascii_letters + string.digits + string.punctuation + "‘’“”–—…"  # noqa: RUF001 typographic marks are intended
# including those for padding and unknown characters
N_CHARACTER_IDS = len(ALPHABET) + FIRST_TERM_ID

_TOKEN = re.compile(r"[^\W_]+|[^\w\s]|_")
_DIGIT = re.compile(r"[0-9]")
_SENTENCE_ENDS = frozenset(".?!")
_CHARACTER_IDS = {character: token_id for token_id, character in enumerate(ALPHABET, FIRST_TERM_ID)}


@dataclass(frozen=True)
class SurfacePassage:
    """Passage of whole sentences, split into tokens; spans are character offsets in the passage."""

    text: str
    spans: Sequence[Span]
    tokens: Sequence[str]
    token_ids: Sequence[int]

    def __len__(self) -> int:
        return len(self.tokens)


class SurfaceTokeniser:
    """Tokeniser that splits a text into passages of whole sentences with at most `max_tokens`
    tokens. A sentence ends with ".", "?" or "!" before whitespace.

    Tokens are looked up lower-cased and with digits replaced by 0; only the character inputs
    preserve case and digits.
    """

    file: ClassVar[str] = "vocabulary.txt"

    def __init__(self, vocabulary: Vocabulary, max_tokens: int) -> None:
        self.vocabulary = vocabulary
        self._max_tokens = max_tokens

    @classmethod
    def load(cls, directory: Path, config: Any) -> Self:
        """Load a tokeniser with the passage length in a network's Config."""
        return cls(Vocabulary.load(directory / cls.file), config.longest)

    def fits_embedding(self, n_rows: int) -> bool:
        return n_rows == len(self.vocabulary)

    def to_bytes(self) -> bytes:
        return self.vocabulary.to_text().encode()

    def split(self, text: str) -> list[SurfacePassage]:
        """Split a text into passages; a text without tokens has none."""
        text_spans = find_token_spans(text)

        def is_sentence_end(end: int) -> bool:
            return text[slice(*text_spans[end - 1])] in _SENTENCE_ENDS

        passages = []
        for tokens_slice in find_passages(text_spans, self._max_tokens, is_sentence_end):
            spans = text_spans[tokens_slice]
            passage_start = spans[0][0]
            passage_text = text[passage_start : spans[-1][1]]
            tokens = [text[start:end] for start, end in spans]
            token_ids = self.vocabulary.get_ids(map(normalise_token, tokens))
            relative_spans = [(start - passage_start, end - passage_start) for start, end in spans]
            passages.append(SurfacePassage(passage_text, relative_spans, tokens, token_ids))
        return passages


def find_token_spans(text: str) -> list[Span]:
    """Return the spans of runs of letters and digits, and of single punctuation marks."""
    return [match.span() for match in _TOKEN.finditer(text)]


def normalise_token(token: str) -> str:
    return _DIGIT.sub("0", token.lower())


def encode_characters(token: str) -> list[int]:
    """Return a token's character ids, truncated or padded on both sides."""
    ids = [_CHARACTER_IDS.get(character, UNKNOWN_ID) for character in token[:CHARACTERS_PER_TOKEN]]
    left_padding = (CHARACTERS_PER_TOKEN - len(ids)) // 2
    return (
        [PADDING_ID] * left_padding
        + ids
        + [PADDING_ID] * (CHARACTERS_PER_TOKEN - len(ids) - left_padding)
    )
