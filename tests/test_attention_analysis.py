"""Attention maps: what is recorded is what was used, everything is put back, and the view is whole,
small and harmless."""

import base64
import html
import json
import os
import re
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from helpers import SEEDS, models, sentences, small_model
from hypothesis import given
from hypothesis import strategies as st

from transformer_lit.attention_analysis import (
    alignment_error_rate,
    attention_modules,
    attention_distance,
    attention_entropy,
    attention_patterns,
    head_disagreement,
    attention_hook,
    token_strings,
    compute_attention,
    record_attention,
    alignment_matrices,
    mean_weight_at,
    ablate_heads,
)
from transformer_lit.decoding import beam_search, greedy_decode
from transformer_lit.masks import BOS, EOS, PAD, padding_mask, target_mask
from litbook.live import pages
from transformer_lit.corpora.files import shipped
from litbook.live.map_view import attention_page, packed, show_attention
from transformer_lit.tokenization import SubwordTokenizer, WordTokenizer
from litbook.live.looks import try_it_page
from transformer_lit.translation import Translator


def run(model, seed=0, rows=3, s=6, t=5):
    source, target = sentences(rows, s, seed), sentences(rows, t, seed + 1)
    return source, target, model(source, target)


def explained(model, seen, source, target):
    """The largest difference between A V and what reached the output projection, over all
    attentions."""
    kept, undo, most = {}, [], 0.0
    for place, part in attention_modules(model).items():
        undo.append(
            part.v_proj.register_forward_hook(
                lambda m, i, o, place=place, part=part: kept.__setitem__(
                    (place, "v"), part.split_heads(o)
                )
            )
        )
        undo.append(
            part.out_proj.register_forward_pre_hook(
                lambda m, i, place=place, part=part: kept.__setitem__(
                    (place, "x"), part.split_heads(i[0])
                )
            )
        )
    model(source, target)
    for hook in undo:
        hook.remove()
    for kind, layer in attention_modules(model):
        place = (kind, layer)
        most = max(
            most, (seen[kind][layer] @ kept[place, "v"] - kept[place, "x"]).abs().max().item()
        )
    return most


# Recording ----------------------------------------------------------------------------------------


@given(models(), SEEDS)
def test_what_is_recorded_is_what_was_used(model, seed):
    model.eval()
    with record_attention(model) as seen:
        source, target, logits = run(model, seed)
    assert (
        explained(model, seen, source, target) < 1e-9
    ), "the weights recorded don't explain what the heads gave out"
    assert torch.equal(model(source, target), logits), "listening changes the output"
    c = model.config
    assert {k: len(v) for k, v in seen.items()} == {
        "encoder": c.n_encoder_layers,
        "decoder": c.n_decoder_layers,
        "cross": c.n_decoder_layers,
    }
    assert seen["cross"][0].shape == (3, c.n_heads, 5, 6), "weights are (B, H, T, S)"
    assert not any(w.requires_grad for layers in seen.values() for w in layers)


def test_layers_and_kinds_keep_their_names():
    model = small_model()
    found = attention_modules(model)
    for n in range(2):
        assert found["encoder", n] is model.encoder.layers[n].self_attention
        assert found["decoder", n] is model.decoder.layers[n].self_attention
        assert found["cross", n] is model.decoder.layers[n].cross_attention


def test_an_attention_without_a_name_is_called_self():
    alone = torch.nn.ModuleList([small_model().encoder.layers[0].self_attention])
    assert list(attention_modules(alone)) == [("self", 0)]


def test_the_last_call_is_kept_and_shapes_are_those_of_its_words():
    model = small_model().eval()
    with torch.no_grad(), record_attention(model) as seen:
        run(model, seed=7, s=4, t=3)
        source, target, _ = run(model)
    assert explained(model, seen, source, target) < 1e-9, "the first call was kept"
    assert not seen["cross"][0].requires_grad and seen["cross"][0].shape[2:] == (5, 6)


def test_hooks_are_gone_after_an_error():
    model = small_model()
    with pytest.raises(RuntimeError, match="on purpose"):
        with record_attention(model), ablate_heads(model, [("cross", 1, 0)]):
            raise RuntimeError("on purpose")
    for part in attention_modules(model).values():
        assert "attend" not in vars(part), "attend is still replaced"
        assert not part.out_proj._forward_pre_hooks, "a head is still switched off"


def test_recordings_can_be_nested():
    model = small_model().eval()
    with record_attention(model) as outer:
        with record_attention(model) as inner:
            run(model)
        assert torch.equal(outer["cross"][1], inner["cross"][1])
        run(model, seed=5)
    assert not torch.equal(
        outer["cross"][1], inner["cross"][1]
    ), "the inner one still listens after its end"
    assert not any(part._forward_hooks for part in attention_modules(model).values())


