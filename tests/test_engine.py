"""The engine in the page says what the package says: tokens, logits, greedy and beam search, in
Chromium.

The fast tests take a small sample, from a folder. The slow ones take 200 sentences, every character
there is, from a folder and from a server.
TRANSFORMER_LIT_SENTENCES=2000 asks all of them: 6 minutes for the pocket translator and 18 for the
other, with WebAssembly on two cores that had other work; all answers were equal, greedy and by beam
search."""

import base64
import contextlib
import functools
import itertools
import json
import os
import threading
import unicodedata
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import engine_models as packing
import kernel
import numpy as np
import pytest
import torch
import translators
from test_tokenization import known
from tokenizers import Tokenizer

from transformer_lit import attention_analysis
from transformer_lit.decoding import beam_search, greedy_decode
from transformer_lit.masks import BOS, EOS, PAD
from transformer_lit.corpora.files import shipped
from transformer_lit.pocket_corpus import load_pocket
from transformer_lit.runs.checkpoints import dequantize, load_weights, model_tensors, quantize
from transformer_lit.tokenization import SubwordTokenizer
from transformer_lit.batching import collate
from transformer_lit.translation import Translator, translate_ids, split_long_text, clean_input

ENGINE = packing.ENGINE
SENTENCES = [
    "The animal didn't cross the street because it was too tired.",
    "The animal didn't cross the street because it was too wide.",
    "I love you.",
    "Where is my old key?",
    "She can't catch the small bird.",
    "They are going to climb over the wall.",
    "He will jump.",
    "You didn't eat the apple, did you?",
]
ODD = [
    "",
    " ",
    "\t\n",
    "?",
    "...",
    "a",
    "I see 3 cats & 2.5 dogs — for £4!",
    "l’été, “déjà vu”",
    "I 😀 you 👩‍👩‍👧 so 🇫🇷 much",
    "שלום עולם, מה נשמע?",
    "مرحبا بالعالم",
    "Ｆｕｌｌ ｗｉｄｔｈ",
    "e\u0301 against é, ﬁne",
    "你好。世界！",
    "नमस्ते दुनिया",
    "x\u200by\u200dz\ufeff",
    "<eos> <pad> </script> \\u0000 {{data}}",
    "\x00\x1c\x1d\x85 a\xa0b\u2028c",
    "Mr. Smith met Dr. Jones. They ate. Then they left! Did they? Yes… " * 6,
    "very " * 150 + "long",
    "no" * 300,
    "Ⓐ🅰 ²³¹ ½ Ⅻ ١٢٣ _a_-b",
    "naïve café's d'accord 'quoted'",
]


# Pages that hold it -------------------------------------------------------------------------------


@torch.no_grad()
def any_model(name, translator):
    "Any translator; its weights are rounded to one byte first."
    return packing.packed(name, translator, quantize(model_tensors(translator.model), "int8"))


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    "A folder with the engine, the shipped models, two random ones, and a page."
    folder = tmp_path_factory.mktemp("engine")
    packing.write(folder)
    for norm in "pre", "post":
        packing.write_model(
            folder, f"random-{norm}", any_model(f"random-{norm}", random_one(norm))
        )
    (folder / "page.html").write_text(
        '<!doctype html><meta charset="utf-8"><title>t</title><script src="engine.js"></script>',
        "utf-8",
    )
    return folder


@functools.cache
def random_one(norm):
    """A translator with a word list, every weight of it random and then rounded to a byte; its
    matrices have whole blocks of 16."""
    one = translators.words(
        d_model=32,
        d_ff=48,
        n_heads=4,
        n_encoder_layers=2,
        n_decoder_layers=3,
        norm=norm,
        tied_embeddings=norm == "pre",
    )
    with torch.no_grad():
        for weight in one.model.parameters():
            weight.add_(torch.randn_like(weight) * 0.3)
    load_weights(one.model, dequantize(quantize(model_tensors(one.model))))
    return Translator(one.model.eval(), one.source_tokenizer, one.target_tokenizer, one.languages)


