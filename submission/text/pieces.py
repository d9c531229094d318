"""BERT's tokenizer: a text as word pieces, and what is in a checkpoint of it."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from tokenizers import Tokenizer


class Pieces:
    """Reads texts by a BERT tokenizer, without special pieces, which the networks add.

    A premise that has "[SEP]" or "[MASK]" in its text is split there as anywhere else.
    """

    file: ClassVar[str] = "tokenizer.json"

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        tokenizer.no_padding()
        tokenizer.no_truncation()
        tokenizer.encode_special_tokens = True

    def fits(self, terms: int) -> bool:
        """Tell whether a network with vectors for so many pieces has all of them; its table may be padded to a round number."""
        return terms >= self._tokenizer.get_vocab_size()

    def dumps(self) -> bytes:
        """Return the tokenizer as JSON."""
        return self._tokenizer.to_str(pretty=False).encode()


def load_tokenizer(directory: Path) -> Tokenizer:
    """The tokenizer of a directory. Raises OSError, ValueError."""
    text = (directory / Pieces.file).read_text(encoding="utf-8")
    try:
        return Tokenizer.from_str(text)
    except Exception as error:  # the package has no error class of its own
        raise ValueError(f"{Pieces.file}: {error}") from None