def test_a_hook_asks_for_weights_and_puts_back_what_was_asked_before():
    part = small_model().encoder.layers[0].self_attention
    part.need_weights = False
    with attention_hook(part, lambda weights: "what a callback returns is no output"):
        assert part.need_weights, "a fused kernel has no weights to show"
        x = torch.randn(1, 3, 8, dtype=torch.float64)
        assert isinstance(part(x, x, x), tuple)
    assert part.need_weights is False and not part._forward_hooks


def test_a_forward_hook_on_any_attention_sees_output_and_weights():
    "Of the encoder and of the decoder, in training, in greedy decoding and in a beam search."
    model, source, target = small_model(), sentences(2, 5, 0), sentences(2, 4, 1)
    for kind, module in (
        ("encoder", model.encoder.layers[0].self_attention),
        ("decoder", model.decoder.layers[0].self_attention),
        ("cross", model.decoder.layers[0].cross_attention),
    ):
        outputs = []
        hook = module.register_forward_hook(lambda _, inputs, output: outputs.append(output))
        model.train()(source, target)
        [(output, weights)] = outputs
        queries = source if kind == "encoder" else target
        keys = target if kind == "decoder" else source
        assert output.shape == (*queries.shape, model.config.d_model)
        assert weights.shape == (2, module.n_heads, queries.size(1), keys.size(1))
        outputs.clear()
        greedy_decode(model, source, max_length=3)
        assert outputs and all(w.size(-2) == (5 if kind == "encoder" else 1) for _, w in outputs)
        outputs.clear()
        beam_search(model, source, beam_size=3, max_length=3)
        if kind == "cross":
            assert outputs[0][1].shape[:3] == (2, module.n_heads, 3), "three beams share a memory"
        hook.remove()


def test_decoding_step_by_step_can_be_recorded():
    model = small_model().eval()
    source = sentences(2, 6, 3)
    whole = greedy_decode(model, source, 6), beam_search(model, source, 2, max_length=6)
    with record_attention(model) as seen:
        assert (
            greedy_decode(model, source, 6),
            beam_search(model, source, 2, max_length=6),
        ) == whole
    assert seen["cross"][0].size(2) == 2, "a step of a beam has a row for each hypothesis"
    with record_attention(model) as seen:
        greedy_decode(model, source, 6)
    assert seen["cross"][0].size(2) == 1, "a greedy step has one row"


# Switching off ------------------------------------------------------------------------------------


@given(models(), SEEDS, st.data())
def test_a_head_switched_off_is_its_columns_of_the_output_at_zero(model, seed, data):
    model.eval()
    place = data.draw(st.sampled_from(sorted(attention_modules(model))))
    part = attention_modules(model)[place]
    head, k = data.draw(st.integers(0, part.n_heads - 1)), part.out_proj.in_features // part.n_heads
    _, _, before = run(model, seed)
    with ablate_heads(model, [(*place, head), (*place, head)]) as same:
        assert same is model
        _, _, off = run(model, seed)
    assert torch.equal(run(model, seed)[2], before), "the head is not switched on again"
    with torch.no_grad():
        part.out_proj.weight[:, head * k : (head + 1) * k] = 0
    assert torch.allclose(run(model, seed)[2], off), f"another slice than head {head}'s is zero"


def test_without_all_heads_the_bias_is_left():
    part, x = small_model().eval().encoder.layers[0].self_attention, torch.randn(
        2, 3, 8, dtype=torch.float64
    )
    alone = torch.nn.ModuleList([part])
    with ablate_heads(alone, [("self", 0, 0), ("self", 0, 1)]):
        assert torch.equal(part(x, x, x)[0], part.out_proj.bias.expand(2, 3, 8))
    whole = part(x, x, x)[0]
    with ablate_heads(alone, [("self", 0, 1)]):
        assert not torch.allclose(part(x, x, x)[0], whole)
    assert torch.equal(part(x, x, x)[0], whole)


@pytest.mark.parametrize(
    "head", [("cross", 2, 0), ("cross", 0, 2), ("cross", 0, -1), ("other", 0, 0)]
)
def test_a_head_that_is_not_there_is_named(head):
    model = small_model()
    with pytest.raises(ValueError, match="no head"):
        with ablate_heads(model, [("cross", 0, 0), head]):
            pass
    assert not any(part.out_proj._forward_pre_hooks for part in attention_modules(model).values())


# Counting -----------------------------------------------------------------------------------------


@given(SEEDS)
def test_places_hold_no_pads_and_nothing_closed(seed):
    tokens = sentences(4, 7, seed)
    tokens[0, -1] = EOS
    for mask in (padding_mask(tokens)[:, 0], target_mask(tokens)[:, 0]):
        for name, place in attention_patterns(tokens, mask).items():
            assert not (place & ~mask).any(), f"{name} lies where nobody may look"
            assert not place[tokens == PAD].any(), f"{name}: a pad asks"
            for b, t, s in place.nonzero().tolist():
                assert {
                    "previous token": s == t - 1,
                    "itself": s == t,
                    "next token": s == t + 1,
                    "repeated token": tokens[b, s] == tokens[b, t] and s != t,
                    "end token": tokens[b, s] == EOS,
                    "first token": s == 0,
                }[name]


