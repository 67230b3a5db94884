"""Inside the model: the page shows what the package computes, its record before the model is loaded
and the model itself afterwards; each switch does what the package does without that part."""

import base64
import json
import re
import shutil
from pathlib import Path

import build
import engine_models as packing
import pytest
import torch
from markdown_it import MarkdownIt

from transformer_lit import multi_head_attention
from transformer_lit.attention_analysis import compute_attention
from transformer_lit.decoding import beam_search, greedy_decode
from transformer_lit.masks import BOS, EOS
from litbook.live import inside
from litbook.live.map_view import packed
from transformer_lit.corpora.files import shipped
from transformer_lit.translation import Translator

ROOT = Path(__file__).resolve().parent.parent
STATIC = ROOT / "book" / "web" / "static"
PAGE = (ROOT / "book" / "inside.md").read_text("utf-8")
DUCHESS = inside.EXAMPLES["noHeads:cross.1.2"]


@pytest.fixture(scope="module")
def translator():
    return Translator.load(shipped("data/checkpoints/pocket"))


@pytest.fixture(scope="module")
def model(translator):
    return translator.model.eval()


@pytest.fixture(scope="module")
def script(translator):
    return inside.script(translator)


@pytest.fixture(scope="module")
def record(script):
    assert len(script.encode()) < 60_000, "the page carries this before anybody asks for it"
    return json.loads(script[script.index("= ") + 2 : -2])


# The record and the package -----------------------------------------------------------------------


def test_the_record_is_what_the_package_says(record, translator, model):
    source = torch.tensor([translator.source_tokenizer.encode(inside.RUNNING)])
    said = [token for token, _ in record["steps"]]
    assert (
        said[:-1] == greedy_decode(model, source)[0]
        and said[-1] == EOS
        and record["text"] == translator.target_tokenizer.decode(said)
    )
    (ended,) = [
        max(
            (row for rows in record["beam"] for row in rows if row[4] == "ended"),
            key=lambda row: row[2],
        )
    ]
    assert ended[3] == translator.target_tokenizer.decode(beam_search(model, source)[0])
    assert all(
        len(rows) == 8 and sum(row[4] == "open" for row in rows) == 4 for rows in record["beam"]
    )
    with torch.no_grad():
        wanted = model(source, torch.tensor([[BOS] + said[:-1]]))[0].log_softmax(-1)
    for (token, top), row in zip(record["steps"], wanted, strict=True):
        assert top[0][0] == token and torch.allclose(
            torch.tensor([p for _, p in top]), row.topk(5).values, atol=1e-3
        )


def test_recorded_weights_are_those_of_chapter_20(record, translator):
    maps, _, _ = compute_attention(translator, [(inside.RUNNING, record["text"])])
    for kind, layers in maps.items():
        assert record["attention"][kind]["shape"] == list(layers[:, 0].shape) and record[
            "attention"
        ][kind]["weights"] == base64.b64encode(
            packed(layers[:, 0], False)
        ).decode()


def test_a_model_is_whole_again_afterwards(record, translator, model):
    source, target = torch.tensor([record["source"]]), torch.tensor([[BOS, 28, 261]])
    with torch.no_grad():
        before = model(source, target)
        for parts in inside.single_breaks(model.config).values():
            with inside.broken(model, **parts):
                pass
        with inside.broken(model, noNorm=["encoder.1"], noResidual=["encoder.1"], noCross=True):
            assert not torch.allclose(model(source, target), before)
        assert torch.equal(model(source, target), before)
    with pytest.raises(TypeError), inside.broken(model, noHat=True):
        pass


def test_without_the_scale_is_equation_1_without_its_division(model, record, monkeypatch):
    def unscaled(query, keys, values, mask=None, *_):
        scores = query @ keys.mT
        weights = (scores if mask is None else scores.masked_fill(~mask, -torch.inf)).softmax(-1)
        return weights @ values, weights

    source, target = torch.tensor([record["source"]]), torch.tensor([[BOS, 28, 261]])
    with torch.no_grad():
        with inside.broken(model, noScale=True):
            found = model(source, target)
        monkeypatch.setattr(multi_head_attention, "scaled_dot_product_attention", unscaled)
        assert torch.allclose(found, model(source, target), atol=1e-3)


