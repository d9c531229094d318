"""Fixtures for Augmented SBERT: small untrained encoders and data sets in the published formats."""

import gc

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertModel

from aragorn_training.data.datasets import sentence_pairs
from tests.conftest import TINY_BERT, build_tiny_tokenizer

TOPIC_WORDS = [f"p{chr(97 + i)}" for i in range(12)]


@pytest.fixture(scope="session")
def encoder(tmp_path_factory):
    """Write a four-layer BERT with random weights and a vocabulary of letters."""
    folder = write_encoder(tmp_path_factory.mktemp("encoders") / "tiny", 0)
    # the trainer collects garbage after each run, which would take longer than training
    gc.freeze()
    yield folder
    gc.unfreeze()


@pytest.fixture(scope="session")
def other_encoder(tmp_path_factory):
    """Write an encoder that differs from `encoder` only in its random weights."""
    return write_encoder(tmp_path_factory.mktemp("others") / "other", 1)


def write_encoder(folder, seed, layers=4, **config_fields):
    """Write a tiny BERT with random weights to `folder` in Hugging Face format."""
    folder.mkdir(parents=True)
    tokenizer = build_tiny_tokenizer()
    tokenizer.save(str(folder / "tokenizer.json"))
    torch.manual_seed(seed)
    sizes = {**TINY_BERT, "num_hidden_layers": layers, "max_position_embeddings": 64}
    sizes["vocab_size"] = tokenizer.get_vocab_size()
    BertModel(BertConfig(**sizes, **config_fields)).save_pretrained(folder)
    return folder


def sample_sentence(rng):
    """Sample six words from TOPIC_WORDS with replacement."""
    return " ".join(rng.choice(TOPIC_WORDS, 6))


def write_bws(directory, pairs_per_topic=10):
    """Write a BWS file; a pair's similarity is its number of distinct common words / 6."""
    rng = np.random.default_rng(1)
    lines = [",".join(sentence_pairs.BWS_HEADER)]
    for topic in (topic for topics in sentence_pairs.CROSS_TOPIC_SPLITS for topic in topics):
        for _ in range(pairs_per_topic):
            first = sample_sentence(rng)
            second = sample_sentence(rng)
            similarity = len({*first.split()} & {*second.split()}) / 6
            lines.append(
                f'{len(lines)},"{first}, {topic} {len(lines)} ",{second} {len(lines)},{topic},{similarity}'
            )
    file = directory / sentence_pairs.BWS_FILE
    file.parent.mkdir(parents=True)
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def write_mrpc(directory, train=66, test=24):
    """Write the MRPC files, in which two thirds of the pairs are paraphrases; return their paths.

    Two test pairs share a sentence with a training pair; two other test pairs share a sentence with
    each other.
    """
    rng = np.random.default_rng(2)
    files = [directory / file for file in sentence_pairs.MRPC_FILES]
    texts = [
        (sample_sentence(rng) + f" {row}", sample_sentence(rng) + f' said "{row}')
        for row in range(train + test)
    ]
    texts[train + 3] = (texts[5][0], texts[train + 3][1])
    texts[train + 4] = (texts[train + 4][0], texts[7][0])
    texts[train + 6] = (texts[train + 9][1], texts[train + 6][1])
    rows = [
        f"{int(row % 3 > 0)}\t{row}\t{row}\t{first}\t{second}"
        for row, (first, second) in enumerate(texts)
    ]
    files[0].parent.mkdir(parents=True)
    for file, part in zip(files, (rows[:train], rows[train:]), strict=True):
        text = "\ufeff" + "\r\n".join(["\t".join(sentence_pairs.MRPC_HEADER), *part]) + "\r\n"
        file.write_text(text, encoding="utf-8", newline="")
    return files