def test_places_of_one_sentence():
    tokens = torch.tensor([[7, 8, 7, EOS, PAD]])
    spots = {
        name: place[0].nonzero().tolist()
        for name, place in attention_patterns(tokens, padding_mask(tokens)[:, 0]).items()
    }
    assert spots == {
        "previous token": [[1, 0], [2, 1], [3, 2]],
        "itself": [[i, i] for i in range(4)],
        "next token": [[0, 1], [1, 2], [2, 3]],
        "repeated token": [[0, 2], [2, 0]],
        "end token": [[0, 3], [1, 3], [2, 3]],
        "first token": [[1, 0], [2, 0], [3, 0]],
    }
    assert not attention_patterns(tokens, target_mask(tokens)[:, 0])[
        "next token"
    ].any(), "the future is closed"


@given(SEEDS, st.integers(1, 4))
def test_weight_at_is_the_mean_over_rows_with_the_place(seed, heads):
    torch.manual_seed(seed)
    weights, place = torch.rand(2, 3, heads, 4, 5).softmax(-1), torch.rand(3, 4, 5) < 0.3
    on = [
        [
            sum(
                (weights[n, b, h, t] * place[b, t]).sum()
                for b in range(3)
                for t in range(4)
                if place[b, t].any()
            )
            / max(1, int(place.any(-1).sum()))
            for h in range(heads)
        ]
        for n in range(2)
    ]
    assert torch.allclose(mean_weight_at(weights, place), torch.tensor(on), atol=1e-6)


@given(SEEDS)
def test_entropy_distance_and_difference_have_their_bounds(seed):
    torch.manual_seed(seed)
    w = (torch.randn(2, 3, 6, 6) * 4).softmax(-1)
    assert (attention_entropy(w) >= 0).all() and (attention_entropy(w).exp() <= 6 + 1e-4).all()
    assert (attention_distance(w) <= 5).all() and torch.equal(
        attention_distance(torch.eye(6)), torch.zeros(6)
    )
    assert ((head_disagreement(w) >= 0) & (head_disagreement(w) <= 1 + 1e-6)).all()
    assert (
        head_disagreement(torch.eye(3)[:, None]).tolist() == [1]
        and head_disagreement(w[0, :1]).eq(0).all()
    )
    assert attention_distance(torch.eye(3)[[1, 2, 1]]).tolist() == [1, 1, 1]
    same = w[:, :1].expand(-1, 3, -1, -1)
    assert head_disagreement(same).max() < 1e-6, "equal heads don't differ"


# Alignment ----------------------------------------------------------------------------------------


def rate_by_sets(weights, gold, rest, strict):
    hits = total = 0
    for w, links in zip(weights, gold):
        s = w.size(-1)
        found = {(int(w[t].argmax() if rest else w[t, :-1].argmax()), t) for t in range(len(w) - 1)}
        found = {(i, t) for i, t in found if i < s - 1}
        possible = set(links)
        sure = {(i, t) for i, t in possible if strict or sum(u == t for _, u in possible) == 1}
        hits += len(found & sure) + len(found & possible)
        total += len(found) + len(sure)
    return 1 - hits / total


@given(SEEDS, st.booleans(), st.booleans())
def test_alignment_error_rate_against_sets(seed, rest, strict):
    dice = torch.Generator().manual_seed(seed)
    weights, gold = [], []
    for t, s in ((5, 4), (3, 6)):
        weights.append(torch.rand(2, t, s, generator=dice))
        gold.append(
            [(0, 0)]
            + [
                (i, j)
                for i in range(s - 1)
                for j in range(t - 1)
                if torch.rand(1, generator=dice) < 0.3 and (i, j) != (0, 0)
            ]
        )
    ours = alignment_error_rate(weights, gold, rest, strict)
    theirs = [rate_by_sets([w[h] for w in weights], gold, rest, strict) for h in range(2)]
    assert torch.allclose(ours, torch.tensor(theirs), atol=1e-6)


