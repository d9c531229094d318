"""Tests that the form of an input does not change runs; unusable forms are refused."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from zipfile import ZIP_BZIP2, ZIP_DEFLATED, ZIP_LZMA, ZIP_STORED, ZipFile

import pytest
import yaml

from tests.conftest import argv
from tests.contract.input_files import ARGUMENTS, CORPUS, TWO_TOPICS, tirex, write_files

TOPICS = {"topics.xml": f"<topics>{TWO_TOPICS}</topics>"}
DEBATEORG = {"debateorg.json": json.dumps({"arguments": ARGUMENTS[1:]})}
IDEBATE = {"idebate.json": json.dumps({"arguments": ARGUMENTS[:1]})}
CORPORA = {**DEBATEORG, **IDEBATE}
FILES = {**TOPICS, **CORPORA}
GZIPPED = {f"{name}.gz": gzip.compress(str(content).encode()) for name, content in FILES.items()}


def split(directory, files):
    return sorted(write_files(directory, files).iterdir(), reverse=True)


def pack(archive, files, folder="", method=ZIP_DEFLATED, flag_bits=0):
    """Write files to a zip archive as macOS does; flag bit 1 marks them as encrypted."""
    with ZipFile(archive, "w", method) as zip_file:
        for name, content in files.items():
            zip_file.writestr(f"__MACOSX/{folder}._{Path(name).name}", "")
            zip_file.writestr(f"{folder}{name}", content)  # not a function
            zip_file.infolist()[-1].flag_bits |= flag_bits
    return archive


FORMS = {
    "two directories": lambda tmp: [
        write_files(tmp / name, files) for name, files in (("t", TOPICS), ("c", CORPORA))
    ],
    "files": lambda tmp: split(tmp / "input", FILES),
    "gzipped directory": lambda tmp: [write_files(tmp / "input", GZIPPED)],
    "gzipped files": lambda tmp: split(tmp / "input", GZIPPED),
    "topics and archive": lambda tmp: [
        *split(tmp / "t", TOPICS),
        pack(tmp / "c.zip", CORPORA, "args.me/", ZIP_STORED),
    ],
    "three archives": lambda tmp: [
        pack(tmp / f"{9 - n}.zip", {name: FILES[name]}, "", ZIP_LZMA)
        for n, name in enumerate(FILES)
    ],
    "download without suffix": lambda tmp: [pack(tmp / "c.zip?download=1", FILES, "", ZIP_BZIP2)],
    "archive of gzipped files": lambda tmp: [pack(tmp / "c.zip", GZIPPED)],
    "archive of Windows": lambda tmp: [
        pack(tmp / "c.zip", {"": "", ".hidden": "", **FILES}, "data\\")
    ],
}


@pytest.mark.parametrize("name", FORMS)
def test_runs_do_not_depend_on_the_form_of_an_input(name, tmp_path, tiny_models, call):
    flags = argv("--system=knrm --system=bm25 --device=cpu --checkpoints", tiny_models)
    flags += argv("--cache-dir", tmp_path / "cache")
    (tmp_path / "form").mkdir()
    forms = {"plain": [write_files(tmp_path / "plain", FILES)]}
    forms["form"] = FORMS[name](tmp_path / "form")
    outputs = {}
    runs = {}
    fingerprints = {}
    collections = {}
    for form, paths in forms.items():
        inputs = [text for path in paths for text in ("-i", path)]
        directory = tmp_path / f"runs of {form}"
        code, outputs[form] = call("rank", *inputs, *flags, "-o", directory)
        assert code == 0, outputs[form]
        assert call("check", *inputs, "--checkpoints", tiny_models)[0] == 0
        runs[form] = {file.name: file.read_bytes() for file in directory.glob("*.txt")}
        fingerprints[form] = json.loads((directory / "fingerprint.json").read_text())["inputs"]
        metadata = yaml.safe_load((directory / "ir-metadata.yml").read_text())
        collections[form] = metadata["data"]["test collection"]
    assert runs["form"] == runs["plain"]
    assert [bool(run) for run in runs["plain"].values()] == [True] * 3
    assert collections["form"]["name"] == ", ".join(path.name for path in forms["form"])
    if "gzipped" not in name:  # else other names and hashes
        assert fingerprints["form"] == fingerprints["plain"]
        assert collections["form"]["files"] == collections["plain"]["files"]
        expected = [True, False]
        assert ["idebate.json: 1 arguments" in output for output in outputs.values()] == expected


def packed(files, edit=bytes, flag_bits=0):
    """Return a function that writes an archive of files, whose bytes it edits."""

    def write(directory):
        archive = pack(directory / "x.zip", files, "", ZIP_STORED, flag_bits)
        archive.write_bytes(edit(archive.read_bytes()))
        return [archive]

    return write


# in the directory of an archive; the last two bytes: compression method
HEADER = b"PK\x01\x02\x14\x03\x14\x00\x00\x00\x00\x00"
UNPACK = "unpack the archive and pass the directory of its files"
NEITHER = "no topics or corpus"
DAMAGED = "damaged or unsupported zip archive"
TWO_CORPORA = {"1/args-me.json": CORPUS, "2/idebate.json": CORPUS}
REFUSED = {
    "truncated": (packed(FILES, lambda data: data[:-30]), f"x.zip: {DAMAGED}"),
    "changed": (
        packed(DEBATEORG, lambda data: data.replace(b"Golf", b"Gulf")),
        f"x.zip/debateorg.json: {DAMAGED} (Bad CRC-32 for file",
    ),
    "encrypted": (packed(IDEBATE, flag_bits=1), f"x.zip/idebate.json: encrypted; {UNPACK}"),
    "unsupported compression": (
        packed(IDEBATE, lambda data: data.replace(HEADER, HEADER[:-2] + b"\x09\x00")),
        f"x.zip/idebate.json: {DAMAGED} (That compression method",
    ),
    "empty": (packed({}), f"x.zip: {NEITHER} found among no files; expected topics*.xml, args-me"),
    "no corpus": (packed({"a.txt": ""}), f"x.zip: {NEITHER} found among a.txt; expected topics*."),
    "nested": (packed({"y.zip": ""}), f"x.zip/y.zip: zip archive in a zip archive; {UNPACK}"),
    "path out of archive": (packed({"../x": ""}), "x.zip/../x: path that leads out of the archive"),
    "path of Windows": (packed({"..\\x": ""}), "path that leads out of the archive"),
    "both slashes": (
        packed({"a/idebate.json": CORPUS, "a\\idebate.json": CORPUS}),
        r"x.zip: a/idebate.json and a\idebate.json are the same path; remove one of them",
    ),
    "absolute path": (packed({"/args-me.json": CORPUS}), "args-me.json: path that leads out of"),
    "two corpora": (packed(TWO_CORPORA), "x.zip/2/idebate.json: second corpus of the"),
    "two formats": (
        lambda tmp: [pack(tmp / "x.zip", IDEBATE), write_files(tmp / "c", tirex())],
        "second corpus of the input (first: ",
    ),
    "same portal": (
        lambda tmp: [pack(tmp / "x.zip", IDEBATE), *split(tmp / "c", IDEBATE)],
        "second idebate of the input (first: ",
    ),
    "same topics": (
        lambda tmp: [write_files(tmp / "t", FILES)],
        "line 1: duplicate topic 1 (first",
    ),
    "same file": (lambda tmp: [tmp / "topics.xml"], "second topics of the input (first"),
    "missing file": (lambda tmp: [tmp / "c.zip"], "input not found; expected topics*.xml and"),
    "unknown kind": (
        lambda tmp: split(tmp / "c", {"a.txt": ""}),
        f"a.txt: {NEITHER} found among a.txt; expected topics*.xml,",
    ),
    **{
        f"FIFO {name}": (
            lambda tmp, name=name: [*write_files(tmp / "fifo", {name: os.mkfifo}).iterdir()],
            f"{name}: cannot be read (a FIFO; expected a regular file); choose another",
        )
        for name in ("c", "c.zip")
    },
    "device": (lambda _: [Path("/dev/null")], "/dev/null: cannot be read (a character device; exp"),
    "other format": (
        lambda tmp: split(tmp / "c", {"args-me.csv": ""}),
        "args-me.csv: CSV, BEIR and TIREx without queries.jsonl are not",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_unusable_forms_of_an_input_are_refused(name, tmp_path, tiny_models, call):
    form, message = REFUSED[name]
    (tmp_path / "topics.xml").write_text(str(TOPICS["topics.xml"]))
    inputs = [text for path in (tmp_path / "topics.xml", *form(tmp_path)) for text in ("-i", path)]
    for command in (
        ("rank", "-o", tmp_path / "out", "--system", "bm25"),
        ("check", "--checkpoints", tiny_models),
    ):
        code, output = call(*command, *inputs)
        assert (code, message in output) == (3, True), output
    assert not any((tmp_path / "out").glob("*"))
