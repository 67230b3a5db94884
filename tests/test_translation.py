"""Chapter 18 where the page is no place for it: strange input, packed weights, resumed runs, records, cards."""
import dataclasses
import importlib.util
import json
import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transformer_lit import data, translation
from transformer_lit.masks import BOS, EOS, UNK
from transformer_lit.tokens import Subwords, Vocabulary
from transformer_lit.training import TrainingConfig, named_tensors, save_checkpoint
from transformer_lit.translation import (
    Muon, MuonAndAdam, RECIPES, Recipe, Translator, create_joint, create_translator, from_pretrained, pack, pieces, save_pretrained,
    train_translator, unpack)

TINY = dict(d_model=8, n_heads=2, d_ff=8, n_encoder_layers=1, n_decoder_layers=1, dropout=0.1)
PAIRS = [(f"I see {n} {w}.", f"Je vois {n} {m}.") for n in "abcdef" for w, m in (("cats", "chats"), ("dogs", "chiens"), ("keys", "clés"))]
PARTS = {"train": PAIRS[:12], "valid": PAIRS[12:15], "test": PAIRS[15:]}


def words():
    torch.manual_seed(0)
    return create_translator(PAIRS, at_least=1, **TINY)


def joint():
    torch.manual_seed(0)
    return create_joint(Subwords.build((s for pair in PAIRS for s in pair), 300), **TINY)


KINDS = pytest.mark.parametrize("make", [words, joint])


# Input ----------------------------------------------------------------------------------------------------------

@KINDS
def test_any_text_gets_an_answer(make):
    asked = ["", " \n\t", "I see a cats.", "🦔", "\ud800", "<eos> <pad> <bos>", "\x00\x07", "日本語", "ﬁ", "́", "a" * 3000, "I see. " * 300]
    said = make().translate(asked, batch_size=3)
    assert len(said) == len(asked) and all(isinstance(text, str) for text in said), "one answer for each line"
    assert said[:2] == ["", ""], "what is empty stays empty"


@KINDS
def test_answers_do_not_depend_on_the_company(make):
    translator, asked = make(), [english for english, _ in PAIRS] + ["", "I."]
    together = translator.translate(asked, batch_size=5)
    assert together[::-1] == translator.translate(asked[::-1]), "answers must come back in the order of the sentences"
    assert together[3] == translator.translate([asked[3]])[0]
    assert translator.translate([]) == []
    with pytest.raises(TypeError, match=r"translate\(\['I am\.'\]\)"):
        translator.translate("I am.")


@pytest.mark.parametrize("units", [True, False])
def test_fewer_bits_only_for_many_rows_and_where_they_are_faster(monkeypatch, units):
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: units, raising=False)
    translator, seen = words(), []
    translator.model.output.register_forward_hook(lambda m, i, logits: seen.append(logits.dtype))

    def kinds(n, **options):
        seen.clear()
        assert len(translator.translate(["I see a cats."] * n, **options)) == n
        return set(seen)

    many = {torch.bfloat16 if units else torch.float32}
    assert kinds(31) == {torch.float32}, "31 sentences with a beam of 4 are few"
    assert kinds(32) == many and kinds(65) == many, "all batches of a call are computed alike, also a last one of few"
    assert kinds(65, batch_size=31) == kinds(65, beam_size=1) == {torch.float32}, "it is the rows of a batch that count"
    assert kinds(32, precision="fp32") == {torch.float32} and kinds(1, precision="bf16") == {torch.bfloat16}
    assert not torch.is_autocast_enabled("cpu"), "autocast is left on"
    with pytest.raises(ValueError, match="precision='int8': choose"):
        translator.translate(["I see."], precision="int8")


@given(st.text(alphabet="ab .!?…é", max_size=120), st.integers(1, 9))
def test_pieces_lose_nothing_and_fit(text, most):
    text = data.tidy(text)
    parts = pieces(text, len, most)
    assert "".join(parts).replace(" ", "") == text.replace(" ", ""), "cutting a line loses letters"
    assert all(0 < len(part) <= most for part in parts), "a piece is too long, or empty"


