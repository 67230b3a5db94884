"""Chapter 25's figures, tables and sentences: what each exchange changed, from recorded runs and from what the page measured."""
# The runs are book/results/equal (read by `comparison`) and book/results/bench/length.json. A gap is the mean, the
# lowest and the highest difference of paired seeds. What the page measures comes in as tensors, its seeds along the first axis.
import math
from collections.abc import Callable, Mapping, Sequence
from statistics import mean
from typing import Any

import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from torch import Tensor

from . import figures
from .commands import in_lines
from .comparison import away, drawn_searches, lowest_said, runs_of, trigram_line
from .figures.plots import named_rows
from .pictures import below_or_above
from .rivals import command_of, recorded
from .sketches import Prose, in_a_row

Gaps = dict[str, tuple[float, float, float]]
BASE, TOGETHER = "2017", "all-together"
TODAY = (  # part, in 2017, today, why it was exchanged, our name for the exchange
    ("attention", "softmax(QKᵀ/√K) V", "the same", "stayed", ""),
    ("residuals", "around every part", "the same", "stayed", ""),
    ("several heads", "yes", "the same", "stayed", ""),
    ("tokens", "byte pairs", "the same, more of them", "stayed", ""),
    ("warm-up", "4,000 steps", "still there", "stability", "no-warmup"),
    ("place of the norm", "after", "before", "stability", "pre-norm"),
    ("norm", "LayerNorm", "RMSNorm", "cost of a step", "rms-norm"),
    ("keys and values", "a head each", "a group each", "serving", "grouped-query"),
    ("activation", "ReLU", "SwiGLU", "neither: loss", "swiglu"),
    ("positions", "added waves", "turned in", "neither: distance", "rope"),
    ("smoothing", "0.1", "none", "neither: likelihood", "no-smoothing"),
    ("dropout", "0.1", "none before tuning", "neither: data seen once", "no-dropout"),
    ("optimiser", "Adam", "AdamW, some Muon", "neither: loss, with Muon", "muon"),
    ("two stacks", "yes", "mostly one", "chapter 24", ""))


# The gaps ----------------------------------------------------------------------------------------------------------

def against_2017(names: Sequence[str], key: str) -> Gaps:
    "Each exchange minus `2017`, sorted; those on pre-norm, which differ in two things, are left out."
    gaps = {name: away(name, BASE, key) for name in names if name != BASE and not name.startswith("pre-norm-")}
    return dict(sorted(gaps.items(), key=lambda item: item[1]))


def unclear(gaps: Gaps) -> list[str]:
    "The exchanges whose seeds disagree about the sign."
    return [name for name, (_, low, high) in gaps.items() if low <= 0 <= high]


def trigram_gap() -> tuple[float, str]:
    "Where a trigram of French alone stands from `2017`, and its name."
    return trigram_line("pocket")[0] - mean(run["valid_loss"] for run in runs_of([BASE])[BASE]), "trigram"