@functools.cache
def ours(name):
    return (
        random_one(name[7:])
        if name.startswith("random")
        else Translator.load(shipped(f"data/checkpoints/{name}"))
    )


@contextlib.contextmanager
def served(folder):
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def page(browser, site):
    "Chromium, from a folder."
    one = browser.new_page()
    one.set_default_timeout(600_000)
    problems = []
    one.on("pageerror", lambda error: problems.append(str(error)))
    one.on(
        "request",
        lambda request: (
            problems.append(request.url) if not request.url.startswith(("file:", "blob:")) else None
        ),
    )
    one.goto((site / "page.html").as_uri())
    yield one
    one.close()
    assert not problems, problems


@pytest.fixture(scope="module")
def served_page(browser, site):
    "Chromium, from a server."
    with served(site) as address:
        one = browser.new_page()
        one.set_default_timeout(600_000)
        one.goto(f"{address}/page.html")
        yield one
        one.close()


def said(page, name, ids, **options):
    "What the engine answers to many sources; `plain` is no option of an answer but of opening."
    plain = options.pop("plain", False)
    return page.evaluate(
        """async ({name, plain, ids, options}) => {
      const engine = await tlEngine.open(name, {plain}), all = [];
      for (const one of ids) all.push((await engine.answer(one, options)).ids);
      return [engine.about.kernel, all];
    }""",
        {"name": name, "plain": plain, "ids": ids, "options": options},
    )


def same_answers(page, name, texts, plain):
    "(kernel, equal answers greedy, equal answers of beam 4, of how many)"
    translator, ids = ours(name), [ours(name).source_tokenizer.encode(text) for text in texts]
    wanted = [[], translate_ids(translator.model, ids, 4, 64, "fp32")]
    for start in range(0, len(ids), 64):
        wanted[0] += greedy_decode(
            translator.model, collate([(one, [BOS]) for one in ids[start : start + 64]])[0]
        )
    counts = []
    for beam, right in zip((1, 4), wanted):
        used, found = said(page, name, ids, beam=beam, plain=plain)
        assert used == ("plain" if plain else "wasm")
        counts.append(sum(a == b for a, b in zip(found, right, strict=True)))
    return *counts, len(ids)


def tokens(page, name, texts):
    "Parts of each text as the engine cuts them: lists of [text, ids]."
    return page.evaluate(
        """async ({name, texts}) => {
      const engine = await tlEngine.open(name), all = [];
      for (const text of texts) {
        const {parts} = await engine.tokens(text);
        all.push(parts.map(part => [part.text, part.ids]));
      }
      return all;
    }""",
        {"name": name, "texts": texts},
    )


def our_tokens(name, texts):
    "The same from the package."
    one = ours(name)
    cut = [
        split_long_text(
            clean_input(text),
            lambda part: len(one.source_tokenizer.encode(part)),
            *one.length_limits,
        )
        for text in texts
    ]
    return [[[part, one.source_tokenizer.encode(part)] for part in parts] for parts in cut]


# What is built ------------------------------------------------------------------------------------


def test_the_kernel_in_the_script_is_compiled_from_its_source():
    script = ENGINE.read_text("utf-8")
    assert kernel.with_kernel(script) == script, "python tools/kernel.py"


def test_the_script_asks_nobody():
    text = ENGINE.read_text("utf-8")
    assert not [
        word
        for word in (
            "fetch(",
            "XMLHttpRequest",
            "importScripts",
            "WebSocket",
            "http:",
            "https:",
            "sendBeacon",
            "eval(",
        )
        if word in text
    ]


@pytest.mark.parametrize(
    "name, least, most",
    [("pocket", 2.9e6, 3.2e6), ("tatoeba-fr", 12.5e6, 13e6), ("mixture-fr", 13.9e6, 14.5e6)],
)
def test_a_model_in_scripts_is_its_file_and_little_more(site, name, least, most):
    parts = sorted(site.glob(f"model-{name}-*.js"))
    assert (
        least < sum(part.stat().st_size for part in parts) < most
        and max(part.stat().st_size for part in parts) < 1.1e6
    )
    weights = shipped(f"data/checkpoints/{name}/model.safetensors").stat().st_size
    assert len(packing.shipped_model(name)) < weights + 70_000, "a second copy of something"


