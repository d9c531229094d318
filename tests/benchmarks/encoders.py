"""Benchmarks of BERT networks, DeepCT, SBERT and TARGER on a CPU.

A baseline has the same texts, maximum lengths and number of threads: a library with the same
architecture, another inference engine, or this project in float32 or without batches.
"""

import io
import tempfile
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import onnxruntime
import openvino
import torch
from sentence_transformers import CrossEncoder, SentenceTransformer
from tokenizers import Tokenizer
from torch import nn
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertModel,
    PreTrainedTokenizerFast,
)

from aragorn.engine import CPU, FLOAT32, choose_precision
from aragorn.errors import UsageError
from aragorn.index.dense import encode_texts
from aragorn.inference.checkpoint import load_checkpoint, load_tagger
from aragorn.inference.device import batch_by_length, batch_by_tokens, move_to_device
from aragorn.inference.enrichment import annotate_texts, enrich_texts
from aragorn.inference.pair_scoring import TokenCache, TokenisedPairs, score_documents, score_pairs
from aragorn.inference.pretrained import PretrainedEncoder
from aragorn.io.dataset import Dataset
from aragorn.models.network import pad
from aragorn.paths import CHECKPOINT_DIR
from aragorn.progress import Stopwatch
from aragorn.systems.conclusions import ConclusionIndex, retrieve
from tests.benchmarks.synthetic_inputs import (
    load_collection,
    open_empty_parts,
    sample_premises,
    sample_rows,
)

ENCODER = "all-MiniLM-L6-v2"
BASELINE = "SentenceTransformer.encode"
N_PREMISES = 512
N_DOCUMENTS = 200
MAX_TOKENS = 2048  # per batch of premises or passages for another inference engine


def sample_pairs(directory, n):
    """Sample candidates evenly over all topics; return topics, collection and pairs."""
    topics = Dataset(directory).topics.copy()
    collection = load_collection(directory)
    pairs = sample_rows(retrieve(topics, ConclusionIndex.build(collection)), n)
    return topics, collection, pairs


def measure_bert(name, target, inputs, n_pairs=640):
    """Compare a BERT network with a CrossEncoder that has the same encoder.

    Texts are truncated to the checkpoint's maximum lengths. The head of a CrossEncoder is linear,
    so the baseline omits the histograms and kernels of CEDR networks.
    """
    checkpoint = load_checkpoint(CHECKPOINT_DIR / name)
    tokeniser = checkpoint.tokeniser
    lengths = tokeniser.lengths
    topics, collection, sample = sample_pairs(inputs.directory, n_pairs)
    documents = collection[collection["docno"].isin(set(sample["docno"]))].reset_index(drop=True)
    for frame, column, length in (
        (documents, "premise", lengths.premise),
        (topics, "query", lengths.query),
    ):
        frame[column] = [tokeniser.truncate(text, length) for text in frame[column]]
    queries = topics.set_index("qid")["query"]
    premises = documents.set_index("docno")["premise"]
    pairs = list(zip(queries[sample["qid"]], premises[sample["docno"]], strict=True))
    with tempfile.TemporaryDirectory() as folder:
        _save_as_cross_encoder(checkpoint, Path(folder))
        model = CrossEncoder(folder, device="cpu", max_length=lengths.query + lengths.premise + 3)

    def ours():
        tokens = TokenCache(topics, lambda _: documents, Stopwatch())
        with open_empty_parts() as store:
            return score_documents(sample, tokens, checkpoint, CPU, store)

    baseline = partial(model.predict, pairs, batch_size=checkpoint.network.cpu_batch_size)
    task = f"{name}: {n_pairs} pairs, CPU, float32"
    name = "CrossEncoder.predict"
    return inputs.compare(task, name, "pairs", len(pairs), ours, baseline, target)


def _save_as_cross_encoder(checkpoint, folder):
    """Save a ranker's encoder with an untrained head in the format of CrossEncoder."""
    network = checkpoint.network
    model = BertForSequenceClassification(BertConfig(**network.config.bert, num_labels=1))
    state = {name.removeprefix("encoder."): tensor for name, tensor in network.state_dict().items()}
    encoder = {name: tensor for name, tensor in state.items() if name.startswith("bert.")}
    # pooler and classifier are those of the new model
    model.load_state_dict(model.state_dict() | encoder)
    model.save_pretrained(folder)
    tokenizer = Tokenizer.from_str(checkpoint.tokeniser.to_bytes().decode())
    special = {
        f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")
    }
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(folder)


