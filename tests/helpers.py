"""What several test files share: comparisons that name a mistake, random models and sentences,
copies into PyTorch."""

import io
import sys
import threading
import zipfile
from contextlib import contextmanager
from http.server import ThreadingHTTPServer

import pytest
import torch
from hypothesis import strategies as st
from torch import nn

from transformer_lit.masks import PAD, UNK
from transformer_lit.model import Transformer, TransformerConfig

VOCAB = 13  # words are ids 4 ... 11; `depends_on_future` may add 1 to an id
SEEDS = st.integers(0, 10_000)
NORMS = pytest.mark.parametrize("norm", ["post", "pre"])
MODES = pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])


@contextmanager
def serving(answers, monkeypatch, cache):
    """The address of a server on this machine that `answers`; no proxy, an empty cache, no data
    folder."""
    served = ThreadingHTTPServer(("127.0.0.1", 0), answers)
    threading.Thread(target=served.serve_forever, args=(0.01,), daemon=True).start()
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.delenv("TRANSFORMER_LIT_DATA", raising=False)
    yield f"http://127.0.0.1:{served.server_port}"
    served.shutdown()
    served.server_close()


def zipped(members, kind=zipfile.ZIP_STORED):
    """An archive of {name: text}, the same bytes whenever it is made: a zip holds the time, unless
    it is given."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as file:
        for name, text in members.items():
            file.writestr(zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0)), text, kind)
    return held.getvalue()


def close(ours, theirs, atol=1e-9):
    return ours.shape == theirs.shape and torch.allclose(ours, theirs, rtol=1e-6, atol=atol)


def one_sentence(text):
    "Is it one line that says something, and no traceback?"
    return len(text.strip()) > 20 and "Traceback" not in text and text.strip().count("\n") == 0


def same(ours, theirs, hint, wrong=None, atol=1e-9):
    """Equal; or an AssertionError with the mistake's name, if `wrong` (name -> value) holds our
    value, else `hint`."""
    if close(ours, theirs, atol):
        return
    for mistake, value in (wrong or {}).items():
        if close(ours, value, atol):
            raise AssertionError(mistake)
    if ours.shape != theirs.shape:
        raise AssertionError(f"{hint} (shape {tuple(ours.shape)}, not {tuple(theirs.shape)})")
    raise AssertionError(f"{hint} (largest difference {(ours - theirs).abs().max().item():.2g})")


def small_model(seed=0, vocab=VOCAB, **changes):
    "A model of a few hundred weights, in float64, dropout 0 unless asked for."
    torch.manual_seed(seed)
    sizes = dict(d_model=8, n_heads=2, d_ff=16, n_encoder_layers=2, n_decoder_layers=2, dropout=0.0)
    return Transformer(TransformerConfig(vocab, **{**sizes, **changes})).double()


@st.composite
def models(draw, **changes):
    "Any small model: width, heads, layers, norm, tied or not, joint vocabulary or two."
    heads = draw(st.sampled_from([1, 2, 4]))
    sizes = dict(
        d_model=heads * draw(st.sampled_from([2, 4, 6])),
        n_heads=heads,
        d_ff=draw(st.sampled_from([4, 12])),
        n_encoder_layers=draw(st.integers(1, 2)),
        n_decoder_layers=draw(st.integers(1, 3)),
        norm=draw(st.sampled_from(["post", "pre"])),
        tied_embeddings=draw(st.booleans()),
        target_vocab_size=draw(st.sampled_from([None, VOCAB])),
    )
    return small_model(draw(SEEDS), **{**sizes, **changes})


def sentences(rows, length, seed, pads="right"):
    """Random words (rows, length); pads at the "right", "anywhere", or no pads (None). Each row
    keeps one real token, except with "anywhere"."""
    dice = torch.Generator().manual_seed(seed)
    tokens = torch.randint(UNK + 1, VOCAB - 1, (rows, length), generator=dice)
    if pads == "right":
        lengths = torch.randint(1, length + 1, (rows, 1), generator=dice)
        tokens[torch.arange(length) >= lengths] = PAD
    if pads == "anywhere":
        tokens[torch.rand(rows, length, generator=dice) < 0.3] = PAD
    return tokens


class Scripted:
    """A model whose next-word logits are a table, so that decoding can be checked by hand.

    The first id of a source names its row of the table (rows, length, vocab, vocab): logits =
    table[row, step, token]. `seen` keeps the tokens of each step."""

    def __init__(self, table):
        self.table, self.seen = table, []

    def initial_state(self, source):
        return {"row": source[:, 0], "at": torch.zeros_like(source[:, 0])}

    def step(self, tokens, state):
        self.seen.append(tokens.tolist())
        logits = self.table[state["row"], state["at"], tokens]
        return logits, {"row": state["row"], "at": state["at"] + 1}


# Into PyTorch's own parts -------------------------------------------------------------------------


def normal(*shape, grad=True):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=grad)


def gradients(output, inputs):
    "Of a sum with unequal weights, so that no two entries can be exchanged unseen."
    weights = torch.linspace(-1, 1, output.numel(), dtype=output.dtype).view_as(output)
    return torch.autograd.grad((output * weights).sum(), inputs)


def copy_attention(ours, theirs: nn.MultiheadAttention):
    with torch.no_grad():
        parts = (ours.q_proj, ours.k_proj, ours.v_proj)
        theirs.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
        theirs.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
        theirs.out_proj.load_state_dict(ours.out_proj.state_dict())


def copy_layer(ours, theirs):
    """Our layer's weights into PyTorch's; returns pairs of parameters that must get the same
    gradients."""
    copy_attention(ours.self_attention, theirs.self_attn)
    first, last = [part for part in ours.feed_forward.modules() if isinstance(part, nn.Linear)]
    pairs = [
        (first, theirs.linear1),
        (last, theirs.linear2),
        (ours.self_attention.out_proj, theirs.self_attn.out_proj),
        (ours.self_attention_residual.norm, theirs.norm1),
    ]
    if hasattr(ours, "cross_attention"):
        copy_attention(ours.cross_attention, theirs.multihead_attn)
        pairs += [
            (ours.cross_attention.out_proj, theirs.multihead_attn.out_proj),
            (ours.cross_attention_residual.norm, theirs.norm2),
            (ours.feed_forward_residual.norm, theirs.norm3),
        ]
    else:
        pairs += [(ours.feed_forward_residual.norm, theirs.norm2)]
    for mine, other in pairs:
        other.load_state_dict(mine.state_dict())
    return [(mine.weight, other.weight) for mine, other in pairs]


def shake(model):
    "Every weight something of its own, LayerNorms and biases too."
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) * 0.2)
    return model


# Several processes --------------------------------------------------------------------------------

LOOPBACK = "lo0" if sys.platform == "darwin" else "lo"  # they needn't ask the machine's network