def test_alignment_by_hand():
    gold, looks, perfect = (
        [(0, 0), (1, 1), (2, 2), (3, 2)],
        torch.eye(5)[[0, 2, 3, 4]],
        torch.eye(5)[[0, 1, 2, 4]],
    )
    sure, possible = alignment_matrices(gold, (3, 5))
    assert sure.nonzero().tolist() == [[0, 0], [1, 1]] and possible.nonzero().tolist() == [
        [0, 0],
        [1, 1],
        [2, 2],
        [2, 3],
    ]
    assert torch.equal(alignment_matrices(gold, (3, 5), strict=True)[0], possible)
    assert abs(alignment_error_rate([looks], [gold]) - 2 / 5) < 1e-6
    assert abs(alignment_error_rate([looks], [gold], strict=True) - 3 / 7) < 1e-6
    both = torch.stack([looks, torch.eye(5)[[4, 4, 4, 4]]])
    assert alignment_error_rate([both], [gold])[1] == 1, "a head that only rests finds nothing"
    assert alignment_error_rate([both], [gold], allow_null=False)[1] < 1
    assert (
        alignment_error_rate([perfect], [gold])
        == 0
        < alignment_error_rate([perfect] * 2, [gold] * 2, strict=True)
    )


def test_alignment_wants_one_list_of_links_a_sentence():
    with pytest.raises(ValueError):
        alignment_error_rate([torch.rand(3, 3)] * 2, [[(0, 0)]])


# The view -----------------------------------------------------------------------------------------


class Parts(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))


def view(s=16, t=17, layers=4, heads=4, source=None, target=None, **options):
    torch.manual_seed(0)
    causal = torch.full((t - 1, t - 1), -1e9).triu(1)
    seen = {
        "encoder": torch.rand(layers, heads, s, s).softmax(-1),
        "decoder": (torch.rand(layers, heads, t - 1, t - 1) + causal).softmax(-1),
        "cross": torch.rand(layers, heads, t - 1, s).softmax(-1),
    }
    return (
        attention_page(
            seen,
            source or [f"word{i}" for i in range(s)],
            target or [f"mot{i}" for i in range(t)],
            alt="a made-up pair",
            **options,
        ),
        seen,
    )


def test_a_view_of_a_sentence_pair_is_under_35_kilobytes():
    page, _ = view()
    assert len(page.html.encode()) < 35_000, f"{len(page.html.encode())} bytes"
    assert not re.search(r"https?://", page.html), "the view asks another host"
    assert page._repr_html_() == page.html and repr(page) == "a made-up pair"


def test_a_view_holds_the_weights_in_order():
    page, seen = view(5, 4, 2, 3, show=("cross", 1, 2))
    data = json.loads(Parts(page.html).tags[0][1]["data-view"])
    raw = base64.b64decode(data["w"])
    kept = torch.ones(3, 3).tril().bool()
    wanted = [
        *seen["encoder"].flatten().tolist(),
        *seen["decoder"][..., kept].flatten().tolist(),
        *seen["cross"].flatten().tolist(),
    ]
    assert list(raw) == [round(w * 255) for w in torch.tensor(wanted).tolist()]
    assert data["k"] == ["cross", 1, 2], "what it opens with"
    assert json.loads(Parts(view(5, 4, 2, 3)[0].html).tags[0][1]["data-view"])["k"] == [
        "cross"
    ], "the page finds the sharpest head"
    assert data["m"] == [["encoder", 2, 3], ["decoder", 2, 3], ["cross", 2, 3]]


def test_the_view_of_a_pair_is_what_the_translator_read():
    pocket, pair = Translator.load(shipped("data/checkpoints/pocket")), (
        "The cat sleeps.",
        "Le chat dort.",
    )
    weights, source, target = compute_attention(pocket, [pair])
    data = json.loads(
        Parts(show_attention(pocket, *pair, alt="a pair", show=("cross", 2, 0)).html).tags[0][1][
            "data-view"
        ]
    )
    raw = base64.b64decode(data["w"])
    assert raw == b"".join(packed(w[:, 0], kind == "decoder") for kind, w in weights.items())
    assert raw[0] == round(255 * weights["encoder"].flatten()[0].item()) and data["k"] == [
        "cross",
        2,
        0,
    ]
    assert data["s"] == token_strings(source[0], pocket.source_tokenizer) and data[
        "t"
    ] == token_strings(target[0], pocket.target_tokenizer)


def test_the_two_sentences_have_the_heads_that_the_page_names():
    shipped_one = Translator.load()
    pieces = token_strings(
        [PAD, *shipped_one.source_tokenizer.encode("But why such optimism?")],
        shipped_one.source_tokenizer,
    )
    assert pieces[-1] == "<eos>" and "".join(pieces[:-1]).replace("·", "") == "Butwhysuchoptimism?"
    optimism = (
        "But why such optimism for some and pessimism for others?",
        "Mais pourquoi est-ce que si optimisme pour quelques autres ?",
    )
    running = (
        "The animal didn't cross the street because it was too tired.",
        "L'animal n'a pas traversé la rue parce que c'était trop fatigué.",
    )
    for pair, links in {
        optimism: [
            (2, 0, "pourquoi", "why"),
            (1, 1, "·isme", "<eos>"),
            (2, 3, "·isme", "<eos>"),
            (0, 1, "·isme", "·ess"),
        ],
        running: [
            (2, 0, "trop", "too"),
            (2, 0, "rue", "street"),
            (1, 1, "·al", "<eos>"),
            (2, 3, "·al", "<eos>"),
            (2, 1, "c'", "it"),
        ],
    }.items():
        weights, source, target = compute_attention(shipped_one, [pair])
        said, columns = token_strings(target[0], shipped_one.target_tokenizer)[1:], token_strings(
            source[0], shipped_one.source_tokenizer
        )
        for layer, head, word, looks_at in links:
            weight = weights["cross"][layer, 0, head, said.index(word), columns.index(looks_at)]
            assert (
                weight > 0.6
            ), f"layer {layer + 1}, head {head + 1}: {word} doesn't look at {looks_at}"