def measure_sbert(inputs):
    """Compare encoding premises with SBERT with sentence-transformers."""
    checkpoint = load_checkpoint(CHECKPOINT_DIR / "sbert")
    texts = sample_premises(inputs.directory, N_PREMISES)
    model = _load_sentence_transformer(checkpoint.tokeniser.lengths.premise)

    def ours():
        ids = [checkpoint.tokeniser.encode_premise(text) for text in texts]
        return encode_texts(ids, checkpoint.network, CPU)

    task = f"sbert: {N_PREMISES} premises, CPU, float32"
    baseline = partial(model.encode, texts)
    return inputs.compare(task, BASELINE, "premises", len(texts), ours, baseline, 1.3)


def measure_deepct(inputs):
    """Compare enriching texts with DeepCT with encoding their passages."""
    checkpoint = load_tagger(CHECKPOINT_DIR / "deepct")
    texts = sample_premises(inputs.directory, N_DOCUMENTS)
    model = _load_sentence_transformer(checkpoint.network.config.pieces)
    passages = [passage.text for text in texts for passage in checkpoint.tokeniser.split(text)]
    ours = partial(enrich_texts, texts, checkpoint, CPU)
    baseline = partial(model.encode, passages)
    task = "deepct: passages, CPU, float32"
    return inputs.compare(task, BASELINE, "passages", len(passages), ours, baseline, 1.3)


def _load_sentence_transformer(max_pieces):
    """Load the encoder of both checkpoints for texts of at most `max_pieces` subwords."""
    folder = str(PretrainedEncoder(ENCODER).folder)
    model = SentenceTransformer(folder, device="cpu", local_files_only=True)
    model.max_seq_length = max_pieces + 2  # [CLS] and [SEP]
    return model


def measure_tagging(inputs):
    """Compare tagging with TARGER in batches with tagging passage by passage."""
    texts = sample_premises(inputs.directory, N_PREMISES)
    checkpoint = load_tagger(CHECKPOINT_DIR / "targer_essays")
    passages = [passage for text in texts for passage in checkpoint.tokeniser.split(text)]

    @torch.inference_mode()
    def tag_one_by_one():
        return [checkpoint.network.annotate([passage]) for passage in passages]

    ours = partial(annotate_texts, texts, checkpoint, CPU)
    task = f"targer: the words of {N_PREMISES} premises, CPU"
    n_words = sum(map(len, passages))
    return inputs.compare(task, "passage by passage", "words", n_words, ours, tag_one_by_one, 1.5)


@dataclass(frozen=True)
class Inference:
    """Inference of a BERT network in a precision, and the inputs of its encoder."""

    name: str
    unit: str
    run: object  # function of the precision
    encoder: object
    texts: list  # ids with [CLS] and [SEP]
    batches: list  # rows of `texts`

    def pad_batches(self):
        """Return ids and mask (B, T) int64 of each batch."""
        padded = [pad([self.texts[row] for row in rows]) for rows in self.batches]
        return [(ids.numpy(), mask.long().numpy()) for ids, mask in padded]


def infer_with_vanilla_bert(directory, n_pairs=320):
    topics, collection, sample = sample_pairs(directory, n_pairs)
    checkpoint = load_checkpoint(CHECKPOINT_DIR / "vanilla_bert")
    network = checkpoint.network
    by_docno = collection.set_index("docno", drop=False)
    tokens = TokenCache(topics, lambda docnos: by_docno.loc[list(docnos)], Stopwatch())
    queries = tokens.get_query_token_ids(checkpoint.tokeniser)
    premises = tokens.get_premise_token_ids(checkpoint.tokeniser, sample["docno"])
    keys = list(zip(sample["qid"], sample["docno"], strict=True))
    pairs = TokenisedPairs.from_keys(keys, queries, premises)
    cls, sep = network.encoder.special_ids
    texts = [[cls, *queries[qid], sep, *premises[docno], sep] for qid, docno in keys]
    batches = batch_by_length([len(text) for text in texts], network.cpu_batch_size)[::-1]

    def score(precision):
        return score_pairs(move_to_device(network, CPU, precision), pairs, CPU)

    return Inference("vanilla_bert", "pairs", score, network.encoder, texts, batches)


def infer_with_sbert(directory, n_premises=256):
    checkpoint = load_checkpoint(CHECKPOINT_DIR / "sbert")
    premises = sample_premises(directory, n_premises)
    ids = [checkpoint.tokeniser.encode_premise(text) for text in premises]

    def encode(precision):
        network = move_to_device(checkpoint.network, CPU, precision)
        return encode_texts(ids, network, CPU, precision)

    return _infer_single_texts("sbert", "premises", encode, checkpoint, ids)


def infer_with_deepct(directory):
    checkpoint = load_tagger(CHECKPOINT_DIR / "deepct")
    texts = sample_premises(directory, N_DOCUMENTS)
    passages = [passage.piece_ids for text in texts for passage in checkpoint.tokeniser.split(text)]

    def enrich(precision):
        return enrich_texts(texts, replace(checkpoint, precision=precision), CPU)

    return _infer_single_texts("deepct", "passages", enrich, checkpoint, passages)