def test_merges_out_of_order_are_refused():
    tokens = translators.joint().source_tokenizer
    assert len(packing.merges(tokens)) == len(tokens) - 260
    kept = json.loads(tokens.tokenizer.to_str())
    kept["model"]["merges"].reverse()
    with pytest.raises(ValueError, match="order of the merges"):
        packing.merges(SubwordTokenizer(Tokenizer.from_str(json.dumps(kept))))


# Tokens -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", packing.NAMES)
def test_tokens_are_the_packages(page, name):
    texts = SENTENCES + ODD
    for text, theirs, mine in zip(
        texts, tokens(page, name, texts), our_tokens(name, texts), strict=True
    ):
        assert theirs == mine, text


def test_half_a_character_becomes_a_question_mark(page):
    found = page.evaluate(
        """async () => {
      const engine = await tlEngine.open("tatoeba-fr"), half = String.fromCharCode(0xd800);
      return (await engine.tokens(`a${half}b`)).parts[0].text;
    }"""
    )
    assert found == "a?b" == clean_input("a\ud800b")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tatoeba-fr", "pocket"])
def test_every_character_is_cut_as_the_package_cuts_it(page, name):
    """All that Python's Unicode knows, between letters, after a space and before an apostrophe;
    private ones and half ones apart."""
    letters = [
        letter
        for letter in map(chr, range(0x110000))
        if unicodedata.category(letter) not in ("Cs", "Co") and known(letter)
    ]
    texts = [
        " ".join(f"a{letter}b {letter}'" for letter in letters[i : i + 20])
        for i in range(0, len(letters), 20)
    ]
    wrong = [
        text
        for text, theirs, mine in zip(
            texts, tokens(page, name, texts), our_tokens(name, texts), strict=True
        )
        if theirs != mine
    ]
    assert not wrong, f"{len(wrong)} of {len(texts)}: {wrong[0]!r}"


@pytest.mark.slow
def test_tokens_of_2000_sentences_are_the_packages(page):
    texts = [pair.english for pair in load_pocket()["test"]]
    assert len(texts) == 2000
    for name in "tatoeba-fr", "pocket":
        assert tokens(page, name, texts) == our_tokens(name, texts)


# Numbers ------------------------------------------------------------------------------------------


def read(page, name, source, target, plain=False, **options):
    """Logits (T, V) and the weights of every attention, kind -> (layers, heads, rows, columns), as
    the engine has them."""
    found = page.evaluate(
        """async ({name, plain, source, target, options}) => {
      const engine = await tlEngine.open(name, {plain}), maps = {};
      const found = await engine.read(source, target, options);
      const text = floats =>
        btoa(Array.from(new Uint8Array(floats.buffer), byte => String.fromCharCode(byte)).join(""));
      for (const kind in found.attention) maps[kind] = found.attention[kind].map(layer =>
        layer.map(map => [map.rows, map.columns, text(map.weights)]));
      return [text(found.logits), maps];
    }""",
        {"name": name, "plain": plain, "source": source, "target": target, "options": options},
    )
    floats = lambda text: torch.from_numpy(np.frombuffer(base64.b64decode(text), "<f4").copy())
    maps = {
        kind: torch.stack(
            [
                torch.stack([floats(text).view(rows, columns) for rows, columns, text in layer])
                for layer in layers
            ]
        )
        for kind, layers in found[1].items()
    }
    return floats(found[0]).view(len(target) + 1, -1), maps


def check_numbers(page, name, plain):
    translator = ours(name)
    for text in (
        SENTENCES[:3]
        if not name.startswith("random")
        else ["I see a cats.", "I see f keys and more."]
    ):
        source, target = (
            translator.source_tokenizer.encode(text),
            translator.target_tokenizer.encode(translator.translate([text])[0])[:-1],
        )
        logits, maps = read(page, name, source, target, plain)
        with torch.no_grad(), attention_analysis.record_attention(translator.model) as seen:
            wanted = translator.model(torch.tensor([source]), torch.tensor([[BOS] + target]))[0]
        assert logits.shape == wanted.shape and (logits - wanted).abs().max() < 1e-3
        for kind, layers in maps.items():
            assert torch.allclose(layers, torch.cat(seen[kind]), atol=1e-4), kind