def gap_dots(gaps: Gaps, what: str, better: str, fmt: str = "{:+.2f}", mark: tuple[float, str] | None = None) -> figures.Picture:
    """A dot for each exchange, its whisker from the lowest seed to the highest, and a line at zero; grey where the seeds disagree.

    better: the side where the better ones lie, "left" or "right"; mark: where else a line stands, dotted, and its name."""
    told = "; ".join(f"{name} {fmt.format(gap)} ({fmt.format(low)} to {fmt.format(high)})" for name, (gap, low, high) in gaps.items())
    sides = {"lower": sum(high < 0 for _, _, high in gaps.values()), "higher": sum(low > 0 for _, low, _ in gaps.values())}
    first, (gap, *_) = max(gaps.items(), key=lambda item: abs(item[1][0]))
    near = set(unclear(gaps))

    def draw(axes: Axes) -> None:
        axes.axvline(0, color=figures.INK, linewidth=0.9)
        if mark:
            axes.axvline(mark[0], color=figures.INK, linewidth=0.9, linestyle=":")
            axes.annotate(mark[1], (mark[0], len(gaps) - 1), xytext=(4, 0), textcoords="offset points", va="center", fontsize=10.5)
        for i, (name, (gap, low, high)) in enumerate(gaps.items()):
            colour = figures.GREY if name in near else figures.INK
            axes.axhline(i, color=figures.GREY, linewidth=0.4, alpha=0.35, zorder=0)
            axes.plot([low, high], [i, i], color=colour, linewidth=1.6)
            axes.plot([gap], [i], "o", color=colour, markersize=7)
            axes.annotate(fmt.format(gap), (1.01, i), xycoords=("axes fraction", "data"), va="center", fontsize=10.5, annotation_clip=False)

    beyond = [name for name, (gap, *_) in gaps.items() if mark and (gap < mark[0]) == (better == "left")]
    passed = f" Beyond the dotted line of the {mark[1]}: {in_a_row(beyond) if beyond else 'none'}." if mark else ""
    return named_rows(gaps, draw, f"{what} minus that of {BASE}, mean of the seeds (lowest to highest): {told}.",
                      f"Furthest from {BASE} is {first}, {fmt.format(gap)}. With every seed {sides['lower']} exchanges lie lower and "
                      f"{sides['higher']} higher; for {len(near)} the seeds disagree.{passed}",
                      f"{what} minus that of {BASE}\nbetter to the {better}", None, False, figures.COLUMN)


def verdicts_said(gaps: Gaps) -> Prose:
    "Which exchanges are better with every seed, worse with every seed, or neither; of losses, where less is better."
    groups = {"Better with every seed": [name for name, (_, _, high) in gaps.items() if high < 0],
              "Worse with every seed": [name for name, (_, low, _) in gaps.items() if low > 0],
              "Within the spread, grey": unclear(gaps)}
    return Prose("\n".join(f"- {words}: {', '.join(names) or 'none'}." for words, names in groups.items()))


def far_apart(names: Sequence[str], most: float = 0.5) -> dict[str, list[float]]:
    "The competitors whose seeds lie further apart than `most` nats, with the loss of each seed."
    losses = {name: [run["valid_loss"] for run in runs] for name, runs in runs_of(names).items()}
    return {name: values for name, values in losses.items() if max(values) - min(values) > most}


def far_apart_said(names: Sequence[str]) -> Prose:
    "The same in words."
    return Prose("The seeds lie more than half a nat apart for " + "; ".join(
        f"{name} (" + ", ".join(f"{value:.2f}" for value in values) + ")" for name, values in far_apart(names).items()) + ".")


def today(gaps: Gaps, apart: Mapping[str, Any]) -> figures.Picture:
    "2017 beside today, part by part, with the reason and the measured loss. apart: exchanges whose seeds disagree wildly."
    def measured(name: str) -> str:
        if name not in gaps or name in apart:
            return "seeds disagree" if name in apart else ""
        taken_out = " without it" if name == "no-warmup" else ""
        return f"{gaps[name][0]:+.3f}" + taken_out + (", in spread" if name in unclear(gaps) else "")

    return figures.table([{"part": part, "2017": then, "today": now, "reason": why, "loss here": measured(name)}
                          for part, then, now, why, name in TODAY], caption="What stayed, what was exchanged, and why")


def together_said() -> Prose:
    "All exchanges at once against Muon on pre-norm alone, on both corpora."
    gaps = {corpus: away(TOGETHER, "pre-norm-muon", "valid_loss", corpus)[0] for corpus in ("pocket", "tatoeba")}
    return Prose("With all exchanges together the loss is " + " and ".join(
        f"{abs(gap):.3f} nats {'lower' if gap < 0 else 'higher'} on {corpus}" for corpus, gap in gaps.items())
        + " than with Muon on pre-norm alone.")


# Parts -------------------------------------------------------------------------------------------------------------