def _infer_single_texts(name, unit, run, checkpoint, texts):
    encoder = checkpoint.network.encoder
    cls, sep = encoder.special_ids
    inputs = [[cls, *text, sep] for text in texts]
    batches = batch_by_tokens([len(text) for text in inputs], MAX_TOKENS)
    return Inference(name, unit, run, encoder, inputs, batches)


def measure_bfloat16(inputs):
    """Compare DeepCT and SBERT in bfloat16 with float32.

    Raises:
        UsageError: If the processor does not support bfloat16.
    """
    bfloat16 = choose_precision("bfloat16", CPU)
    kinds = (
        ("documents", N_DOCUMENTS, infer_with_deepct(inputs.directory)),
        ("premises", N_PREMISES, infer_with_sbert(inputs.directory, N_PREMISES)),
    )
    results = []
    for unit, n, inference in kinds:
        task = f"{inference.name}: {unit} of a collection, CPU, bfloat16"
        sides = (partial(inference.run, precision) for precision in (bfloat16, FLOAT32))
        results.append(inputs.compare(task, "float32", unit, n, *sides, 2))
    return results


def measure_engines(inputs):
    """Compare three networks with BERT in OpenVINO and in ONNX Runtime, in float32 and, if the
    processor supports it, bfloat16.

    The baselines compute the last layer's hidden states of the same texts, tokenised beforehand
    and sorted by length, in batches of the same size, one batch per thread.
    """
    engines = [("OpenVINO", FLOAT32, "f32"), ("ONNX Runtime", FLOAT32, "")]
    try:
        engines.append(("OpenVINO", choose_precision("bfloat16", CPU), "bf16"))
    except UsageError as error:
        print(f"inference_engines: bfloat16 skipped: {error}")
    results = []
    for infer in (infer_with_vanilla_bert, infer_with_sbert, infer_with_deepct):
        inference = infer(inputs.directory)
        network = LastLayer(inference.encoder).eval()
        batches = inference.pad_batches()
        n = len(inference.texts)
        for name, precision, hint in engines:
            run = _build_openvino(network, hint) if hint else _build_onnxruntime(network)
            task = f"{inference.name}: {n} {inference.unit}, CPU, {precision}"
            sides = partial(inference.run, precision), partial(run, batches)
            results.append(inputs.compare(task, name, inference.unit, n, *sides, 1))
    return results


class LastLayer(nn.Module):
    """An unmodified BERT with the weights of an encoder, which returns the last hidden states."""

    def __init__(self, encoder):
        super().__init__()
        self.bert = BertModel(BertConfig(**asdict(encoder.bert.config)), add_pooling_layer=False)
        self.bert.load_state_dict(encoder.bert.state_dict())

    def forward(self, ids, mask):
        return self.bert(input_ids=ids, attention_mask=mask).last_hidden_state


def _build_openvino(network, precision):
    """Compile the network in throughput mode."""
    from openvino.frontend import FrontEndManager
    from openvino.frontend.pytorch.ts_decoder import TorchScriptPythonDecoder

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        decoder = TorchScriptPythonDecoder(network, example_input=_build_example())
    frontend = FrontEndManager().load_by_framework("pytorch")
    settings = {
        "PERFORMANCE_HINT": "THROUGHPUT",
        "INFERENCE_PRECISION_HINT": precision,
        "INFERENCE_NUM_THREADS": torch.get_num_threads(),
    }
    model = openvino.compile_model(frontend.convert(frontend.load(decoder)), "CPU", settings)
    queue = openvino.AsyncInferQueue(model)

    def run(batches):
        for batch in batches:
            queue.start_async(list(batch))
        queue.wait_all()

    return run


def _build_onnxruntime(network):
    """Export the network to a session that computes each batch on one thread."""
    file = io.BytesIO()
    names = ["ids", "mask"]
    axes = {name: {0: "batch", 1: "length"} for name in (*names, "vectors")}
    outputs = {"input_names": names, "output_names": ["vectors"], "dynamic_axes": axes}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(network, _build_example(), file, **outputs, dynamo=False)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    providers = ["CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(file.getvalue(), options, providers=providers)

    def infer(batch):
        return session.run(None, dict(zip(names, batch, strict=True)))

    def run(batches):
        with ThreadPoolExecutor(torch.get_num_threads()) as pool:
            list(pool.map(infer, batches))

    return run


def _build_example():
    """Return ids and mask of two texts, one padded, so that the network reads the mask."""
    mask = torch.ones(2, 8, dtype=torch.long)
    mask[1, -1] = 0
    return torch.ones_like(mask), mask
