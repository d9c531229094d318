"""Tests of SNRM, DRMM, TFR-BERT and TARGER against slower or exacter computations."""

from copy import deepcopy

import pytest
import torch
from torch import nn
from transformers import BertConfig, BertModel

from aragorn.models import transformer
from aragorn.models.network import pad
from aragorn.models.rankers.drmm import DRMM
from aragorn.models.rankers.tfr_bert import TFRBERT
from aragorn.models.taggers import TokenAnnotation
from aragorn.models.taggers.targer import TARGER, join_adjacent
from aragorn.models.transformer import QUERY_LENGTH, BERTConfig
from aragorn.text.surface_tokens import SurfaceTokeniser
from aragorn.text.tokenisers import Vocabulary
from tests.contract.test_rankers import BERT, generate_texts

WORDS = 3000


@torch.no_grad()
@pytest.mark.parametrize("size", [1, 7, 400])
def test_scores_equal_float64_for_any_batch(size):
    torch.manual_seed(0)
    drmm = DRMM(DRMM.Config(vocabulary=WORDS, dimensions=300)).eval()
    drmm.embedding.weight[2:] = torch.randn(WORDS - 2, 300)
    query = torch.randint(2, WORDS, (1, 5)).expand(400, -1)
    document = torch.randint(2, WORDS, (400, 100))
    expected = deepcopy(drmm).double()(query, query > 0, document, document > 0).float()
    assert expected.std() > 1e-3
    batches = zip(query.split(size), document.split(size), strict=True)
    scores = torch.cat([drmm(queries, queries > 0, batch, batch > 0) for queries, batch in batches])
    assert (scores - expected).abs().max() < 1e-6


# each document in one chunk
QUERIES = [[], *generate_texts(1, 7, 10)]
DOCUMENTS = [*generate_texts(2, 6, 17), [], [5]]


def score_with_transformers(ranker, queries):
    """Score queries with DOCUMENTS by transformers' BERT with a ranker's weights."""
    bert = BertModel(BertConfig(**BERT), add_pooling_layer=True).double().eval()
    pooler = {f"pooler.dense.{name}": value for name, value in ranker.pooler.state_dict().items()}
    bert.load_state_dict({**ranker.encoder.bert.state_dict(), **pooler})
    linear = nn.Linear(16, 1).double()
    linear.load_state_dict(ranker.linear.state_dict())
    scores = []
    for query, document in zip(queries, DOCUMENTS, strict=True):
        first = [2, *query, 3]
        second = [*document, 3]
        document_start = QUERY_LENGTH + 1
        positions = [
            *range(len(first) - 1),
            *range(document_start, document_start + 1 + len(second)),
        ]
        types = [0] * len(first) + [1] * len(second)
        inputs = {"input_ids": first + second, "token_type_ids": types, "position_ids": positions}
        arguments = {name: torch.tensor([row]) for name, row in inputs.items()}
        scores.append(linear(bert(**arguments).pooler_output).flatten())
    return torch.cat(scores)


@torch.no_grad()
@pytest.mark.parametrize(
    ("topic", "queries"), [(True, QUERIES), (False, [[]] * 8)], ids=["with topic", "without topic"]
)
def test_scores_equal_transformers(topic, queries):
    torch.manual_seed(0)
    ranker = TFRBERT(TFRBERT.Config(bert=BERT, cls=2, sep=3, topic=topic)).double().eval()
    scores = ranker(*pad(QUERIES), *pad(DOCUMENTS))
    assert scores.std() > 1e-4
    torch.testing.assert_close(scores, score_with_transformers(ranker, queries), rtol=0, atol=1e-9)
    assert torch.equal(scores, ranker(*pad(QUERIES[::-1]), *pad(DOCUMENTS))) is not topic


@pytest.mark.parametrize("training", [False, True])
def test_bert_equals_transformers_bit_by_bit(training):
    mask = torch.ones(3, 9, dtype=torch.long)
    ids = torch.arange(27).reshape(3, 9)
    inputs = {"input_ids": ids, "token_type_ids": mask - 1, "position_ids": mask.cumsum(1)}
    results = []
    for build in (
        lambda: transformer.BERT(BERTConfig(**BERT)),
        lambda: BertModel(BertConfig(**BERT, output_hidden_states=True), False),
    ):
        torch.manual_seed(0)
        bert = build().train(training)
        outputs = [bert(**inputs, attention_mask=mask.tril(length)) for length in (6, 9)]
        states = [
            output if isinstance(output, tuple) else output.hidden_states for output in outputs
        ]
        layers = [layer for output in states for layer in output]
        gradients = torch.autograd.grad(torch.stack(layers).pow(2).sum(), list(bert.parameters()))
        results.append({**dict(bert.named_parameters()), **dict(enumerate([*layers, *gradients]))})
    assert list(results[0]) == list(results[1])
    pairs = zip(*(result.values() for result in results), strict=True)
    assert all(torch.equal(ours, theirs) for ours, theirs in pairs)


TEXT = "The women's rights (since 1920) are good. Zoos aren't."


def tag_text(letters):
    """Tag the tokens of TEXT: p premise, m major claim, b backing, else O."""
    labels = {"p": "I-P", "m": "B-MC", "b": "I-B"}
    [passage] = SurfaceTokeniser(Vocabulary([]), 512).split(TEXT)
    rows = zip(passage.tokens, passage.spans, letters, strict=True)
    return [
        TokenAnnotation(word, start, end, float(key in "pm"), labels.get(key, "O"))
        for word, (start, end), key in rows
    ]


def test_indexed_components_have_the_original_text():
    frequencies = TARGER(TARGER.Config(12, ("O",))).compute_word_frequencies
    premise = tag_text("p" * 17)
    assert join_adjacent(premise) == TEXT.split()
    assert frequencies([premise, premise[:1]]) == {**dict.fromkeys(TEXT.split(), 1), "The": 2}
    words = tag_text("opppp" + "bbbb" + "mm" + "ppp" + "opp")
    assert join_adjacent(words) == ["women's", "rights", "are", "good.", "Zoos", "aren", "t."]
    assert join_adjacent(tag_text("pop" + "o" * 14)) == ["The", "'"]
    assert frequencies([tag_text("ob" + "o" * 15)]) == {}
    assert frequencies([]) == {}
