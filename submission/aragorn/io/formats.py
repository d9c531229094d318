"""Recognise files of formats that no reader accepts by their first bytes."""

import re
from pathlib import Path

from aragorn.errors import InputError

START_SIZE = 512  # bytes by which a format is recognised
ZIP = "a zip archive"
PICKLE = "a pickle of Python"
EXPORT = "export it as text"
UNPACK = "unpack it"
# formats of files: pattern of the first bytes, description, what to do
FILES = (
    (rb"version https://git-lfs", "a pointer of Git LFS", "fetch the file by `git lfs pull`"),
    (
        rb"(?i)(\xef\xbb\xbf|\s|<\?xml[^>]*>|<!--.*?-->)*<(!doctype )?html",
        "an HTML page",
        "download the file itself",
    ),
    (rb"%PDF-", "a PDF document", EXPORT),
    (rb"\{\\rtf", "an RTF document", "save it as plain text"),
    (rb"\xd0\xcf\x11\xe0", "an Office document", EXPORT),
    (
        rb"PK\x03\x04.{26}(\[Content_Types\]|_rels/|docProps/|xl/|word/|mimetype)",
        "an Office document",
        EXPORT,
    ),
    (rb"PK\x03\x04", ZIP, UNPACK),
    (rb"7z\xbc\xaf", "a 7z archive", UNPACK),
    (rb"Rar!\x1a", "a RAR archive", UNPACK),
    (rb".{257}ustar", "a tar archive", UNPACK),
    (rb"\x1f\x8b", "compressed twice", "decompress it"),
    (
        rb"\xfd7zXZ|BZh[1-9]1AY|\x28\xb5\x2f\xfd",
        "compressed by xz, bzip2 or Zstandard",
        "decompress it",
    ),
    (rb"PAR1\x15|ARROW1\0", "a Parquet or Arrow table", EXPORT),
    (rb"\x80[\x02-\x05][\x80-\xff(}\]c]", PICKLE, EXPORT),
    (rb"c(copy_?reg|__builtin__|numpy|pandas)[\w.]*\n|\([dl]p0\n|[}\]]q\x00", PICKLE, EXPORT),
    (rb"\x93NUMPY|\x89HDF|SQLite format 3\0", "a NumPy, HDF5 or SQLite file", EXPORT),
)
# formats of text, by the start of a file or line that is malformed in the expected format
TEXTS = (
    (rb"\s*[{\[]", "JSON"),
    (rb"\s*<top>", "the format of TREC topics"),
    (rb"\s*<", "XML"),
    (rb"[^\n|]*\|[^\n|]*\|", "separated by |"),
    (rb"%YAML|---(\s|$)|\s*(- )?[\w-]+:(\s|$)", "YAML"),
    (rb"[^\n,;]*([,;])[^\n,;]*\1|[^\s,;]+[,;][^\s,;]+\s*$", "CSV"),
)


LINES = ((rb"\S+[ \t]+Q0[ \t]+\S+[ \t]+\d", "a TREC run"), (rb"[^\n\t]+\t", "separated by tabs"))


def refuse_format(file: Path, start: bytes, accepted: str = "") -> None:
    """Raise InputError if a file has a format of FILES, unless it is `accepted`."""
    for pattern, name, fix in FILES:
        if re.match(pattern, start[:START_SIZE], re.DOTALL):
            if name != accepted:
                raise InputError(file, "", f"{name}, not text in the expected format", fix)
            return


def describe_text(start: bytes, expected: str = "") -> str:
    """Return "; this is X: convert it" for a malformed text; "" if unknown or `expected`.

    Lines of fields, which runs and qrels have, too, are named only where another format is
    expected.
    """
    for pattern, name in (*TEXTS, *LINES) if expected else TEXTS:
        if re.match(pattern, start):
            return "" if name == expected else f"; this is {name}: convert it"
    return ""
