"""What networks learn from: the corpus, published data and systems' scores as tables, and vectors of words."""

from __future__ import annotations

import argparse

from submission.command import Verbs, add_checkpoints, add_device, add_input, folder, whole_number
from training.commands.shared import COUNT, SEED


def add(verbs: Verbs) -> None:
    """The flags of these verbs."""
    verb = verbs.add("prepare", _prepare, "corpus → training and validation tables with distant labels")
    verb.add_argument("-i", "--input", type=folder, required=True, metavar="DIR", help="directory with the args.me corpus")
    verb.add_argument("-o", "--output", type=folder, required=True, metavar="WORK", help="working directory for the tables")
    verb.add_argument("--sample", type=SEED, default=0, metavar="N", help="only N random arguments; 0: all")
    verb.add_argument("--seed", type=SEED, default=0, metavar="N", help="of samples and split")
    what = "also unrelated premises that a search finds, for recipes with `unrelated`"
    verb.add_argument("--unrelated", choices=("dirichlet",), help=what)
    verb.add_argument("--overwrite", action="store_true", help="replace the tables of another input or setting")

    verb = verbs.add("prepare-passages", _prepare_passages, "corpus → passages and the words of theirs that matter (DeepCT)")
    verb.add_argument("-i", "--input", type=folder, required=True, metavar="DIR", help="directory with the args.me corpus")
    verb.add_argument("-o", "--output", type=folder, required=True, metavar="WORK", help="working directory for the table")
    what = "repeatable; TREC qrels, whose documents a recipe may leave out"
    verb.add_argument("--qrels", type=folder, action="append", default=[], metavar="FILE", help=what)
    what = "repeatable; a TREC run, whose first 50 documents of each topic a recipe may leave out too"
    verb.add_argument("--run", type=folder, action="append", default=[], metavar="FILE", dest="runs", help=what)
    verb.add_argument("--overwrite", action="store_true", help="replace the table of other data")

    verb = verbs.add("prepare-quality", _prepare_quality, "published lists of arguments by quality → tables of one form")
    what = "with some of ukp-conv-arg-rank/, ibm-argq-5.3k/, webis-argquality-20/, each as it is published"
    verb.add_argument("data", type=folder, metavar="DIR", help=what)
    verb.add_argument("--work", type=folder, required=True, metavar="WORK", help="working directory for the tables")
    verb.add_argument("--overwrite", action="store_true", help="replace the tables of other data")

    verb = verbs.add("prepare-tagging", _prepare_tagging, "published documents whose words are tagged → tables")
    what = "with es.txt and wd.txt, persuasive essays and web discourse, as TARGER's authors publish them"
    verb.add_argument("data", type=folder, metavar="DIR", help=what)
    verb.add_argument("--work", type=folder, required=True, metavar="WORK", help="working directory for the tables")
    verb.add_argument("--overwrite", action="store_true", help="replace the tables of other data")

    verb = verbs.add(
        "prepare-distilled", _prepare_distilled, "titles of debates → a system's scores for them, which a network may learn"
    )
    add_input(verb)
    what = "an XML file with topics that no title may be either, as it may be none of the input's; repeatable"
    verb.add_argument("--topics", type=folder, action="append", default=[], metavar="FILE", help=what)
    verb.add_argument("--system", default="fusion", metavar="SYSTEM", help="the teacher")
    verb.add_argument("--titles", type=COUNT, default=1000, metavar="N", help="at most")
    verb.add_argument("--documents", type=whole_number(2, 1000), default=24, metavar="N", help="of a title")
    verb.add_argument("--seed", type=SEED, default=0, metavar="N", help="of the titles and documents that are drawn")
    what = "working directory for the table; what is finished is kept there"
    verb.add_argument("--work", type=folder, required=True, metavar="WORK", help=what)
    add_checkpoints(verb)
    add_device(verb)
    verb.add_argument("--overwrite", action="store_true", help="replace the table of other titles or of another teacher")

    verb = verbs.add("embed", _embed, "word vectors, trained on the premises or read from a file")
    verb.add_argument("work", type=folder, metavar="WORK", help="what `prepare` wrote")
    verb.add_argument(
        "-o", "--output", type=folder, metavar="DIR", help="where to write (default: WORK/vectors, but see --written)"
    )
    verb.add_argument("--vectors", type=folder, metavar="FILE", help="read GloVe or word2vec vectors instead of training")
    verb.add_argument("--dimensions", type=COUNT, default=300, metavar="N", help="of a vector")
    verb.add_argument("--minimum-frequency", type=COUNT, default=5, metavar="N", help="of a word in the premises")
    verb.add_argument("--epochs", type=COUNT, default=5, metavar="N", help="passes over the premises")
    verb.add_argument("--seed", type=SEED, default=0, metavar="N", help="of the vectors")
    what = "of words as a tagger reads them, by this method, into WORK/vectors-METHOD"
    verb.add_argument("--written", choices=["word2vec", "fasttext"], metavar="METHOD", help=what)
    verb.add_argument("--overwrite", action="store_true", help="replace vectors made otherwise")


def _prepare(options: argparse.Namespace) -> None:
    from submission.disk.files import make_directory
    from training.data.prepare import TableSettings, prepare
    from training.data.work import held

    make_directory(options.output)
    with held(options.output):
        settings = TableSettings(options.seed, options.sample, options.unrelated)
        prepare(options.input, options.output, settings, options.overwrite)


def _prepare_passages(options: argparse.Namespace) -> None:
    from submission.disk.files import make_directory
    from training.data.work import held
    from training.deepct.prepare import prepare_passages

    make_directory(options.output)
    with held(options.output):
        table = prepare_passages(options.input, options.output, options.qrels, options.runs, options.overwrite)
    print("passages without a word that matters, in percent, beside the thesis'")
    print(table.to_string(index=False, float_format="%.1f"))


def _prepare_quality(options: argparse.Namespace) -> None:
    from submission.disk.files import make_directory
    from training.data.work import held
    from training.quality.prepare import prepare_quality, there

    make_directory(options.work)
    with held(options.work):
        prepare_quality(options.data, there(options.data), options.work, options.overwrite)


def _prepare_tagging(options: argparse.Namespace) -> None:
    from submission.disk.files import make_directory
    from training.data.work import held
    from training.tagging.prepare import prepare_tagging

    make_directory(options.work)
    with held(options.work):
        prepare_tagging(options.data, options.work, options.overwrite)


def _prepare_distilled(options: argparse.Namespace) -> None:
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


def _embed(options: argparse.Namespace) -> None:
    from training.data.vectors import VectorSettings, embed, folder_of
    from training.data.work import held

    settings = VectorSettings(options.dimensions, options.minimum_frequency, options.epochs, options.seed, options.written)
    output = options.output or options.work / folder_of(settings.written)
    with held(options.work):
        embed(options.work, output, settings, options.vectors, options.overwrite)
