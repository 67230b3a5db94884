"""Tables and figures of part IV's comparisons, from recorded runs: chapters 22 to 25 and what the
runs cannot tell."""

from collections.abc import Mapping, Sequence

import numpy as np

from litbook import figures
from litbook import results as recorded
from litbook.results import FULL, gap_texts, over_seeds, with_commands
from transformer_lit.comparison import interpolate_loss

REFERENCE = "transformer"
AGAINST = {"muon": "adamw", "pre-norm-muon": "pre-norm-adamw"}  # else the reference
MACHINES = "¹ On a machine with bf16 products; its seconds can't be set against the others. "


def setting_text(setting: tuple[float, float]) -> str:
    "Peak learning rate and warmup in words: `0.006, 10%`."
    return f"{setting[0]:g}, {setting[1]:.0%}"


def search_maps(names: Mapping[str, str]) -> figures.Picture:
    """Recorded searches as maps: peaks from left to right, warmups upwards, the loss in each cell
    that was tried. names: label -> design."""
    tried = {label: recorded.trials(name) for label, name in names.items()}
    peaks, warmups = (sorted({s[i] for losses in tried.values() for s in losses}) for i in (0, 1))
    lowest, *_, highest = sorted(loss for losses in tried.values() for loss in losses.values())
    text = "; ".join(
        f"{label} {min(losses.values()):.2f} at {setting_text(recorded.best_of(losses))}"
        for label, losses in tried.items()
    )
    lines = recorded.beside(part="valid", budget=recorded.SEARCH["tatoeba"])
    return with_commands(
        figures.heatmaps(
            [
                {
                    "matrix": [[losses.get((p, w), np.nan) for p in peaks] for w in warmups[::-1]],
                    "title": label,
                }
                for label, losses in tried.items()
            ],
            rows=[f"{warmup:.0%}" for warmup in warmups[::-1]],
            cols=[f"{peak:g}" for peak in peaks],
            xlabel="peak learning rate",
            ylabel="warmup",
            annotate=True,
            cmap="cividis_r",
            vmin=lowest,
            vmax=min(highest, lowest + 2.5),
            bar=False,
            caption=f"Lowest validation loss, with its peak and warmup: {text}. {lines}",
            alt="Validation loss over the peak learning rate and the warmup fraction."
            f" Lowest: {text}.",
        )
    )


def peak_table(names: Sequence[str], caption: str) -> figures.Picture:
    """The peaks of the search's second part, a row for each design and peak: the loss in the first
    part, with a quarter of the budget, and with all."""
    rows = []
    for name in names:
        tried, (chosen, warmup) = recorded.trials(name), recorded.choice(name)
        short = recorded.best_of(tried)[0]
        for k, (peak, loss) in enumerate(sorted(recorded.peaks(name).items())):
            quarter = tried.get((peak, warmup))
            by = ["the quarter"] * (peak == short) + ["the full"] * (peak == chosen)
            rows.append(
                {
                    "": "" if k else name,
                    "peak": f"{peak:g}",
                    "a quarter of the budget": "" if quarter is None else f"{quarter:.2f}",
                    "the full budget": f"{loss:.2f}",
                    "chosen by": ", ".join(by),
                }
            )
    caption += " " + recorded.beside(part="valid")
    return with_commands(figures.table(rows, caption=caption))


def standing(
    names: Sequence[str], ground: str = "tatoeba", against: str = REFERENCE, ranked: bool = True
) -> figures.Picture:
    """The table of a comparison: ranks, losses, differences; what costs nothing to look up later is
    folded below it.

    A rank is 1 plus the number of designs shown that are significantly better, so designs
    without a significant difference may share one. against: the baseline of the differences."""
    runs = {name: recorded.results(name, ground) for name in names}
    order = sorted(names, key=lambda name: runs[name].test_loss.mean())
    rows, details = [], []
    for place, name in enumerate(order):
        ours, first = runs[name], runs[name].iloc[0]
        loss, bleu = ("", "") if name == against else gap_texts(ours, runs[against])
        ahead = [recorded.gap(ours, runs[x])["significant"] for x in order[:place] if ranked]
        ratio, penalty = recorded.lengths(ours)
        rows.append(
            {"": name}
            | ({"rank": 1 + sum(ahead)} if ranked else {})
            | {"loss": f"{ours.test_loss.mean():.3f}", f"Δ loss to {against}": loss}
            | {"BLEU": f"{ours.bleu.mean():.1f}", f"Δ BLEU to {against}": bleu}
            | {"length ratio": f"{ratio:.2f}", "BP": f"{penalty:.3f}"}
        )
        details.append(
            {
                "": name,
                "loss": over_seeds(ours.test_loss, 3),
                "BLEU": over_seeds(ours.bleu, 1),
                "chrF2": over_seeds([chrf["value"] for chrf in ours.chrf], 1),
                "parameters": int(first.parameters),
                "tokens": int(first.tokens),
                "GFLOPs": round(ours.flops.mean() / 1e9),
                "CPU seconds": f"{ours.cpu_seconds.mean():.0f}" + "¹" * (first.muon == "bf16"),
                "peak learning rate": f"{first.peak:g}",
                "warmup": f"{first.warmup:.0%}",
            }
        )
    rows += [
        {"": name.replace("Kneser-Ney", "KN"), "loss": f"{line:.3f}"}
        for name, line in recorded.ngrams(ground).items()
    ]
    caption = (
        f"{ground}, test set; BLEU of {first.lines:,.0f} sentences, by sacreBLEU with the settings"
        f" {first.signature.replace('|', ' ')}; n-grams (KN: Kneser-Ney) of the target side alone"
    )
    note = f"chrF2, by character n-grams: {first.chrf['signature'].replace('|', ' ')}. "
    note += MACHINES * any("¹" in row["CPU seconds"] for row in details)
    picture = figures.table(rows, caption=caption, wide=True)
    details = figures.table(details, caption=note, wide=True)
    return with_commands(figures.folded(picture, details, "the other columns"))


