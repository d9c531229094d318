"""Read documents with one tag per token in the format of TARGER's authors.

Each line holds a token and its tag; -DOCSTART- starts a document. Component types: P premise, C
claim, MC major claim, B backing, R rebuttal, F refutation.

Persuasive essays: Stab and Gurevych, Parsing Argumentation Structures in Persuasive Essays,
Computational Linguistics 2017. Web discourse: Habernal and Gurevych, Argumentation Mining in
User-Generated Web Discourse, Computational Linguistics 2017.
"""

from dataclasses import dataclass
from pathlib import Path

from aragorn.errors import InputError, abbreviate, pluralise, suggest
from aragorn.text.surface_tokens import find_token_spans
from aragorn_training.data.datasets.delimited import read_text

DOCUMENT_START = "-DOCSTART-"
OUTSIDE = "O"
DOWNLOAD_HINT = "TARGER's repository (uhh-lt/targer), data/"


@dataclass(frozen=True)
class ComponentDataset:
    """Descriptor of a published data set of tagged documents."""

    file: str
    component_types: tuple[str, ...]
    description: str  # credit line of the checkpoint card


SOURCES = {
    "essays": ComponentDataset(
        "es.txt", ("P", "C", "MC"), "persuasive essays (Stab and Gurevych; TARGER's files, MIT)"
    ),
    "webd": ComponentDataset(
        "wd.txt",
        ("P", "C", "B", "R", "F"),
        "web discourse (Habernal and Gurevych; TARGER's files, MIT)",
    ),
}


@dataclass(frozen=True)
class TaggedDocument:
    """A tokenised document with one BIO tag per token."""

    tokens: tuple[str, ...]
    tags: tuple[str, ...]


def read_documents(directory: Path, dataset: ComponentDataset) -> list[TaggedDocument]:
    """Read the non-empty documents of a data set; a repeated text counts once, with its first tags.

    Tokens of the file are split by `find_token_spans`, as input texts are at inference. If a token
    with a B- tag is split, all parts but the first get an I- tag.
    """
    file = directory / dataset.file
    documents: dict[tuple[str, ...], tuple[str, ...]] = {}
    tokens: list[str] = []
    tags: list[str] = []
    in_document = False
    for line_number, line in enumerate([*read_text(file).split("\n"), DOCUMENT_START], 1):
        fields = line.split()
        if fields[:1] == [DOCUMENT_START]:
            if tokens:
                documents.setdefault(tuple(tokens), tuple(tags))
            tokens = []
            tags = []
            in_document = True
        elif fields:
            location = f"{file}, line {line_number}"
            if not in_document:
                cause = f"token before the first {DOCUMENT_START}"
                raise InputError(
                    f"{location}: {cause}; download the file again from {DOWNLOAD_HINT}"
                )
            if len(fields) != 2:
                cause = f"{pluralise(len(fields), 'field')} ({abbreviate(line)})"
                raise InputError(
                    f"{location}: {cause}; expected a token and its tag; download the file again "
                    f"from {DOWNLOAD_HINT}"
                )
            tag = _parse_tag(location, fields[1], dataset, tags[-1] if tags else OUTSIDE)
            for start, end in find_token_spans(fields[0]):
                tokens.append(fields[0][start:end])
                tags.append(tag)
                tag = tag.replace("B-", "I-", 1)
    if not documents:
        raise InputError(f"{file}: contains no documents; download it again from {DOWNLOAD_HINT}")
    return [TaggedDocument(*document) for document in documents.items()]


def _parse_tag(location: str, raw_tag: str, dataset: ComponentDataset, previous_tag: str) -> str:
    """Convert a tag (P-B) to BIO notation (B-P); raise InputError if it is invalid here."""
    if raw_tag == OUTSIDE:
        return OUTSIDE
    component_type, _, prefix = raw_tag.rpartition("-")
    if component_type not in dataset.component_types or prefix not in ("B", "I"):
        types = dataset.component_types
        valid_tags = [OUTSIDE, *(f"{component}-{prefix}" for component in types for prefix in "BI")]
        raise InputError(
            f"{location}: unknown tag '{abbreviate(raw_tag)}'; {suggest(raw_tag, valid_tags)}"
        )
    if prefix == "I" and previous_tag not in (f"B-{component_type}", f"I-{component_type}"):
        raise InputError(
            f"{location}: {raw_tag} follows {previous_tag}; a component must start with "
            f"{component_type}-B"
        )
    return f"{prefix}-{component_type}"


def list_tags(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the distinct BIO tags of data sets, given as keys of SOURCES; O comes first."""
    component_types = dict.fromkeys(
        component_type for name in names for component_type in SOURCES[name].component_types
    )
    return (
        OUTSIDE,
        *(f"{prefix}-{component_type}" for component_type in component_types for prefix in "BI"),
    )