def test_words_can_not_break_out_of_a_view():
    rude = ["</script><script>x", "it's", '"q"', "&amp;", "<eos>"]
    page, _ = view(5, 5, 1, 1, source=rude, target=rude)
    tags = Parts(page.html).tags
    assert json.loads(tags[0][1]["data-view"])["s"] == rude
    assert sum(tag == "script" for tag, _ in tags) == 1
    assert not [
        a for _, attrs in tags for a in attrs if a == "id"
    ], "an id would clash with a second view's"
    assert '"' not in html.unescape(tags[0][1]["aria-label"])


LIVE = (
    "/onclick=alert(1)//",
    '" onclick=alert(1) x="',
    "' onclick=alert(1) x='",
    "{{data}}",
    "{{alt}}",
    "--><b onclick=alert(1)>",
)


@pytest.mark.parametrize("alt", ["Attention of: {{data}}", "{{alt}} {{data}}", *LIVE])
def test_nothing_in_a_view_becomes_an_attribute_or_a_tag(alt):
    "Places filled one after the other put a token's text into the attribute of the one before."
    plain = [(tag, sorted(attrs)) for tag, attrs in Parts(view(6, 6, 1, 1)[0].html).tags]
    seen = {
        "encoder": torch.rand(1, 1, 6, 6),
        "decoder": torch.rand(1, 1, 5, 5),
        "cross": torch.rand(1, 1, 5, 6),
    }
    found = Parts(attention_page(seen, LIVE, LIVE, alt=alt).html).tags
    assert [(tag, sorted(attrs)) for tag, attrs in found] == plain, "a token has become HTML"
    assert found[0][1]["aria-label"] == alt and json.loads(found[0][1]["data-view"])["s"] == list(
        LIVE
    )


def test_nothing_in_the_view_of_sentences_ends_its_script():
    row = {
        "en": "</script><b onclick=alert(1)>",
        "ref": "{{data}}",
        "seen": False,
        "said": "<!--<script>",
        "s": ["]]>"],
        "t": ["\u2028"],
        "w": "A",
    }
    page = try_it_page([row])
    kept = re.search(r"<script type=.application/json.[^>]*>(.*?)</script>", page, re.S)[1]
    assert json.loads(kept) == [row]
    assert [tag for tag, _ in Parts(page).tags if tag in ("b", "script")] == [
        "script"
    ] * 3, "what the views share, the sentences, and the view"


def test_a_page_is_filled_in_one_pass():
    assert pages.filled("<p a='{{a}}'>{{b}}{{a}}", a="{{b}}", b="x") == "<p a='{{b}}'>x{{b}}"
    assert pages.attribute("<'&\"") == "&quot;&lt;&#x27;&amp;\\&quot;&quot;"
    assert pages.script("</&>\u2028") == '"\\u003c/\\u0026\\u003e\\u2028"'
    with pytest.raises(KeyError):
        pages.filled("{{c}}", a="x")


def test_packed_leaves_the_future_out():
    square = torch.tensor([[1.0, 0.0], [0.25, 0.75]])[None, None]
    assert list(packed(square, True)) == [255, 64, 191] and len(packed(square, False)) == 4


def test_pieces_are_readable():
    words = WordTokenizer(["the", "cat"])
    assert token_strings([BOS, 4, 5, EOS, PAD], words) == ["<bos>", "the", "cat", "<eos>"]
    some = ["the unbelievable cat sat", "été, l'été"] * 3
    subwords = SubwordTokenizer.train(some, 280)
    named = token_strings(subwords.encode("the unbelievable été"), subwords)
    assert named[-1] == "<eos>" and not any("Ġ" in piece for piece in named)
    starts = [piece for piece in named[:-1] if not piece.startswith("·")]
    assert starts[0].startswith("t") and len(starts) <= 5, named


