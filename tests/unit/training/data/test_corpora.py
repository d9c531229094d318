"""Test that a corpus is recognised, and credited with its licence."""

import json
import shutil
from pathlib import Path

import pytest

from aragorn.io.collection import hash_java_string
from aragorn.io.dataset import Dataset
from aragorn.io.touche import find_corpus_files
from aragorn.paths import SAMPLE_INPUT
from aragorn_training.data.corpora import (
    ARGS_ME,
    SAMPLE,
    describe_corpus,
    describe_dataset,
    format_credit,
    format_judged_credit,
)
from tests.conftest import make_argument
from tests.contract.input_files import tirex, write_files


def write_corpus(directory, count, mismatches=0):
    """Write arguments whose ids are hashes of their texts, but for the first `mismatches`."""
    arguments = []
    for index in range(count):
        conclusion = f"Zoos {index}"
        premise = f"Premise {index}"
        hashed = (31 * hash_java_string(premise) + hash_java_string(conclusion)) % 2**32
        docno = f"S1234-A{hashed + (index < mismatches):x}"
        arguments.append(make_argument(docno, conclusion, premise))
    directory.mkdir()
    (directory / "args-me.json").write_text(json.dumps({"arguments": arguments}))
    return find_corpus_files(directory)


def test_sample_is_recognised_by_its_ids(tmp_path):
    copy = Path(shutil.copytree(SAMPLE_INPUT, tmp_path / "args.me"))
    (copy / "idebate.json").unlink()
    assert describe_corpus(find_corpus_files(copy)) == SAMPLE
    assert describe_dataset(Dataset(SAMPLE_INPUT)) == SAMPLE
    assert format_credit(SAMPLE) == "Aragorn sample arguments (MIT)"


@pytest.mark.parametrize(("mismatches", "is_args_me"), [(0, True), (2, True), (3, False)])
def test_args_me_is_recognised_by_hashed_ids(mismatches, is_args_me, tmp_path):
    corpus = {"data": "own", "licence": "not stated"}
    expected = ARGS_ME if is_args_me else corpus
    assert describe_corpus(write_corpus(tmp_path / "own", 200, mismatches)) == expected


def test_credits_name_publisher_and_licence(tmp_path):
    corpus = describe_corpus(write_corpus(tmp_path / "own", 1, 1))
    assert format_credit(corpus) == "own arguments (licence not stated)"
    assert format_judged_credit(corpus) == "own arguments (licence not stated) and judgments"
    expected = "args.me arguments (Webis, CC BY 4.0) and Touché's judgments"
    assert format_judged_credit(ARGS_ME) == expected


def test_tirex_data_sets_have_the_name_of_their_directory(tmp_path):
    dataset = Dataset(write_files(tmp_path / "zoos", tirex()))
    assert describe_dataset(dataset) == {"data": "zoos", "licence": "not stated"}