def test_each_example_is_broken_by_its_switch(record):
    for key, (text, whole, now) in record["examples"].items():
        assert whole[1] != now[1], f"{key}: {text}"
    assert set(re.findall(r'data-example="([^"]+)"', PAGE)) == set(record["examples"])


def test_each_chapter_leads_to_its_switch():
    places = set(re.findall(r'id="([\w-]+)"', PAGE)) | {"attention"}
    for number in "02 03 04 05 06 07 08 09 13 20".split():
        (path,) = (ROOT / "book").glob(f"{number}_*.ipynb")
        (cell,) = [
            cell for cell in json.loads(path.read_text("utf-8"))["cells"] if cell["id"] == "inside"
        ]
        found = re.findall(r'href="inside\.html#([\w-]+)"', "".join(cell["source"]))
        assert found and set(found) <= places, path.name


# The page -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site(tmp_path_factory, script):
    "The page as the build makes it, without the theme around it."
    folder = tmp_path_factory.mktemp("inside")
    packing.write(folder / "engine")
    shutil.copytree(STATIC / "fonts", folder / "_static" / "fonts")
    for name in ("live.js", "inside.js", "book.css"):
        (folder / "_static" / name).write_bytes((STATIC / name).read_bytes())
    (folder / "_static" / "inside-record.js").write_text(script, "utf-8")
    body = MarkdownIt("commonmark", {"html": True}).render(
        build.filled(PAGE, {"size": "{} MB".format, "pads": lambda: "8"})
    )
    (folder / "book").mkdir()
    (folder / "book" / "inside.html").write_text(
        '<!doctype html><html lang="en" data-theme="light"><meta charset="utf-8"><meta'
        ' name="viewport" content="width=device-width"><title>Inside</title><link rel="stylesheet"'
        ' href="../_static/book.css"><style>body { margin: 0; background:'
        " var(--pst-color-background) } a { color: var(--pst-color-link) }</style><main"
        ' class="bd-article" style="max-width:704px;margin:auto;padding:0'
        f' 12px">{body}</main></html>',
        "utf-8",
    )
    return folder / "book" / "inside.html"


@pytest.fixture
def opened(browser, site):
    "A function that opens the page; whatever it asks of others, and every error, fails the test."
    pages, problems = [], []

    def load(fragment="", width=1000, dark=False, motion="reduce"):
        page = browser.new_page(viewport={"width": width, "height": 844}, reduced_motion=motion)
        pages.append(page)
        page.set_default_timeout(300_000)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on(
            "console", lambda said: problems.append(said.text) if said.type == "error" else None
        )
        page.on(
            "request",
            lambda request: (
                problems.append(request.url)
                if not request.url.startswith(("file:", "blob:", "data:"))
                else None
            ),
        )
        page.goto(site.as_uri() + fragment)
        if dark:
            page.evaluate("document.documentElement.dataset.theme = 'dark'")
        return page

    yield load
    for page in pages:
        page.close()
    assert not problems, problems


def out(page, name):
    return page.locator(f'[data-out="{name}"]')


def do(page, name):
    return page.locator(f'[data-do="{name}"]')


def translate(page, text=None, name=None):
    "Load and translate; done when the page says so."
    page.evaluate("document.querySelector('[data-out=say]').textContent = ''")
    if text is not None:
        out(page, "text").fill(text)
    if name:
        page.check(f'input[value="{name}"]')
    do(page, "go").click()
    page.wait_for_function(
        "/^French|French:/.test(document.querySelector('[data-out=say]').textContent)"
    )


def settled(page, was):
    "Wait until the verdict isn't `was` any more; the new one."
    page.wait_for_function(
        "was => document.querySelector('[data-out=verdict]').textContent != was", arg=was
    )
    return out(page, "verdict").inner_text()


def said(page):
    return page.locator('[data-out="said"] small').all_inner_texts()


def now(page):
    return page.locator('[data-out="now"] .tl-in-word').all_inner_texts()


def shown_top(page):
    "The five at the chosen step: (piece, probability in percent)."
    bars = page.locator('[data-out="top"] .tl-in-bar')
    return [
        (bar.locator("b").inner_text(), float(bar.locator("span").inner_text().strip("<%")))
        for bar in bars.all()
    ]


