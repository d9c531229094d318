"""Contract tests of all registered rankers; a new one is covered automatically."""

import numpy as np
import pytest
import torch
from torch import Tensor

from aragorn.engine import CPU
from aragorn.inference.checkpoint import load_checkpoint
from aragorn.inference.pair_scoring import TokenisedPairs, score_pairs, score_texts
from aragorn.models.network import PaddedTexts, SiameseRanker, TopicRanker, pad
from aragorn.models.rankers import get_ranker_class, list_rankers
from aragorn.paths import CHECKPOINT_DIR
from tests.conftest import TINY_BERT as TINY
from tests.conftest import TINY_CONFIGS

VOCABULARY = 60
# 17 document positions per chunk: most documents below have several chunks
BERT = {**TINY, "vocab_size": VOCABULARY, "max_position_embeddings": 40}

VARIANTS = {
    "gru with interaction": ("gru", {**TINY_CONFIGS["gru"], "interaction": True}),
    "cedr_knrm with a hidden layer": ("cedr_knrm", {"hidden": 5}),
    "snrm with many latent terms": ("snrm", {"hidden": (5,), "latent": 259}),
}


def build(name, seed=0):
    """Build an untrained network; CEDR-DRMM's is float64, so that rounding moves no bin."""
    torch.manual_seed(seed)
    name, fields = VARIANTS.get(name, (name, TINY_CONFIGS.get(name, {})))
    ranker_class = get_ranker_class(name)
    if ranker_class.token_unit == "pieces":
        ranker = ranker_class(ranker_class.Config(bert=BERT, cls=2, sep=3, **fields)).eval()
        return ranker.double() if "drmm" in name else ranker
    ranker = ranker_class(ranker_class.Config(vocabulary=VOCABULARY, dimensions=8, **fields))
    vectors = torch.randn(VOCABULARY, 8)
    vectors[:2] = 0
    with torch.no_grad():
        ranker.state_dict()["embedding.weight"].copy_(vectors)
    return ranker.eval()


def generate_texts(seed, count, longest):
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, longest + 1, (count,), generator=generator).tolist()
    return [
        torch.randint(1, VOCABULARY, (length,), generator=generator).tolist() for length in lengths
    ]


def widen(pair, more):
    ids, mask = pair
    return torch.cat([ids, ids.new_zeros(len(ids), more)], 1), torch.cat(
        [mask, mask.new_zeros(len(mask), more)], 1
    )


@pytest.fixture(params=[*list_rankers(), *VARIANTS])
def name(request):
    return str(request.param)


def assert_close(actual, expected):
    is_close = (actual - expected).abs() <= 1e-5 * expected.abs().clamp(min=1)
    assert is_close.all(), (actual, expected)


@torch.no_grad()
def test_score_does_not_depend_on_the_batch(name):
    ranker = build(name)
    queries = generate_texts(1, 9, 10)
    documents = generate_texts(2, 9, 40)
    together = ranker(*pad(queries), *pad(documents))
    assert together.shape == (9,)
    assert together.unique().numel() > 5
    alone = torch.cat(
        [ranker(*pad([q]), *pad([d])) for q, d in zip(queries, documents, strict=True)]
    )
    assert_close(together, alone)
    assert_close(ranker(*widen(pad(queries), 3), *widen(pad(documents), 60)), alone)
    assert_close(ranker(*pad(queries[::-1]), *pad(documents[::-1])).flip(0), alone)


@torch.no_grad()
@pytest.mark.parametrize(
    "name", [name for name in list_rankers() if issubclass(get_ranker_class(name), TopicRanker)]
)
@pytest.mark.parametrize("query", [[], [1], [5, 1, 5, 1, 7], list(range(2, 12))])
@pytest.mark.parametrize("longest", [0, 1, 4, 40])
def test_topic_scores_equal_pair_scores(name, query, longest):
    ranker = build(name)
    documents = [[], [1] * longest, *(generate_texts(3, 80, longest) if longest else [])]
    documents += [query] if longest == 40 else []
    score = ranker.prepare_queries(pad([[9, 8], query, [3]])[0])
    actual = score(*pad([query]), *pad(documents))
    assert actual.shape == (len(documents),)
    assert_close(actual, ranker(*pad([query] * len(documents)), *pad(documents)))
    assert_close(score(*widen(pad([query]), 2), *widen(pad(documents), 7)), actual)


@torch.no_grad()
@pytest.mark.parametrize(
    "name",
    [
        *(name for name in list_rankers() if issubclass(get_ranker_class(name), SiameseRanker)),
        "snrm with many latent terms",
    ],
)
@pytest.mark.parametrize("longest", [0, 1, 4, 5, 40])
def test_encode_batch_equals_encode(name, longest):
    ranker = build(name)
    documents = [[], [1] * longest, *(generate_texts(3, 80, longest) if longest else [])]
    actual = ranker.encode_batch(*pad(documents))
    assert longest < 4 or actual.abs().max() > 0.01
    assert_close(actual, torch.cat([ranker.encode(*pad([document])) for document in documents]))
    assert_close(ranker.encode_batch(*widen(pad(documents), 7)), actual)