def exchanged_boxes() -> figures.Picture:
    "The architecture with every kind of box lit in which something has been exchanged."
    return figures.architecture(
        lit=("encoder", "decoder", "source_embedding", "target_embedding"),
        alt="The Transformer with its attentions, feed-forwards, norms and embeddings lit: in all of them something has been exchanged.")


def activations() -> figures.Picture:
    "ReLU, GELU and swish from -4 to 4."
    xs = torch.linspace(-4, 4, 81)
    lines = {"ReLU": F.relu, "GELU": F.gelu, "swish": F.silu}
    at = torch.tensor(-1.0)
    return figures.curves({name: (xs, f(xs)) for name, f in lines.items()}, xlabel="a feature before the activation", ylabel="after it",
                          caption="A feature of −1 becomes " + ", ".join(
                              f"{f(at).item():.2f} ({name})" for name, f in lines.items()).replace("-", "−") + ".",
                          alt="ReLU with its corner at zero; GELU and swish follow it smoothly and dip a little below zero to the left "
                              "of it.")


def right_by_place(shares: Mapping[str, Tensor], first: int = 4, longest: int = 12, words: int = 12) -> figures.Picture:
    "The share of right answers at each place from `first` on, for each kind of positions: (seeds, places) each."
    places = range(first, first + next(iter(shares.values())).size(1))
    least = min(s[:, :longest + 1 - first].mean(0).min().item() for s in shares.values())
    told = ", ".join(f"{kind} {s[:, 19 - first:].mean():.0%}" for kind, s in shares.items())
    return figures.curves({kind: (list(places), s.mean(0), s.amin(0), s.amax(0)) for kind, s in shares.items()},
                          xlabel=f"place in the sentence; trained up to {longest}", ylabel="share right",
                          hline=(1 / words, "guessing"),
                          caption=f"Up to place {longest} all kinds answer more than {math.floor(100 * least - 1e-6)}% right; from place 19 "
                                  f"on {told}.",
                          alt=f"Share of right answers by place, mean and range of {len(next(iter(shares.values())))} seeds, "
                          "with a dotted line for guessing.")


def evened(before: Tensor, after: Tensor) -> figures.Picture:
    "What Muon's five rounds do to singular values from 0.001 to 1; and one gradient's, before and after."
    values = torch.logspace(-3, 0, 61)
    curve = values.clone()
    for _ in range(5):
        curve = 3.4445 * curve - 4.775 * curve ** 3 + 2.0315 * curve ** 5
    return figures.curve_panels([
        dict(series={"five rounds": (values, curve)}, logx=True, xlabel="singular value before", ylabel="after", title="What five rounds do"),
        dict(series={"gradient": before / before[0], "Muon's step": after.sort(descending=True)[0]}, xlabel="direction", ylabel="size",
             title="A real gradient")],
        caption=f"Largest over median: {before[0] / before.median():.1f} in the gradient, {after.max() / after.median():.1f} in Muon's step.",
        alt="Left: singular values from a thousandth to one, before and after five rounds. Right: sizes over the directions of a real "
            "gradient and of Muon's step.")


def bytes_by_kind(kept: Mapping[str, tuple[int, int]]) -> figures.Picture:
    "The cache of one sentence by kind of attention: its own keys and values, cross-attention's, and both for one beam and for four."
    return figures.table({name: {"self": own, "cross": cross, "one beam": own + cross, "four beams": 4 * own + cross}
                          for name, (own, cross) in kept.items()},
                         caption="Bytes of the cache for one sentence, base model, bf16, 100 tokens read and 100 said")


def weights_said(parameters: int, kept: Sequence[int]) -> Prose:
    "The bytes of the decoder's weights beside what a sentence keeps, both of two bytes a number."
    return Prose(f"The weights of the decoder's layers are {2 * parameters / 1e6:.0f} MB, as much as {2 * parameters / sum(kept):.0f} "
                 "sentences keep with MHA, one beam each.")


