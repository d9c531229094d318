"""TARGER: tags are independent of the batch, and the tagger learns."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
import torch
from torch import Tensor

from submission.inference.enricher_checkpoint import EnricherCheckpoint, load_enricher
from submission.models.enricher import TokenAnnotation
from submission.models.enrichers.targer import TARGER, join_adjacent
from submission.text.surface_tokens import CHARACTER_ID_COUNT, SurfaceReader
from submission.text.vocabulary import Vocabulary
from training.fitting.fit import save_network
from training.tasks.tagging import compute_crf_loss

TAGS = ("O", "B-P", "I-P")
LENGTHS = (6, 2, 1, 4)


def network(cell: str = "lstm") -> TARGER:
    torch.manual_seed(0)
    config = TARGER.Config(12, TAGS, CHARACTER_ID_COUNT, 8, 5, filters=3, cell=cell, hidden=7)  # type: ignore[arg-type]
    return TARGER(config).eval()


def make_batch() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Draw nine distinct words in four sequences."""
    mask = torch.arange(6) < torch.tensor(LENGTHS)[:, None]
    return torch.randint(1, 12, (9,)), torch.randint(0, CHARACTER_ID_COUNT, (9, 20)), torch.randint(0, 9, mask.shape), mask


@torch.no_grad()
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_tags_do_not_depend_on_padding_or_batch(cell: str) -> None:
    tagger, (ids, letters, words, mask) = network(cell), make_batch()
    together = tagger(ids, letters, words, mask)
    assert together.shape == (4, 6, 5)
    assert together[mask].std() > 0.01
    for row, length in enumerate(LENGTHS):
        alone = tagger(ids, letters, words[row : row + 1, :length], mask[row : row + 1, :length])
        torch.testing.assert_close(together[row, :length], alone[0], rtol=1e-5, atol=1e-6)
        repadded = words.masked_fill(~mask, 8)
        torch.testing.assert_close(tagger(ids, letters, repadded, mask)[mask], together[mask], rtol=0, atol=0)


@torch.no_grad()
def test_vocabulary_order_does_not_matter() -> None:
    tagger, (ids, letters, words, mask) = network(), make_batch()
    order = torch.randperm(9)
    index = order.argsort()
    emissions = tagger(ids[order], letters[order], index[words], mask)
    torch.testing.assert_close(emissions[mask], tagger(ids, letters, words, mask)[mask], rtol=1e-5, atol=1e-6)


def test_both_directions_and_all_characters_matter() -> None:
    tagger, (ids, letters, words, mask) = network(), make_batch()
    letters = letters.clamp(min=1)
    before = tagger(ids, letters, words, mask)
    words = words.clone()
    words[0] = torch.arange(6)
    start = tagger(ids, letters, words, mask)
    for changed in (0, 5):
        new_ids = ids.clone()
        new_ids[changed] = ids[changed] % 11 + 1
        moved = (tagger(new_ids, letters, words, mask)[0] - start[0]).abs().amax(1)
        assert (moved > 1e-7).all()
    assert not torch.equal(before[0], start[0])
    seen = set()
    for position in range(20):
        new_letters = letters.clone()
        new_letters[:, position] = new_letters[:, position] % (CHARACTER_ID_COUNT - 1) + 1
        seen |= {position} if not torch.equal(tagger(ids, new_letters, words, mask)[mask], start[mask]) else set()
    assert seen == set(range(20))


def test_every_parameter_has_a_gradient_and_is_stored() -> None:
    tagger, (ids, letters, words, mask) = network().train(), make_batch()
    tags = torch.randint(1, 4, mask.shape).masked_fill(~mask, 0)
    compute_crf_loss(tagger.crf, tagger(ids, letters, words, mask), tags, mask).backward()
    parameters = dict(tagger.named_parameters())
    assert parameters.keys() == tagger.state_dict().keys()
    for name, value in parameters.items():
        assert value.grad is not None, name
        assert value.grad.abs().max() > 0, name


@torch.no_grad()
@pytest.mark.parametrize("zeroed", ["letters", "embedding"])
def test_word_and_character_dropout_only_in_training(zeroed: str) -> None:
    tagger, batch = network(), make_batch()
    getattr(tagger, zeroed).weight.zero_()
    assert torch.equal(tagger(*batch), tagger(*batch))
    tagger.train()
    assert not torch.equal(tagger(*batch), tagger(*batch))


@torch.no_grad()
def test_recurrent_dropout_only_in_training() -> None:
    torch.manual_seed(0)
    config = TARGER.Config(12, TAGS, CHARACTER_ID_COUNT, 8, 5, filters=3, hidden=7, dropout=0.0, output_dropout=0.5)
    tagger, batch = TARGER(config).eval(), make_batch()
    emissions = tagger(*batch)
    tagger.train()
    assert not torch.equal(tagger(*batch), emissions)
    tagger.output_dropout.p = 1.0
    assert torch.equal(tagger(*batch), tagger.emission.bias.expand_as(emissions))


