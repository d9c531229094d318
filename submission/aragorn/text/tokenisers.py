"""Convert texts to token ids, truncated to the input lengths of a network; map terms to ids."""

import hashlib
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import repeat
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from tokenizers import Tokenizer

from aragorn.bounds import Length
from aragorn.text import normalisation
from aragorn.text.normalisation import remove_urls, tokenise_prefix

VERSION = 1  # of token ids
COMPUTES_WITH = ("aragorn.text.normalisation", "tokenizers")

PADDING_ID = 0
UNKNOWN_ID = 1
FIRST_TERM_ID = 2  # id of a vocabulary's first term

InputUnit = Literal["words", "pieces"]  # units that a network reads


class Vocabulary:
    """Ordered list of distinct terms; the term at index i has id i + FIRST_TERM_ID."""

    def __init__(self, terms: Iterable[str]) -> None:
        self.terms = tuple(terms)
        self._ids = {term: token_id for token_id, term in enumerate(self.terms, FIRST_TERM_ID)}
        if len(self._ids) != len(self.terms):
            raise ValueError(
                f"duplicate terms in the vocabulary: {len(self.terms) - len(self._ids)}; expected "
                "distinct terms"
            )
        if invalid_terms := [term for term in self.terms if term.split() != [term]]:
            raise ValueError(
                f"invalid vocabulary term {invalid_terms[0]!r}; expected a term without whitespace"
            )

    def __len__(self) -> int:
        """Return the number of ids, with padding and unknown words: rows of an embedding."""
        return len(self.terms) + FIRST_TERM_ID

    def get_ids(self, words: Iterable[str]) -> list[int]:
        """Return the ids of words; UNKNOWN_ID for words not in the vocabulary."""
        return list(map(self._ids.get, words, repeat(UNKNOWN_ID)))

    def get_term(self, token_id: int) -> str:
        """Return the term of an id; "(unknown)" for the ids of padding and unknown words."""
        return self.terms[token_id - FIRST_TERM_ID] if token_id >= FIRST_TERM_ID else "(unknown)"

    def to_text(self) -> str:
        return "".join(f"{term}\n" for term in self.terms)

    @classmethod
    def load(cls, path: Path) -> Self:
        return cls(path.read_text(encoding="utf-8").split("\n")[:-1])


@dataclass(frozen=True)
class MaxLengths:
    """Maximum numbers of words or subwords (Entezari 2020: 10 and 100 words)."""

    query: Length = 10
    premise: Length = 100


class Tokeniser(ABC):
    """Converter of texts to token ids, truncated to `lengths`."""

    file: ClassVar[str]  # file in a checkpoint
    lengths: MaxLengths
    premise_key: str  # cache key: `tokenise_premise` is identical for tokenisers with equal keys

    @classmethod
    @abstractmethod
    def load(cls, directory: Path, lengths: MaxLengths) -> Self:
        """Load a tokeniser from `file` in a directory."""

    @abstractmethod
    def fits_embedding(self, n_rows: int) -> bool:
        """Return whether the ids fit an embedding table with `n_rows` rows."""

    @abstractmethod
    def encode_query(self, text: str) -> list[int]:
        """Return the ids of a raw conclusion or topic title."""

    @abstractmethod
    def tokenise_premise(self, text: str) -> list[Any]:
        """Return the words or word-piece ids of a raw premise."""

    @abstractmethod
    def to_ids(self, tokens: list[Any]) -> list[int]:
        """Convert the tokens returned by `tokenise_premise` to ids."""

    @abstractmethod
    def to_tokens(self, ids: list[int]) -> list[str]:
        """Convert ids to words or subwords, for display."""

    @abstractmethod
    def to_bytes(self) -> bytes:
        """Return the content of the tokeniser's file."""

    def encode_premise(self, text: str) -> list[int]:
        return self.to_ids(self.tokenise_premise(text))

    def to_config(self) -> dict[str, Any]:
        return {"lengths": asdict(self.lengths)}


