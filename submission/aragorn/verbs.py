"""Declare the verbs of `aragorn` and their options."""

import argparse
import os
import re
from collections.abc import Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Literal

from aragorn.errors import UsageError, abbreviate
from aragorn.io import AUTO_ORDER, Order
from aragorn.options import argument, integer_between, option
from aragorn.paths import CHECKPOINT_DIR, SAMPLE_INPUT


def parse_ray_address(text: str) -> str:
    """Return HOST:PORT unchanged; raise ArgumentTypeError for anything else."""
    if not re.fullmatch(r"[^\s/:]+:[0-9]+", text):
        raise argparse.ArgumentTypeError(f"'{abbreviate(text)}': expected HOST:PORT")
    return text


@dataclass(frozen=True)
class InputOptions:
    """Topics and corpus."""

    inputs: tuple[Path, ...] = option(
        (SAMPLE_INPUT,),
        "-i",
        "--input",
        help=(
            "input directory, zip archive or file: topics*.xml and args.me JSON, or a TIREx data "
            "set; or irds:ID, a data set of ir_datasets; repeatable, e.g. once for topics and once "
            "for the corpus"
        ),
        variables=("inputDataset", "TIRA_INPUT_DATASET"),
        metavar="INPUT",
    )


@dataclass(frozen=True)
class RerankingOptions:
    """A ranking to re-rank."""

    input_run: Path | None = option(
        None,
        help="TREC run (file, or directory with run.txt) to re-rank, instead of retrieving "
        "documents",
        metavar="PATH",
        variables=("inputRun",),
    )
    order: Order = option("auto", help=f"order of documents in input runs; auto: {AUTO_ORDER}")


@dataclass(frozen=True)
class CheckpointOptions:
    """Trained parameters."""

    checkpoint_dir: Path = option(
        CHECKPOINT_DIR, "--checkpoints", help="checkpoint directory", metavar="DIR"
    )


@dataclass(frozen=True)
class CacheOptions:
    """Cache of results."""

    cache_dir: Path | None = option(
        None,
        help=(
            "cache for indexes, rankings and scores; an interrupted run resumes from it "
            "(default: temporary directory)"
        ),
        metavar="DIR",
    )


@dataclass(frozen=True)
class ComputationOptions(CheckpointOptions):
    """Device and precision of networks."""

    device: Literal["auto", "cpu", "cuda"] = option(
        "auto", help="computing device; auto: GPU if available"
    )
    precision: Literal["float32", "bfloat16"] = option(
        "float32",
        help=(
            "precision of BERT encoders on CPU; bfloat16 requires AVX-512 BF16 or AMX and changes "
            "scores slightly"
        ),
    )


@dataclass(frozen=True)
class EngineOptions:
    """Engine that computes batches."""

    engine: Literal["local", "ray"] = option(
        "local",
        help=(
            "execution engine; local: this process; ray: Ray on this machine, or on the cluster at "
            "--ray-address"
        ),
    )
    ray_address: str | None = option(
        None,
        help="with --engine ray: address of the cluster (default: Ray on this machine)",
        parse=parse_ray_address,
        metavar="HOST:PORT",
    )
    shared_cache: bool = option(
        False,
        help="with --engine ray: use --cache-dir on all nodes, which must mount it at the same "
        "path",
    )


@dataclass(frozen=True)
class RankOptions(CacheOptions, EngineOptions, ComputationOptions, RerankingOptions, InputOptions):
    """Rank documents for all topics and write one TREC run per system."""

    output_dir: Path = option(
        Path("runs"),
        "-o",
        "--output",
        help="output directory for runs and metadata",
        variables=("outputDir", "TIRA_OUTPUT_DIR"),
        metavar="DIR",
    )
    systems: tuple[str, ...] = option(
        (),
        "--system",
        help=(
            "system to run; repeatable. The run of the first is also run.txt (default: all "
            "available, with fusion's as run.txt)"
        ),
        metavar="NAME",
    )
    team: str = option(
        "aragorn", help="team name in run tags and file names (TEAM-SYSTEM)", metavar="TEAM"
    )
    label: str | None = option(
        None,
        help=(
            "label of the runs, e.g. the name of the re-ranked run: run tags and file names become "
            "TEAM-LABEL-SYSTEM"
        ),
        metavar="LABEL",
    )
    depth: int | None = option(
        None,
        help=(
            "maximum number of documents per topic, 1 to 1000 (default: 100, or the depth of the "
            "input run)"
        ),
        parse=integer_between(1, 1000),
        metavar="N",
    )
    overwrite: bool = option(
        False,
        help=(
            "remove all runs of other inputs, teams, labels or depths; replace those of other "
            "code, checkpoints or devices"
        ),
    )
    argv: Sequence[str] = ()  # arguments after the verb

    def __post_init__(self) -> None:
        if self.cache_dir and os.path.realpath(self.cache_dir) == os.path.realpath(self.output_dir):
            cause = f"--cache-dir {self.cache_dir}: must differ from --output"
            raise UsageError(f"{cause}; choose another directory")

    @property
    def tag_prefix(self) -> str:
        """Return the part of run tags before the system's name, without a final hyphen."""
        return f"{self.team}-{self.label}" if self.label else self.team


