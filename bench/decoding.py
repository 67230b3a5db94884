"""Decoding on the CPU beside its rivals.

    python bench/decoding.py [--out FILE]         seconds: a tiny random model, two rounds
    python bench/decoding.py --full               minutes: book/results/bench/decoding.json, or, on a machine without
                                                        units for bf16, decoding-fp32.json
    python bench/decoding.py --full --rounds 3 --only "batch 32, greedy"
    python bench/decoding.py --quality 1000       what bf16 and int8 cost and save: bench/bf16.json, or int8.json

The first table is the translator that comes with the book (pre-norm, 9.4M weights): ours with the cache, the same in bf16 (only
where the machine has units for it) and with the linear layers in int8, as PyTorch's dynamic quantization has them, ours without a
cache (the encoder once, the decoder on the whole prefix for each token; once with all logits of the prefix, as textbooks
have it, and once with the last ones only), and CTranslate2 with the same weights in float32 and int8. The second is a post-norm
twin of the same sizes with random weights, because transformers' Marian is post-norm: ours, Marian and CTranslate2. Batches of 32
and of 1, greedy and a beam of four, answers forced to 40 tokens and, with --full, of their own length. Who doesn't say the same as
the first is found out before the clock runs, and the row says so. Everything runs on one thread and takes turns; a ratio is the
median over the rounds of processor seconds against ours in the same round (processor time, because a busy machine stretches the
other). What is not installed is left out, and the record names it.

--quality asks the translator for that many distinct Tatoeba test sentences (TRANSFORMER_LIT_DATA), as `translate` does, in
batches of 64, greedy and with a beam of four, in fp32, bf16 and int8: equal answers, BLEU, and processor time.
"""

import argparse
import copy
import importlib
import statistics
import sys
import tempfile
import time
import warnings
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import BENCH, command, keep, where  # noqa: E402
from transformer_lit.data import test_set  # noqa: E402
from transformer_lit.corpora.files import shipped  # noqa: E402
from transformer_lit.decoding import beam_search, greedy_decode  # noqa: E402
from transformer_lit.embeddings import sinusoids  # noqa: E402
from transformer_lit.serving.ctranslate import engine_answers, export  # noqa: E402
from transformer_lit.masks import BOS, EOS, PAD, padding_mask, target_mask  # noqa: E402
from transformer_lit.training import collate  # noqa: E402
from transformer_lit.runtime.devices import resolve_precision  # noqa: E402
from transformer_lit.translation import Translator, answers, create_joint, readable  # noqa: E402


