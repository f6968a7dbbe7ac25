"""The textbook's text programs on a small text made here, and a few steps on the Penn Treebank where it is at hand."""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from seeds import load

import weft as wf

GROUPS = [[f"{kind}{i}" for i in range(8)] for kind in ("animal", "colour", "place")]
PTB = Path(os.environ.get("WEFT_DATA", "/nowhere"), "ptb")
on_ptb = pytest.mark.skipif(not (PTB / "ptb.train.txt").exists(), reason="needs WEFT_DATA with ptb")


@pytest.fixture(scope="module")
def cbow() -> ModuleType:
    return load("cbow")


@pytest.fixture(scope="module")
def lstm_lm() -> ModuleType:
    return load("lstm_lm")


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """Sentences of words of one group each: a word stands among its like."""
    rng = np.random.default_rng(3)
    lines = [" ".join(rng.choice(GROUPS[g], 9)) for g in rng.integers(0, 3, 900)]
    path = tmp_path / "text.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_cbow_finds_what_stands_together(cbow: ModuleType, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    saved = tmp_path / "vectors.safetensors"
    wf.random.seed(1)
    corpus, words = cbow.read_text(text)
    assert len(corpus) == 9000 and sorted(words) == sorted(["<eos>", *sum(GROUPS, [])])
    assert [words[i] for i in corpus[9:11]][0] == "<eos>"
    model = cbow.main(["--text", str(text), "--epochs", "8", "--save", str(saved)])
    said = capsys.readouterr().out
    assert said.count("| epoch ") == 8 and "[query] you\nyou is not found" in said and "not found" in said
    vectors = wf.nn.Embedding(len(words), 100)
    assert np.array_equal(vectors.load(saved).weight.numpy(), model.into.weight.numpy().astype(np.float16).astype(np.float32))
    for group in GROUPS:
        near = [word for word, _ in cbow.most_similar(group[0], words, vectors.weight.numpy())]
        assert set(near) <= set(group), (group[0], near)
    four = cbow.analogy(GROUPS[0][0], GROUPS[1][0], GROUPS[0][1], words, vectors.weight.numpy())
    assert len(four) == 5 and {w for w, _ in four} <= set(GROUPS[1])


def test_cbow_has_the_loss_and_gradient_of_its_formula(cbow: ModuleType) -> None:
    rng = np.random.default_rng()
    corpus = rng.integers(0, 20, 200)
    model = cbow.CBOW(corpus, 20, hidden=6)
    a, b = rng.normal(size=(2, 20, 6))
    model.into.weight, model.out.weight = a.astype("f"), b.astype("f")
    middle, negatives = rng.integers(2, 198, 9), rng.integers(0, 20, (9, 5))
    run = wf.jit(wf.value_and_grad(lambda model, *batch: model(*batch)))
    loss, slope = run(model, *cbow.around(wf.array(corpus), wf.array(middle), window=2), wf.array(negatives.T))

    def formula(a: np.ndarray, b: np.ndarray) -> float:
        h = np.mean([a[corpus[middle + k]] for k in (-2, -1, 1, 2)], axis=0)
        score = (b[np.column_stack([corpus[middle], negatives])] * h[:, None]).sum(2)
        sign = np.array([-1, 1, 1, 1, 1, 1])
        return np.log1p(np.exp(sign * score)).sum() / 9

    assert abs(float(loss) - formula(a, b)) < 1e-5
    step = rng.normal(size=(2, 20, 6))
    numeric = (formula(a + 1e-6 * step[0], b + 1e-6 * step[1]) - formula(a - 1e-6 * step[0], b - 1e-6 * step[1])) / 2e-6
    own = (slope.into.weight.numpy() * step[0]).sum() + (slope.out.weight.numpy() * step[1]).sum()
    assert abs(own - numeric) < 1e-3 * (1 + abs(numeric))


