"""Decoding on the CPU beside its rivals.

    python bench/decoding.py --out FILE         seconds: a tiny random model, two rounds
    python bench/decoding.py --full             minutes: book/results/bench/decoding.json, or, on a
                                                machine without units for bf16, decoding-fp32.json
    python bench/decoding.py --quality 1000     what bf16 and int8 cost and save: bench/bf16.json,
                                                or int8.json

The first table is `tatoeba-fr` (pre-norm, 9.4M weights): ours with the
cache, the same in bf16 (only where the machine has units for it) and with the linear layers in
int8, as PyTorch's dynamic quantization has them, ours without a cache (the encoder once, the
decoder on the whole prefix for each token; once with all logits of the prefix, as textbooks have
it, and once with the last ones only), and CTranslate2 with the same weights in float32 and int8.
The second is a post-norm twin of the same sizes with random weights, because transformers' Marian
is post-norm: ours, Marian and CTranslate2. Batches of 32 and of 1, greedy and a beam of four,
answers forced to 40 tokens and, with --full, of their own length. Whose answers differ from those
of the first is found out before the clock runs, and the row says so. Everything runs on one thread
and takes turns; a ratio is the median over the rounds of processor seconds against ours in the same
round (processor time, because a busy machine stretches the other). What is not installed is left
out, and the record names it.

--quality asks the translator for that many distinct Tatoeba test sentences (TRANSFORMER_LIT_DATA),
as `translate` does, in batches of 64, greedy and with a beam of four, in fp32, bf16 and int8: equal
answers, BLEU, and processor time."""

import copy
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from importlib import metadata
from itertools import product
from pathlib import Path
from statistics import median

import torch
from common import BENCH, EVERYDAY, Clock, Record, options, try_it
from export import open_engine
from twin import Uncached

from transformer_lit.corpora.texts import take_evenly
from transformer_lit.data import load_test_set
from transformer_lit.decoding import beam_search, greedy_decode
from transformer_lit.embeddings import sinusoids
from transformer_lit.evaluation import bootstrap_interval, sacrebleu_scores, segment_stats
from transformer_lit.masks import BOS, EOS, PAD
from transformer_lit.runtime.devices import resolve_precision
from transformer_lit.serving.ctranslate import engine_answers, export
from transformer_lit.batching import collate
from transformer_lit.translation import Translator, clean_input, translate_ids

Decoder = Callable[[list[list[int]]], list[list[int]]]
BF16 = resolve_precision() == "bf16"


RIVALS = "ctranslate2", "transformers"
VERSIONS = {lib.name: lib.version for lib in metadata.distributions() if lib.name in RIVALS}


# Ours ---------------------------------------------------------------------------------------------


class NeverEnds:
    "A model that can't say EOS, so that each answer is as long as it may be."

    def __init__(self, model):
        self.initial_state, self.model = model.initial_state, model

    def step(self, tokens, state):
        logits, state = self.model.step(tokens, state)
        logits[:, EOS] = -torch.inf
        return logits, state


def sources_of(rows: list[list[int]]) -> torch.Tensor:
    return collate([(row, [BOS]) for row in rows])[0]


def ours(model, beam: int, length: int | None) -> Decoder:
    "A decoder of lists of ids by our own search."
    model = model if length is None else NeverEnds(model)
    if beam == 1:
        return lambda rows: greedy_decode(model, sources_of(rows), length)
    return lambda rows: beam_search(model, sources_of(rows), beam, 0.6, length)


class Int8(torch.nn.Module):
    """A linear layer with int8 weights, a scale a row; its input is rounded anew at each call, with
    one scale for all of it."""

    def __init__(self, linear):
        super().__init__()
        weight = linear.weight.detach()
        scale = weight.abs().amax(1).clamp(min=1e-8) / 127
        zero = torch.zeros(len(scale), dtype=torch.long)
        with warnings.catch_warnings():  # PyTorch is giving up its quantized tensors
            warnings.simplefilter("ignore")
            rounded = torch.quantize_per_channel(weight, scale, zero, 0, torch.qint8)
            self.packed = torch.ops.quantized.linear_prepack(rounded, linear.bias)

    def forward(self, x):  # True: sums that don't overflow without VNNI
        return torch.ops.quantized.linear_dynamic(x, self.packed, True)


