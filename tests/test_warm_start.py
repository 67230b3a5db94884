"""A training begins with another's weights: nothing is lost where the subwords are the same, and
new ones begin between their pieces."""

from dataclasses import replace

import pytest
import torch

from translators import of_subwords, of_words
from transformer_lit import wmt
from transformer_lit.runs.run import keep_config
from transformer_lit.recipes import prepare, training_sets
from transformer_lit.recipes import large, mixture, warm_start
from transformer_lit.corpora.texts import TextSource
from transformer_lit.tokenization import SubwordTokenizer

TINY = dict(
    d_model=8,
    n_heads=2,
    d_ff=8,
    n_encoder_layers=1,
    n_decoder_layers=1,
    norm="pre",
    tied_embeddings=True,
)
FEW = SubwordTokenizer.train(["low low low lower"], 265)
MORE = SubwordTokenizer.train(["low low lower lower lowest lowest new newest newest"], 285)


def translator_of(tokens, **changes):
    torch.manual_seed(len(tokens))
    return of_subwords(tokens, "fr", **TINY | changes)


def test_a_token_that_both_have_keeps_its_vector_and_a_new_one_begins_between_its_pieces():
    table = torch.randn(len(FEW), 8)
    rows, shared = warm_start.transfer_embeddings(table, FEW, MORE)
    assert rows.shape == (len(MORE), 8)
    assert (
        shared == len(set(MORE.tokenizer.get_vocab()) & set(FEW.tokenizer.get_vocab())) == 264
    ), "260, lo, low, Ġlow and Ġlower"
    for name in "<pad>", "e", "low":
        assert torch.equal(
            rows[MORE.tokenizer.token_to_id(name)], table[FEW.tokenizer.token_to_id(name)]
        )
    new = MORE.tokenizer.token_to_id("Ġlowest")
    assert FEW.tokenizer.token_to_id("Ġlowest") is None
    torch.testing.assert_close(
        rows[new],
        sum(table[FEW.tokenizer.token_to_id(piece)] for piece in ("Ġlow", "e", "s", "t")) / 4,
    )


def test_with_the_same_subwords_it_begins_as_the_other_ended(tmp_path):
    given, fresh = translator_of(FEW), translator_of(FEW)
    for parameter in given.model.parameters():
        torch.nn.init.normal_(parameter)
    given.save(tmp_path, "fp32")
    assert warm_start.initialize_from(fresh, str(tmp_path)) == len(FEW)
    for (name, one), two in zip(
        given.model.state_dict().items(), fresh.model.state_dict().values()
    ):
        assert torch.equal(one, two), name
    assert (
        fresh.model.output_projection.weight is fresh.model.source_embedding.token_embedding.weight
    ), "they stay tied"


def test_what_cannot_be_taken_is_one_sentence(tmp_path):
    translator_of(FEW).save(tmp_path / "joint", "fp32")
    of_words([("a b", "c d")] * 2, "fr", **TINY | {"tied_embeddings": False}).save(
        tmp_path / "words",
        "fp32",
    )
    for change in {"d_ff": 16}, {"norm": "post"}, {"n_heads": 1}:
        with pytest.raises(ValueError, match="can't start from .*joint: it has Transformer"):
            warm_start.initialize_from(translator_of(MORE, **change), tmp_path / "joint")
    with pytest.raises(ValueError, match="both need joint subwords"):
        warm_start.initialize_from(translator_of(MORE, tied_embeddings=False), tmp_path / "words")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        warm_start.weights_hash("nowhere")


def test_a_run_begins_with_it_and_its_plan_says_so(tmp_path, monkeypatch):
    text = [(f"low {k} lower", f"bas {k}") for k in range(20)]
    made_up = replace(
        training_sets.TRAINING_SETS["mixture-en-fr"],
        sources=lambda: [TextSource("t", (), lambda: text)],
    )
    monkeypatch.setitem(training_sets.TRAINING_SETS, "mixture-en-fr", made_up)
    store = prepare.prepare_store(
        prepare.PreparationConfig("mixture-en-fr", 270),
        tmp_path / "store",
        held_out={"valid": text[:1], "test": text[:1]},
    )
    given = of_subwords(FEW, "fr", **wmt.model_preset("tiny") | {"norm": "pre"})
    given.save(tmp_path / "given", "fp32")
    plain = wmt.build_experiment(
        "mixture-en-fr", "modern", "tiny", 270, dict(precision="fp32", max_tokens=64), max_steps=2
    )
    e = mixture.MixtureExperiment(**vars(plain), begin_with=str(tmp_path / "given"))
    translator, trainer, _ = large.build_run(e, store, tmp_path / "run", torch.device("cpu"))
    assert torch.equal(
        translator.model.encoder.layers[0].self_attention.q_proj.weight,
        given.model.encoder.layers[0].self_attention.q_proj.weight,
    )
    expected, _ = warm_start.transfer_embeddings(
        given.model.source_embedding.token_embedding.weight.detach(),
        FEW,
        SubwordTokenizer.load(store.tokenizer()),
    )
    assert torch.equal(translator.model.source_embedding.token_embedding.weight, expected)
    assert trainer.metadata["first_weights"] == warm_start.weights_hash(e.begin_with)
    (tmp_path / "run").mkdir()
    keep_config(tmp_path / "run", trainer.metadata)
    drawn, _, _ = large.build_run(
        replace(e, begin_with=""), store, tmp_path / "drawn", torch.device("cpu")
    )
    assert not torch.equal(drawn.model.source_embedding.token_embedding.weight, expected)
    torch.nn.init.zeros_(given.model.output_projection.weight)
    given.save(tmp_path / "given2", "fp32")
    with pytest.raises(ValueError, match="was begun with.*begin_with"):
        large.build_run(
            replace(e, begin_with=str(tmp_path / "given2")),
            store,
            tmp_path / "run",
            torch.device("cpu"),
        )
    of_subwords(FEW, "fr", **wmt.model_preset("tiny") | {"norm": "pre", "d_model": 8}).save(
        tmp_path / "other",
        "fp32",
    )
    with pytest.raises(ValueError, match="can't start from"):
        large.build_run(
            replace(e, begin_with=str(tmp_path / "other")),
            store,
            tmp_path / "again",
            torch.device("cpu"),
        )
    assert not (
        tmp_path / "again"
    ).exists(), "what was refused leaves no plan that would refuse the right command"
    large.build_run(e, store, tmp_path / "again", torch.device("cpu"))
    before = {path.name: path.read_bytes() for path in (tmp_path / "given").iterdir()}
    with pytest.raises(FileExistsError, match="no config.json"):
        large.build_run(e, store, tmp_path / "given", torch.device("cpu"))
    assert before == {
        path.name: path.read_bytes() for path in (tmp_path / "given").iterdir()
    }, "another translator was written over"
