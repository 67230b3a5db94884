"""`runtime.devices`: which numbers to compute with, and weights in fewer bits."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from translators import PAIRS, joint, words

from litbook.quantization import precision_losses
from transformer_lit.runs.checkpoints import dequantize, load_weights, model_tensors, quantize
from transformer_lit.runtime.devices import MANY_ROWS, resolve_precision
from transformer_lit.training import validation_loss


def processor(monkeypatch, amx, products, capability):
    """One with and without AMX, and with and without AVX-512's products of bf16; None: a PyTorch
    that can't be asked."""
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    for name, has in (("amx_tile", amx), ("avx512_bf16", products)):
        monkeypatch.setattr(
            torch.cpu,
            f"_is_{name}_supported",
            None if has is None else lambda has=has: has,
            raising=False,
        )


@pytest.mark.parametrize(
    "amx, products, capability, name",
    [
        (None, None, "AVX512", "fp32"),
        (False, False, "AVX512", "fp32"),
        (True, None, "AVX512", "bf16"),
        (True, False, "AVX512", "bf16"),
        (False, True, "AVX512", "bf16"),
        (None, True, "AVX512", "bf16"),
        (True, True, "AVX2", "fp32"),
        (False, True, "DEFAULT", "fp32"),
    ],
)
def test_a_processor_computes_in_bf16_where_it_has_products_of_it_and_may_use_them(
    amx, products, capability, name, monkeypatch
):
    processor(monkeypatch, amx, products, capability)
    assert resolve_precision() == name
    rows = 1, MANY_ROWS - 1, MANY_ROWS, 256
    assert [resolve_precision("auto", "cpu", n) for n in rows] == ["fp32", "fp32", name, name]
    assert resolve_precision("bf16", "cpu", 1) == "bf16", "what is asked for is not decided again"


@pytest.mark.parametrize("capability, name", [((7, 5), "fp32"), ((8, 0), "bf16"), ((9, 0), "bf16")])
def test_a_gpu_computes_in_bf16_from_8_0_on(capability, name, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    assert resolve_precision("auto", "cuda") == name


def test_other_devices_compute_in_fp32(monkeypatch):
    processor(monkeypatch, True, True, "AVX512")
    assert (
        resolve_precision("auto", "mps") == "fp32"
    ), "what the processor beside it can multiply says nothing of it"


def test_int8_by_hand():
    row = torch.tensor([[0.3, -1.27, 0.004], [0.0, 0.0, 0.0]])
    packed = quantize({"w": row, "b": row[0]})
    assert packed["w"].tolist() == [[30, -127, 0], [0, 0, 0]] and packed["w"].dtype == torch.int8
    back = dequantize(packed)
    torch.testing.assert_close(back["w"], torch.tensor([[0.3, -1.27, 0.0], [0.0, 0.0, 0.0]]))
    assert torch.equal(back["b"], row[0]), "a vector has no rows to scale"


@given(
    st.lists(
        st.lists(st.floats(-1e4, 1e4, width=32), min_size=3, max_size=3), min_size=1, max_size=4
    )
)
def test_each_row_has_its_own_step(rows):
    weight = torch.tensor(rows)
    away = (dequantize(quantize({"w": weight}))["w"] - weight).abs()
    assert (
        away <= weight.abs().amax(1, keepdim=True) * (0.5 / 127 + 1e-5) + 1e-10
    ).all(), "each row needs its own step"


def test_another_precision_is_refused():
    with pytest.raises(ValueError, match="precision='int4'"):
        quantize({}, "int4")


def test_weights_fill_a_model_only_if_all_of_them_fit():
    one, other = joint(), joint()
    with torch.no_grad():
        for weight in model_tensors(other.model).values():
            weight.zero_()
    load_weights(other.model, model_tensors(one.model))
    assert all(torch.equal(a, b) for a, b in zip(one.model.parameters(), other.model.parameters()))
    own = dict(model_tensors(one.model))
    for wrong in (
        model_tensors(words().model),
        dict(list(own.items())[1:]),
        own | {"model.more": torch.zeros(1)},
    ):
        with pytest.raises(ValueError, match="another shape"):
            load_weights(other.model, wrong)


def test_measuring_precision_leaves_the_weights_alone():
    translator = joint()
    before = {name: weight.clone() for name, weight in model_tensors(translator.model).items()}
    rows = precision_losses(translator, PAIRS)
    changed = {row["precision"]: row["logit"] > 0 for row in rows}
    assert changed == {"fp32": False, "bf16": True, "int8": True}
    for name, weight in model_tensors(translator.model).items():
        assert torch.equal(before[name], weight), name
    loss = validation_loss(translator.model, translator.encode_pairs(PAIRS))
    assert math.isclose(rows[0]["loss"], loss, rel_tol=1e-5)
    assert 2 < rows[0]["megabytes"] / rows[2]["megabytes"] < 4