def test_tagger_learns_from_characters_and_context() -> None:
    """All words are unknown and differ in one letter: P begins at each word 0 and continues until the next word 3."""
    tagger = network().train()
    tagger.dropout.p = 0.0
    letters = torch.zeros(4, 20, dtype=torch.int64)
    letters[:, 9] = torch.tensor([5, 6, 7, 8])
    generator = torch.Generator().manual_seed(2)

    def batch() -> tuple[tuple[Tensor, Tensor, Tensor, Tensor], Tensor]:
        words = torch.randint(0, 4, (16, 10), generator=generator)
        tags, inside = torch.ones_like(words), torch.zeros(16, dtype=torch.bool)
        for position, column in enumerate(words.unbind(1)):
            begins, ends = column == 0, column == 3
            inside = (inside | begins) & ~ends
            tags[:, position] = torch.where(begins, 2, torch.where(inside, 3, 1))
        return (torch.ones(4, dtype=torch.int64), letters, words, torch.ones_like(words, dtype=torch.bool)), tags

    optimiser = torch.optim.Adam(tagger.parameters(), lr=0.02)
    for _ in range(150):
        inputs, tags = batch()
        optimiser.zero_grad()
        compute_crf_loss(tagger.crf, tagger(*inputs), tags, inputs[-1]).backward()
        optimiser.step()
    inputs, tags = batch()
    assert torch.equal(tagger.crf.decode(tagger(*inputs), inputs[-1]), tags)


TEXT = "The women's rights (since 1920) are good. Zoos aren't."


def reader() -> SurfaceReader:
    return SurfaceReader(Vocabulary(["the", "women", "zoos", "rights", "good", "are", "0000", ".", "'", "s"]), 512)


def tagged(tags: str) -> list[TokenAnnotation]:
    """Return the tokens of TEXT with these tags: p is a premise, m a major claim, b a backing, others are outside."""
    labels = {"p": "I-P", "m": "B-MC", "b": "I-B"}
    [passage] = reader().split(TEXT)
    rows = zip(passage.tokens, passage.spans, tags, strict=True)
    return [TokenAnnotation(word, start, end, float(tag in "pm"), labels.get(tag, "O")) for word, (start, end), tag in rows]


def test_indexed_components_have_the_original_text() -> None:
    frequencies = network().compute_term_frequencies
    everything = tagged("p" * 17)
    assert join_adjacent(everything) == TEXT.split()
    assert frequencies([everything, everything[:1]]) == {**dict.fromkeys(TEXT.split(), 1), "The": 2}
    words = tagged("opppp" + "bbbb" + "mm" + "ppp" + "opp")
    assert join_adjacent(words) == ["women's", "rights", "are", "good.", "Zoos", "aren", "t."]
    assert join_adjacent(tagged("pop" + "o" * 14)) == ["The", "'"]
    assert frequencies([tagged("ob" + "o" * 15)]) == {}
    assert frequencies([]) == {}


@torch.no_grad()
def test_tags_and_positions_do_not_depend_on_the_batch() -> None:
    tagger = network()
    tagger.embedding.weight[2:] *= 30
    tagger.crf.transitions[1:-1, 1:] = 0
    texts = [TEXT, "Zoos!", "Are zoos good? The women's Zoos " * 9]
    passages = [passage for text in texts for passage in reader().split(text)]
    together = tagger.annotate(passages)
    assert {word.label for words in together for word in words} == set(TAGS)
    for passage, words in zip(passages, together, strict=True):
        assert tagger.annotate([passage]) == [words]
        assert [word.surface for word in words] == passage.tokens
        assert [passage.text[word.start : word.end] for word in words] == passage.tokens
        assert all(word.weight == float(word.label != "O") for word in words)


def test_batch_contains_each_distinct_word_once() -> None:
    passages = [*reader().split(TEXT), *reader().split("Zoos are Good")]
    ids, letters, words, mask = network().collate(passages)
    assert mask.sum(1).tolist() == [17, 3]
    assert len(ids) == len(letters) == 16  # "are", ".", "'" and "Zoos" occur twice
    for passage, row in zip(passages, words, strict=True):
        assert ids[row[: len(passage)]].tolist() == passage.token_ids


def test_checkpoint_is_pickled_by_path_and_loaded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_network(tmp_path / "targer", EnricherCheckpoint, network(), reader(), {}, {"training_data": {}}, "A test.")
    opened = load_enricher(tmp_path / "targer")
    pickled = pickle.dumps(opened)
    assert len(pickled) < 500
    unpickled = pickle.loads(pickled)
    assert unpickled is not opened
    assert (unpickled.fingerprint, unpickled.directory) == (opened.fingerprint, tmp_path / "targer")
    monkeypatch.setattr(EnricherCheckpoint, "load", None)
    assert pickle.loads(pickled) is unpickled
    with pytest.raises(TypeError, match="not loaded from a directory"):
        pickle.dumps(EnricherCheckpoint(opened.network, opened.tokeniser, "a test"))