def costs(models: Mapping[str, Any], share: Mapping[str, float], ratio: Callable[[str, int], str], kept: Mapping[str, int]) -> figures.Picture:
    "What each exchange costs: width, parameters over those wanted, time of a step and of decoding over that of `2017`, bytes of cache."
    return figures.table({name: {"d_ff": model.config.d_ff, "parameters": f"{share[name] - 1:+.1%}", "training": ratio(name, 0),
                                 "decoding": ratio(name, 1), "cache": kept[name]} for name, model in models.items()},
                         caption="Time over that of 2017; cache in bytes per sentence")


# Optimisers --------------------------------------------------------------------------------------------------------

def ways_on(side: str) -> dict[str, str]:
    "label -> name of the four optimisers' records under one norm, \"post-norm\" or \"pre-norm\"."
    plain, prefix = (BASE, "") if side == "post-norm" else ("pre-norm", "pre-norm-")
    return {"Adam": plain, "AdamW": f"{prefix}adamw", "Muon": f"{prefix}muon", "Muon, no decay": f"{prefix}muon0"}


def optimiser_searches() -> figures.Picture:
    "Every run of the four optimisers' searches, a panel for each norm."
    drawn = {side: drawn_searches(ways_on(side)) for side in ("post-norm", "pre-norm")}
    least = {side: {way: min(losses) for way, (_, losses) in lines.items()} for side, lines in drawn.items()}
    gains = ", ".join(f"{below_or_above(min(found['Muon'], found['Muon, no decay']) - min(found['Adam'], found['AdamW']))} under {side}"
                      for side, found in least.items())
    return figures.curve_panels(
        [dict(title=side, xlabel="peak of the rate", ylabel="validation loss", logx=True, series=lines, hline=trigram_line("pocket"))
         for side, lines in drawn.items()],
        colors={"AdamW": figures.GREY, "Muon, no decay": figures.OLIVE}, caption=f"The best run with Muon against the best with an Adam: {gains}.",
        alt="Validation loss against the peak of the rate. " + " ".join(
            f"{side}, lowest: {lowest_said(lines)}." for side, lines in drawn.items()))


def overtaken(fast: Mapping, slow: Mapping) -> float:
    "The share of its tokens after which the run `fast` is below the end of `slow`; infinite if it never is."
    end = slow["curve"][-1][2]
    return next((tokens / fast["tokens"] for tokens, _, loss in fast["curve"] if loss < end), math.inf)


def optimiser_table() -> figures.Picture:
    "Muon against the better of the Adams under each norm, at equal tokens and at equal time."
    rows, rivals = [], {}
    for side in ("post-norm", "pre-norm"):
        names = ways_on(side)
        found = {way: runs_of([name])[name] for way, name in names.items()}
        adam = min(("Adam", "AdamW"), key=lambda way: mean(run["valid_loss"] for run in found[way]))
        for way in ("Muon", "Muon, no decay"):
            gap, low, high = away(names[way], names[adam], "valid_loss")
            cost = mean(run["cpu_seconds"] for run in found[way]) / mean(run["cpu_seconds"] for run in found[adam])
            share = max(overtaken(one, other) for one, other in zip(found[way], found[adam]))
            rivals[side] = adam
            rows.append({"": f"{way}, {side}", "loss": f"{gap:+.2f}", "lowest, highest seed": f"{low:+.2f}, {high:+.2f}",
                         "time of a run": f"{cost:.2f} ×", "tokens until ahead": f"{share:.0%}",
                         "time until ahead": f"{share * cost:.0%}"})
    against = set(rivals.values())
    told = against.pop() if len(against) == 1 else ", ".join(f"{adam} under {side}" for side, adam in rivals.items())
    return figures.table(rows, caption=f"Muon against the better of the Adams ({told}), three seeds; tokens and time in shares of the rival's")


# Depth -------------------------------------------------------------------------------------------------------------