def in_int8(model):
    "A copy of the model whose linear layers are Int8."
    model = copy.deepcopy(model)
    for parent in list(model.modules()):
        for name, part in list(parent.named_children()):
            if isinstance(part, torch.nn.Linear):
                setattr(parent, name, Int8(part))
    return model.eval()


# Theirs -------------------------------------------------------------------------------------------


def by_engine(folder: Path, translator: Translator, beam: int, length: int | None) -> Decoder:
    engine = open_engine(folder)
    forced = {"min_decoding_length": length, "max_decoding_length": length} if length else {}
    return lambda rows: engine_answers(engine, translator, rows, beam, max_batch_size=0, **forced)


NAMES = {  # ours, by transformers'
    "cross_attention_residual.norm": "encoder_attn_layer_norm",
    "self_attention_residual.norm": "self_attn_layer_norm",
    "feed_forward_residual.norm": "final_layer_norm",
    "cross_attention": "encoder_attn",
    "self_attention": "self_attn",
    "feed_forward.0": "fc1",
    "feed_forward.2": "fc2",
}


def marian(model):
    "The same post-norm model as transformers has it, with copies of our weights."
    from transformers import MarianConfig, MarianMTModel

    c, vocab = model.config, len(model.output_projection.weight)
    config = MarianConfig(
        vocab_size=vocab,
        d_model=c.d_model,
        encoder_layers=c.n_encoder_layers,
        decoder_layers=c.n_decoder_layers,
        encoder_attention_heads=c.n_heads,
        decoder_attention_heads=c.n_heads,
        encoder_ffn_dim=c.d_ff,
        decoder_ffn_dim=c.d_ff,
        activation_function="relu",
        scale_embedding=True,
        pad_token_id=PAD,
        eos_token_id=EOS,
        bos_token_id=BOS,
        decoder_start_token_id=BOS,
        forced_eos_token_id=None,
        max_position_embeddings=512,
    )
    twin, weights = MarianMTModel(config).eval(), {}
    for name, weight in model.state_dict().items():
        for ours, theirs in NAMES.items():
            name = name.replace(ours, theirs)
        weights[name] = weight
    weights["shared.weight"] = model.target_embedding.token_embedding.weight
    for side in ("encoder", "decoder"):
        weights[f"{side}.embed_tokens.weight"] = weights["shared.weight"]
        weights[f"{side}.embed_positions.weight"] = sinusoids(512, c.d_model)
    missing, _ = twin.model.load_state_dict(weights, strict=False)
    assert not missing, missing
    return twin


def by_marian(twin, beam: int, length: int) -> Decoder:
    penalty = {"length_penalty": 0.6} if beam > 1 else {}

    def decode(rows):
        source = sources_of(rows)
        outputs = twin.generate(
            input_ids=source,
            attention_mask=(source != PAD).long(),
            num_beams=beam,
            do_sample=False,
            min_new_tokens=length,
            max_new_tokens=length,
            **penalty,
        )
        return outputs[:, 1:].tolist()  # without BOS; all have the length

    return decode


# Taking turns -------------------------------------------------------------------------------------


def race(decoders: dict[str, Decoder], batches: list, rounds: int) -> tuple[list[dict], dict]:
    "Medians of each decoder, and its answers; the first is the measure. All warm up once."

    def decode(name):
        return [row for rows in batches for row in decoders[name](rows)]

    outputs = {name: decode(name) for name in decoders}
    clocks = {name: [] for name in decoders}
    for _ in range(rounds):
        for name in decoders:
            with Clock() as clock:
                decode(name)
            clocks[name].append(clock)
    first = next(iter(decoders))
    rows = [
        {
            "name": name,
            "same": sum(map(list.__eq__, outputs[first], outputs[name])),
            "sentences": len(outputs[first]),
            "seconds": median(clock.wall for clock in clocks[name]),
            "ratio": median(a.cpu / b.cpu for a, b in zip(clocks[name], clocks[first])),
        }
        for name in decoders
    ]
    for row in rows:
        print(f"{row['name']}: {row['ratio']:.2f} times, {row['same']} the same")
    return rows, outputs


