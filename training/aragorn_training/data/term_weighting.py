"""Prepare passages with words labelled by stem overlap (Hollatz 2022, section 3.2)."""

import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from aragorn.errors import InputError
from aragorn.io.collection import select_collection, validate_collection
from aragorn.io.qrels import read_qrels
from aragorn.io.runs import read_run
from aragorn.io.touche import find_corpus_files, read_documents
from aragorn.options import option
from aragorn.progress import track
from aragorn.storage.archives import hash_input_files
from aragorn.storage.recorded_files import MANIFEST, Record, RecordedFiles, read_record
from aragorn.text.index_terms import TermAnalyser
from aragorn.text.normalisation import remove_urls
from aragorn.text.passages import split_passages
from aragorn.versions import describe_versions
from aragorn_training.data.corpora import describe_corpus
from aragorn_training.data.debates import read_argument_topics
from aragorn_training.data.work_directory import convert_table_errors, iter_rows, open_folder
from aragorn_training.options import CorpusOptions, PrepareOptions

VERSION = 1  # of the table made from the same corpus
COMPUTES_WITH = (
    "aragorn.io.collection",
    "aragorn.io.runs",
    "aragorn.io.touche",
    "aragorn.text.index_terms",
    "aragorn.text.normalisation",
    "aragorn.text.passages",
    "numpy",
    "pandas",
    "rapidfuzz",
)

log = logging.getLogger(__name__)

POOL_DEPTH = 50  # a run's documents up to this rank are pooled
# per passage; whole sentences of this length give the 2.1 passages per argument of Hollatz 2022
MAX_WORDS = 220
ARGUMENTS_PER_BATCH = 2_000  # limits memory
WORD = re.compile(r"[^\W_]+")
PASSAGES = "passages.parquet"
SCHEMA = pa.schema(
    {
        "docno": pa.string(),
        "number": pa.int32(),  # 1-based, within the argument
        "discussion": pa.string(),  # topic of the debate
        "passage": pa.string(),
        "topic": pa.list_(pa.string()),  # words that match the topic
        "conclusion": pa.list_(pa.string()),  # words that match the conclusion
        "judged": pa.bool_(),  # argument is judged
        "pooled": pa.bool_(),  # argument is pooled: in the top 50 of a run
    }
)
# flags of the passages that a document set excludes, and their input and option by flag
EXCLUDED = {"all": (), "unjudged": ("judged",), "unpooled": ("judged", "pooled")}
INPUTS = {"judged": ("qrels", "--exclude-qrels"), "pooled": ("runs", "--exclude-run")}
# Numbers of training samples without and with a relevant word (Hollatz 2022, section 3.2), by
# document set and reference.
PUBLISHED_SAMPLES = {
    ("all", "topic"): (191_651, 640_107),
    ("all", "conclusion"): (191_328, 640_430),
    ("all", "both"): (188_663, 643_095),
    ("unjudged", "topic"): (190_007, 629_174),
    ("unjudged", "conclusion"): (189_654, 629_527),
    ("unjudged", "both"): (187_041, 632_140),
    ("unpooled", "topic"): (174_385, 543_166),
    ("unpooled", "conclusion"): (173_933, 543_618),
    ("unpooled", "both"): (171_707, 545_844),
}


def find_matching_words(passage: str, reference: str, stems: TermAnalyser) -> list[str]:
    """Return the sorted, distinct, lower-cased words that share a stem with the reference."""
    reference_stems = {
        *chain.from_iterable(stems[word.encode()] for word in WORD.findall(reference.lower()))
    }
    passage_words = {*WORD.findall(passage.lower())} if reference_stems else set()
    return sorted(
        word for word in passage_words if not reference_stems.isdisjoint(stems[word.encode()])
    )


@dataclass(frozen=True, kw_only=True)
class Options(PrepareOptions, CorpusOptions):
    """Options of `prepare passages`."""

    exclude_qrels: tuple[Path, ...] = option(
        (),
        metavar="FILE",
        help="TREC qrels; recipes may exclude the judged documents from training; repeatable",
    )
    exclude_runs: tuple[Path, ...] = option(
        (),
        "--exclude-run",
        metavar="FILE",
        help="TREC run; recipes may exclude its top 50 documents per topic from training; "
        "repeatable",
    )


def prepare_passages(options: Options) -> None:
    """Build passages with target term weights for DeepCT.

    The passages of all arguments of sufficient length, see SCHEMA. Documents of the qrels are
    marked as judged, and those in the top POOL_DEPTH of a topic in the runs as pooled. Prints the
    percentage of passages without a relevant word by document set and reference.
    """
    files = find_corpus_files(options.input_dir)
    qrels = options.exclude_qrels
    runs = options.exclude_runs
    cache_key = {
        "input": hash_input_files(files),
        **describe_corpus(files),
        "qrels": hash_input_files([*qrels]),
        "runs": hash_input_files([*runs]),
        "version": describe_versions(__name__),
    }
    judged_docnos = {docno for file in qrels for docno in read_qrels(file)["docno"]}
    pooled_docnos = {
        docno for file in runs for docno in read_run(file).query(f"rank <= {POOL_DEPTH}")["docno"]
    }
    folder = get_passages_dir(options.work_dir)
    with open_folder(folder, options.work_dir):
        tables = RecordedFiles(folder, cache_key, options.overwrite)
        tables.build([PASSAGES], partial(_write_passages, files, judged_docnos, pooled_docnos))
    is_known = {"all": True, "unjudged": bool(qrels), "unpooled": bool(qrels and runs)}
    table = _count_passages(options.work_dir, [name for name in is_known if is_known[name]])
    text = "`empty` in this corpus, `published` in Hollatz 2022"
    print(f"percentage of passages without a relevant word: {text}")
    print(table.to_string(index=False, float_format="%.1f"))


