"""Small untrained encoders, and data sets in the published formats."""

import csv
import gc

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertModel

from aragorn_training.data.datasets import sentence_pairs, webis_argquality
from aragorn_training.data.datasets.quality_lists import IBM, IBM_DEBATES, UKP
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


GOOD = "because"  # its frequency in an argument is the argument's quality


def build_argument(rng, quality):
    return " ".join(rng.permutation([*rng.choice(TOPIC_WORDS, 4), *[GOOD] * quality]))


def write_ukp(directory, debates=16, arguments=5):
    """Write two UKP lists per debate: lower ranks are better, line breaks are <br/>."""
    rng = np.random.default_rng(3)
    folder = directory / UKP.folder
    folder.mkdir(parents=True)
    for debate in range(debates):
        for stance in ("yes-", "no"):
            order = rng.permutation(arguments)
            rows = [
                f'a{n}\t{0.9 - quality / 10}\t"So <br/> {build_argument(rng, quality)}'
                for n, quality in enumerate(order)
            ]
            file = folder / f"is-{TOPIC_WORDS[debate % 12]}-{debate}-good-_{stance}.csv"
            file.write_text("\n".join(["#id\trank\targument", *rows, ""]), encoding="utf-8")
    return folder


def write_ibm(directory, arguments=4):
    """Write two IBM lists per debate: higher ranks are better, quotation marks doubled."""
    rng = np.random.default_rng(4)
    folder = directory / IBM.folder
    folder.mkdir(parents=True)
    for debate in IBM_DEBATES:
        for stance in ("PRO", "CON"):
            rows = [
                f'{n}\t{quality / arguments}\t"{build_argument(rng, quality)} ""so"""'
                for n, quality in enumerate(rng.permutation(arguments))
            ]
            file = folder / f"We-say-{stance.lower()}-of-{debate.replace(' ', '-')}-({stance}).tsv"
            file.write_text(
                "\r\n".join(["id\trank\targument", *rows, ""]), encoding="utf-8", newline=""
            )
    return folder


def write_webis(directory, topics=6, arguments=8):
    """Write judged texts (the first is no argument) and rankings, with one text twice."""
    rng = np.random.default_rng(5)
    folder = directory / webis_argquality.FOLDER
    folder.mkdir(parents=True)
    questions = [webis_argquality.TOPIC_HEADER]
    texts = [webis_argquality.ARGUMENT_HEADER]
    ranking = [webis_argquality.RANKING_HEADER]
    for topic in range(1, topics + 1):
        questions.append(
            (str(topic), "Places", f"Is {TOPIC_WORDS[topic]}  good?", TOPIC_WORDS[topic])
        )
        for text in range(arguments):
            value = -4.0 if text == 0 else text / 2
            dialectical = -value if text else value
            words = build_argument(rng, text)
            qualities = (value, text > 0, value, value, dialectical, 9, True, value)
            texts.append(tuple(map(str, (topic, text, 7, words, *qualities))))
        for model in ("BM25", "DPH", "DirichletLM"):
            order = rng.permutation(arguments)
            ranking += [
                (str(topic), model, str(rank), "7", str(text))
                for rank, text in enumerate([*order, order[0]])
            ]
    for name, rows in (("topics", questions), ("arguments", texts), ("ranking", ranking)):
        with (folder / f"webis-argquality20-{name}.csv").open(
            "w", encoding="utf-8", newline=""
        ) as stream:
            csv.writer(stream).writerows(rows)
    return folder


def write_quality(directory, debates=16):
    """Write the UKP, IBM and Webis data sets and return `directory`."""
    write_ukp(directory, debates)
    write_ibm(directory)
    write_webis(directory)
    return directory


def write_tagged(directory, documents=40):
    """Write essays and web documents; premises begin with `because`, claims with `so`."""
    rng = np.random.default_rng(6)
    directory.mkdir(parents=True, exist_ok=True)
    for name in ("es", "wd"):
        lines = []
        for _ in range(documents):
            lines += ["-DOCSTART- -X- O O", ""]
            for _ in range(rng.integers(2, 5)):
                lines += [f"{word} O" for word in rng.choice(TOPIC_WORDS, rng.integers(0, 3))]
                first_word, component_type = [("because", "P"), ("so", "C")][rng.integers(2)]
                words = [first_word, *rng.choice(TOPIC_WORDS, rng.integers(1, 4))]
                lines += [
                    f"{word} {component_type}-{'I' if index else 'B'}"
                    for index, word in enumerate(words)
                ]
                lines += [". O", ""]
        (directory / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return directory