def quality(n: int, rounds: int) -> Iterator[dict]:
    "Each precision on `n` test sentences: answers, BLEU of the first reference, time."
    translator = Translator.load(EVERYDAY)
    asked = take_evenly(list(zip(*load_test_set("tatoeba"))), n)
    ids = [translator.source_tokenizer.encode(clean_input(sentence)) for sentence, _ in asked]
    references = [several[:1] for _, several in asked]
    for beam in (1, 4):
        search = dict(beam_size=beam, batch_size=64)
        decoders = {"fp32": partial(translate_ids, translator.model, **search)}
        if BF16:
            decoders["bf16"] = partial(decoders["fp32"], precision="bf16")
        decoders["int8"] = partial(translate_ids, in_int8(translator.model), **search)
        rows, outputs = race(decoders, [ids], rounds)
        texts = [
            [translator.target_tokenizer.decode(row) for row in said] for said in outputs.values()
        ]
        counts = [segment_stats(lines, references) for lines in texts]
        for row, lines, own in zip(rows, texts, counts):
            bleu = sacrebleu_scores(lines, references)[0]
            row |= {"beam": beam, "bleu": bleu["value"], "signature": bleu["signature"]}
            yield row | {"difference": bootstrap_interval(own, counts[0])}


def tables(full: bool, rounds: int) -> Iterator[dict]:
    "A row for each case and decoder."
    translator = Translator.load(EVERYDAY)
    d, layers = (256, 4) if full else (32, 2)
    sizes = dict(d_model=d, d_ff=4 * d, n_heads=4, n_encoder_layers=layers, n_decoder_layers=layers)
    torch.manual_seed(1)
    tokenizers = translator.source_tokenizer, translator.target_tokenizer
    post = Translator.untrained(*tokenizers, norm="post", **sizes)
    if not full:
        translator = Translator.untrained(*tokenizers, norm="pre", **sizes)
    model, post_model = translator.model.eval(), post.model.eval()
    twin = marian(post_model) if "transformers" in VERSIONS else None
    ids = [translator.source_tokenizer.encode(clean_input(row[0])) for row in try_it()]
    sizes_of_batches, lengths = ((32, 1), (40, None)) if full else ((8, 1), (12,))
    with tempfile.TemporaryDirectory() as home:
        folders, post_folder = {}, Path(home) / "post"
        if "ctranslate2" in VERSIONS:
            folders = {q: export(translator, Path(home) / q, q) for q in ("float32", "int8")}
            export(post, post_folder)
        for batch, beam, length in product(sizes_of_batches, (1, 4), lengths):
            search = "greedy" if beam == 1 else f"beam {beam}"
            case = f"batch {batch}, {search}, {f'{length} tokens' if length else 'own length'}"
            by = dict(beam=beam, length=length)
            pre = {"ours, cached": ours(model, **by)}
            if BF16:
                half = torch.autocast("cpu", torch.bfloat16)
                pre["ours, cached, bf16"] = half(pre["ours, cached"])
            pre["ours, cached, int8"] = ours(in_int8(model), **by)
            pre["ours, uncached"] = ours(Uncached(model, all_logits=True), **by)
            pre["ours, uncached, last logits only"] = ours(Uncached(model), **by)
            for q, folder in folders.items():
                pre[f"CTranslate2, {q}"] = by_engine(folder, translator, **by)
            rivals = {"post-norm, ours": ours(post_model, **by)}
            if twin and length:
                rivals["post-norm, transformers"] = by_marian(twin, **by)
            if folders:
                rivals["post-norm, CTranslate2"] = by_engine(post_folder, post, **by)
            batches = [ids[:batch]] if batch > 1 else [[row] for row in ids[:8]]
            print(case)
            for decoders in [pre, rivals] if length else [pre]:
                for row in race(decoders, batches, rounds)[0]:
                    yield {"case": case, "batch": batch, "beam": beam, "length": length, **row}


def main():
    o = options(__doc__, full=False, quality=0, rounds=2, out=Path)
    names = ("bf16", "int8") if o.quality else ("decoding", "decoding-fp32")
    if o.full or o.quality:
        o.out = o.out or BENCH / f"{names[not BF16]}.json"
    record = Record(o.out, **VERSIONS, missing=sorted({*RIVALS} - {*VERSIONS}), rounds=o.rounds)
    rows = quality(o.quality, o.rounds) if o.quality else tables(o.full, o.rounds)
    record.write(rows=list(rows))


if __name__ == "__main__":
    main()
