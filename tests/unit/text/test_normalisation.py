from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest
from nltk.tokenize import line_tokenize

from submission.paths import STOP_WORDS_FILE
from submission.text.normalisation import (
    load_stop_words,
    normalise,
    remove_urls,
    tokenise_prefix,
    tokenise_premise,
    tokenise_query,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Should teachers get tenure?", "teachers get tenure"),
        ("Abortion!", "abortion"),
        ("Don't ban women's rights", "ban womens rights"),  # don't is a stop word with and without its apostrophe
        ("Don’t ban women’s rights", "ban womens rights"),
        ("Should any vaccines be required for children?", "vaccines required children"),
        ("9/11: an inside-job", "9 11 inside job"),
        ("100% C++ — §5", "100 c 5"),
        ("To be, or not to be?", "to be, or not to be?"),
        ("  Is   École\tgood ", "école good"),
        ("", ""),
        ("?!", "?!"),
    ],
)
def test_normalise(text: str, expected: str) -> None:
    assert normalise(text) == expected


def test_stop_words_are_those_of_2020() -> None:
    data = STOP_WORDS_FILE.read_bytes()
    assert hashlib.sha256(data).hexdigest() == "649e2341238138974f7fc014ba2c3655dc334605136791a9d1918a41fca86143"
    assert len(data.split()) == 179
    assert {"any", "dont", "wouldnt", "i"} <= load_stop_words()
    assert "don't" not in load_stop_words()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Yes, it IS!!!", "yes <comma> it is <exclamation_mark>"),
        ("see https://example.org/a?b=1 and www.example.org now", "see and now"),
        ("in 2020", "in two thousand twenty"),
        ("the 9th of 42", "the nine th of forty two"),
        ("no no no, really really", "no <comma> really"),
        ("12" * 30, "<number>"),
        ("women's “rights”", "womens <quotation_mark> rights <quotation_mark>"),
        ("'quoted' – 5€", "<apostrophe> quoted <apostrophe> <hyphen-minus> five <euro_sign>".replace("-", "_")),  # noqa: RUF001
        ("", ""),
    ],
)
def test_tokenise_premise(text: str, expected: str) -> None:
    assert " ".join(tokenise_premise(text)) == expected


def test_query_and_premise_tokens_match() -> None:
    assert tokenise_query("Should women's 9/11 memorials be free?") == ["womens", "nine", "eleven", "memorials", "free"]
    assert set(tokenise_query("Should women's 9/11 memorials be free?")) <= set(
        tokenise_premise("Free women's memorials on 9/11.")
    )


def test_remove_urls_keeps_other_text() -> None:
    assert remove_urls("It's HERE: http://example.org/x, ok?") == "It's HERE:   ok?"


def test_stop_words_from_group_writable_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = Path(shutil.copytree(STOP_WORDS_FILE.parent, tmp_path / "stopwords")) / STOP_WORDS_FILE.name
    for path in (copy.parent, copy):
        path.chmod(path.stat().st_mode | 0o020)
    monkeypatch.setattr("submission.text.normalisation.STOP_WORDS_FILE", copy)
    load_stop_words.cache_clear()
    assert len(load_stop_words()) > 170


def test_stop_words_match_nltk_reader() -> None:
    words = line_tokenize(STOP_WORDS_FILE.read_text())
    assert {word.replace("'", "") for word in words} == load_stop_words()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "short",
        "no " * 500 + "end",  # collapses to one word
        "see https://example.org/" + "a" * 900 + " and more " * 300,  # no whitespace where it would be cut
        "Σίσυφος ΟΔΟΣ, women's 1,000 “rights”…\n\u2003" * 60,
        "x" * 5000,
        ". . . 12 12 a-b " * 200,
    ],
)
@pytest.mark.parametrize("max_tokens", [1, 3, 50, 100, 180])
def test_tokenise_prefix_matches_whole_text(text: str, max_tokens: int) -> None:
    assert tokenise_prefix(text, max_tokens, tokenise_premise) == tokenise_premise(text)[:max_tokens]


def test_tokenise_prefix_reads_only_a_prefix() -> None:
    lengths: list[int] = []
    tokens = tokenise_prefix("word " * 10_000, 10, lambda prefix: lengths.append(len(prefix)) or prefix.split())  # type: ignore[func-returns-value]
    assert tokens == ["word"] * 10
    assert sum(lengths) < 200
