"""`runtime.devices`: which numbers to compute with, and weights in fewer bits."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from translators import PAIRS, joint

from litbook.quantization import precision_losses
from transformer_lit.runs.checkpoints import dequantize, model_tensors, quantize
from transformer_lit.runtime.devices import MANY_ROWS, resolve_precision
from transformer_lit.training import validation_loss


@pytest.mark.parametrize(
    "amx, products, capability, name",
    [
        (False, False, "AVX512", "fp32"),
        (True, False, "AVX512", "bf16"),
        (None, True, "AVX512", "bf16"),  # None: a PyTorch that can't be asked
        (True, True, "AVX2", "fp32"),
    ],
)
def test_a_processor_computes_in_bf16_where_it_has_products_of_it_and_may_use_them(
    amx, products, capability, name, monkeypatch
):
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    for unit, has in (("amx_tile", amx), ("avx512_bf16", products)):
        answer = None if has is None else lambda has=has: has
        monkeypatch.setattr(torch.cpu, f"_is_{unit}_supported", answer, raising=False)
    rows = 1, MANY_ROWS - 1, MANY_ROWS, 256
    assert [resolve_precision("auto", "cpu", n) for n in rows] == ["fp32", "fp32", name, name]
    assert resolve_precision("bf16", "cpu", 1) == "bf16", "what is asked for is not decided again"
    assert resolve_precision("auto", "mps") == "fp32", "another device is not the processor"


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