def start_gradients(depths: Sequence[int], slopes: Mapping[str, Tensor]) -> figures.Picture:
    "Gradient norms before any step, against depth. slopes: norm -> (seeds, depths, 2), first encoder and last decoder layer."
    told = " and ".join(f"from {s[:, 0, 1].mean():.2f} to {s[:, -1, 1].mean():.2f} under {norm}-norm" for norm, s in slopes.items())
    return figures.curve_panels([
        dict(series={f"{norm}-norm": (depths, s[..., end].mean(0), s[..., end].amin(0), s[..., end].amax(0)) for norm, s in slopes.items()},
             title=title, xlabel="layers in each stack", ylabel="gradient norm", logy=True)
        for end, title in enumerate(("First encoder layer", "Last decoder layer"))],
        caption=f"From {depths[0]} to {depths[-1]} layers the last decoder layer's gradient goes {told}.",
        alt="Gradient norm at the start against depth, mean and range of the seeds: the first encoder layer on the left, the last decoder "
            "layer on the right.")


# Length ------------------------------------------------------------------------------------------------------------

def of_length(kind: str, trained: str) -> list[dict]:
    "The recorded runs with one kind of positions, trained on \"short\" pairs or on \"all\", in order of seed."
    return [run for run in recorded("length")["runs"] if (run["kind"], run["trained"]) == (kind, trained)]


def dearer(kinds: Sequence[str]) -> dict[str, list[float]]:
    "What later tokens cost more after training on short sentences alone, a number for each seed, rising."
    return {kind: sorted(a["late"] - b["late"] for a, b in zip(of_length(kind, "short"), of_length(kind, "all"))) for kind in kinds}


def length_curves(kinds: Sequence[str]) -> figures.Picture:
    "Validation loss by length, trained on short pairs and on all."
    def panel(trained: str, title: str) -> dict:
        edges = [group["from"] for group in of_length(kinds[0], trained)[0]["by_length"]]
        losses = {kind: torch.tensor([[group["loss"] for group in run["by_length"]] for run in of_length(kind, trained)]) for kind in kinds}
        return dict(title=title, xlabel="tokens of the longer side, from", ylabel="validation loss",
                    series={kind: (edges, s.mean(0), s.amin(0), s.amax(0)) for kind, s in losses.items()})

    return figures.curve_panels(
        [panel("short", "Trained up to 12 tokens"), panel("all", "Trained on all lengths")],
        caption="After training on short sentences each token after the 12th costs more: " + ", ".join(
            f"{mean(gaps):.2f} nats with {kind}" for kind, gaps in dearer(kinds).items()) + ".",
        alt="Validation loss by length for sinusoids, learned positions and RoPE. Left: trained on at most 12 tokens. Right: trained on "
            "all lengths. The table below has the losses and BLEU.")


def length_table(kinds: Sequence[str]) -> figures.Picture:
    "Longer sentences: loss early and late, BLEU, and how much is said; mean of the seeds."
    def row(kind: str, trained: str) -> dict:
        runs = of_length(kind, trained)
        longer = [run["greedy"]["longer"] for run in runs]
        return {"": kind, "trained on": trained, "first 12": mean(run["early"] for run in runs), "the rest": mean(run["late"] for run in runs),
                "BLEU shorter": mean(run["greedy"]["shorter"]["bleu"] for run in runs), "BLEU longer": mean(one["bleu"] for one in longer),
                "words said": mean(one["said"] for one in longer)}

    return figures.table([row(kind, trained) for trained in ("short", "all") for kind in kinds], fmt="{:.2f}",
                         caption="Longer sentences: loss of the first 12 target tokens and of the rest, BLEU, tokens said over the "
                                 "reference's; mean of the seeds")


def length_said(kinds: Sequence[str]) -> Prose:
    "What training on short sentences alone costs later tokens, and the command of the runs."
    lines = [f"- {kind}: {mean(gaps):.2f} nats ({gaps[0]:+.2f} to {gaps[-1]:+.2f})" for kind, gaps in dearer(kinds).items()]
    return Prose("After training on short sentences alone, each token after the 12th costs more:", "\n".join(lines),
                 "The command of these runs:", f"```\n{in_lines(command_of(recorded('length')))}\n```")