def test_before_the_model_is_loaded_the_record_is_there_and_nothing_pretends(opened, record):
    page = opened()
    assert said(page) == [str(token) for token, _ in record["steps"]]
    assert page.locator('[data-out="read"] b').all_inner_texts() == [*record["pieces"][:-1], "end"]
    assert (
        page.locator(".tl-in-grid svg").count() == 36
        and page.locator('[data-out="map"] svg').count() == 1
    )
    assert page.locator('[data-out="tree"] g').count() == 8 * len(record["beam"])
    assert (
        page.locator('[data-out="top"] button').count() == 0
        and page.locator("[data-try]:visible").count() == 0
    )
    assert (
        not do(page, "own").is_visible()
        and not do(page, "mend").is_visible()
        and not do(page, "mend-top").is_visible()
    )
    page.locator('[data-key="noCross"]').click()
    assert now(page)[:2] == ["Il", "a"] and "New:" in out(page, "verdict").inner_text()
    page.locator('[data-key="noScale"]').click()
    assert (
        page.locator('[data-key="noCross"]').get_attribute("aria-checked") == "true"
    ), "the record knows one switch at a time"
    do(page, "mend").click()
    assert not now(page)
    do(page, "heads").click()
    page.wait_for_function(
        "document.querySelector('[data-out=heads-say]').textContent.includes('Off by itself')"
    )
    assert page.locator(".tl-in-dots button[data-n]").count() == 36


def test_the_five_likeliest_are_the_packages_and_add_up(opened, translator, model):
    page = opened()
    text = "The dog is older than the cat."
    translate(page, text)
    steps = inside.greedy_steps(model, translator.source_tokenizer.encode(text))
    assert said(page) == [str(token) for token, _ in steps]
    for i, (_, top) in enumerate(steps):
        page.locator(f'[data-step="{i}"]').click()
        shown = shown_top(page)
        for (piece, percent), (token, log_p) in zip(shown, top, strict=True):
            assert piece == {EOS: "end"}.get(
                token, translator.target_tokenizer.tokens[token]
            ) and percent == pytest.approx(100 * torch.tensor(log_p).exp().item(), abs=0.06)
        five, rest = (float(x) for x in re.findall(r"([\d.]+)%", out(page, "sum").inner_text())[:2])
        assert five == pytest.approx(
            sum(p for _, p in shown), abs=0.1
        ) and five + rest == pytest.approx(100, abs=0.1)


def test_another_token_and_the_sentence_goes_on_as_the_package_does(opened, translator, model):
    page = opened()
    translate(page)
    source, steps = translator.source_tokenizer.encode(inside.RUNNING), inside.greedy_steps(
        model, translator.source_tokenizer.encode(inside.RUNNING)
    )
    at = [translator.target_tokenizer.tokens[token] for token, _ in steps[:-1]].index("il")
    assert page.locator('[data-step][aria-pressed="true"]').get_attribute("data-step") == str(
        at
    ), "the page opens at the pronoun"
    (choice,) = [
        i
        for i, (token, _) in enumerate(steps[at][1])
        if translator.target_tokenizer.tokens[token] == "elle"
    ]
    page.locator(f'[data-choice="{choice}"]').click()
    prefix = [token for token, _ in steps[:at]] + [steps[at][1][choice][0]]
    wanted = prefix + [token for token, _ in inside.greedy_steps(model, source, prefix)]
    do(page, "own").wait_for()
    assert (
        said(page) == [str(token) for token in wanted]
        and "fatiguée" in out(page, "said").inner_text()
    )
    assert page.locator(".tl-in-forced").count() == 1
    do(page, "own").click()
    do(page, "own").wait_for(state="hidden")
    assert said(page) == [str(token) for token, _ in steps]
    last = len(steps) - 2  # "." or the end: an answer can be ended by hand
    page.locator(f'[data-step="{last}"]').click()
    ends = [i for i, (token, _) in enumerate(steps[last][1]) if token == EOS]
    if ends:
        page.locator(f'[data-choice="{ends[0]}"]').click()
        do(page, "own").wait_for()
        assert said(page) == [str(token) for token, _ in steps[:last]] + [str(EOS)]