def test_pieces_cut_at_sentence_ends_first():
    assert pieces("Aa bb. Cc dd ee ff. Gg.", lambda part: len(part.split()), 5) == ["Aa bb.", "Cc dd ee ff. Gg."]


# Weights --------------------------------------------------------------------------------------------------------

@KINDS
@pytest.mark.parametrize("precision, most", [("fp32", 0.0), ("bf16", 2 ** -8), ("int8", 0.5 / 127 + 1e-6)])
def test_a_packed_translator_comes_back(make, precision, most, tmp_path):
    translator = make()
    save_pretrained(translator, tmp_path, precision)
    again = from_pretrained(tmp_path)
    back, own = named_tensors(again.model), named_tensors(translator.model)
    for name, weight in own.items():
        away = (back[name] - weight).abs()
        bound = weight.abs().amax(-1, keepdim=True) * most if weight.ndim == 2 else 0 * weight
        assert (away <= bound + 1e-12).all(), f"{name} moves more than {precision} may: does each row have its own scale?"
    assert again.source.encode("I see a.") == translator.source.encode("I see a.")
    assert not again.model.training and isinstance(again.target, type(translator.target))


@given(st.lists(st.lists(st.floats(-1e4, 1e4, width=32), min_size=3, max_size=3), min_size=1, max_size=4))
def test_each_row_has_its_own_step(rows):
    weight = torch.tensor(rows)
    away = (unpack(pack({"w": weight}))["w"] - weight).abs()
    assert (away <= weight.abs().amax(1, keepdim=True) * (0.5 / 127 + 1e-5) + 1e-10).all(), "each row needs its own step"


def test_int8_is_a_quarter(tmp_path):
    sizes = []
    for precision in "fp32", "int8":
        save_pretrained(create_joint(joint().source, d_model=64, n_heads=4, d_ff=256), tmp_path, precision)
        sizes.append((tmp_path / "model.safetensors").stat().st_size)
    assert 3.4 < sizes[0] / sizes[1] < 4