def _write_passages(
    files: Sequence[Path], judged_docnos: set[str], pooled_docnos: set[str], file: Path
) -> None:
    """Write the passages of all arguments in batches, which limits memory."""
    documents = read_documents(list(files))
    arguments = select_collection(documents).sort_values("docno", ignore_index=True)
    validate_collection(arguments, len(documents))
    del documents
    topics = read_argument_topics(files)
    stems = TermAnalyser("porter")
    if n_without_topic := sum(not topics[docno] for docno in arguments["docno"]):
        counts = f"{n_without_topic} of {len(arguments)} arguments"
        log.warning("%s have no topic; their words are labelled by the conclusion only", counts)
    blocks = np.split(
        np.arange(len(arguments)), range(ARGUMENTS_PER_BATCH, len(arguments), ARGUMENTS_PER_BATCH)
    )
    with pq.ParquetWriter(file, SCHEMA, compression="zstd") as writer:
        for block in track(blocks, "passages", "arguments", [len(block) for block in blocks]):
            rows = [
                row
                | {"judged": row["docno"] in judged_docnos, "pooled": row["docno"] in pooled_docnos}
                for argument in arguments.iloc[block].itertuples()
                for row in _split_argument(argument, topics, stems)
            ]
            writer.write_table(pa.Table.from_pylist(rows, SCHEMA))


def _split_argument(
    argument: Any, topics: dict[str, str], stems: TermAnalyser
) -> Iterator[dict[str, Any]]:
    topic = topics[argument.docno]
    for index, passage in enumerate(split_passages(remove_urls(argument.premise), MAX_WORDS), 1):
        yield {
            "docno": argument.docno,
            "number": index,
            "discussion": (topic or argument.conclusion).lower(),
            "passage": passage,
            "topic": find_matching_words(passage, topic, stems),
            "conclusion": find_matching_words(passage, argument.conclusion, stems),
        }


def load_labels(work_dir: Path) -> dict[str, pd.DataFrame]:
    """Load `docno` of the passages by document set, and whether a word matches the topic, the
    conclusion or either (`both`)."""
    file = get_passages_dir(work_dir) / PASSAGES
    with convert_table_errors(file, work_dir, "passages"):
        table = pq.read_table(file, columns=["docno", "judged", "pooled", "topic", "conclusion"])
    labels = table.select(["docno", "judged", "pooled"]).to_pandas()
    for name in ("topic", "conclusion"):
        labels[name] = pc.list_value_length(table[name]).to_numpy() > 0
    labels["both"] = labels["topic"] | labels["conclusion"]
    return {name: labels[~labels[[*flags]].any(axis=1)] for name, flags in EXCLUDED.items()}


def _count_passages(work_dir: Path, document_sets: Sequence[str]) -> pd.DataFrame:
    """Count passages, and those without a positive label, per document set and reference."""
    labels = load_labels(work_dir)
    rows = [
        (name, reference, len(labels[name]), (~labels[name][reference]).sum(), *published)
        for (name, reference), published in PUBLISHED_SAMPLES.items()
        if name in document_sets
    ]
    columns = ["documents", "reference", "passages", "empty", "published", "non_empty"]
    table = pd.DataFrame(rows, columns=columns)
    table["empty"] = 100 * table["empty"] / table["passages"].clip(lower=1)
    table["published"] = 100 * table["published"] / (table["published"] + table.pop("non_empty"))
    return table


def get_passages_dir(work_dir: Path) -> Path:
    """Return the directory of the passages in a working directory."""
    return work_dir / "passages"


def read_passages_manifest(work_dir: Path, document_set: str) -> Record:
    """Read the manifest; raise InputError if it, or an input of the document set, is missing."""
    manifest = read_record(get_passages_dir(work_dir) / MANIFEST)
    inputs = [INPUTS[flag] for flag in EXCLUDED[document_set]]
    flags = "".join(f" {option} FILE" for _, option in inputs)
    command = f"aragorn-training prepare passages -i INPUT --work-dir {work_dir}"
    if PASSAGES not in manifest.files:
        file = get_passages_dir(work_dir) / PASSAGES
        raise InputError(f"{file}: not found; run `{command}{flags}`")
    for name, _ in inputs:
        if not manifest.inputs[name]:
            need = f'which documents = "{document_set}" needs'
            reason = f"the passages were prepared without {name}, {need}"
            fix = f"run `{command} --overwrite{flags}`"
            raise InputError(get_passages_dir(work_dir), "", reason, fix)
    return manifest


def iter_passages(work_dir: Path, document_set: str, reference: str) -> Iterator[dict[str, Any]]:
    """Yield a document set's passages, see SCHEMA, with `words`: those that match the topic, the
    conclusion or either (`both`)."""
    references = ("topic", "conclusion") if reference == "both" else (reference,)
    for row in iter_rows(get_passages_dir(work_dir) / PASSAGES, None, work_dir, "passages"):
        if not any(row[flag] for flag in EXCLUDED[document_set]):
            yield row | {"words": {word for name in references for word in row[name]}}