def test_every_switch_of_the_engine_says_what_the_package_says(opened, translator, model, record):
    "All of them on the running sentence, and each on its example."
    page, singles = opened(), inside.single_breaks(model.config)
    asked = [[record["source"], parts, record["broken"][key][1]] for key, parts in singles.items()]
    asked += [
        [translator.source_tokenizer.encode(text), singles[key], answer[1]]
        for key, (text, _, answer) in record["examples"].items()
    ]
    found = page.evaluate(
        """async ({asked, most, pads}) => {
      const engine = await tlLive.engine("pocket"), all = [];
      for (const [ids, broken] of asked) {
        const added = broken.noSourceMask ? pads : 0;
        const options = {beam: 1, maxLength: most, broken, pads: added};
        all.push((await engine.answer(ids, options)).ids);
      }
      return all;
    }""",
        {"asked": asked, "most": inside.MOST, "pads": inside.PADS},
    )
    names = [*singles, *record["examples"]]
    wrong = [
        name for name, ids, (_, _, wanted) in zip(names, found, asked, strict=True) if ids != wanted
    ]
    assert not wrong, wrong


def test_switches_of_the_page_change_the_answer_as_the_package_does(opened, translator, model):
    page = opened()
    translate(page, DUCHESS)
    verdict = out(page, "verdict").inner_text()
    off = {}
    for key, parts in (
        ("noHeads:cross.1.2", {"noHeads": [("cross", 1, 2)]}),
        ("noPositions:source", {"noPositions": "source"}),
        ("stuckPosition", {"stuckPosition": True}),
        ("noCross", {"noCross": True}),
    ):
        page.locator(f'[data-key="{key}"]').click()
        off |= parts
        verdict = settled(page, verdict)
        _, wanted, _ = inside.broken_answer(translator, DUCHESS, off)
        assert now(page) == [translator.target_tokenizer.tokens[token] for token in wanted], key
        assert said(page)[:-1] == [
            str(token) for token in wanted
        ], "the whole page shows the broken model"
    assert out(page, "banner").is_visible() and page.locator(".tl-in-fresh").count()
    do(page, "mend-top").click()
    settled(page, verdict)
    assert not now(page) and page.locator('[aria-checked="false"]').count() == 0


@pytest.mark.parametrize("place", re.findall(r'id="(\w+)" data-preset', PAGE))
def test_an_address_turns_its_switch(opened, place, record):
    page = opened(f"#{place}")
    off = page.locator('[data-key][aria-checked="false"]').evaluate_all(
        "all => all.map(one => one.dataset.key)"
    )
    assert off == {
        "noEncoder": [f"noHeads:encoder.{i}.{h}" for i in range(3) for h in range(4)]
    }.get(place, off) and off[0].startswith(place.replace("noEncoder", "noHeads"))
    key = "noHeads:encoder" if place == "noEncoder" else off[0]
    assert now(page) == [record["names"][str(token)] for token in record["broken"][key][1]]
    box, result = (
        page.locator(f"#{place}").bounding_box(),
        page.locator(".tl-in-result").bounding_box(),
    )
    assert (
        result["y"] + result["height"] <= box["y"] + 1 < 844
    ), "the switch stands below the answers"


def test_an_address_outlives_the_loading(opened):
    page = opened("#noCross")
    translate(page, DUCHESS)
    assert (
        now(page)[:2] == ["Il", "a"]
        and page.locator('[data-key="noCross"]').get_attribute("aria-checked") == "false"
    )