def test_a_broken_folder_is_one_sentence(tmp_path):
    for missing in "translator.json", "model.safetensors":
        save_pretrained(words(), tmp_path)
        (tmp_path / missing).unlink()
        with pytest.raises(FileNotFoundError, match=f"transformer-lit train --folder {re.escape(str(tmp_path))}"):
            from_pretrained(tmp_path)
    save_pretrained(words(), tmp_path)
    whole = (tmp_path / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(whole[:-9])
    with pytest.raises(ValueError, match="no whole checkpoint"):
        from_pretrained(tmp_path)
    save_pretrained(joint(), tmp_path / "other")
    (tmp_path / "model.safetensors").write_bytes((tmp_path / "other" / "model.safetensors").read_bytes())
    with pytest.raises(ValueError, match="another shape"):
        from_pretrained(tmp_path)


def test_a_training_folder_is_found_by_its_checkpoint(tmp_path):
    translator = joint()
    translation.save_translator(translator, tmp_path)
    save_checkpoint(tmp_path / "checkpoint.safetensors", translator.model, torch.optim.Adam(translator.model.parameters()), {})
    asked = [english for english, _ in PAIRS[:4]]
    assert from_pretrained(tmp_path).translate(asked) == translator.translate(asked)


def test_measuring_precision_leaves_the_weights_alone():
    translator = joint()
    before = {name: weight.clone() for name, weight in named_tensors(translator.model).items()}
    rows = translation.precision_losses(translator, PAIRS)
    assert [row["logit"] > 0 for row in rows] == [False, True, True]
    assert all(torch.equal(before[name], weight) for name, weight in named_tensors(translator.model).items())


# Training -------------------------------------------------------------------------------------------------------

def recipe(**changes):
    return Recipe(size=300, model=TINY | {"norm": "pre"}, training=TrainingConfig(epochs=3, max_tokens=64, checkpoint_every=1),
                  **{"peak": 0.02, "gain": 1.0, **changes})


@pytest.mark.parametrize("optimizer", ["adam", "muon"])
@pytest.mark.parametrize("tokens", ["words", "subwords"])
def test_a_stopped_run_goes_on_as_if_it_had_not_stopped(optimizer, tokens, tmp_path):
    r = recipe(optimizer=optimizer, tokens=tokens, at_least=1)
    through, straight = train_translator(tmp_path / "a", r, PARTS, ["I see a cats."])
    for stop in 2, 5, None:
        torch.manual_seed(stop or 0)
        resumed, run = train_translator(tmp_path / "b", r, PARTS, ["I see a cats."], stop)
    assert [e.get("loss") for e in run.log] == [e.get("loss") for e in straight.log], (
        "a resumed run must go on with the very losses: does the rate reach the optimiser's groups after loading?")
    assert all(torch.equal(a, b) for a, b in zip(through.model.parameters(), resumed.model.parameters()))


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="PyTorch has Muon to compare with since 2.9")
@pytest.mark.parametrize("rate, decay, shape", [(0.02, 0.1, (3, 40)), (0.3, 0.0, (40, 3)), (1e-3, 0.5, (16, 16)), (0.1, 0.1, (1, 1))])
def test_muon_is_pytorchs(rate, decay, shape):
    """As near as bf16 rounds (a hundredth of the way; another torch may sum in another order), a stop and a resume on the way.

    The least mistake, a momentum of 0.9, is five hundredths away."""
    torch.manual_seed(1)
    begun, gradients = torch.randn(shape), torch.randn(6, *shape)
    ended = []
    for make in (lambda w: torch.optim.Muon([w], lr=rate, weight_decay=decay, adjust_lr_fn="match_rms_adamw"),
                 lambda w: Muon([w], rate, decay, precision="bf16"), lambda w: Muon([w], rate, decay, precision="fp32")):
        w = torch.nn.Parameter(begun.clone())
        optimizer = make(w)
        for n, g in enumerate(gradients):
            if n == 3:
                kept, optimizer = optimizer.state_dict(), make(w)
                optimizer.load_state_dict(kept)
            w.grad = g.clone()
            optimizer.step()
        ended.append(w.detach())
    way = (ended[0] - begun).norm()
    assert (ended[1] - ended[0]).norm() < 0.02 * way, "another Muon than PyTorch's"
    assert (ended[2] - ended[0]).norm() < 0.02 * way, "the rounds in fp32 go elsewhere"


def test_muon_takes_what_the_machine_is_good_at(monkeypatch):
    asked = []
    monkeypatch.setattr(translation, "precision_here", lambda device: asked.append(device) or "bf16")
    w = torch.nn.Parameter(torch.eye(3))
    w.grad = torch.ones(3, 3)
    Muon([w]).step()
    Muon([w], precision="fp32").step()
    assert asked == ["cpu"]


def test_every_weight_has_one_optimiser():
    model = joint().model
    optimizer = MuonAndAdam(model)
    muon, adam = ([w for g in part.param_groups for w in g["params"]] for part in optimizer.parts)
    assert sorted(map(id, muon + adam)) == sorted(map(id, model.parameters())), "a weight belongs to no optimiser, or to both"
    assert all(w.ndim == 2 for w in muon) and any(w is model.output.weight for w in adam), "embeddings belong to Adam"


def test_the_recipe_that_ships_is_the_one_that_ran():
    r = RECIPES["tatoeba-fr"]
    assert r.training == TrainingConfig(8, 2048, 400, 1.0, 0.1, 1.0, 1, translation.precision_here(), 1, 500)
    assert (r.peak, r.optimizer, r.gain, r.pairs, r.words, r.size) == (4e-3, "muon", 1.0, None, None, 8000)
    assert dataclasses.replace(r, language="de") == RECIPES["tatoeba-de"]