@dataclass(frozen=True)
class CheckOptions(CheckpointOptions, InputOptions):
    """Validate input, checkpoints and runs, and report their errors, without ranking."""

    runs: tuple[Path, ...] = option(
        (),
        "--run",
        help="TREC runs of this input's topics to validate; of a directory, run.txt",
        metavar="FILE",
        action="extend",
        nargs="+",
    )
    tira_only: bool = option(
        False, help="report rules of runs that are stricter than TIRA's as notes, not as errors"
    )
    no_checkpoints: bool = option(
        False, help="do not load the checkpoints, which takes most of the time"
    )
    mismatched_ids: Path | None = option(
        None,
        help="output file for the ids of documents whose text differs from args.me 2020-04-01",
        metavar="FILE",
    )


@dataclass(frozen=True)
class ExplainOptions(ComputationOptions, CacheOptions, RerankingOptions, InputOptions):
    """Decompose a document's score for a topic, or compare two documents."""

    system: str = option(help="system whose score to explain", metavar="NAME")
    qid: str = option(help="topic id", metavar="QID")
    docnos: tuple[str, ...] = option(
        MISSING,
        "--docno",
        help="document id; given twice, the contributions to both scores are shown side by side",
        metavar="DOCNO",
    )


@dataclass(frozen=True)
class QueryOptions(ComputationOptions, CacheOptions, InputOptions):
    """Search with one query, at a prompt, or on a web page."""

    query: str | None = argument(
        "query text (default: read queries at a prompt; Ctrl-D quits)",
        default=None,
        metavar="QUERY",
    )
    systems: tuple[str, ...] = option(
        (),
        "--system",
        help=(
            "system to search with; repeatable. Results are shown side by side (default: fusion on "
            "a GPU or an indexed collection, else dirichlet)"
        ),
        metavar="NAME",
    )
    depth: int = option(
        5, help="number of results per system, 1 to 100", parse=integer_between(1, 100), metavar="N"
    )
    explain: bool = option(False, help="print the largest score contributions of each result")
    json: bool = option(False, help="print one JSON object per query")
    serve: int | None = option(
        None,
        help="start a local web page (default port: 8040; 0: any free port)",
        parse=integer_between(0, 65535),
        metavar="PORT",
        nargs="?",
        const=8040,
    )
    hosts: tuple[str, ...] = option(
        (),
        "--host",
        help="host name that the page answers to besides localhost, e.g. of a proxy; repeatable",
        metavar="NAME",
    )


@dataclass(frozen=True)
class IndexOptions(EngineOptions, ComputationOptions, InputOptions):
    """Build the indexes and vectors of a collection in advance, so that queries are fast."""

    cache_dir: Path = option(
        help="cache for indexes; an interrupted build resumes from it", metavar="DIR"
    )
    systems: tuple[str, ...] = option(
        (), "--system", help="system to index for; repeatable. (default: fusion)", metavar="NAME"
    )


@dataclass(frozen=True)
class SystemsOptions(CheckpointOptions):
    """List systems with availability and description."""

    json: bool = option(False, help="print one JSON object per system")


@dataclass(frozen=True)
class CacheDirectoryOptions:
    """List the results in a cache directory, or remove unused ones."""

    directory: Path = argument("directory of --cache-dir", metavar="DIR")
    prune: int | None = option(
        None,
        help="remove the results that were not used in the last DAYS days",
        metavar="DAYS",
    )


# functions, imported after parsing, and their options, whose docstrings describe the verbs
COMMANDS = {
    "rank": ("aragorn.rank:rank", RankOptions),
    "check": ("aragorn.check:check", CheckOptions),
    "explain": ("aragorn.explain:explain", ExplainOptions),
    "search": ("aragorn.search.cli:search", QueryOptions),
    "index": ("aragorn.search.indexing:index", IndexOptions),
    "systems": ("aragorn.commands:list_systems", SystemsOptions),
    "cache": ("aragorn.commands:show_cache", CacheDirectoryOptions),
}
