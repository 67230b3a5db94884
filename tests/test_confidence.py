"""What an answer's probability says of it: the sum over its tokens, and what it is worth on a test.
"""

import math

import pytest
import translators
from hypothesis import given
from hypothesis import strategies as st

from transformer_lit.masks import BOS, EOS
from transformer_lit import cli
from transformer_lit.serving import confidence
from transformer_lit.serving.confidence import (
    Calibration,
    fit_calibration,
    group_means,
    isotonic,
)
from transformer_lit.batching import collate

numbers = st.lists(st.floats(-100, 100), min_size=1, max_size=30)


def test_the_sum_over_an_answers_tokens():
    "Token by token from the model's own step, for answers of unlike length in one batch and alone."
    translator = translators.joint()
    sources = [
        translator.source_tokenizer.encode(text)
        for text in ("A cat.", "A big dog sleeps here today.", "")
    ]
    pairs = [(sources[0], [7, 9]), (sources[1], [8]), (sources[2], [])]
    expected = []
    for source, said in pairs:
        state, total = translator.model.eval().initial_state(collate([(source, [BOS])])[0]), 0.0
        for token, following in zip([BOS, *said], [*said, EOS]):
            logits, state = translator.model.step(collate([([EOS], [token])])[1][:, 0], state)
            total += logits.log_softmax(-1)[0, following].item()
        expected.append(total)
    assert confidence.log_probabilities(translator, pairs) == pytest.approx(expected, abs=1e-4)
    assert confidence.log_probabilities(translator, pairs, batch_size=1) == pytest.approx(
        expected, abs=1e-4
    )


def test_answers_are_those_of_translate():
    translator = translators.joint()
    texts = ["A cat.", "", "The dog sleeps. A cat eats. The bird sings.", "  A   dog. "]
    translator.length_limits = (8, 6)  # so that one of them is cut in parts
    answers = confidence.translate_with_scores(translator, texts, 2)
    assert [answer.text for answer in answers] == translator.translate(texts, 2)
    assert answers[1].log_prob == 0 and all(a.log_prob < 0 for a in answers if a.text)


@given(numbers)
def test_rising_never_falls_and_keeps_the_mean(values):
    found = isotonic(values)
    assert len(found) == len(values) and math.isclose(sum(found), sum(values), abs_tol=1e-6)
    assert all(b >= a - 1e-9 for a, b in zip(found, found[1:]))
    assert values != sorted(values) or found == pytest.approx(values)


def test_groups_and_calibration():
    x, y = [-3, -1, -2, -4], [30, 90, 20, 10]
    assert group_means(x, y, 2) == [(-3.5, 20, 2), (-1.5, 55, 2)]
    worth = fit_calibration(x * 10, y * 10)
    assert worth.chrf == [10, 25, 25, 90]  # 30 and 20 fall: both become 25
    assert [worth(v) for v in (-9, -4, -3.5, -1.5, 0)] == [10, 10, 17.5, 57.5, 90]


def test_the_command_shows_it(tmp_path, monkeypatch, capsys):
    translator = translators.joint()
    monkeypatch.setattr(cli, "load_translator", lambda *_: (translator, tmp_path))
    assert cli.main(["translate", "A cat.", "--show-confidence"]) == 1
    assert "probabilities" in capsys.readouterr().err
    confidence.save_calibration(Calibration((-20.0, 0.0), (0.0, 100.0)), tmp_path)
    assert cli.main(["translate", "A cat.", "--show-confidence"]) == 0
    text, number = capsys.readouterr().out.rstrip("\n").split("\t")
    (said,) = confidence.translate_with_scores(translator, ["A cat."])
    assert (text, number) == (said.text, f"{100 + 5 * said.log_prob:.0f}")
