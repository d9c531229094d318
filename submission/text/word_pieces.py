"""Split texts into BERT's word pieces."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from tokenizers import Tokenizer


class WordPieceReader:
    """Base class of readers that split texts into word pieces, without special tokens, which the networks add.

    "[SEP]" or "[MASK]" in a text is tokenised as ordinary text.
    """

    file: ClassVar[str] = "tokenizer.json"

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        tokenizer.no_padding()
        tokenizer.no_truncation()
        tokenizer.encode_special_tokens = True

    def matches_vocabulary(self, size: int) -> bool:
        """Return whether an embedding table of this size, possibly padded, has rows for all word pieces."""
        return size >= self._tokenizer.get_vocab_size()

    def to_bytes(self) -> bytes:
        return self._tokenizer.to_str(pretty=False).encode()


def load_tokenizer(directory: Path) -> Tokenizer:
    """Load a tokenizer from tokenizer.json."""
    text = (directory / WordPieceReader.file).read_text(encoding="utf-8")
    try:
        return Tokenizer.from_str(text)
    except Exception as error:  # tokenizers raises no specific error class
        raise ValueError(f"{WordPieceReader.file}: {error}") from None