def library(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


class Uncached:
    """The model without its cache: a state is what has been said, and every step runs the decoder
    on all of it."""

    def __init__(self, model, all_logits=True):
        self.model, self.all_logits = model, all_logits

    def start(self, source):
        return {"source": source, "memory": self.model.encode(source), "said": source[:, :0]}

    def step(self, tokens, state):
        said = torch.cat([state["said"], tokens[:, None]], 1)  # (B, t)
        if self.all_logits:
            logits = self.model.decode(said, state["memory"], state["source"])[:, -1]
        else:
            masks, m = (target_mask(said), padding_mask(state["source"])), self.model
            logits = m.output(m.decoder(m.target(said), state["memory"], *masks)[:, -1])
        return logits, {**state, "said": said}


class NeverEnds:
    "A model that can't say EOS, so that each answer is as long as it may be."

    def __init__(self, model):
        self.start, self.model = model.start, model

    def step(self, tokens, state):
        logits, state = self.model.step(tokens, state)
        logits[:, EOS] = -torch.inf
        return logits, state


def ours(model, beam, length):
    "A decoder of a list of ids by our own search."
    model = model if length is None else NeverEnds(model)

    def decode(rows):
        source, _ = collate([(row, [BOS]) for row in rows])
        if beam == 1:
            return greedy_decode(model, source, length)
        return beam_search(model, source, beam, 0.6, length)

    return decode


def in_bf16(decode):
    "As `answers` of chapter 18 has it."

    def decoding(rows):
        with torch.autocast("cpu", torch.bfloat16):
            return decode(rows)

    return decoding


class Int8(torch.nn.Module):
    """A linear layer with int8 weights, a scale a row; its input is rounded anew at each call, with
    one scale for all of it."""

    def __init__(self, linear):
        super().__init__()
        weight = linear.weight.detach()
        scale = weight.abs().amax(1).clamp(min=1e-8) / 127
        with (
            warnings.catch_warnings()
        ):  # PyTorch is giving up its quantized tensors; see the chapter
            warnings.simplefilter("ignore")
            rounded = torch.quantize_per_channel(
                weight, scale, torch.zeros(len(scale), dtype=torch.long), 0, torch.qint8
            )
            self.packed = torch.ops.quantized.linear_prepack(rounded, linear.bias)

    def forward(self, x):
        return torch.ops.quantized.linear_dynamic(
            x, self.packed, True
        )  # True: sums that don't overflow without VNNI


def in_int8(model):
    "A copy of the model whose linear layers are Int8."
    model = copy.deepcopy(model)
    for parent in list(model.modules()):
        for name, part in list(parent.named_children()):
            if isinstance(part, torch.nn.Linear):
                setattr(parent, name, Int8(part))
    return model.eval()


def engine(folder, translator, beam, length):
    opened = library("ctranslate2").Translator(str(folder), intra_threads=1, inter_threads=1)
    forced = (
        {} if length is None else {"min_decoding_length": length, "max_decoding_length": length}
    )
    return lambda rows: engine_answers(opened, translator, rows, beam, 0.6, 0, **forced)


# A post-norm twin in transformers -----------------------------------------------------------------


def marian(model):
    "The same post-norm model as transformers has it, with copies of our weights."
    from transformers import MarianConfig, MarianMTModel

    c, vocab = model.config, model.output.weight.size(0)
    twin = MarianMTModel(
        MarianConfig(
            vocab_size=vocab,
            decoder_vocab_size=vocab,
            d_model=c.d_model,
            encoder_layers=c.n_encoder_layers,
            decoder_layers=c.n_decoder_layers,
            encoder_attention_heads=c.n_heads,
            decoder_attention_heads=c.n_heads,
            encoder_ffn_dim=c.d_ff,
            decoder_ffn_dim=c.d_ff,
            activation_function="relu",
            scale_embedding=True,
            dropout=0.0,
            attention_dropout=0.0,
            activation_dropout=0.0,
            max_position_embeddings=512,
            pad_token_id=PAD,
            eos_token_id=EOS,
            bos_token_id=BOS,
            decoder_start_token_id=BOS,
            forced_eos_token_id=None,
            tie_word_embeddings=True,
            share_encoder_decoder_embeddings=True,
        )
    ).eval()
    with torch.no_grad():
        fill_marian(twin, model)
    return twin


def fill_marian(twin, model):
    def put(theirs, mine):
        theirs.weight.copy_(mine.weight)
        theirs.bias.copy_(mine.bias)

    def put_attention(theirs, mine):
        for name, part in (
            ("q_proj", mine.query),
            ("k_proj", mine.key),
            ("v_proj", mine.value),
            ("out_proj", mine.output),
        ):
            put(getattr(theirs, name), part)

    twin.model.shared.weight.copy_(model.target.tokens.weight)
    twin.lm_head.weight.copy_(model.output.weight)
    for theirs, mine in ((twin.model.encoder, model.encoder), (twin.model.decoder, model.decoder)):
        theirs.embed_tokens.weight.copy_(model.target.tokens.weight)
        theirs.embed_positions.weight.copy_(sinusoids(512, model.config.d_model))
        for there, here in zip(theirs.layers, mine.layers):
            put_attention(there.self_attn, here.attention)
            put(there.self_attn_layer_norm, here.around_attention.norm)
            if hasattr(here, "cross_attention"):
                put_attention(there.encoder_attn, here.cross_attention)
                put(there.encoder_attn_layer_norm, here.around_cross_attention.norm)
            put(there.fc1, here.feed_forward[0])
            put(there.fc2, here.feed_forward[2])
            put(there.final_layer_norm, here.around_feed_forward.norm)


def by_marian(twin, beam, length):
    def decode(rows):
        source, _ = collate([(row, [BOS]) for row in rows])
        said = twin.generate(
            input_ids=source,
            attention_mask=(source != PAD).long(),
            num_beams=beam,
            do_sample=False,
            min_new_tokens=length,
            max_new_tokens=length,
            **({"length_penalty": 0.6} if beam > 1 else {}),
        )
        return said[:, 1:].tolist()  # without BOS; all have the length

    return decode


# Taking turns -------------------------------------------------------------------------------------


def timed(decode, batches):
    wall, cpu = time.perf_counter(), time.process_time()
    said = [row for rows in batches for row in decode(rows)]
    return said, time.perf_counter() - wall, time.process_time() - cpu


def race(contestants, batches, rounds):
    """Each contestant's medians, and what each said; the first is the measure.

    All run once to warm up, and then it is seen who says the same."""
    heard = {name: timed(decode, batches)[0] for name, decode in contestants.items()}
    first = next(iter(heard.values()))
    times = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, decode in contestants.items():
            times[name].append(timed(decode, batches)[1:])
    measure, rows = next(iter(times.values())), []
    for name, taken in times.items():
        rows.append(
            {
                "name": name,
                "same": sum(map(list.__eq__, first, heard[name])),
                "sentences": len(first),
                "tokens": sum(map(len, heard[name])),
                "seconds": statistics.median(wall for wall, _ in taken),
                "cpu_seconds": statistics.median(cpu for _, cpu in taken),
                "ratio": statistics.median(
                    cpu / base for (_, cpu), (_, base) in zip(taken, measure)
                ),
            }
        )
    return rows, heard


def cases(full):
    "(what it is called, batch, beam, length)"
    for batch in (32, 1) if full else (8, 1):
        for beam in (1, 4):
            for n in (40, None) if full else (12,):
                yield (
                    (
                        f"batch {batch}, {'greedy' if beam == 1 else f'beam {beam}'}, "
                        + (f"{n} tokens" if n else "own length")
                    ),
                    batch,
                    beam,
                    n,
                )


def fields(translator, folders, post, twin, beam, length):
    "The two tables' contestants for one case."
    model = translator.model
    first = {"ours, cached": ours(model, beam, length)}
    if resolve_precision() == "bf16":
        first["ours, cached, bf16"] = in_bf16(ours(model, beam, length))
    first |= {
        "ours, cached, int8": ours(in_int8(model), beam, length),
        "ours, uncached": ours(Uncached(model), beam, length),
        "ours, uncached, last logits only": ours(Uncached(model, False), beam, length),
    }
    first |= {
        f"CTranslate2, {q}": engine(folders[q], translator, beam, length)
        for q in folders
        if q != "post"
    }
    second = {"post-norm, ours": ours(post.model, beam, length)}
    if twin is not None:
        second["post-norm, transformers"] = by_marian(twin, beam, length)
    if "post" in folders:
        second["post-norm, CTranslate2"] = engine(folders["post"], post, beam, length)
    return [first] + [second] * (length is not None and len(second) > 1)


def translators(full):
    "The one that comes with the book (or a tiny one), and a post-norm twin with random weights."
    kept = Translator.from_pretrained(shipped("data/checkpoints/tatoeba-fr"))
    sizes = dict(d_model=256, n_heads=4, d_ff=1024, n_encoder_layers=4, n_decoder_layers=4)
    if not full:
        sizes = dict(d_model=32, n_heads=2, d_ff=64, n_encoder_layers=2, n_decoder_layers=2)
    torch.manual_seed(1)
    post = create_joint(kept.target, norm="post", **sizes)
    post.model.eval()
    if not full:
        kept = create_joint(kept.target, norm="pre", **sizes)
        kept.model.eval()
    return kept, post


def sentences(translator, batch):
    "Of the forty that come with the book: 32 together, or eight alone."
    rows = shipped("data/try_it.tsv").read_text("utf-8").splitlines()
    ids = [translator.source.encode(readable(row.split("\t")[0])) for row in rows]
    return [ids[:batch]] if batch > 1 else [[row] for row in ids[:8]]


def quality(n, rounds):
    """fp32 and bf16 on `n` test sentences: answers, BLEU of the first reference with its signature,
    the difference, time."""
    from transformer_lit.evaluation import interval, line_counts, scores

    translator = Translator.from_pretrained(shipped("data/checkpoints/tatoeba-fr"))
    asked, references = test_set("tatoeba")
    some = [int(k * len(asked) / n) for k in range(min(n, len(asked)))]  # evenly over the set
    small = in_int8(translator.model)
    ids, first = [translator.source.encode(readable(asked[k])) for k in some], [
        references[k][:1] for k in some
    ]
    for beam in (1, 4):
        runs = {
            p: lambda rows, p=p: answers(translator.model, rows, beam, 64, p)
            for p in ("fp32", resolve_precision())
        }
        runs["int8"] = lambda rows: answers(small, rows, beam, 64)
        rows, heard = race(runs, [ids], rounds)
        said = [[translator.target.decode(row) for row in rows] for rows in heard.values()]
        counts = [line_counts(texts, first) for texts in said]
        for row, texts, own in zip(rows, said, counts):
            bleu = scores(texts, first)[0]
            row |= {
                "beam": beam,
                "bleu": bleu["value"],
                "signature": bleu["signature"],
                "difference": interval(own, counts[0]),
            }
            print(
                f"beam {beam}, {row['name']}: {row['same']} of {row['sentences']} the same, BLEU"
                f" {row['bleu']:.2f}, {row['ratio']:.2f} times the time",
                flush=True,
            )
        yield from rows


def tables(options, rounds):
    "A row for each case and contestant."
    translator, post = translators(options.full)
    twin, folders = marian(post.model) if library("transformers") else None, {}
    with tempfile.TemporaryDirectory() as home:
        if library("ctranslate2"):
            folders = {q: export(translator, Path(home) / q, q) for q in ("float32", "int8")}
            folders["post"] = export(post, Path(home) / "post")
        for case, batch, beam, length in cases(options.full):
            if options.only not in case:
                continue
            for contestants in fields(translator, folders, post, twin, beam, length):
                for row in race(contestants, sentences(translator, batch), rounds)[0]:
                    print(
                        f"{case}: {row['name']}: {row['seconds']:.3f} s, {row['cpu_seconds']:.3f}"
                        f" of the processor, {row['ratio']:.2f} times ours, {row['same']} of"
                        f" {row['sentences']} the same",
                        flush=True,
                    )
                    yield {"case": case, "batch": batch, "beam": beam, "length": length, **row}


def main():
    wanted = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    wanted.add_argument(
        "--full",
        action="store_true",
        help="the translator that ships, 40 tokens, batches of 32 and 1",
    )
    wanted.add_argument(
        "--quality", type=int, metavar="N", help="bf16 against fp32 on N test sentences instead"
    )
    wanted.add_argument("--rounds", type=int, help="default: 2, with --full 5")
    wanted.add_argument(
        "--only", default="", help='cases whose name holds this, as "batch 32, greedy"'
    )
    wanted.add_argument("--out", type=Path)
    options = wanted.parse_args()
    torch.set_num_threads(1)
    rounds = options.rounds or (5 if options.full else 2)
    rivals = {
        name: getattr(library(name), "__version__", None)
        for name in ("ctranslate2", "transformers")
    }
    missing = (
        [] if options.quality else [name for name, version in rivals.items() if version is None]
    )
    if missing:
        print(f"not installed and left out: {', '.join(missing)}")
    rows = list(quality(options.quality, rounds) if options.quality else tables(options, rounds))
    units = resolve_precision() == "bf16"
    names = ("bf16.json", "decoding.json") if units else ("int8.json", "decoding-fp32.json")
    out = options.out or (
        BENCH / names[not options.quality] if options.quality or options.full else None
    )
    if out:
        out.parent.mkdir(parents=True, exist_ok=True)
        typed = command(wanted, out=options.out and Path("book/results/bench") / out.name)
        keep(
            out,
            {
                "command": typed,
                **where(),
                **rivals,
                "missing": missing,
                "rounds": rounds,
                "rows": rows,
            },
        )


if __name__ == "__main__":
    main()
