"""A small input that tests may change, and a small network that learned nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from submission.checkpoint import write_checkpoint
from submission.disk.work import Work
from submission.encoding import Lengths, WordEncoder
from submission.input.directory import Input
from submission.paths import CHECKPOINTS
from submission.rankers.knrm import KNRM
from submission.systems.execution import Execution
from submission.systems.remembered import Checkpoints
from submission.vocabulary import Vocabulary

torch.set_num_threads(1)  # the tests' tensors are small

ROOT = Path(__file__).parent.parent
SAMPLE = ROOT / "submission" / "sample" / "input"
REAL = ROOT.parent / "shared" / "data"

WORDS = "zoos keep wild animals in small cages and this is plainly cruel to them every day"  # 16 words


def argument(docno: str, conclusion: str = "Zoos are cruel", premise: str = WORDS) -> dict[str, object]:
    """An argument in args.me's shape."""
    return {"id": docno, "conclusion": conclusion, "premises": [{"text": premise, "stance": "PRO"}], "context": {}}


@pytest.fixture
def make_input(tmp_path: Path) -> Callable[..., Path]:
    """Write an input directory of topics (number, title) and arguments."""

    def make(
        topics: list[tuple[str, str]] | None = None,
        arguments: list[dict[str, object]] | None = None,
        name: str = "input",
    ) -> Path:
        directory = tmp_path / name
        directory.mkdir()
        given = topics if topics is not None else [("1", "Are zoos cruel?"), ("2", "Is golf a sport?")]
        body = "".join(f"<topic><number>{n}</number><title>{t}</title></topic>\n" for n, t in given)
        (directory / "topics.xml").write_text(f"<topics>\n{body}</topics>\n", encoding="utf-8")
        default = [
            argument("a1"),
            argument("a2", "Zoos are cruel!"),
            argument("a3", "Golf is a sport", f"golf {WORDS}"),
            argument("a4", "Taxes should rise", f"taxes {WORDS}"),
            argument("a5", "Dogs make good pets", f"dogs {WORDS}"),
            argument("a6", "Cats make good pets", "too short"),
        ]
        content = {"arguments": default if arguments is None else arguments}
        (directory / "args-me.json").write_text(json.dumps(content), encoding="utf-8")
        return directory

    return make


@pytest.fixture
def checkpoints(tmp_path: Path) -> Path:
    """A checkpoints directory with a tiny untrained KNRM."""
    torch.manual_seed(0)
    encoder = WordEncoder(Vocabulary(sorted(set(WORDS.split()) | {"golf", "cruel"})), Lengths())
    ranker = KNRM(KNRM.Config(vocabulary=len(encoder.vocabulary), dimensions=8))
    write_checkpoint(tmp_path / "checkpoints" / "knrm", ranker, encoder, {"MAP@20": 1.0}, {"note": "a test"}, "# test\n")
    return tmp_path / "checkpoints"


@pytest.fixture
def execute(tmp_path: Path) -> Iterator[Callable[..., Execution]]:
    """An execution on an input directory, in this process."""
    with ExitStack() as stack:

        def start(
            directory: Path, input_run: Path | None = None, checkpoints: Path = CHECKPOINTS, qid: str | None = None
        ) -> Execution:
            work = stack.enter_context(Work(None, tmp_path))
            return Execution(Input(directory, input_run, qid), Checkpoints(checkpoints), torch.device("cpu"), work)

        yield start


def tiny_tokenizer() -> Tokenizer:
    """Word pieces of letters and two words."""
    letters = [chr(97 + number) for number in range(26)]
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "topic", "filler", *letters, *(f"##{letter}" for letter in letters)]
    tokenizer = Tokenizer(WordPiece({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = BertNormalizer(), BertPreTokenizer()
    return tokenizer
