"""Tests that the artifacts and lexical rankings of a small input have known hashes."""

import hashlib
import sqlite3
from contextlib import closing
from pathlib import Path

from aragorn.cache import CHECKSUM_SIZE
from aragorn.index.weighting import BM25, RM3, Dirichlet
from aragorn.rankings import format_run
from aragorn.systems.catalogue import SYSTEMS
from tests.conftest import make_argument, write_deepct, write_lexical

FILLER = "the filler of these topics was told to them at length, again and again, by those who count the words"
GOLDEN = {
    "documents": "0f5c10cc3ba0b4ee", "enriched-deepct": "e60982ec03a326b7", "rows": "bfeadfba1a1aeb6b",
    "terms": "8081bd5306c7ffc0", "terms-deepct": "c4fd7e163684e1b0",
}  # fmt: skip
RANKINGS = {
    "bm25": "f7f2150524764a09", "dirichlet": "3d9aefb1c482f2b8", "bm25_rm3": "50790540f137aa8c",
    "deepct_dirichlet": "e7b1cf6f31022fa5",
}  # fmt: skip


def hash_artifacts(directory):
    """Hash all artifacts except rankings and conclusions; a database is hashed by its rows."""
    hashes = {}
    for store in filter(Path.is_dir, directory.iterdir()):
        files = [
            file for file in sorted(store.iterdir()) if file.suffix not in (".json", ".sqlite")
        ]
        hashes[store.name.rpartition("-")[0]] = hashlib.sha256(
            # a part, which has no suffix, begins with its checksum
            b"".join(file.read_bytes()[0 if file.suffix else CHECKSUM_SIZE :] for file in files)
        ).hexdigest()[:16]
        for file in store.glob("*.sqlite"):  # bytes depend on SQLite's version
            with closing(sqlite3.connect(file)) as database:
                rows = database.execute("select * from documents order by docno").fetchall()
            hashes["rows"] = hashlib.sha256(repr(rows).encode()).hexdigest()[:16]
    return {
        name: value
        for name, value in sorted(hashes.items())
        if not name.startswith(("ranking", "conclusions"))
    }


def test_artifact_bytes(make_input, make_retrieval, tmp_path):
    premises = [f"{FILLER} {'zoos ' * index}cost {index} coins" for index in range(5)]
    conclusions = ("Zoos aren't cruel!", "Golf is a sport", "Ａ café is no zoo")  # noqa: RUF001  # full-width letter
    documents = [
        make_argument(f"a{index}", conclusions[index % 3], premise)
        for index, premise in enumerate(premises)
    ]
    checkpoints = tmp_path / "checkpoints"
    write_deepct(checkpoints, "deepct")
    write_lexical(checkpoints, "dirichlet", Dirichlet())
    write_lexical(checkpoints, "bm25_rm3", BM25(), RM3(2, 4, 0.5, max_df_ratio=1.0))
    write_lexical(checkpoints, "deepct_dirichlet", Dirichlet(), enrichment="deepct")
    retrieval = make_retrieval(make_input(arguments=documents), checkpoints=checkpoints)
    rankings = {name: retrieval.rank(SYSTEMS[name].stage) for name in RANKINGS}
    runs = {
        name: format_run(ranking.assign(score=ranking["score"].round(3)), "a")
        for name, ranking in rankings.items()
    }
    hashes = {name: hashlib.sha256(text.encode()).hexdigest()[:16] for name, text in runs.items()}
    assert (hash_artifacts(retrieval.session.cache.path), hashes) == (GOLDEN, RANKINGS)
