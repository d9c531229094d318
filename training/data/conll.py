"""Documents with a tag a word, as TARGER's authors publish them: a word and its tag a line, -DOCSTART- before a document.

Persuasive essays are by Stab and Gurevych (Parsing Argumentation Structures in Persuasive Essays. Computational Linguistics
2017), web discourse by Habernal and Gurevych (Argumentation Mining in User-Generated Web Discourse. Computational Linguistics
2017); tags are kinds of argument components: P premise, C claim, MC major claim, B backing, R rebuttal, F refutation.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from submission.errors import InputError, nearest, short
from submission.text.written import places
from training.data.texts import text_of

START = "-DOCSTART-"
OUTSIDE = "O"
MORE = "TARGER's repository (uhh-lt/targer), data/"  # where to get them


@dataclass(frozen=True)
class Source:
    """A published data set of tagged documents."""

    file: str
    kinds: tuple[str, ...]  # of components
    about: str  # whose, for the checkpoint's card


SOURCES = {
    "essays": Source("es.txt", ("P", "C", "MC"), "persuasive essays (Stab and Gurevych; TARGER's files, MIT)"),
    "webd": Source("wd.txt", ("P", "C", "B", "R", "F"), "web discourse (Habernal and Gurevych; TARGER's files, MIT)"),
}


@dataclass(frozen=True)
class Document:
    """Its words, and the tag of each: O, B-kind for a component's first, I-kind for its others."""

    words: tuple[str, ...]
    tags: tuple[str, ...]


def read(directory: Path, source: Source) -> list[Document]:
    """The documents of a data set that have words, each text once.

    A word is cut as texts are (see `submission.text.written`), so that a tagger learns from the words that it will be asked
    about; all but the first part of a component's first word are within it.

    Raises:
        InputError: it cannot be read, or a line is neither empty, nor a document's beginning, nor a word and a tag of this set.
    """
    file = directory / source.file
    found: dict[tuple[str, ...], tuple[str, ...]] = {}
    words: list[str] = []
    tags: list[str] = []
    started = False
    for number, line in enumerate([*text_of(file).split("\n"), START], 1):
        fields = line.split()
        if fields[:1] == [START]:
            if words:
                found.setdefault(tuple(words), tuple(tags))
            words, tags, started = [], [], True
        elif fields:
            where = f"{file}, line {number}"
            if not started:
                raise InputError(f"{where}: a word before the first {START}; restore the file from {MORE}")
            if len(fields) != 2:
                raise InputError(f"{where}: {len(fields)} fields ({short(line)}); expected a word and its tag")
            tag = _tag(where, fields[1], source, tags[-1] if tags else OUTSIDE)
            for start, end in places(fields[0]):
                words.append(fields[0][start:end])
                tags.append(tag)
                tag = tag.replace("B-", "I-", 1)
    if not found:
        raise InputError(f"{file}: no documents; restore the file from {MORE}")
    return [Document(*document) for document in found.items()]


def _tag(where: str, given: str, source: Source, before: str) -> str:
    """A tag of the file, P-B for a premise's first word, in the usual form B-P. Raises InputError: it cannot stand there."""
    if given == OUTSIDE:
        return OUTSIDE
    kind, _, place = given.rpartition("-")
    if kind not in source.kinds or place not in ("B", "I"):
        valid = [OUTSIDE, *(f"{kind}-{place}" for kind in source.kinds for place in "BI")]
        raise InputError(f"{where}: unknown tag '{short(given)}'; {nearest(given, valid)}")
    if place == "I" and before not in (f"B-{kind}", f"I-{kind}"):
        raise InputError(f"{where}: {given} after {before}; expected {kind}-B, the beginning, before it")
    return f"{place}-{kind}"


def tags_of(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the tags of data sets, O first."""
    kinds = dict.fromkeys(kind for name in names for kind in SOURCES[name].kinds)
    return (OUTSIDE, *(f"{place}-{kind}" for kind in kinds for place in "BI"))