@pytest.mark.parametrize("plain", [False, True], ids=["wasm", "plain"])
@pytest.mark.parametrize("name", [*packing.NAMES, "random-pre", "random-post"])
def test_logits_and_attention_are_the_packages(page, name, plain):
    check_numbers(page, name, plain)


def test_pads_change_nothing_while_they_are_masked(page):
    translator, text = ours("pocket"), SENTENCES[0]
    source, target = (
        translator.source_tokenizer.encode(text),
        translator.target_tokenizer.encode(translator.translate([text])[0])[:-1],
    )
    plain, padded = (read(page, "pocket", source, target, pads=pads)[0] for pads in (0, 5))
    assert torch.allclose(plain, padded, atol=1e-4)
    unmasked, _ = read(page, "pocket", source, target, pads=5, broken={"noSourceMask": True})
    model, ids = translator.model, torch.tensor([source + [PAD] * 5])
    with torch.no_grad():
        memory = model.encoder(model.source_embedding(ids), None)
        wanted = model.output_projection(
            model.decoder(
                model.target_embedding(torch.tensor([[BOS] + target])),
                memory,
                torch.ones(1, 1, len(target) + 1, len(target) + 1).tril().bool(),
                None,
            )
        )
    assert (unmasked - plain).abs().max() > 0.1 and torch.allclose(unmasked, wanted[0], atol=1e-3)


