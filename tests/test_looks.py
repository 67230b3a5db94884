"""`litbook.live.looks`: the steps of a beam, where a translator looked, and the page on which to
try it."""

import json
import re

import torch
from translators import PAIRS, joint, words

from transformer_lit.decoding import beam_search
from transformer_lit.masks import BOS
from transformer_lit.corpora.files import shipped
from litbook.live.looks import LETTERS, beam_steps, try_it, try_it_page


def test_a_page_shows_where_the_later_layers_looked():
    translator, dice = words(n_decoder_layers=3), torch.Generator().manual_seed(1)
    with torch.no_grad():  # weights that say words of the list
        for weight in translator.model.parameters():
            weight.add_(torch.randn(weight.shape, generator=dice), alpha=0.5)
    english = "I see a cats."
    (one,) = try_it(translator, [(english, "")], bool)
    assert one["said"] == translator.translate([english])[0] and one["s"] == [
        "I",
        "see",
        "a",
        "cats",
        ".",
        "⟨end⟩",
    ]
    rows = [one["w"][i : i + 6] for i in range(0, len(one["w"]), 6)]
    assert len(rows) == len(one["t"]) and all(
        abs(sum(map(LETTERS.index, row)) - 63) <= 3 for row in rows
    ), "weights of a row sum to 1"
    ids = torch.tensor([translator.source_tokenizer.encode(english)])
    said = torch.tensor(
        [[BOS] + [i for word in one["t"] for i in translator.target_tokenizer.encode(word)[:-1]]]
    )
    kept = []
    for layer in translator.model.decoder.layers[
        1:
    ]:  # three layers: the later half begins with the second
        layer.cross_attention.register_forward_hook(lambda _, x, output: kept.append(output))
    assert (
        said.size(1) == len(one["t"]) + 1
    ), "it said a word that isn't in the list: another seed is needed"
    with torch.no_grad():
        translator.model(ids, said)
    mean = torch.stack([weights[0].mean(0) for _, weights in kept]).mean(0)[:-1]
    assert one["w"] == "".join(LETTERS[i] for i in (mean * 63).round().long().flatten())


def test_looking_leaves_the_model_as_it_was():
    translator = words()
    try_it(translator, [("I see a cats.", "")], bool)
    part = translator.model.decoder.layers[0].cross_attention
    assert not part._forward_hooks and part.need_weights is None


def test_the_view_is_safe_and_complete():
    translator = joint()
    rows = try_it(translator, [("I see </script>.", 'Je & "toi"')], lambda english: True)
    page = try_it_page(rows)
    assert page.count("</script>") == try_it_page([]).count(
        "</script>"
    ), "a sentence must not end the script"
    held = json.loads(
        re.search(r"<script type=\"application/json\"[^>]*>(.*?)</script>", page, re.S)[1]
    )
    assert held == rows and len(rows[0]["w"]) == len(rows[0]["s"]) * len(rows[0]["t"])
    assert not re.search(r"https?://(?!www\.w3\.org)", page), "the view asks another host"


def test_what_the_page_is_given():
    [row] = try_it(words(), [PAIRS[0]], lambda english: 0)
    assert row["seen"] is False and row["ref"] == PAIRS[0][1] and row["en"] == PAIRS[0][0]


def test_a_watched_search_is_the_search():
    translator, english = words(), "I see a cats."
    steps = beam_steps(translator, english, 2)
    [answer] = beam_search(
        translator.model, torch.tensor([translator.source_tokenizer.encode(english)]), 2
    )
    assert all(
        len(candidates) <= 4 and list(candidates) == sorted(candidates, key=lambda c: -c[0])
        for candidates in steps
    )
    assert all(beam in (0, 1) for candidates in steps for _, beam, _ in candidates)
    assert len(steps) >= len(answer), "a step for each token at least"
    said = {word for candidates in steps for _, _, word in candidates}
    assert {translator.target_tokenizer.decode([i]).strip() for i in answer} <= said


def test_the_view_stands_on_what_all_views_share():
    page, shared = try_it_page([]), shipped("web/views/shared.html").read_text("utf-8")
    assert (
        page.startswith(shared)
        and page.count("<style>") == 2
        and "tl-view" in page.removeprefix(shared).partition(">")[0]
    )