def test_batches_read_on_and_round(lstm_lm: ModuleType) -> None:
    found = lstm_lm.batches(np.arange(31), 3, 4)
    taken = [next(found) for _ in range(5)]
    assert all(x.shape == (3, 4) and (t == x + 1).all() for x, t in taken)
    assert taken[0][0].tolist() == [[0, 1, 2, 3], [10, 11, 12, 13], [20, 21, 22, 23]]
    assert taken[1][0][0].tolist() == [4, 5, 6, 7] and taken[2][0][2].tolist() == [28, 29, 0, 1]
    with pytest.raises(ValueError, match="holds no batch of 3 times 40"):
        next(lstm_lm.batches(np.arange(31), 3, 40))


def folder(tmp_path: Path) -> Path:
    """Texts in which every word but the first of a line follows from the one before."""
    rng = np.random.default_rng(4)
    for part, count in (("train", 500), ("valid", 60), ("test", 60)):
        lines = []
        for first in np.concatenate([np.arange(10), rng.integers(0, 10, count)]):
            lines.append(" ".join(f"w{(first * 3 + 7 * k) % 10}" for k in range(7)))
        (tmp_path / f"{part}.txt").write_text("\n".join(lines) + "\n")
    return tmp_path


def test_language_model_learns_what_follows(lstm_lm: ModuleType, tmp_path: Path) -> None:
    saved = tmp_path / "lm.safetensors"
    found = lstm_lm.main(["--folder", str(folder(tmp_path)), "--hidden", "24", "--epochs", "6", "--save", str(saved)])
    assert found < 2.5  # 11 words; one in eight cannot be known
    texts, words = lstm_lm.read_texts(tmp_path)
    other = lstm_lm.Rnnlm(len(words), 24, 24).load(saved)
    assert abs(lstm_lm.perplexity(other, texts["test"]) - found) < 0.02 * found
    assert len(words) == 11 and len(texts["valid"]) == 70 * 8


def test_better_language_model(lstm_lm: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    saved = tmp_path / "lm.safetensors"
    path = folder(tmp_path)
    lstm_lm.main(["--folder", str(path), "--better", "--hidden", "8", "--epochs", "2", "--save", str(saved)])
    assert capsys.readouterr().out.count("valid perplexity") == 2 and saved.exists()
    texts, words = lstm_lm.read_texts(path)
    wf.random.seed(2)
    model = lstm_lm.BetterRnnlm(len(words), 32, dropout=0.1)
    trainer = lstm_lm.Trainer(model, texts["train"], wf.optim.SGD(4.0, clip_norm=0.5), batch=10, steps=8)
    for number in range(1, 7):
        trainer.epoch(number, 4.0)
    assert lstm_lm.perplexity(model, texts["test"]) < 5


def test_state_is_carried_from_batch_to_batch(lstm_lm: ModuleType) -> None:
    wf.random.seed(5)
    model = lstm_lm.Rnnlm(7, 4, 4)
    x = wf.array(np.random.default_rng(0).integers(0, 7, (2, 6)))
    whole = model(x).numpy()
    model.reset_state()
    halves = np.concatenate([model(x[:, :3]).numpy(), model(x[:, 3:]).numpy()], axis=1)
    assert np.abs(whole - halves).max() < 1e-6


@on_ptb
def test_a_few_steps_on_the_treebank(cbow: ModuleType, lstm_lm: ModuleType) -> None:
    corpus, words = cbow.read_text(PTB / "ptb.train.txt")
    assert len(corpus) == 929_589 and len(words) == 10_000
    model = cbow.CBOW(corpus, len(words))
    (loss,) = cbow.train(model, corpus, epochs=1, limit=60)
    assert 4.0 < loss < 6 * np.log(2) + 0.01
    texts, words = lstm_lm.read_texts(PTB)
    assert len(texts["test"]) == 82_430
    wf.random.seed(0)
    trainer = lstm_lm.Trainer(lstm_lm.Rnnlm(len(words), 100, 100), texts["train"], wf.optim.SGD(20.0, clip_norm=0.25))
    assert trainer.count == 1327 and trainer.epoch(1, 20.0, limit=3) < 30_000