def pair_rows(pairs: Mapping[str, tuple[str, str]]) -> list[dict]:
    "Named pairs of designs: by how much loss and BLEU of the first are above those of the second."
    gaps = {what: gap_texts(*map(recorded.results, pair)) for what, pair in pairs.items()}
    return [{"": what, "nats per token": loss, "BLEU": bleu} for what, (loss, bleu) in gaps.items()]


def points(name: str) -> dict[int, float]:
    """Target tokens -> loss on the test. Where a design stands is taken from all seeds, how fast it
    falls with the tokens from those that ran with the other budget as well."""
    runs = recorded.by_budget(name)
    full = runs[FULL].set_index("seed").test_loss
    return {
        budget: full.mean() + (group.set_index("seed").test_loss - full).mean()
        for budget, group in runs.items()
    }


def currencies(names: Sequence[str], caption: str) -> figures.Picture:
    "Each design's loss with the reference's tokens, FLOPs and seconds."
    seconds, costs, losses = recorded.clock(), {}, {}
    for name in {*names, REFERENCE}:
        runs = recorded.results(name)
        costs[name] = (runs.flops / runs.tokens).mean(), seconds[name]
        losses[name] = points(name)
    rows = []
    for name in sorted(names, key=lambda name: losses[name][FULL]):
        row = {"": name, "tokens": f"{losses[name][FULL]:.3f}"}
        for kind, ours, theirs in zip(("FLOPs", "seconds"), costs[name], costs[REFERENCE]):
            loss, beyond = interpolate_loss(losses[name], theirs / ours * FULL)
            row[kind] = f"{loss:.3f}" + " *" * beyond
        rows.append(row)
    return with_commands(figures.table(rows, caption=f"{caption} {recorded.beside()}"))


def measured_rows(name: str, kinds: Sequence[str] = ("tokens", "FLOPs", "seconds")) -> list[dict]:
    """A design at as many tokens, FLOPs, seconds as another had: what its runs took, over the
    other's, and the difference. Muon against AdamW, streams against the Transformer.

    By the runs' clocks: what the runs themselves took, all of Muon's and AdamW's on one machine,
    which isn't that of the seconds."""
    base = AGAINST.get(name, REFERENCE)
    theirs, seconds, tried = recorded.results(base), recorded.clock(), []
    for budget, ours in recorded.by_budget(name).items():
        if len(ours) == len(theirs):
            tried.append(
                {
                    "runs": ours,
                    "budget": budget,
                    "tokens": budget / FULL,
                    "FLOPs": ours.flops.mean() / theirs.flops.mean(),
                    "seconds": budget * seconds[name] / (FULL * seconds[base]),
                    "cpu": ours.cpu_seconds.mean() / theirs.cpu_seconds.mean(),
                }
            )
    rows = []
    for kind in kinds:
        row = min(tried, key=lambda row: abs(row[kind] - 1))
        loss, bleu = gap_texts(row["runs"], theirs)
        budget = f"{row['budget'] / 1e6:.2f}M{' tokens' * (kind != 'tokens')}"
        rows.append({"matched": f"{kind} ({budget})"})
        rows[-1] |= {of: f"{row[of]:.2f}" for of in ("FLOPs", "seconds")}
        if name in AGAINST:
            rows[-1]["by the runs' clocks"] = f"{row['cpu']:.2f}"
        rows[-1] |= {"loss": loss, "BLEU": bleu}
    return rows