# In a browser -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def page(browser):
    page = browser.new_page(viewport={"width": 900, "height": 1000}, reduced_motion="reduce")
    page.set_default_timeout(180_000)  # a shared machine can be slow
    errors = []
    page.on("pageerror", lambda e: errors.append(str(e)))
    css = (Path(__file__).parent.parent / "book" / "web" / "static" / "book.css").read_text("utf-8")
    body = (
        view(6, 7, 3, 2, show=("cross", 0, 0, "mot3"))[0].html
        + view(4, 5, 2, 2)[0].html
        + view(4, 5, 1, 1)[0].html
    )
    page.set_content(
        "<!doctype html><html lang='en'"
        " data-theme='light'><title>t</title><style>body{background:var(--pst-color-background);"
        f"color:var(--pst-color-text-base)}}{css}</style><main><h1>t</h1>{body}</main>"
    )
    yield page
    assert not errors, errors
    page.close()


class Hand:
    "One of the views on the page, and what can be done with it."

    def __init__(self, page, n):
        self.page, self.root = page, page.locator(".tl-attention").nth(n)

    def at(self, css):
        return self.root.locator(css)

    def press(self, name, value=None):
        self.at(
            f"[data-do={name}]" if value is None else f"[data-pick={name}] [data-v={value}]"
        ).click()

    def head(self, layer, head):
        self.at(f".tl-heads button[data-l='{layer - 1}'][data-h='{head - 1}']").click()

    def said(self):
        return self.at("[data-out=say]").inner_text()

    def pressed(self):
        "Layer and head of the thumbnail that is marked, from 1."
        one = self.at(".tl-heads [aria-pressed=true]")
        assert one.count() == 1
        return int(one.get_attribute("data-l")) + 1, int(one.get_attribute("data-h")) + 1

    def lines(self):
        return self.at("line:not([stroke=transparent])").count()


@pytest.fixture
def hand(page):
    "The first view in its opening state, on a desk, in light, without motion."
    page.emulate_media(reduced_motion="reduce")
    page.set_viewport_size({"width": 900, "height": 1000})
    page.evaluate("document.documentElement.dataset.theme = 'light'")
    found = Hand(page, 0)
    found.at(".tl-p").focus()
    page.keyboard.press("Escape")
    found.press("kind", "cross")
    found.press("rows", "says")
    found.head(1, 1)
    found.at("[data-in=least]").fill("0")
    page.mouse.move(0, 0)
    return found


@pytest.mark.slow
def test_a_thumbnail_sets_the_view(hand, page):
    "And nothing happens in the other views."
    still = Hand(page, 1).root.inner_html()
    assert hand.at(".tl-heads button").count() == 3 * 3, "three layers, two heads and their mean"
    assert hand.pressed() == (1, 1) and "Layer 1, head 1 of cross-attention." in hand.said()
    hand.head(3, 2)
    assert hand.pressed() == (3, 2) and hand.said().startswith(
        "Layer 3, head 2 of cross-attention. Strongest:"
    )
    before = hand.at("[data-part=map] path").first.get_attribute("d")
    hand.head(3, 3)
    assert (
        "mean of the heads" in hand.said()
        and hand.at("[data-part=map] path").first.get_attribute("d") != before
    )
    hand.at(".tl-heads [aria-pressed=true]").focus()
    for key, place in (
        ("ArrowUp", (2, 3)),
        ("ArrowLeft", (2, 2)),
        ("ArrowDown", (3, 2)),
        ("ArrowRight", (3, 3)),
        ("ArrowRight", (3, 3)),
    ):
        page.keyboard.press(key)
        assert hand.pressed() == place, key
        assert (
            page.evaluate("document.activeElement.getAttribute('aria-pressed')") == "true"
        ), "the focus stays behind"
    assert (
        hand.at(".tl-heads button[tabindex='0']").count() == 1
    ), "the thumbnails are one stop of the Tab key"
    assert Hand(page, 1).root.inner_html() == still


@pytest.mark.slow
def test_kinds_rows_and_the_least_weight(hand):
    for kind, sides in (("encoder", "encoder"), ("decoder", "decoder"), ("cross", "encoder")):
        hand.press("kind", kind)
        assert (
            f"of {kind}" in hand.said()
            and f"key: {sides}" in hand.at("[data-part=lines]").text_content()
        )
        assert hand.at("[data-pick=rows]").is_visible() == (
            kind != "encoder"
        ), "an encoder's row is its own word"
    many = hand.lines()
    hand.at("[data-in=least]").fill("0.25")
    assert hand.lines() < many and hand.at("[data-out=least]").inner_text() == "0.25"
    assert "mot6" in hand.at("[data-part=map]").text_content()
    hand.press("rows", "reads")
    assert (
        "mot0" in hand.at("[data-part=map]").text_content()
        and "mot6" not in hand.at("[data-part=map]").text_content()
    )