@pytest.mark.parametrize(
    "broken",
    [
        {"noHeads": [["cross", 2, 0], ["encoder", 1, 3], ["decoder", 0, 1]]},
        {"noPositions": True},
        {"noPositions": "source"},
        {"noScale": True},
        {"noResidual": ["encoder.1"]},
        {"noNorm": ["decoder.0.cross_attention"]},
        {"noCross": True},
        {"stuckPosition": True},
    ],
    ids=lambda one: next(iter(one)),
)
def test_what_is_broken_is_what_the_package_says_broken_likewise(page, broken, monkeypatch):
    translator, text = Translator.load(shipped("data/checkpoints/pocket")), SENTENCES[0]
    model = translator.model
    source, target = (
        translator.source_tokenizer.encode(text),
        translator.target_tokenizer.encode(translator.translate([text])[0])[:-1],
    )
    whole, _ = read(page, "pocket", source, target)
    found, _ = read(page, "pocket", source, target, broken=broken)
    place = contextlib.nullcontext()
    if "noHeads" in broken:
        place = attention_analysis.ablate_heads(model, broken["noHeads"])
    if "noPositions" in broken:
        model.source_embedding.position_encodings.zero_()
        if broken["noPositions"] is True:
            model.target_embedding.position_encodings.zero_()
    if "stuckPosition" in broken:
        model.target_embedding.position_encodings[:] = model.target_embedding.position_encodings[
            0
        ].clone()
    if "noScale" in broken:
        for part in attention_analysis.attention_modules(model).values():
            part.q_proj.weight.data *= (128 // 4) ** 0.5
            part.q_proj.bias.data *= (128 // 4) ** 0.5
    if "noResidual" in broken:
        for around in (
            model.encoder.layers[1].self_attention_residual,
            model.encoder.layers[1].feed_forward_residual,
        ):
            monkeypatch.setattr(around, "forward", lambda x, f, around=around: f(around.norm(x)))
    if "noNorm" in broken:
        monkeypatch.setattr(
            model.decoder.layers[0].cross_attention_residual, "norm", torch.nn.Identity()
        )
    if "noCross" in broken:
        for layer in model.decoder.layers:
            monkeypatch.setattr(layer.cross_attention_residual, "forward", lambda x, f: x)
    with torch.no_grad(), place:
        wanted = model(torch.tensor([source]), torch.tensor([[BOS] + target]))[0]
    assert torch.allclose(found, wanted, atol=2e-3) and (found - whole).abs().max() > 0.01


# Answers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("plain", [False, True], ids=["wasm", "plain"])
@pytest.mark.parametrize("name", packing.NAMES)
def test_greedy_and_beam_answers_are_the_packages(page, name, plain):
    assert same_answers(page, name, SENTENCES[:6], plain) == (6, 6, 6)


def test_other_beams_penalties_and_limits_are_the_packages(page):
    model, ids = ours("pocket").model, [
        ours("pocket").source_tokenizer.encode(text) for text in SENTENCES
    ]
    for beam, alpha, most in (2, 0.0, None), (8, 1.5, None), (4, 0.6, 3), (3, 0.6, 1):
        wanted = [beam_search(model, torch.tensor([one]), beam, alpha, most)[0] for one in ids]
        assert said(page, "pocket", ids, beam=beam, alpha=alpha, maxLength=most)[1] == wanted, (
            beam,
            alpha,
            most,
        )


@pytest.mark.parametrize("beam", [1, 4])
def test_an_answer_says_whether_it_found_its_end(page, beam):
    ids = ours("pocket").source_tokenizer.encode(SENTENCES[0])
    ended = page.evaluate(
        """async ([ids, beam]) => {
      const engine = await tlEngine.open("pocket", {}), all = [];
      for (const maxLength of [null, 2])
        all.push((await engine.answer(ids, {beam, maxLength})).ended);
      const given = await engine.answer(ids, {beam, maxLength: 2, prefix: [5, 6]});
      return [...all, given.ended, given.ids];
    }""",
        [ids, beam],
    )
    assert ended == [True, False, False, [5, 6]]


def test_whole_texts_are_translated_as_the_package_translates_them(page):
    texts = [ODD[18], *SENTENCES, " ", "She didn't eat.\n\nHe was too old!  "]
    found = page.evaluate(
        """async texts => {
      const engine = await tlEngine.open("pocket"), all = [];
      for (const text of texts) all.push((await engine.translate(text)).text);
      return all;
    }""",
        texts,
    )
    assert found == ours("pocket").translate(texts, precision="fp32")


@pytest.mark.slow
def test_odd_texts_are_translated_as_the_package_translates_them(page):
    found = page.evaluate(
        """async texts => {
      const engine = await tlEngine.open("tatoeba-fr"), all = [];
      for (const text of texts) all.push((await engine.translate(text)).text);
      return all;
    }""",
        ODD,
    )
    assert found == ours("tatoeba-fr").translate(ODD, precision="fp32")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pocket", "tatoeba-fr"])
@pytest.mark.parametrize("plain", [False, True], ids=["wasm", "plain"])
def test_answers_to_many_sentences_are_the_packages(page, name, plain):
    """Two sentences in a thousand may differ: where two hypotheses score the same to the last
    digits, the order of a sum decides. All 2,000 are asked with TRANSFORMER_LIT_SENTENCES=2000
    (plain: a fifth of them); 200 otherwise."""
    asked = int(os.environ.get("TRANSFORMER_LIT_SENTENCES", 200)) // (5 if plain else 1)
    all_of_them = [pair.english for pair in load_pocket()["test"]]
    texts = all_of_them[:: len(all_of_them) // asked][:asked]
    greedy, beam, n = same_answers(page, name, texts, plain)
    print(f"{name}, {'plain' if plain else 'wasm'}: greedy {greedy}, beam 4 {beam} of {n}")
    assert min(greedy, beam) >= 0.998 * n - 1


@pytest.mark.slow
def test_a_page_from_a_server_answers_as_one_from_a_folder(served_page):
    for name, plain in itertools.product(("pocket", "tatoeba-fr"), (False, True)):
        assert same_answers(served_page, name, SENTENCES[:4], plain) == (4, 4, 4)
        check_numbers(served_page, name, plain)
    texts = SENTENCES + ODD
    assert tokens(served_page, "tatoeba-fr", texts) == our_tokens("tatoeba-fr", texts)


# What the page is told ----------------------------------------------------------------------------


def test_events_tell_what_happens_meanwhile(page):
    found = page.evaluate(
        """async text => {
      const engine = await tlEngine.open("pocket"), greedy = [], beam = [];
      const options = {beam: 1, top: 5, attention: true};
      const answer = await engine.translate(text, options, event => greedy.push(event));
      await engine.translate(text, {}, event => beam.push(event));
      const [part] = answer.parts;
      return {greedy, beam, ids: part.ids, last: part.attention.cross[0][0].rows};
    }""",
        SENTENCES[0],
    )
    assert [event["kind"] for event in found["greedy"]] == ["part"] + ["token"] * (
        len(found["ids"]) + 1
    ) + ["said"]
    words = [event for event in found["greedy"] if event["kind"] == "token"]
    assert [event["id"] for event in words] == found["ids"] + [EOS] and words[-1]["text"] == found[
        "greedy"
    ][-1]["text"]
    logits, maps = read(
        page, "pocket", ours("pocket").source_tokenizer.encode(SENTENCES[0]), found["ids"]
    )
    for event, row in zip(words, logits.log_softmax(-1)):
        top = row.topk(5)
        assert [one["id"] for one in event["top"]] == top.indices.tolist()
        assert torch.allclose(
            torch.tensor([one["logP"] for one in event["top"]]), top.values, atol=1e-3
        )
    assert found["last"] == len(words) == maps["cross"].shape[2]
    trees = [event for event in found["beam"] if event["kind"] == "beam"]
    assert all(len(event["rows"]) == 8 for event in trees) and all(
        sum(row["state"] == "open" for row in event["rows"]) == 4 for event in trees
    )
    assert any(
        row["state"] == "ended" and row["text"] == found["beam"][-1]["text"]
        for event in trees
        for row in event["rows"]
    )


@pytest.mark.parametrize("beam", [1, 4])
def test_an_answer_goes_on_from_what_was_given(page, beam):
    prefix = ours("pocket").target_tokenizer.encode("La rue")[:-1]
    ids = ours("pocket").source_tokenizer.encode(SENTENCES[0])
    (found,) = said(page, "pocket", [ids], prefix=prefix, beam=beam)[1]
    assert found[:2] == prefix and len(found) > 4


def test_progress_is_told_and_the_same_engine_is_given_again(page):
    found = page.evaluate("""async () => {
      const told = [], progress = one => told.push(one);
      const engine = await tlEngine.open("pocket", {inPage: true, progress});
      const again = await tlEngine.open("pocket", {inPage: true});
      const answer = await engine.translate("The dog is old.");
      const {worker, bytes} = engine.about;
      return {told, same: engine === again, worker, bytes, text: answer.text};
    }""")
    told = found["told"]
    assert (
        len(told) == 3
        and told[-1]["loaded"] == told[-1]["total"]
        and found["same"]
        and not found["worker"]
        and found["bytes"] < 8e6
    )
    assert found["text"] == ours("pocket").translate(["The dog is old."])[0]


@pytest.mark.parametrize("cached", [0, 1, 2])
def test_parts_of_two_models_are_never_mixed(browser, site, cached):
    "A cache holds some parts of an older model of the same shape, and the site has a newer one."
    older = packing.scripts("pocket", any_model("pocket", ours("random-pre")))
    newer = [(site / f"model-pocket-{i}.js").read_text("ascii") for i in range(3)]
    assert (
        len(older) < 3 and older[0].split('"')[-2] != newer[0].split('"')[-2]
    ), "another model has another stamp"
    old = [part.replace(newer[0].split('"')[-2], "an older one") for part in newer]
    asked = []
    with served(site) as address:
        page = browser.new_page()

        def answer(route):
            asked.append(route.request.url.rsplit("/", 1)[1])
            name, _, stamp = asked[-1].partition("?")
            index = int(name.removeprefix("model-pocket-").removesuffix(".js"))
            route.fulfill(
                body=(newer if stamp else old if index <= cached else newer)[index],
                content_type="text/javascript",
            )

        page.route("**/model-pocket-*", answer)
        page.goto(f"{address}/page.html")
        said = page.evaluate(
            "async () => (await (await tlEngine.open('pocket')).translate('The dog is old.')).text"
        )
        page.close()
    assert said == ours("pocket").translate(["The dog is old."])[0]
    assert (
        [one.partition("?")[0] for one in asked]
        == [f"model-pocket-{i}.js" for i in (0, 1, 0, 1, 2)]
        and asked[0].endswith(".js")
        and "?" in asked[1]
    )


def test_a_site_that_refuses_workers_has_its_translator_in_the_page(browser, site):
    page = browser.new_page()
    page.goto((site / "page.html").as_uri())
    found = page.evaluate("""async () => {
      window.Worker = class {
        constructor() { setTimeout(() => this.onerror({message: "refused"})); }
        postMessage() {}
        terminate() {}
      };
      const engine = await tlEngine.open("pocket");
      return [engine.about.worker, (await engine.translate("The dog is old.")).text];
    }""")
    page.close()
    assert found == [False, ours("pocket").translate(["The dog is old."])[0]]


def failing(page, code):
    return page.evaluate(
        f"async () => {{ const engine = await tlEngine.open('pocket'); try {{ {code} }} catch"
        " (error) { return error.name + ': ' + error.message; } }"
    )


def test_what_cannot_be_is_refused_in_one_sentence(page):
    assert "2,000,000 characters" in failing(page, "await engine.translate('x '.repeat(1000000))")
    assert "option called bean" in failing(page, "await engine.translate('x', {bean: 4})")
    assert "option called noHead" in failing(
        page, "await engine.translate('x', {broken: {noHead: []}})"
    )
    assert "1 to 16" in failing(page, "await engine.translate('x', {beam: 17})")
    assert "no head 4 in layer 0 of cross" in failing(
        page, "await engine.translate('x', {broken: {noHeads: [['cross', 0, 4]]}})"
    )
    assert "no sublayer encoder.9" in failing(
        page, "await engine.translate('x', {broken: {noNorm: ['encoder.9']}})"
    )
    assert "alpha is a number from 0 on" in failing(
        page, "await engine.translate('x', {alpha: NaN})"
    )
    assert "source has a token that the model doesn't know" in failing(
        page, "await engine.read([999999, 2], [5])"
    )
    assert "answer has a token that the model doesn't know" in failing(
        page, "await engine.read([5, 2], [1999999])"
    )
    assert "could not be loaded" in failing(page, "await tlEngine.open('nobody')")
    assert "doesn't know" in failing(page, "await engine.answer([99999, 2])")


def test_a_remark_says_what_the_model_cannot_know(page):
    notes = page.evaluate(
        """async texts => {
      const engine = await tlEngine.open("tatoeba-fr"), all = [];
      for (const text of texts) all.push((await engine.tokens(text)).note);
      return all;
    }""",
        ["", "😀 !", "שלום עולם", "I love you."],
    )
    assert (
        "nothing to translate" in notes[0]
        and "no words" in notes[1]
        and "other scripts" in notes[2]
        and notes[3] == ""
    )
    assert "xylophone" in page.evaluate(
        "async () => (await (await tlEngine.open('pocket')).tokens('The xylophone is old.')).note"
    )


def test_a_long_text_can_be_stopped_and_never_holds_up_the_page(page):
    found = page.evaluate("""async () => {
      const engine = await tlEngine.open("tatoeba-fr"), start = performance.now();
      let ticks = 0, longest = 0, last = start;
      const clock = setInterval(() => {
        const now = performance.now();
        longest = Math.max(longest, now - last);
        last = now;
        ticks++;
      }, 10);
      const long = "They were too tired to go home, and it was late. ".repeat(300);
      const asked = engine.translate(long).catch(error => error.name);
      await new Promise(go => setTimeout(go, 1500));
      engine.stop();
      const name = await asked;
      clearInterval(clock);
      return {name, ticks, longest, after: (await engine.translate("I love you.")).text};
    }""")
    assert found["name"] == "Stopped" and found["ticks"] > 10 and found["after"] == "Je t'aime."