def crossing_table() -> figures.Picture:
    "RNN with attention and Transformer at each budget that both ran, with all seeds."
    rnn, transformer = map(recorded.by_budget, ("rnn-attention", "transformer"))
    rows = []
    for budget in sorted(rnn.keys() & transformer.keys()):
        ours, theirs = map(recorded.all_seeds, (rnn[budget], transformer[budget]))
        loss, bleu = gap_texts(ours, theirs)
        rows.append(
            {
                "target tokens": budget,
                "seeds": len(ours),
                "RNN with attention": f"{ours.test_loss.mean():.3f}",
                "Transformer": f"{theirs.test_loss.mean():.3f}",
                "RNN − Transformer": loss,
                "BLEU": f"{ours.bleu.mean():.1f}\u00a0/\u00a0{theirs.bleu.mean():.1f}",
                "BLEU, RNN − Transformer": bleu,
            }
        )
    caption = (
        "Test loss, and BLEU of RNN and Transformer. The n-grams counted two million tokens."
        f" {recorded.beside()}"
    )
    return with_commands(figures.table(rows, caption=caption))


# Figures of chapters 23 to 25 ---------------------------------------------------------------------

TITLES = {
    "transformer": "Transformer",
    "rnn": "RNN",
    "rnn-attention": "RNN with attention",
    "shipped transformer": "shipped Transformer",
    "rope": "RoPE",
}


def titled(values: Mapping) -> dict:
    "What belongs to each competitor, under the names that figures have for them."
    return {TITLES.get(name, name): value for name, value in values.items()}


def lines_along(
    names: Sequence[str], column="curve", ground="tatoeba", since=0, by_operations=False
) -> dict:
    """What each look measured along the runs that count: validation loss, or alignment error
    rate; by millions of target tokens or by TFLOPs."""
    lines = {}
    for name in names:
        looks, runs = recorded.along(name, column, ground, since), recorded.results(name, ground)
        each = (runs.flops / runs.tokens).mean() / 1e12 if by_operations else 1e-6
        heights = looks[:, :, {"curve": 2, "alignment": 1}[column]]
        lines[name] = figures.spread(heights.T, looks[:, 0, 0] * each)
    return titled(lines)


def ends(lines: Mapping, digits: str = ".2f") -> str:
    "Where curves end, in words."
    return ", ".join(f"{name} {line[1][-1]:{digits}}" for name, line in lines.items())


def losses_along(names: Sequence[str]) -> figures.Picture:
    "Validation losses along the runs on Tatoeba, by tokens and by FLOPs."
    tokens, operations = (
        lines_along(names, since=300_000, by_operations=by) for by in (False, True)
    )
    spent = ", ".join(f"{name} {line[0][-1]:.0f}" for name, line in operations.items())
    text = f"At the end: {ends(tokens)}. TFLOPs: {spent}."
    by_tokens = {"title": "by tokens", "xlabel": "millions of target tokens"}
    by_operations = {"title": "by FLOPs", "xlabel": "TFLOPs (10¹²)"}
    return with_commands(
        figures.curve_panels(
            [{"series": tokens, **by_tokens}, {"series": operations, **by_operations}],
            logx=True,
            ylabel="loss, nats per token",
            hline=(min(recorded.ngrams(part="valid").values()), "5-gram"),
            alt=f"Validation loss of {len(names)} models along their runs. {text}",
            caption=f"Tatoeba. {text} Dotted: target-side 5-gram. {recorded.beside(part='valid')}",
        )
    )


def pocket_curves(names: Sequence[str]) -> figures.Picture:
    """Along the recorded runs on the pocket corpus: the loss on validation pairs and the alignment
    error rate."""
    losses = lines_along(names, ground="pocket")
    lines = recorded.ngrams("pocket", "valid")
    axis = {"ylabel": "loss, nats per token", "hline": (min(lines.values()), "5-gram")}
    errors = lines_along(names, "alignment", "pocket")
    text = f"{ends(losses)}; alignment errors: {ends(errors, '.0%')}"
    panels = [{"series": losses, **axis}, {"series": errors, "ylabel": "alignment error rate"}]
    return with_commands(
        figures.curve_panels(
            panels,
            logx=True,
            xlabel="millions of target tokens",
            alt=f"Loss and alignment error rate of {len(names)} models along their runs."
            f" At the end: {text}.",
            caption=f"Pocket corpus. At the end: {text}. {recorded.ngrams_text(lines)}",
        )
    )


def bleu_by_length(names: Sequence[str]) -> figures.Picture:
    """Recorded BLEU on Tatoeba against the number of English words; groups of fewer than 20
    sentences are left out.

    The caption says what share of the last model's BLEU the others have, for the shortest sentences
    and the longest."""
    lines = {}
    for name in names:
        seeds = [
            [group for group in groups if group["sentences"] >= 20]
            for groups in recorded.results(name).by_length
        ]
        lines[name] = figures.spread(
            [[group["BLEU"] for group in groups] for groups in seeds],
            [group["group"] for group in seeds[0]],
        )
    lines = titled(lines)
    *others, final = lines
    bleus = {name: lines[name][1] / lines[final][1] for name in others}
    shares = ", ".join(f"{name} from {b[0]:.0%} to {b[-1]:.0%}" for name, b in bleus.items())
    return with_commands(
        figures.curves(
            lines,
            xlabel="source length in words, at least",
            ylabel="BLEU",
            caption=f"BLEU as a share of that of {final}, from the shortest sentences to the"
            f" longest: {shares}.",
        )
    )