class WordTokeniser(Tokeniser):
    """Tokeniser of the word-based networks."""

    file = "vocabulary.txt"

    def __init__(self, vocabulary: Vocabulary, lengths: MaxLengths) -> None:
        self.vocabulary = vocabulary
        self.lengths = lengths
        self.premise_key = f"{lengths.premise} words"

    @classmethod
    def load(cls, directory: Path, lengths: MaxLengths) -> Self:
        return cls(Vocabulary.load(directory / cls.file), lengths)

    def fits_embedding(self, n_rows: int) -> bool:
        return n_rows == len(self.vocabulary)

    def encode_query(self, text: str) -> list[int]:
        return self.vocabulary.get_ids(normalisation.tokenise_query(text)[: self.lengths.query])

    def tokenise_premise(self, text: str) -> list[str]:
        """Return the words of a raw premise, interned to save memory."""
        words = tokenise_prefix(text, self.lengths.premise, normalisation.tokenise_premise)
        return [sys.intern(word) for word in words]

    def to_ids(self, tokens: list[str]) -> list[int]:
        return self.vocabulary.get_ids(tokens)

    def to_tokens(self, ids: list[int]) -> list[str]:
        return [self.vocabulary.get_term(token_id) for token_id in ids]

    def to_bytes(self) -> bytes:
        return self.vocabulary.to_text().encode()


class BaseWordPieceTokeniser:
    """Base class of tokenisers of subwords, without special tokens, which the networks add.

    "[SEP]" or "[MASK]" in a text is tokenised as ordinary text.
    """

    file: ClassVar[str] = "tokenizer.json"

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        tokenizer.no_padding()
        tokenizer.no_truncation()
        tokenizer.encode_special_tokens = True

    def fits_embedding(self, n_rows: int) -> bool:
        """Return whether an embedding table, possibly padded, has rows for all subwords."""
        return n_rows >= self._tokenizer.get_vocab_size()

    def to_bytes(self) -> bytes:
        return self._tokenizer.to_str(pretty=False).encode()


def load_tokenizer(directory: Path) -> Tokenizer:
    """Load tokenizer.json from a directory; raise ValueError if it is malformed."""
    text = (directory / BaseWordPieceTokeniser.file).read_text(encoding="utf-8")
    try:
        return Tokenizer.from_str(text)
    except Exception as error:  # tokenizers raises no specific error class
        raise ValueError(f"{BaseWordPieceTokeniser.file}: {error}") from None


class WordPieceTokeniser(BaseWordPieceTokeniser, Tokeniser):
    """Tokeniser of the BERT networks, which normalises Unicode itself."""

    def __init__(self, tokenizer: Tokenizer, lengths: MaxLengths) -> None:
        super().__init__(tokenizer)
        self.lengths = lengths
        self.premise_key = (
            f"{lengths.premise} pieces of {hashlib.sha256(self.to_bytes()).hexdigest()}"
        )

    @classmethod
    def load(cls, directory: Path, lengths: MaxLengths) -> Self:
        return cls(load_tokenizer(directory), lengths)

    def encode_query(self, text: str) -> list[int]:
        return self._encode(remove_urls(text), self.lengths.query)

    def tokenise_premise(self, text: str) -> list[int]:
        max_tokens = self.lengths.premise
        return tokenise_prefix(
            text, max_tokens, lambda prefix: self._encode(remove_urls(prefix), max_tokens)
        )

    def to_ids(self, tokens: list[int]) -> list[int]:
        return tokens

    def to_tokens(self, ids: list[int]) -> list[str]:
        return [str(self._tokenizer.id_to_token(token_id)) for token_id in ids]

    def truncate(self, text: str, max_pieces: int) -> str:
        """Return a text up to the end of its first `max_pieces` subwords."""
        offsets = self._tokenizer.encode(text, add_special_tokens=False).offsets
        return text if len(offsets) <= max_pieces else text[: offsets[max_pieces - 1][1]]

    def _encode(self, text: str, max_tokens: int) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids[:max_tokens]
        return ids


TOKENISERS: dict[InputUnit, type[Tokeniser]] = {
    "words": WordTokeniser,
    "pieces": WordPieceTokeniser,
}