@pytest.mark.slow
def test_a_line_lights_its_cell_and_a_cell_its_line(hand, page):
    hand.at("[data-in=least]").fill("0.05")
    line = hand.at("line[data-t='2'][data-s='4']")
    line.dispatch_event("click")
    assert hand.lines() == 1 and "“mot3” to “word4”" in hand.said()
    box = hand.at("[data-part=map] [data-lit]")
    cell = hand.at("[data-part=map] rect[data-t='2'][data-s='4']")
    for side in ("x", "y", "width", "height"):
        assert (
            abs(float(box.get_attribute(side)) - float(cell.get_attribute(side))) < 0.05
        ), "the frame isn't round its cell"
    hand.at("[data-part=map] rect[data-t='1'][data-s='0']").click()
    assert hand.lines() == 1 and "“mot2” to “word0”" in hand.said()
    ends = [float(hand.at("line").first.get_attribute(side)) for side in ("y1", "y2")]
    assert ends == [44 + 22, 44], "another line than that of the cell"
    hand.at("[data-part=map] rect[data-t='1'][data-s='0']").click()
    page.mouse.move(0, 0)
    assert (
        "Strongest" in hand.said() and hand.lines() > 1 and not box.count()
    ), "a second click lets go"


@pytest.mark.slow
def test_words_by_pointer_and_by_key(hand, page):
    hand.at("[data-part=lines] rect[data-t='2']").hover()
    assert "“mot3” (said after “mot2”) looks at" in hand.said() and hand.lines() == 6
    page.mouse.move(0, 0)
    assert "Strongest" in hand.said(), "what the pointer shows ends when it leaves"
    hand.at("[data-part=lines] rect[data-t='2']").click()
    page.mouse.move(0, 0)
    assert "“mot3”" in hand.said(), "what is chosen stays"
    hand.head(2, 1)
    assert "Layer 2" in hand.said() and "“mot3”" in hand.said(), "also in another head"
    assert all(
        text.startswith("mot3 →") for text in hand.at(".tl-heads small").all_inner_texts()
    ), "each head with what this word looks at"
    hand.at(".tl-p").focus()
    page.keyboard.press("Escape")
    for key, words in (
        ("ArrowDown", "“mot1” (said after “mot0”) looks at"),
        ("ArrowDown", "“mot2”"),
        ("ArrowRight", "“word1” is looked at most by"),
        ("ArrowUp", "“word0” is looked at"),
        ("Enter", "” to “word0”: 0."),
        ("Escape", "Strongest"),
        ("ArrowUp", "“mot6”"),
    ):
        page.keyboard.press(key)
        assert words in hand.said(), f"{key}: {hand.said()}"


@pytest.mark.slow
def test_the_button_tries_what_the_text_suggests(hand, page):
    offers = []
    for _ in range(3):
        offers.append(hand.at("[data-do=try]").inner_text())
        hand.press("kind", "encoder")
        hand.press("try")
        offers.append((hand.said(), hand.pressed()))
    assert (
        offers[0] == "Try this: tap “mot3”"
        and "“mot3” (said after" in offers[1][0]
        and offers[1][1] == (1, 1)
    )
    assert offers[2] == "Then: another sharp head" and offers[3][1] != (1, 1)
    assert (
        offers[4] == "Then: the mean of the heads"
        and "mean of the heads of cross-attention" in offers[5][0]
    )
    assert hand.at("[data-do=try]").inner_text() == offers[0]


@pytest.mark.slow
def test_layers_play_and_pause(hand, page):
    page.emulate_media(reduced_motion="no-preference")
    play = hand.at("[data-do=play]")
    assert play.get_attribute("aria-label") == "play through the layers"
    hand.press("play")
    assert hand.pressed() == (2, 1) and play.get_attribute("aria-label") == "pause"
    hand.press("play")
    page.wait_for_timeout(1500)
    assert (
        hand.pressed() == (2, 1) and play.get_attribute("aria-label") != "pause"
    ), "it plays on after a pause"
    hand.head(3, 1)
    hand.press("play")
    assert hand.pressed() == (1, 1), "from the end it begins again"
    page.wait_for_function(
        "document.querySelector('.tl-heads [aria-pressed=true]').dataset.l == '2'"
    )
    assert (
        play.get_attribute("aria-label") == "play through the layers"
    ), "it ends with the last layer"


@pytest.mark.slow
def test_motion_ends_where_it_would_begin_without(hand, page):
    hand.head(3, 2)
    drawn = hand.at("[data-part=map]").inner_html()
    hand.head(1, 1)
    page.emulate_media(reduced_motion="no-preference")
    hand.head(3, 2)
    page.wait_for_timeout(600)
    page.mouse.move(0, 0)
    assert hand.at("[data-part=map]").inner_html() == drawn


@pytest.mark.slow
def test_a_view_has_no_control_without_effect(page, hand):
    small = Hand(page, 2)
    assert (
        not small.at("[data-do=play]").is_visible() and not small.at(".tl-heads").is_visible()
    ), "one layer, one head"
    assert small.at("[data-do=try]").is_visible()
    assert not hand.at("[data-pick=tab]").is_visible(), "on a desk lines and map stand side by side"


