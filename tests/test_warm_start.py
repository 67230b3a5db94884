"""A training begins with another's weights: nothing is lost where the subwords are the same, and
new ones begin between their pieces."""


import pytest
import torch
from translators import of_subwords, of_words

from transformer_lit import wmt
from transformer_lit.corpora.texts import TextSource
from transformer_lit.recipes import large, mixture, prepare, training_sets, warm_start
from transformer_lit.runs.run import keep_config
from transformer_lit.tokenization import SubwordTokenizer

CPU = torch.device("cpu")
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
PRESET = wmt.model_preset("tiny") | {"norm": "pre"}


def translator_of(tokens, **changes):
    torch.manual_seed(len(tokens))
    return of_subwords(tokens, "fr", **TINY | changes)


def embeddings(translator):
    return translator.model.source_embedding.token_embedding.weight.detach()


def test_a_token_that_both_have_keeps_its_vector_and_a_new_one_begins_between_its_pieces():
    table = torch.randn(len(FEW), 8)
    rows = warm_start.transfer_embeddings(table, FEW, MORE)
    old, new = FEW.tokenizer.token_to_id, MORE.tokenizer.token_to_id
    assert rows.shape == (len(MORE), 8)
    for name in "<pad>", "e", "low":
        assert torch.equal(rows[new(name)], table[old(name)])
    assert old("Ġlowest") is None
    pieces = [table[old(piece)] for piece in ("Ġlow", "e", "s", "t")]
    torch.testing.assert_close(rows[new("Ġlowest")], torch.stack(pieces).mean(0))


@pytest.mark.parametrize("tied", [True, False])
def test_with_the_same_subwords_it_begins_as_the_first_ended(tied, tmp_path):
    first, second = (translator_of(FEW, tied_embeddings=tied) for _ in range(2))
    for parameter in first.model.parameters():
        torch.nn.init.normal_(parameter)
    first.save(tmp_path, "fp32")
    warm_start.initialize_from(second, str(tmp_path))
    weights = first.model.state_dict().values(), second.model.state_dict().values()
    assert all(map(torch.equal, *weights))
    projection = second.model.output_projection.weight
    assert (projection is second.model.source_embedding.token_embedding.weight) == tied


def test_what_cannot_be_taken_is_one_sentence(tmp_path):
    translator_of(FEW).save(tmp_path / "joint", "fp32")
    untied = TINY | {"tied_embeddings": False}
    of_words([("a b", "c d")] * 2, "fr", **untied).save(tmp_path / "words", "fp32")
    for change in {"d_ff": 16}, {"norm": "post"}, {"n_heads": 1}:
        with pytest.raises(ValueError, match="joint"):
            warm_start.initialize_from(translator_of(MORE, **change), tmp_path / "joint")
    with pytest.raises(ValueError, match="words"):
        warm_start.initialize_from(translator_of(MORE, tied_embeddings=False), tmp_path / "words")


@pytest.fixture
def build(tmp_path, monkeypatch):
    "Builds the run of an experiment that begins with a translator, by its name and its folder."
    text = [(f"low {k} lower", f"bas {k}") for k in range(20)]
    corpus = training_sets.TRAINING_SETS["mixture-en-fr"]
    small = corpus._replace(sources=lambda: [TextSource("t", (), lambda: text)])
    monkeypatch.setitem(training_sets.TRAINING_SETS, "mixture-en-fr", small)
    config, held_out = prepare.PreparationConfig("mixture-en-fr", 270), {"valid": text[:1]}
    folder = tmp_path / "store"
    store = prepare.prepare_store(config, folder, held_out=held_out | {"test": text[:1]})
    training = dict(precision="fp32", max_tokens=64)
    plan = wmt.build_experiment("mixture-en-fr", "modern", "tiny", 270, training, max_steps=2)

    def build(start, name):
        start = start and str(tmp_path / start)
        experiment = mixture.MixtureExperiment(**vars(plan), init_from=start)
        return *large.build_run(experiment, store, tmp_path / name, CPU)[:2], store

    return build


def test_a_run_begins_with_it_and_its_plan_says_so(build, tmp_path):
    first = of_subwords(FEW, "fr", **PRESET)
    first.save(tmp_path / "first", "fp32")
    translator, trainer, store = build("first", "run")
    layers = [t.model.encoder.layers[0].self_attention.q_proj.weight for t in (translator, first)]
    assert torch.equal(*layers)
    tokens = SubwordTokenizer.load(store.tokenizer())
    expected = warm_start.transfer_embeddings(embeddings(first), FEW, tokens)
    assert torch.equal(embeddings(translator), expected)
    assert trainer.metadata["first_weights"] == warm_start.weights_hash(tmp_path / "first")
    (tmp_path / "run").mkdir()
    keep_config(tmp_path / "run", trainer.metadata)
    torch.nn.init.zeros_(first.model.output_projection.weight)
    first.save(tmp_path / "second", "fp32")
    with pytest.raises(ValueError, match="init_from"):
        build("second", "run")


def test_what_was_refused_leaves_no_plan_that_would_refuse_the_right_command(build, tmp_path):
    of_subwords(FEW, "fr", **PRESET).save(tmp_path / "first", "fp32")
    of_subwords(FEW, "fr", **PRESET | {"d_model": 8}).save(tmp_path / "narrow", "fp32")
    with pytest.raises(ValueError, match="narrow"):
        build("narrow", "again")
    with pytest.raises(FileExistsError, match="no config.json"):
        build("first", "first")
    build("first", "again")
