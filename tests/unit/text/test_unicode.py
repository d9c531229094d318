"""One text, however its characters are encoded; and a text that looks like a tokenizer's control pieces."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from submission.inference.checkpoint_io import write_network
from submission.inference.probe import PAIRS, UNIFIED_PAIRS, probed
from submission.inference.ranker_checkpoint import RANKERS, open_checkpoint
from submission.paths import CHECKPOINTS
from submission.text.index_terms import Terms
from submission.text.normalisation import normalise, premise_words, query_words
from submission.text.passages import PassageReader
from submission.text.tokenisers import Lengths, PieceTokeniser, WordTokeniser
from submission.text.unicode import unified
from submission.text.vocabulary import Vocabulary
from submission.text.word_pieces import load_tokenizer
from tests.conftest import write_tiny

WRITTEN = {  # in other characters → plainly
    "cafe\u0301": "café",
    "zoos": "zoos",
    "\uff3a\uff4f\uff4f\uff53\uff01": "Zoos!",
    "abol\u00adished": "abolished",
    "zo\u200bos": "zoos",
    "\ufeffzoos": "zoos",
    "zoos\u3000are": "zoos are",
    "a\u2060b\u200dc\ufe0f": "abc",
    "right\u200e to\u202e left": "right to left",
    "e\u00ad\u0301": "é",  # composed once the hyphen between is gone
    "\u212b": "å".upper(),  # the sign of the unit
}


@pytest.mark.parametrize(("written", "plain"), WRITTEN.items())
def test_characters_that_look_alike_are_one(written: str, plain: str) -> None:
    assert unified(written) == plain
    assert Terms("none").of(written) == Terms("none").of(plain)
    assert normalise(written) == normalise(plain)
    assert query_words(written) == query_words(plain)
    assert premise_words(written) == premise_words(plain)


@given(st.text())
def test_a_text_is_unified_once_and_for_all(text: str) -> None:
    once = unified(text)
    assert unified(once) == once
    assert unified(unicodedata.normalize("NFD", text)) == once == unified(unicodedata.normalize("NFC", text))


def test_the_first_text_rule_takes_characters_as_they_are() -> None:
    assert query_words("zo\u00ados", 1) == ["zo\u00ados"]
    assert query_words("zo\u00ados", 2) == ["zoos"]
    assert premise_words("cafe\u0301", 1) == ["cafe\u0301"]
    vocabulary = Vocabulary(["café", "zoos"])
    first, second = (WordTokeniser(vocabulary, Lengths(), rule) for rule in (1, 2))
    assert [reader.premise("cafe\u0301 zo\u00ados") for reader in (first, second)] == [[1, 1], [2, 3]]
    assert first.reading != second.reading


def test_a_checkpoint_keeps_its_text_rule(tmp_path: Path) -> None:
    """Without the key it is the first; the probe of the second has pairs that only this rule reads so."""
    write_tiny(tmp_path, "knrm", 0)
    new, old = open_checkpoint(tmp_path / "knrm"), open_checkpoint(CHECKPOINTS / "knrm")
    assert (new.tokeniser.rule, old.tokeniser.rule) == (2, 1)
    assert len(probed(new.ranker, new.tokeniser)) == len(PAIRS) + len(UNIFIED_PAIRS)
    assert len(probed(old.ranker, old.tokeniser)) == len(PAIRS)
    assert '"text_rule": 2' in (tmp_path / "knrm" / "config.json").read_text()
    write_network(tmp_path / "again", RANKERS, old.ranker, old.tokeniser, {}, {"note": "a test"}, "# test\n")
    assert "text_rule" not in (tmp_path / "again" / "config.json").read_text()
    assert open_checkpoint(tmp_path / "again").tokeniser.rule == 1


CONTROL = ["[SEP]", "[CLS]", "[MASK]", "[PAD]", "[UNK]"]


@pytest.mark.parametrize("piece", CONTROL)
@pytest.mark.parametrize("checkpoint", ["vanilla_bert", "cedr_knrm", "sbert", "tfr_bert", "deepct"])
def test_text_that_looks_like_a_control_piece_is_text(checkpoint: str, piece: str) -> None:
    directory, text = CHECKPOINTS / checkpoint, f"zoos {piece} are cruel"
    control = load_tokenizer(directory).token_to_id(piece)
    plain = [f"[{piece[1:-1].lower()}]", piece.lower()]
    reader = PieceTokeniser.load(directory, Lengths(20, 60))
    assert control not in reader.premise(text)
    assert reader.premise(text) == reader.premise(text.replace(piece, plain[0]))
    assert control not in reader.query(text)
    [passage] = PassageReader(load_tokenizer(directory), 220, 320).passages(text)
    assert control not in passage.ids
    assert "[" in passage.words


def test_control_pieces_in_a_premise_change_a_score_as_words_do() -> None:
    checkpoint = open_checkpoint(CHECKPOINTS / "vanilla_bert")
    question, premise = "Should zoos be abolished?", "Zoos should be abolished {} since animals suffer in them."
    pairs = [(question, premise.format(word)) for word in ("", "[SEP]", "[sep]")]
    _, control, plain = checkpoint.scores(pairs).tolist()
    assert control == pytest.approx(plain, abs=1e-4)