@pytest.mark.slow
def test_on_a_phone_lines_and_map_are_tabs(hand, page):
    page.set_viewport_size({"width": 390, "height": 844})
    assert hand.at("[data-part=lines]").is_visible() and not hand.at("[data-part=map]").is_visible()
    hand.press("tab", "map")
    assert hand.at("[data-part=map]").is_visible() and not hand.at("[data-part=lines]").is_visible()
    hand.at("[data-part=map] rect[data-t='1'][data-s='0']").click()
    hand.press("tab", "lines")
    assert (
        hand.at("[data-part=lines]").is_visible() and hand.lines() == 1
    ), "what was chosen in the map is lit in the lines"
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


CONTRASTS = """root => {
  const pixel = Object.assign(document.createElement("canvas"), {width: 1, height: 1});
  const ctx = pixel.getContext("2d", {willReadFrequently: true});
  const ground = getComputedStyle(document.body).backgroundColor;
  function light(...paints) {
    for (const p of paints) { ctx.fillStyle = p; ctx.fillRect(0, 0, 1, 1); }
    const linear = v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    const bytes = [...ctx.getImageData(0, 0, 1, 1).data].slice(0, 3);
    const rgb = bytes.map(v => linear(v / 255));
    return 0.2126 * rgb[0] + 0.7152 * rgb[1] + 0.0722 * rgb[2] + 0.05;
  }
  const found = [];
  const marks = "text, line:not([stroke=transparent]), [data-part] path, small, p";
  for (const e of root.querySelectorAll(marks)) {
    const style = getComputedStyle(e), svg = e.ownerSVGElement, word = e.tagName == "text" || !svg;
    const empty = !word && e.tagName == "path" && !e.getAttribute("d");
    if (empty || e.classList.contains("tl-k")) continue;
    const paint = !svg ? style.color : e.tagName == "line" ? style.stroke : style.fill;
    const a = light(ground, paint), b = light(ground);
    found.push([word, Math.max(a, b) / Math.min(a, b), e.outerHTML.slice(0, 80), +style.opacity]);
  }
  return found;
}"""


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_words_and_marks_stand_out(hand, page, theme):
    "4.5 for words, 3 for lines and squares, also for what isn't chosen."
    page.evaluate(f"document.documentElement.dataset.theme = '{theme}'")
    for kind in ("cross", "decoder"):
        hand.press("kind", kind)
        for t in (None, 2):
            if t is not None:
                hand.at(f"[data-part=lines] rect[data-t='{t}']").click()
                page.mouse.move(0, 0)
            found = hand.root.evaluate(CONTRASTS)
            assert len(found) > 30
            pale = [one for one in found if one[1] < (4.5 if one[0] else 3) or one[3] < 1]
            assert not pale, pale[:4]


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 900])
def test_the_view_fits_a_phone_and_axe_finds_nothing_serious(hand, page, width):
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe is not installed"
    )
    page.set_viewport_size({"width": width, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    found = axe.Axe().run(page).response["violations"]
    assert not [
        (rule["id"], rule["nodes"][0]["html"][:200])
        for rule in found
        if rule["impact"] in ("serious", "critical")
    ]


# What the chapter says of its sentences -----------------------------------------------------------


@pytest.mark.skipif(not os.environ.get("TRANSFORMER_LIT_DATA"), reason="the corpora are not here")
def test_the_two_sentences_are_unseen():
    from transformer_lit.data import read_tatoeba, sentence_key, tatoeba_archive

    seen = {sentence_key(english) for english, _ in read_tatoeba(tatoeba_archive("fr"), "fr")}
    for english in (
        "But why such optimism for some and pessimism for others?",
        "The animal didn't cross the street because it was too tired.",
    ):
        assert sentence_key(english) not in seen


def test_a_piece_goes_on_a_word_by_the_last_letter_before_it():
    texts = {5: " a", 6: "b", 7: "c", 8: "'", 9: "d", 10: "e'"}
    cut = SimpleNamespace(
        tokenizer=SimpleNamespace(decode=lambda ids, skip_special_tokens: texts[ids[0]])
    )
    assert token_strings([5, 6, 7, 8, 9, 10], cut) == ["a", "·b", "·c", "'", "d", "·e'"]


def test_the_mean_over_a_single_row_is_that_row():
    weights, place = torch.tensor([[[[0.25, 0.75]]]]), torch.tensor([[[False, True]]])
    assert mean_weight_at(weights, place).tolist() == [0.75]


def test_maps_that_are_read_carry_no_gradient():
    translator = Translator.load(shipped("data/checkpoints/pocket"))
    maps, _, _ = compute_attention(translator, [("The animal is tired.", "L'animal est fatigué.")])
    assert not any(kind.requires_grad for kind in maps.values())