def test_every_control_by_keyboard(opened):
    page = opened()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "in-text"
    out(page, "text").press("Enter")
    page.wait_for_function(
        "document.querySelector('[data-out=say]').textContent.includes('French:')"
    )
    chip = page.locator('[data-step][aria-pressed="true"]')
    chip.focus()
    here = int(chip.get_attribute("data-step"))
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.dataset.step") == str(here + 1)
    assert out(page, "count").inner_text() == f"step {here + 2} of {len(said(page))}"
    do(page, "back").press("Enter")
    do(page, "on").press("Enter")
    do(page, "back").press("Enter")
    assert out(page, "count").inner_text() == f"step {here + 1} of {len(said(page))}"
    head = page.locator('[data-out="heads-cross"] [aria-pressed="true"]')
    head.focus()
    page.keyboard.press("ArrowUp")
    assert out(page, "map-name").inner_text() == "cross-attention, layer 2, head 1"
    page.locator('[data-out="heads-encoder"] button').first.press("Enter")
    assert out(page, "map-name").inner_text() == "encoder, layer 1, head 1"
    out(page, "map").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert re.match(r"“The” puts \d\.\d\d on “animal”", out(page, "map-say").inner_text())
    page.keyboard.press("Escape")
    assert "looks at" in out(page, "map-say").inner_text()
    page.locator('[data-choice="1"]').press("Enter")
    do(page, "own").wait_for()
    assert page.evaluate("document.activeElement.dataset.choice") == "1"
    slider = out(page, "beam-step")
    slider.focus()
    page.keyboard.press("Home")
    assert (
        out(page, "beam-count").inner_text().startswith("1 of")
        and page.locator('[data-out="tree"] g').count() == 8
    )
    do(page, "grow").press("Enter")
    assert do(page, "grow").inner_text() == "Pause"
    page.wait_for_function("document.querySelectorAll('[data-out=tree] g').length > 8")
    do(page, "grow").press("Enter")
    assert do(page, "grow").inner_text() == "Grow the tree"
    do(page, "play").press("Enter")
    assert do(page, "play").inner_text() == "Pause"
    do(page, "play").press("Enter")
    verdict = out(page, "verdict").inner_text()
    page.locator('[data-all="cross"]').press("Space")
    verdict = settled(page, verdict)
    assert page.locator('[data-key^="noHeads:cross"][aria-checked="false"]').count() == 12
    page.locator("[data-try]").first.press("Enter")
    settled(page, verdict)
    assert out(page, "text").input_value() == DUCHESS and now(page)[0] == "Mon"
    do(page, "heads").press("Enter")
    page.wait_for_function(
        "document.querySelector('[data-out=heads-say]').textContent.includes('Off by itself')"
    )
    do(page, "mend").press("Enter")
    do(page, "mend").wait_for(state="hidden")


def test_what_cannot_be_shown_is_said_in_one_sentence(opened):
    page = opened()
    translate(page, "The xylophone is old. " + "The dog is new. " * 12)
    said_now = out(page, "say").inner_text()
    assert (
        "doesn't know xylophone" in said_now
        and "this one in 5. The page shows the first." in said_now
    )
    for text, words in (
        ("", "Type an English sentence"),
        ("very " * 60 + "old", "try a shorter one"),
        ("x " * 20_000, "characters"),
    ):
        out(page, "text").fill(text)
        do(page, "go").click()
        page.wait_for_function(
            "words => document.querySelector('[data-out=say]').textContent.includes(words)",
            arg=words,
        )
        assert said(page), "what was there stays"


def test_the_answer_plays_where_motion_is_welcome(opened):
    page = opened(motion="no-preference")
    translate(page, "The dog is old.")
    page.wait_for_function("document.querySelector('[data-do=play]').textContent == 'Play'")
    assert page.locator(".tl-in-unsaid").count() == 0


@pytest.mark.slow
def test_the_other_translator_has_other_heads(opened):
    page = opened("#noHeads")
    translate(page, "My old umbrella is broken.", "tatoeba-fr")
    assert (
        page.locator(".tl-in-dots button").count() == 48
        and page.locator('[aria-checked="false"]').count() == 0
    )
    assert (
        page.locator("[data-try]:visible").count() == 0
    ), "the examples are the pocket translator's"
    (wanted,) = greedy_decode(
        Translator.load(shipped("data/checkpoints/tatoeba-fr")).model,
        torch.tensor(
            [
                page.evaluate(
                    """
      async () => {
        const engine = await tlLive.engine("tatoeba-fr");
        return (await engine.tokens("My old umbrella is broken.")).parts[0].ids;
      }"""
                )
            ]
        ),
    )
    assert said(page)[:-1] == [str(token) for token in wanted]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_fits_and_axe_finds_nothing_serious(opened, width, dark):
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe is not installed"
    ).Axe()
    page = opened("#noCross", width, dark)
    if width == 390:
        translate(page)
        page.locator("[data-try]").first.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    found = axe.run(
        page,
        context={"include": [[".tl-in"]]},
        options={"resultTypes": ["violations"], "preload": False},
    ).response["violations"]
    assert not [
        (rule["id"], node["html"][:120])
        for rule in found
        if rule["impact"] in ("serious", "critical")
        for node in rule["nodes"]
    ]
