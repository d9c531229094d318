"""Write small argument-quality data sets in the published formats."""

import csv

import numpy as np

from aragorn_training.data.datasets import webis_argquality
from aragorn_training.data.datasets.quality_lists import IBM, IBM_DEBATES, UKP
from tests.unit.training.conftest import TOPIC_WORDS

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