@torch.no_grad()
def test_unknown_words_do_not_match(name):
    ranker = build(name)
    if name.startswith("gru") or ranker.token_unit == "pieces":
        pytest.skip("does not match known words")
    with_unknown = ranker(*pad([[5, 1]]), *pad([[5, 7, 1]]))
    assert_close(with_unknown, ranker(*pad([[5]]), *pad([[5, 7]])))


@torch.no_grad()
@pytest.mark.parametrize(
    ("query", "document"),
    [([5, 6, 7], [*range(2, 50), 5, 6]), ([5, 1], [9, 8]), ([], [5]), ([5], [])],
)
def test_explanation_sums_to_the_score(name, query, document):
    ranker = build(name)
    pair = (*pad([query]), *pad([document]))
    actual = ranker.explain(*pair)
    total = sum(part.value for part in actual.contributions)
    activated = total if actual.activation is None else actual.activation(total)
    assert_close(torch.tensor(activated), ranker(*pair)[0].float())
    assert actual.score == ranker(*pair).item()
    for part in actual.contributions:
        assert part.query_position is None or 0 <= part.query_position < max(1, len(query))
        assert all(0 <= position < max(1, len(document)) for position in part.document_positions)


def test_parameters_get_gradients_and_tensors_are_registered(name):
    ranker = build(name)
    score = ranker(*pad(generate_texts(1, 16, 10)), *pad(generate_texts(2, 16, 40)))
    score.square().sum().backward()
    for parameter, value in ranker.named_parameters():
        assert value.grad is not None, parameter
        assert value.grad.isfinite().all(), parameter
        assert value.grad.abs().max() > 0, parameter
        # padding and unknown words
        assert parameter != "embedding.weight" or value.grad[:2].abs().max() == 0
    registered = {id(tensor) for tensor in [*ranker.parameters(), *ranker.buffers()]}
    for module in ranker.modules():
        assert all(
            id(value) in registered for value in vars(module).values() if isinstance(value, Tensor)
        )


@torch.no_grad()
def test_matching_is_float32_under_autocast(name):
    ranker = build(name).float()
    queries = generate_texts(1, 9, 10)
    documents = generate_texts(2, 9, 40)
    expected = ranker(*pad(queries), *pad(documents))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        actual = ranker(*pad(queries), *pad(documents))
    assert actual.dtype == torch.float32
    assert_close(actual, expected)


PAIRS = [
    ("Should zoos be abolished?", "Zoos keep animals in cages, which is cruel."),
    ("Should zoos be abolished?", "The death penalty does not deter crime."),
    ("Is a vegan diet healthy?", "A vegan diet lowers the risk of heart disease, doctors say."),
]
SHIPPED = ["knrm", "conv_knrm", "drmm", "gru", "gru_interaction", "snrm"]


@torch.no_grad()
@pytest.mark.parametrize("shipped", SHIPPED)
def test_shipped_word_rankers_rank_by_the_scores_of_forward(shipped):
    checkpoint = load_checkpoint(CHECKPOINT_DIR / shipped)
    queries = [checkpoint.tokeniser.encode_query(query) for query, _ in PAIRS]
    premises = [checkpoint.tokeniser.encode_premise(premise) for _, premise in PAIRS]
    expected = checkpoint.network(*pad(queries), *pad(premises))
    assert expected.unique().numel() == len(PAIRS)
    assert_close(torch.from_numpy(score_texts(checkpoint, PAIRS)), expected)


def test_score_pairs_equals_forward_with_any_number_of_threads(name):
    ranker = build(name)
    queries = generate_texts(1, 3, 10)
    premises = [[], *generate_texts(2, 120, 60)]
    rows = np.meshgrid(np.arange(len(queries)), np.arange(len(premises)))
    texts = PaddedTexts.from_ids(queries), PaddedTexts.from_ids(premises)
    pairs = TokenisedPairs(*texts, rows[0].ravel(), rows[1].ravel())
    before = torch.get_num_threads()
    scores = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            scores.append(score_pairs(ranker, pairs, CPU))
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    np.testing.assert_array_equal(scores[1:], [scores[0]] * 2)
    with torch.no_grad():
        paired = [queries[row] for row in pairs.query_rows]
        expected = ranker(*pad(paired), *pad([premises[row] for row in pairs.premise_rows]))
    assert scores[0].dtype == np.float32
    assert_close(torch.from_numpy(scores[0]), expected.float())
