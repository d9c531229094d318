"""Input files for the tests of valid and invalid inputs, as mappings from file name to content."""

import gzip
import json

from tests.conftest import PREMISE, make_argument

MANY_DIGITS = "7" * 6000
DEEP = "[" * 20_000  # unclosed JSON arrays
TOPIC = "<topic><number>{}</number><title>{}</title></topic>"
TWO_TOPICS = TOPIC.format(1, "Are zoos cruel?") + TOPIC.format(2, "golf")
ARGUMENTS = [make_argument("a1"), make_argument("a2", "Golf is a sport")]
ARGUMENTS.append(make_argument("a3", "Taxes should rise"))
CORPUS = json.dumps({"arguments": ARGUMENTS})
# a line of the Hugging Face copy of args.me
HUB = {"conclusion": "Zoos", "stance": "CON", "id": "a", "argument": PREMISE}
TEXT = " ".join(f"word{index}" for index in range(20))
QUERIES = '{"qid": "1", "query": "zoos"}\n{"qid": "2", "query": "golf"}\n'
WORDS = ("zoos", "golf", "tax")
DOCUMENTS = "".join(f'{{"docno": "d{n}", "text": "{WORDS[n]} {TEXT}"}}\n' for n in range(3))


def write_files(directory, files):
    """Write files to a new directory; text is compressed if the file's name ends in .gz."""
    directory.mkdir()
    for name, content in files.items():
        file = directory / name
        if callable(content):
            content(file)
        elif isinstance(content, bytes):
            file.write_bytes(content)
        else:
            file.write_bytes(
                gzip.compress(content.encode()) if name.endswith(".gz") else content.encode()
            )
    return directory


def join_lines(*rows):
    """Format rows as JSON Lines; write a row that is text unchanged, so that it can be invalid."""
    return "".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows)


def touche(corpus=CORPUS, name="args-me.json"):
    """Return a Touché input of two topics, and the file `name` with the content `corpus`."""
    return {"topics.xml": f"<topics>{TWO_TOPICS}</topics>", name: corpus}


def touche_lines(*rows):
    """Return an input in Touché's format: two topics, and a corpus in JSON Lines."""
    return touche(join_lines(*rows), "args-me.jsonl")


def topics(content, name="topics.xml"):
    """Return a Touché input of the topics file `name` and three valid arguments."""
    return {name: content, "args-me.json": CORPUS}


def topic(qid, title):
    """Return an input in Touché's format: one topic, and a corpus of three valid arguments."""
    return topics(f"<topics>{TOPIC.format(qid, title)}</topics>")


def arguments(*added):
    """Return a Touché input of two topics, and of three valid arguments followed by `added`."""
    texts = [item if isinstance(item, str) else json.dumps(item) for item in [*ARGUMENTS, *added]]
    return touche(f'{{"arguments": [{",".join(texts)}]}}')


def tirex(queries=QUERIES, documents=DOCUMENTS):
    """Return a TIREx data set of queries.jsonl and documents.jsonl."""
    return {"queries.jsonl": queries, "documents.jsonl": documents}


def rerank(*rows, **fields):
    """Return a TIREx input of rerank.jsonl; docnos are d1, d2, …, and `fields` complete rows."""
    defaults = {"qid": "1", "query": "zoos", "text": "zoos"}
    named_rows = ({**defaults, "docno": f"d{n}", **fields, **row} for n, row in enumerate(rows, 1))
    return {"rerank.jsonl": join_lines(*named_rows)}


def format_lines(*scores):
    """Format a run of topic 1 with documents a1, a2, … at ranks 1, 2, … and these scores."""
    return "".join(f"1 Q0 a{rank} {rank} {score} x\n" for rank, score in enumerate(scores, 1))


# files, and the name of the one that is encoded or damaged
FORMATS = {
    "topics": (touche(), "topics.xml"),
    "args.me": (touche(), "args-me.json"),
    "args.me lines": (touche_lines(HUB, {**HUB, "id": "b"}), "args-me.jsonl"),
    "queries": (tirex(), "queries.jsonl"),
    "documents": (tirex(), "documents.jsonl"),
    "candidates": (
        rerank({"rank": 1, "score": 2.5, "text": PREMISE}, {"rank": 2, "score": 1, "qid": 1}),
        "rerank.jsonl",
    ),
    "run": ({**touche(), "run.txt": format_lines(3, 2, 1)}, "run.txt"),
    "qrels": ({**touche(), "qrels.txt": "1 0 a 2\n1 0 b 0\n2 0 a 1\n"}, "qrels.txt"),
}
