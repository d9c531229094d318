"""Fixtures and helpers for all tests: small inputs, untrained networks and checkpoints."""

import json
import os
import resource
import shutil
import socket
import subprocess
import time
from contextlib import ExitStack, contextmanager
from functools import partial
from html.parser import HTMLParser
from http.client import HTTPConnection
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from zlib import crc32

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from aragorn.__main__ import main as run_submission
from aragorn.cache import open_cache
from aragorn.engine import CPU
from aragorn.index import dense, inverted
from aragorn.index.weighting import BM25, RM3, Dirichlet
from aragorn.inference import enrichment
from aragorn.inference.checkpoint import RankerCheckpoint, TaggerCheckpoint
from aragorn.io.dataset import Dataset
from aragorn.models.bert import BERTRanker
from aragorn.models.network import Ranker
from aragorn.models.rankers import get_ranker_class, list_rankers
from aragorn.models.taggers.deepct import DeepCT
from aragorn.models.taggers.targer import TARGER
from aragorn.paths import CHECKPOINT_DIR
from aragorn.pipeline.session import CheckpointStore, Collection, Session
from aragorn.search.searcher import Searcher
from aragorn.search.server import SearchServer
from aragorn.storage.atomic_files import sha256_file
from aragorn.storage.checkpoint_directory import (
    CARD,
    CONFIG,
    METRICS,
    encode_json,
    write_with_provenance,
)
from aragorn.systems import latent, lexical
from aragorn.systems.catalogue import SYSTEMS, get_system
from aragorn.systems.fusion import EnsembleStage
from aragorn.systems.lexical import IndexSettings, LexicalParameters
from aragorn.systems.quality import QualityInterpolation
from aragorn.systems.weighted_sum import LengthFeature, Member, WeightedSum
from aragorn.text.passages import WordPiecePassageTokeniser
from aragorn.text.surface_tokens import SurfaceTokeniser
from aragorn.text.tokenisers import MaxLengths, Vocabulary, WordPieceTokeniser, WordTokeniser
from aragorn_training.__main__ import main as run_training
from aragorn_training.data.retrieval import DatasetRetrieval
from aragorn_training.fitting import training_loop
from aragorn_training.fitting.fit import save_network