def test_the_mean_of_the_last_ends_is_kept(tmp_path):
    translator, run = train_translator(tmp_path, recipe(average=2), PARTS, [])
    last = translation.read_checkpoint(tmp_path / "epoch-3.safetensors", False)[0]
    before = translation.read_checkpoint(tmp_path / "epoch-2.safetensors", False)[0]
    for name, weight in named_tensors(from_pretrained(tmp_path).model).items():
        torch.testing.assert_close(weight, (last[name] + before[name]) / 2)


# Records --------------------------------------------------------------------------------------------------------

def test_record_card_and_fingerprints(tmp_path):
    file = tmp_path / "archive"
    file.write_bytes(b"pairs")
    parts = {**PARTS, "test": PARTS["test"] * 2}
    done = train_translator(tmp_path, recipe(), parts, ["I SEE A CATS", "unseen"])
    record = translation.write_record(tmp_path, "by hand", *done, parts, file)
    assert record == json.loads((tmp_path / "run.json").read_text("utf-8"))
    assert record["seen"] == {"I SEE A CATS": True, "unseen": False} and record["data"]["leak_by_sentence"] == 0
    said = (tmp_path / "hypotheses.txt").read_text("utf-8").splitlines()
    assert said == done[0].translate([english for english, _ in PARTS["test"]], precision="fp32"), "a line for each distinct sentence"
    if importlib.util.find_spec("sacrebleu"):
        assert {s.get("references") for s in record["scores"]} == {None, "first", "all"}
        assert all("signature" in s for s in record["scores"][1:]), "a score without its signature can't be compared"
    card = translation.model_card(record, "mine")
    for words in "# mine", "by hand", "CC BY 2.0 FR", "contributors", record["data"]["sha256"], "## Limits":
        assert words in card, f"the card lacks {words!r}"
    translation.save_seen(parts["train"], tmp_path)
    assert all(translation.was_seen(english.upper(), tmp_path) for english, _ in parts["train"])
    assert not any(translation.was_seen(english, tmp_path) for english, _ in PARTS["test"])


def test_nearest_is_by_the_angle():
    translator = words()
    with torch.no_grad():
        table = translator.model.target.tokens.weight.zero_()
        ids = translator.target.ids
        for word, vector in (("chats", [1.0, 0]), ("chiens", [9.0, 1.0]), ("clés", [0.0, 5.0]), ("vois", [-1.0, 0.0])):
            table[ids[word], :2] = torch.tensor(vector)
    assert [word for word, _ in translation.nearest(translator, "chats", 1)] == ["chiens"], "the angle, not the distance"
    with pytest.raises(ValueError, match="not one token"):
        translation.nearest(translator, "unheard")


def test_the_view_is_safe_and_complete():
    translator = joint()
    rows = translation.try_it(translator, [("I see </script>.", "Je & \"toi\"")], lambda english: True)
    page = translation.try_it_page(rows)
    assert page.count("</script>") == translation.try_it_page([]).count("</script>"), "a sentence must not end the script"
    held = json.loads(re.search(r"<script type=\"application/json\"[^>]*>(.*?)</script>", page, re.S)[1])
    assert held == rows and len(rows[0]["w"]) == len(rows[0]["s"]) * len(rows[0]["t"])
    assert not re.search(r"https?://(?!www\.w3\.org)", page), "the view asks another host"


def test_cross_weights_leave_the_model_as_it_was():
    translator = words()
    ids = torch.tensor([translator.source.encode("I see a cats.")])
    target = torch.tensor([[BOS, UNK, EOS]])
    weights = translation.cross_weights(translator.model, ids, target)
    assert weights.shape == (1, 3, ids.size(1)) and torch.allclose(weights.sum(-1), torch.ones(1, 3))
    assert "attend" not in vars(translator.model.decoder.layers[0].cross_attention)


def test_vocabulary_and_subwords_are_told_apart(tmp_path):
    for make, kind in (words, Vocabulary), (joint, Subwords), (words, Vocabulary):  # into the same folder
        save_pretrained(make(), tmp_path)
        assert type(Translator.from_pretrained(str(tmp_path)).source) is kind