# Number of examples per property test; EXAMPLES=2000 searches more thoroughly, with random seeds.
HYPOTHESIS_EXAMPLES = os.environ.get("EXAMPLES", "")
settings.register_profile(
    "tests", max_examples=int(HYPOTHESIS_EXAMPLES or 20), derandomize=not HYPOTHESIS_EXAMPLES, deadline=None, database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
settings.load_profile("tests")

ROOT = Path(__file__).parent.parent
SAMPLE = ROOT / "submission" / "aragorn" / "sample" / "input"


def build_python_path(project):
    """Return the PYTHONPATH of processes that run the code of a copy of the project."""
    return os.pathsep.join(map(str, [project, project / "submission", project / "training"]))


os.environ["PYTHONPATH"] = build_python_path(ROOT)  # of subprocesses
REAL_DATA = ROOT.parent / "shared" / "data"

CPU_FEATURES = {name for name, has_feature in torch.cpu.get_capabilities().items() if has_feature}
needs_bfloat16 = pytest.mark.skipif(
    find_spec("openvino") is None or not CPU_FEATURES & {"avx512_bf16", "amx_bf16"},
    reason="needs OpenVINO and a processor with bfloat16 instructions",
)
BFLOAT16 = pytest.param("bfloat16", marks=needs_bfloat16)

# words of the conclusions of `corpus`
TOPIC_WORDS = [f"topic{chr(97 + i // 10)}{chr(97 + i % 10)}" for i in range(50)]
FILLERS = [f"filler{chr(97 + i)}" for i in range(20)]  # other words of its premises
# words of the sample's topics
SAMPLE_WORDS = ("zoos", "abolished", "daylight", "saving", "public", "transport", "cars")
# Tiny networks, for speed.
TINY_BERT = {"hidden_size": 16, "intermediate_size": 32}
TINY_BERT |= {"num_hidden_layers": 2, "num_attention_heads": 2}
# 58 terms of `build_tiny_tokenizer`
TINY_ENCODER = {**TINY_BERT, "max_position_embeddings": 64, "vocab_size": 58}
TINY_CONFIGS = {"gru": {"hidden": 6}, "drmm": {"bins": 30, "hidden": (8, 5)}}
TINY_CONFIGS["snrm"] = {"latent": 40}
UNTRAINED = {"note": "untrained", "training_data": {"input": {}}}
KNRM_RECIPE = """ranker = "knrm"
[network]
dimensions = 20
[training]
epochs = 3
validations_per_epoch = 3
learning_rate = 0.01
"""


def pytest_configure():
    torch.set_num_threads(1)  # more threads slow down operations on small tensors


def pytest_collection_modifyitems(items):
    """Run files with slow tests first, to balance the load of pytest-xdist's workers."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


# 16 words
PREMISE = "zoos keep wild animals in small cages and this is plainly cruel to them every day"


def argv(*parts):
    """Split the strings of a command at blanks; other parts, such as paths, are a word each."""
    words = [part.split() if isinstance(part, str) else [str(part)] for part in parts]
    return [word for group in words for word in group]


def assert_runs(main, *command):
    """Run a command of `argv`, and assert that it succeeds."""
    assert main(argv(*command)) == 0


run_process = partial(subprocess.run, capture_output=True, text=True, check=False)


def format_run_lines(documents, tag="t"):
    """Format a run from its documents by topic, in the order of ranks."""
    ranked = ((qid, *item) for qid, docnos in documents.items() for item in enumerate(docnos, 1))
    return "".join(f"{qid} Q0 {docno} {rank} {-rank} {tag}\n" for qid, rank, docno in ranked)


def make_argument(docno, conclusion="Zoos are cruel", premise=PREMISE):
    """Create an argument in the args.me format."""
    premises = [{"text": premise, "stance": "PRO"}]
    return {"id": docno, "conclusion": conclusion, "premises": premises, "context": {}}


def write_topics(file, titles, qids=None):
    """Write topics to a file, by default with the numbers 1, 2 and so on."""
    body = "".join(
        f"<topic><number>{qid}</number><title>{title}</title></topic>\n"
        for qid, title in zip(qids or range(1, len(titles) + 1), titles, strict=True)
    )
    file.write_text(f"<topics>\n{body}</topics>\n", encoding="utf-8")


DEFAULT_TOPICS = [("1", "Are zoos cruel?"), ("2", "Is golf a sport?")]
DEFAULT_ARGUMENTS = [
    make_argument("a1"),
    make_argument("a2", "Zoos are cruel!"),
    make_argument("a3", "Golf is a sport", f"golf {PREMISE}"),
    make_argument("a4", "Taxes should rise", f"taxes {PREMISE}"),
    make_argument("a5", "Dogs make good pets", f"dogs {PREMISE}"),
    make_argument("a6", "Cats make good pets", "too short"),
]


@pytest.fixture
def make_input(tmp_path):
    """Return a function that writes an input of topics (number, title) and arguments."""

    def make(topics=DEFAULT_TOPICS, arguments=DEFAULT_ARGUMENTS, name="input"):
        directory = tmp_path / name
        directory.mkdir()
        qids, titles = zip(*topics, strict=True)
        write_topics(directory / "topics.xml", titles, qids)
        corpus = json.dumps({"arguments": arguments})
        (directory / "args-me.json").write_text(corpus, encoding="utf-8")
        return directory

    return make


@pytest.fixture
def checkpoints(tmp_path, monkeypatch):
    """Create a directory with a tiny untrained KNRM, and make KNRM the primary system."""
    for module in ("rank", "systems.catalogue"):
        monkeypatch.setattr(f"aragorn.{module}.PRIMARY_SYSTEM", "knrm")
    write_tiny_ranker(tmp_path / "checkpoints", "knrm", seed=0)
    return tmp_path / "checkpoints"


@contextmanager
def open_retrieval(directory, checkpoints=CHECKPOINT_DIR, input_run=None, qid=None):
    """Open a retrieval on an input directory, with a temporary cache."""
    with open_cache(None, Path()) as cache:
        session = Session(CheckpointStore(checkpoints), CPU, cache)
        yield DatasetRetrieval(Dataset(directory, input_run=input_run, qid=qid), session)


@pytest.fixture
def make_retrieval():
    """Return `open_retrieval`; its retrievals stay open until the test ends."""
    with ExitStack() as stack:
        yield lambda *inputs, **options: stack.enter_context(open_retrieval(*inputs, **options))


@contextmanager
def open_searcher(corpus, checkpoints, device=CPU, cache_dir=None):
    """Open a searcher of documents; with `cache_dir` None, its cache is temporary."""
    with open_cache(cache_dir, Path()) as cache:
        yield Searcher(Collection(corpus, Session(checkpoints, device, cache)))


def open_sample_searcher(checkpoints=CHECKPOINT_DIR, device=CPU):
    """Open a searcher of the sample, with a temporary cache."""
    corpus = Dataset(SAMPLE, has_topics=False)
    return open_searcher(corpus, CheckpointStore(checkpoints), device)


@contextmanager
def serve_sample(system, port=0):
    """Serve the search page of the sample on a port (default: a free one)."""
    with (
        open_sample_searcher() as searcher,
        SearchServer(searcher, Dataset(SAMPLE), [get_system(system)], 5, port) as server,
    ):
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def fetch_page(server, path="/", method="GET", **headers):
    """Return status, headers and text of a response of the search page."""
    connection = HTTPConnection("127.0.0.1", server.server_port, timeout=120)
    connection.request(method, path, headers=headers)
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response.status, dict(response.getheaders()), text


def wait_until(condition):
    """Wait until a function returns true, for at most a minute."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def build_tiny_tokenizer():
    """Build a WordPiece tokenizer whose vocabulary has all letters and two words."""
    letters = [chr(97 + index) for index in range(26)]
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    vocabulary = [*special, "topic", "filler", *letters, *(f"##{letter}" for letter in letters)]
    ids = {term: index for index, term in enumerate(vocabulary)}
    tokenizer = Tokenizer(WordPiece(ids, unk_token="[UNK]"))
    tokenizer.normalizer = BertNormalizer()
    tokenizer.pre_tokenizer = BertPreTokenizer()
    return tokenizer


def build_tiny_ranker(name, words, **fields):
    """Build a tiny ranker and its tokeniser, of subwords or with a vocabulary of `words`."""
    ranker_class = get_ranker_class(name)
    if ranker_class.token_unit == "pieces":
        # if scores were almost equal, standardising would amplify rounding
        bert = TINY_ENCODER | {"initializer_range": 0.3}
        ranker = ranker_class(ranker_class.Config(bert=bert, cls=2, sep=3))
        return ranker, WordPieceTokeniser(build_tiny_tokenizer(), MaxLengths(20, 30))
    vocabulary = Vocabulary(words)
    settings = {"dimensions": 8, **TINY_CONFIGS.get(name, {}), **fields}
    ranker = ranker_class(ranker_class.Config(vocabulary=len(vocabulary), **settings))
    return ranker, WordTokeniser(vocabulary, MaxLengths())


def write_tiny_ranker(directory, name, seed, ranker_name=None, **fields):
    """Write the untrained checkpoint `name` of a ranker (default: `name`) for `corpus`."""
    torch.manual_seed(seed)
    words = [*TOPIC_WORDS, *FILLERS[:10], *SAMPLE_WORDS]
    ranker, tokeniser = build_tiny_ranker(ranker_name or name, words, **fields)
    if isinstance(tokeniser, WordTokeniser):
        ranker.state_dict()["embedding.weight"][2:].normal_()
    parts = RankerCheckpoint, ranker, tokeniser
    save_network(directory / name, *parts, {}, {"note": "untrained"}, "# test\n")


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """Create a corpus from which relevance can be learned: each premise has its conclusion's words
    among filler words.

    25 conclusions, for validation, have 5 premises each, and 75, for training, have 6. A conclusion
    has 3 of 50 words.
    """
    rng = np.random.default_rng(0)
    arguments = []
    for index in range(100):
        words = [TOPIC_WORDS[i] for i in rng.choice(50, 3, replace=False)]
        for premise in range(5 if index < 25 else 6):
            text = [*words, *words, *(FILLERS[i] for i in rng.choice(20, 14))]
            texts = " ".join(words), " ".join(rng.permutation(text))
            arguments.append(make_argument(f"a{index}-{premise}", *texts))
    directory = tmp_path_factory.mktemp("corpus")
    (directory / "args-me.json").write_text(json.dumps({"arguments": arguments}))
    return directory


@pytest.fixture(scope="session")
def prepared_work_dir(corpus, tmp_path_factory):
    """Prepare a working directory with pairs and 20-dimensional word vectors from `corpus`."""
    work = tmp_path_factory.mktemp("training") / "work"
    assert_runs(run_training, "prepare pairs -i", corpus, "--work-dir", work)
    settings = "--dimensions 20 --minimum-frequency 2"
    assert_runs(run_training, "prepare vectors --work-dir", work, settings)
    return work


@pytest.fixture
def work_dir(prepared_work_dir, tmp_path):
    """Copy `prepared_work_dir` for a test that modifies it."""
    return Path(shutil.copytree(prepared_work_dir, tmp_path / "work"))


@pytest.fixture(scope="module")
def without_plots():
    """Skip plotting the learning curves, which would take most of the time of a short training."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training_loop, "plot_learning_curve", lambda *_: b"")
        yield


@pytest.fixture
def write_recipe(tmp_path):
    """Return a function that writes a recipe (default: `KNRM_RECIPE`) to a file."""

    def write(text=KNRM_RECIPE):
        (tmp_path / "mine.toml").write_text(text)
        return str(tmp_path / "mine.toml")

    return write


def build_deepct():
    """Build a tiny DeepCT and its passage tokeniser."""
    tagger = DeepCT(DeepCT.Config(bert=TINY_ENCODER, cls=2, sep=3, words=12, pieces=60))
    return tagger, WordPiecePassageTokeniser(build_tiny_tokenizer(), 12, 60)


def build_targer(words):
    """Build a tiny TARGER that has annotations of all kinds, and its passage tokeniser."""
    vocabulary = Vocabulary(words)
    sizes = {"dimensions": 8, "character_dimensions": 4, "filters": 3, "hidden": 6, "longest": 15}
    config = TARGER.Config(len(vocabulary), ("O", "B-P", "I-P", "B-C", "I-C"), **sizes)
    tagger = TARGER(config)
    with torch.no_grad():
        tagger.crf.transitions[1:-1, 1:] = 0
    return tagger, SurfaceTokeniser(vocabulary, config.longest)


def write_deepct(directory, name, seed=0):
    """Write an untrained DeepCT that gives positive weights to some words of `corpus`."""
    torch.manual_seed(seed)
    tagger, reader = build_deepct()
    tagger.linear.weight.data.normal_(0, 0.1)
    tagger.linear.bias.data.fill_(0.3)
    save_network(directory / name, TaggerCheckpoint, tagger, reader, {}, UNTRAINED, "# test\n")


def write_targer(directory, name, seed=0):
    """Write an untrained TARGER that tags some words of `corpus` as argumentative."""
    torch.manual_seed(seed)
    tagger, reader = build_targer([*TOPIC_WORDS, *FILLERS[:10]])
    with torch.no_grad():
        tagger.embedding.weight[2:].normal_(0, 3)
    save_network(directory / name, TaggerCheckpoint, tagger, reader, {}, UNTRAINED, "# test\n")


def write_parameters(directory, parameters):
    """Write a checkpoint that consists of parameters, without a network."""
    config = encode_json(msgspec.to_builtins(parameters))
    contents = {CONFIG: config, METRICS: b"{}", CARD: b"# test"}
    write_with_provenance(directory, contents, UNTRAINED)


def write_lexical(directory, name, model, expansion=None, enrichment=None):
    """Write a lexical system's checkpoint; an index enriched by DeepCT covers premises only."""
    fields = "premise" if enrichment == "deepct" else "conclusion premise"
    settings = IndexSettings(fields, "none")
    parameters = LexicalParameters("1.1.0", settings, model, expansion, enrichment)
    write_parameters(directory / name, parameters)


def write_fusion(directory, name, stage, pool_depths, weights):
    """Write an ensemble or a learned fusion with these pool depths and weights by member."""
    fingerprints = stage.get_member_fingerprints(CheckpointStore(directory))
    is_ensemble = isinstance(stage, EnsembleStage)
    ranges = {"minimum": -10.0, "maximum": 10.0} if is_ensemble else {}
    members = tuple(
        Member(member, fingerprints[member], pool_depths[member], weights[member], **ranges)
        for member in pool_depths
    )
    length = None if is_ensemble else LengthFeature(6.5, 0.125)
    normaliser = "min_max" if is_ensemble else "z_score"
    write_parameters(directory / name, WeightedSum("1.1.0", normaliser, 0.25, members, length))


@pytest.fixture(scope="session")
def all_checkpoints_dir(tmp_path_factory):
    """Write tiny untrained checkpoints of all systems, for tests that only read them."""
    directory = tmp_path_factory.mktemp("everything") / "checkpoints"
    for name in list_rankers():
        # independent of the other rankers
        write_tiny_ranker(directory, name, seed=crc32(name.encode()))
    write_tiny_ranker(directory, "gru_interaction", 99, "gru", interaction=True)
    expansion = RM3(5, 8, 0.5, max_df_ratio=1.0)
    for name, model in (("bm25", BM25()), ("dirichlet", Dirichlet())):
        write_lexical(directory, "bm25_arguments" if name == "bm25" else name, model)
        write_lexical(directory, f"{name}_rm3", model, expansion)
    write_lexical(directory, "dirichlet_thesis", Dirichlet(1000.0))
    # depth 7, weight 2
    write_parameters(directory / "quality", QualityInterpolation("1.1.0", 7, 2.0))
    write_deepct(directory, "deepct")
    write_lexical(directory, "deepct_dirichlet", Dirichlet(), enrichment="deepct")
    write_lexical(directory, "deepct_dirichlet_rm3", Dirichlet(), expansion, "deepct")
    write_lexical(directory, "deepct_bm25_rm3", BM25(), expansion, "deepct")
    write_targer(directory, "targer_essays")
    write_lexical(directory, "targer_dirichlet", Dirichlet(), enrichment="targer_essays")
    for name in ("ensemble", "ensemble_thesis", "fusion"):
        stage = SYSTEMS[name].stage
        members = [member for member, _ in stage.members]
        pool_depths = {
            member: 100 if name != "fusion" else 30 if member.startswith("dirichlet") else 0
            for member in members
        }
        weights = {member: 0.5 / position for position, member in enumerate(members, 1)}
        write_fusion(directory, name, stage, pool_depths, weights)
    return directory


@pytest.fixture
def checkpoints_copy(all_checkpoints_dir, tmp_path):
    """Copy `all_checkpoints_dir` for a test that modifies it."""
    return Path(shutil.copytree(all_checkpoints_dir, tmp_path / "checkpoints"))


@pytest.fixture(scope="module")
def small_shards():
    """Reduce shards and batches, so that hundreds of documents make several of each."""
    sizes = [(dense, 40), (latent, 150), (enrichment, 64)]
    with pytest.MonkeyPatch.context() as patch:
        for module, size in sizes:
            patch.setattr(module, "SHARD_SIZE", size)
        for kind in (Ranker, BERTRanker):
            patch.setattr(kind, "shard_size", 40)
            patch.setattr(kind, "cpu_batch_size", 16)
        patch.setattr(dense, "VECTOR_BLOCK", 64)
        patch.setattr(dense, "QUERY_BLOCK", 2)
        patch.setattr(latent, "BATCH_SIZE", 40)
        patch.setattr(lexical, "BLOCK_SIZE", 150)
        patch.setattr(lexical, "SPLIT_SIZE", 60)
        patch.setattr(inverted, "ROWS_PER_BLOCK", 100)
        yield


@pytest.fixture
def corpus_with_topics(corpus, tmp_path):
    """Copy `corpus` with three topics for a test (see `copy_with_topics`)."""
    return copy_with_topics(corpus, tmp_path / "input")


def copy_with_topics(corpus, directory, rows=(0, 200, 400)):
    """Copy a corpus, and add topics whose titles are the conclusions of these arguments."""
    shutil.copytree(corpus, directory)
    arguments = json.loads((directory / "args-me.json").read_text())["arguments"]
    write_topics(directory / "topics.xml", [arguments[row]["conclusion"] for row in rows])
    return directory


@pytest.fixture
def rank_all(corpus_with_topics, checkpoints_copy, tmp_path):
    """Return a function that runs `rank` on `corpus_with_topics` with all checkpoints."""

    def run(output="out", *flags):
        paths = argv("-i", corpus_with_topics, "-o", tmp_path / output)
        paths += argv("--checkpoints", checkpoints_copy)
        return run_submission(["rank", *paths, *flags, "--device", "cpu"])

    return run


def build_text_lookup(documents):
    """Return a function that returns the rows of the requested docnos, in their order."""
    by_docno = documents.set_index("docno", drop=False)
    return lambda docnos: by_docno.loc[docnos]


def read_files(directory):
    """Map the path of each file in a directory to its content, without ir-metadata.yml."""
    files = (file for file in sorted(directory.rglob("*")) if file.is_file())
    files = (file for file in files if file.name != "ir-metadata.yml")
    return {str(file.relative_to(directory)): file.read_bytes() for file in files}


def update_hash(directory, name):
    """Update the hash in provenance.json of a modified file `name` of a checkpoint."""
    file = directory / "provenance.json"
    content = json.loads(file.read_text())
    content["files"][name] = sha256_file(directory / name)
    file.write_text(json.dumps(content))


class ParsedPage(HTMLParser):
    """HTML page, parsed into its elements and its text."""

    def __init__(self, html):
        super().__init__()
        self.elements = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append(tag)

    def handle_data(self, data):
        self.text += data


@pytest.fixture
def block_network(monkeypatch):
    """Fail the test if it opens a network connection."""

    def fail(*address):
        raise AssertionError(f"unexpected network connection: {address}")

    monkeypatch.setattr(socket.socket, "connect", fail)
    monkeypatch.setattr(socket, "getaddrinfo", fail)


@contextmanager
def limit_file_size(limit):
    """Let writing beyond the first `limit` bytes of any file fail."""
    _, hard_limit = limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard_limit))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
