"""Chapter 26's figures and tables: three families of models, what each was asked, and what each can
do."""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from litbook import fair, figures
from litbook.fair import over_seeds
from litbook.prose import Prose, in_a_row

ONE, LEFT, TWO = "encoder-only", "decoder-only", "encoder-decoder"
COLOURS = {
    family: figures.NAMED[family] for family in (ONE, LEFT, TWO)
}  # not the colours of an encoder's or decoder's parts
STEPS = (800, 3200)  # of the recorded runs
PART = "three families"  # of the plan of bench/fair.py
ONCE, EACH, LOOKS = f"{ONE}, one look", f"{ONE}, a look per word", f"{LEFT}, 16 looks"
FILLERS = {
    ONE: (ONE, "o-"),
    LOOKS: (LOOKS, "o-"),
    LEFT: (f"{LEFT}, from the left", "--"),
    TWO: (TWO, "o-"),
}  # way -> name and line
SPEAKERS = {EACH: (EACH, "o-"), ONCE: (ONCE, "--"), LEFT: (LEFT, "o-"), TWO: (TWO, "o-")}
UNITS = {
    "il or elle": "Pronouns right, %",
    "any word": "Any word right, %",
    "perplexity": "Continuing, nats per word",
    "exact": "Exact translations, %",
}
PAIRS = (  # what is measured, and whose difference is taken
    *(
        ("il or elle", ours, theirs)
        for ours, theirs in ((ONE, LOOKS), (ONE, LEFT), (ONE, TWO), (TWO, LOOKS))
    ),
    *(
        ("any word", ours, theirs)
        for ours, theirs in ((ONE, LOOKS), (ONE, LEFT), (ONE, TWO), (TWO, LOOKS))
    ),
    *(
        ("perplexity", ours, theirs)
        for ours, theirs in ((LEFT, EACH), (LEFT, ONCE), (LEFT, TWO), (TWO, EACH), (ONCE, EACH))
    ),
    *(("perplexity", way, "trigram") for way in (LEFT, EACH, ONCE, TWO)),
    *(("exact", ours, theirs) for ours, theirs in ((LEFT, EACH), (TWO, EACH), (LEFT, TWO))),
)
CHANGES = (
    *(("il or elle", way) for way in FILLERS),
    *(("perplexity", way) for way in SPEAKERS),
    *(("exact", way) for way in SPEAKERS),
)
FAMOUS = (  # model, family, what a token is, what it learns to say
    ("BERT, 2018", ONE, "pieces of words", "covered words"),
    ("ViT, 2020", ONE, "patches of an image", "what the image shows"),
    (
        "AlphaFold 2, 2021",
        "no decoder; attention of its own",
        "residues of a protein and its relatives, and pairs of residues",
        "the folded shape, and covered residues",
    ),
    ("GPT, 2018 to 2020", LEFT, "pieces of words", "the next one"),
    ("Transformer, 2017", TWO, "pieces of words", "translations"),
    ("BART, 2019", TWO, "pieces of words", "the text before it was spoilt"),
    ("T5, 2019", TWO, "pieces of words", "what was cut out; every task as text"),
    (
        "Whisper, 2022",
        TWO,
        "frames of sound in, pieces of words out",
        "what was said, or its English",
    ),
)


def who_moves_whom(seen: Mapping[str, Tensor], words: Sequence[str]) -> figures.Picture:
    """A square of rows that move and columns that move them for each family. seen: family -> (L,
    L), true where the row moves."""
    counts = ", ".join(
        f"{family} {int(open_.sum())} of {open_.numel()}" for family, open_ in seen.items()
    )
    return figures.heatmaps(
        [
            {"matrix": open_, "title": family, "rows": words, "cols": words}
            for family, open_ in seen.items()
        ],
        cmap="mask",
        caption=f"Squares in which the row's state moves with the column's word: {counts}.",
        alt=(
            "Which word changes which state, measured; a light square means yes. Light squares:"
            f" {counts}."
        ),
    )


def same_picture(found: Mapping[str, Tensor], seen: Mapping[str, Tensor]) -> Prose:
    "Which of the pictures each model has. found: model -> (L, L), seen: family -> (L, L)."
    return Prose(
        " ".join(
            f"The picture of {name} is "
            + (in_a_row([f"the {family} one" for family in same]) if same else "none of the three")
            + "."
            for name, open_ in found.items()
            for same in [[family for family, one in seen.items() if torch.equal(open_, one)]]
        )
    )


def shares_table(drawn: Mapping[str, tuple[float, Tensor]]) -> figures.Picture:
    """What was drawn beside what was wanted, and how far off it is in standard errors. drawn: what
    -> (wanted, one truth value per try)."""
    rows = {
        name: {
            "wanted": f"{wanted:.0%}",
            "drawn": f"{hits.float().mean().item():.1%}",
            "standard errors off": (
                (hits.float().mean().item() - wanted) / (wanted * (1 - wanted) / len(hits)) ** 0.5
            ),
        }
        for name, (wanted, hits) in drawn.items()
    }
    most = max(abs(row["standard errors off"]) for row in rows.values())
    return figures.table(
        rows,
        fmt="{:+.1f}",
        caption=f"The four shares, at most {most:.1f} standard errors from those wanted",
    )


def ways_to_ask(reports: Mapping[str, Mapping[str, float]]) -> figures.Picture:
    """Ways to choose what is asked, and what a copier makes of each. reports: name of the way ->
    what was counted."""
    copied = [
        f"{name.replace('_', ' ')} {report['copier is right']:.0%}"
        for name, report in reports.items()
    ]
    return figures.table(
        {name.replace("_", " "): report for name, report in reports.items()},
        fmt="{:.2f}",
        caption=f"What a copier gets right: {', '.join(copied)}",
    )


def covering_table(
    words: Sequence[str], first: Tensor, second: Tensor, read: Sequence[str], say: Sequence[str]
) -> figures.Picture:
    """Word by word: two random numbers, what is read, and what is to be said; "" where nothing is.
    second counts if first < 0.15."""
    return figures.table(
        [
            {
                "word": word,
                "first": f"{a:.2f}",
                "second": f"{b:.2f}" if a < 0.15 else "–",
                "read": r,
                "to be said": s or "–",
            }
            for word, a, b, r, s in zip(words, first.tolist(), second.tolist(), read, say)
        ],
        caption="Two random numbers per word, and what becomes of it",
    )


def end_of(losses: Sequence[float], n: int = 20) -> float:
    "The mean of the last `n` losses."
    return sum(losses[-n:]) / n


def losses_by_way(leaks: Mapping[str, tuple[Sequence[float], float]]) -> figures.Picture:
    """Training losses of three ways to cover. leaks: name of the way -> (losses, share of gaps
    filled right)."""
    lines = {name.replace("_", " "): losses for name, (losses, _) in leaks.items()}
    shares = {name.replace("_", " "): share for name, (_, share) in leaks.items()}
    low, wrong = min(lines, key=lambda name: end_of(lines[name])), [
        name for name in lines if name != "covered"
    ]
    return figures.curves(
        lines,
        xlabel="step",
        ylabel="loss of the words asked for",
        colors={"covered": figures.INK, **dict.fromkeys(wrong, figures.FAULT)},
        styles=dict(zip(wrong, ("--", ":"))),
        caption=(
            f"The lowest loss, {end_of(lines[low]):.2f}, belongs to {low}; covered ends at"
            f" {end_of(lines['covered']):.2f}. Gaps filled right:"
            f" {', '.join(f'{name} {share:.0%}' for name, share in shares.items())}."
        ),
        alt=f"{len(lines)} training losses. Mean of the last twenty: "
        + ", ".join(f"{name} {end_of(losses):.2f}" for name, losses in lines.items())
        + ".",
    )


def products_table(products: Mapping[str, Tensor]) -> figures.Picture:
    """Two words: what each way multiplies to for two of the four sentences, and for all together.
    products: way -> (2, 2)."""
    return figures.table(
        [
            {
                "way": way,
                "il fatigué": p[0, 0].item(),
                "il fatiguée": p[0, 1].item(),
                "sum of all four": p.sum().item(),
            }
            for way, p in products.items()
        ],
        fmt="{:.2f}",
        caption=(
            "Products of probabilities under three models: two of the four sentences, and the sum"
            " of all four"
        ),
    )


def sums_table(cases: Sequence[tuple[str, Callable]], sums: Sequence[float]) -> figures.Picture:
    """The sum of the probabilities of all sentences, by family and by the function that reads each
    word."""
    return figures.table(
        [
            {
                "family": family,
                "each word read": way.__name__.replace("_", " "),
                "sum over all sentences": total,
            }
            for (family, way), total in zip(cases, sums)
        ],
        fmt="{:.4f}",
        caption="The probabilities of all sentences, added up",
    )


def smoothed(losses: Sequence[float], n: int = 10) -> list[float]:
    "Of each step the mean of the last `n` losses, of fewer at the start."
    return [
        sum(losses[max(0, i - n + 1) : i + 1]) / len(losses[max(0, i - n + 1) : i + 1])
        for i in range(len(losses))
    ]


def three_trainings(losses: Mapping[str, Sequence[float]]) -> figures.Picture:
    """Loss per word asked for, ten steps' mean. The decoder-only loss is the sum of two, one per
    language, and is halved."""
    lines = {
        family: [y / (2 if family == LEFT else 1) for y in smoothed(ys)]
        for family, ys in losses.items()
    }
    ends = ", ".join(f"{family} from {ys[0]:.2f} to {ys[-1]:.2f}" for family, ys in lines.items())
    return figures.curves(
        lines,
        xlabel="step",
        ylabel="loss per word asked for",
        colors=COLOURS,
        caption=f"Three questions, three losses: {ends}.",
        alt=f"Losses of three questions, so their heights can't be compared: {ends}.",
    )


def efforts(
    sizes: Mapping[str, int],
    losses: Mapping[str, Sequence[float]],
    counted: Mapping[str, int],
    asked: Mapping[str, Sequence[int]],
) -> figures.Picture:
    """Weights, steps, operations and questions. asked: family -> the words asked for in each
    sentence; the table has their mean."""
    return figures.table(
        [
            {
                "family": family,
                "parameters": sizes[family],
                "steps": len(losses[family]),
                "operations, 10⁶": round(counted[family] / 1e6),
                "words asked per sentence": sum(asked[family]) / len(asked[family]),
            }
            for family in sizes
        ],
        fmt="{:.1f}",
        caption="Equal weights and steps, unequal work and questions",
    )


def reading_map(
    sight: Tensor, families: Sequence[str], words: Sequence[str], gap: int
) -> figures.Picture:
    """Which words of a sentence each family reads when it names the word at place `gap`: (families,
    words)."""
    words = [*words[:gap], "…", *words[gap + 1 :]]
    return figures.heatmap(
        sight,
        rows=list(families),
        cols=list(words),
        cmap="mask",
        caption=f"To name the gap, of {len(words)} places "
        + ", ".join(f"{family} reads {int(row.sum())}" for family, row in zip(families, sight))
        + ".",
        alt="A row for each family over the words of a sentence with a gap; light is what is read.",
    )


def gaps_filled(filled: Mapping[str, Mapping[str, float]], n: int) -> figures.Picture:
    "The shares of gaps filled right. filled: way -> kind of gap -> share; n: how many sentences."
    return figures.table(
        {way: {kind: f"{share:.0%}" for kind, share in row.items()} for way, row in filled.items()},
        caption=f"Gaps filled right in {n} unseen sentences",
    )


def continuing(perplexities: Mapping[str, float]) -> figures.Picture:
    """Perplexity of the rest of a sentence, a bar for each way to go on; a way's name begins with
    its family."""
    best, worst = min(perplexities, key=perplexities.__getitem__), max(
        perplexities, key=perplexities.__getitem__
    )
    ends = f"{perplexities[best]:.2f} ({best}) to {perplexities[worst]:.2f} ({worst})"
    lines = {**perplexities, "trigram of the French alone": french_alone()["trigram"]}
    return figures.bars(
        lines,
        xlabel="perplexity of the rest",
        colors={way: COLOURS.get(way.split(",")[0], figures.GREY) for way in lines},
        caption=f"Perplexity of the rest, from {ends}. {beside()}",
        alt=(
            f"Perplexity of the rest of a sentence, the shortest bar is the best: from {ends}. A"
            f" trigram has {french_alone()['trigram']:.2f}."
        ),
    )


def ends_table(beginning: str, ends: Mapping[str, str]) -> figures.Picture:
    "How each family goes on. ends: family -> what it says after `beginning`."
    return figures.table(
        [{"family": family, f"{beginning} …": end} for family, end in ends.items()],
        caption="One beginning, three ends",
    )


def translations(
    translated: Mapping[str, Mapping[str, Any]], english: str, signature: str
) -> figures.Picture:
    """BLEU, exact matches and the first translation. translated: way -> these three; `english` is
    what the first one translates."""
    return figures.table(
        {
            way: {**row, "exact": f"{row['exact']:.0%}", "BLEU": f"{row['BLEU']:.1f}"}
            for way, row in sorted(translated.items())
        },
        caption=f"BLEU {signature.replace('|', ' ')}; the first one translates “{english}”",
    )


def all_tasks(
    filled: Mapping[str, Mapping[str, float]],
    perplexities: Mapping[str, float],
    translated: Mapping[str, Mapping[str, Any]],
) -> figures.Picture:
    """Fill, continue, translate: a row for each family and way. Each argument: way -> what was
    measured."""

    def row(fills: str = "", goes: str = "", says: str = "") -> dict[str, str]:
        found = {
            task: f"{filled[fills][task]:.0%}" if fills else ""
            for task in ("il or elle", "any word")
        }
        found["perplexity"] = f"{perplexities[goes]:.2f}" if goes else ""
        found["exact"] = f"{translated[says]['exact']:.0%}" if says else ""
        return found | {"BLEU": f"{translated[says]['BLEU']:.1f}" if says else ""}

    return figures.table(
        {
            ONCE: row(ONE, ONCE, ONCE),
            EACH: row("", EACH, EACH),
            LEFT: row(LEFT, LEFT, LEFT),
            LOOKS: row(LOOKS),
            TWO: row(TWO, TWO, TWO),
        },
        caption="Fill, continue, translate: one seed",
    )


def recorded_runs(steps: int, peak: float = 6e-3) -> list[dict]:
    "The recorded runs with so many steps and this peak of the rate, in the order of their seeds."
    runs = fair.record_of("families", "pocket")["runs"]
    return sorted(
        (run for run in runs if (run["steps"], run["peak"]) == (steps, peak)),
        key=lambda run: run["seed"],
    )


def french_alone() -> dict[str, float]:
    """unigram, bigram, trigram -> perplexity of the rest. They count the training sentences'
    French, so they are the same in every run."""
    return {name: row["perplexity"] for name, row in recorded_runs(STEPS[0])[0]["ngrams"].items()}


def beside() -> str:
    "The n-grams of a table or a figure of perplexities, as the last sentence of its caption."
    return fair.named_beside(french_alone())


def measured(kind: str, way: str, run: Mapping) -> float:
    """One measure of one way in one run. kind: a kind of gap (in percent), perplexity, BLEU, chrF,
    or exact (in percent)."""
    if kind == "perplexity":
        return run["perplexity"][way]
    if kind in ("BLEU", "chrF"):
        return run["translated"][way][kind]
    return 100 * (run["translated"][way]["exact"] if kind == "exact" else run["filled"][way][kind])


def over_runs(kind: str, way: str, runs: Sequence[Mapping]) -> str:
    "One measure of one way: mean, lowest and highest of the seeds. kind as in `measured`."
    return over_seeds([measured(kind, way, run) for run in runs], 1 if kind == "perplexity" else 0)


def signed(run: Mapping, *names: str) -> str:
    "sacreBLEU's signatures, for a caption."
    return "; ".join(f"{name} {run['signatures'][name].replace('|', ' ')}" for name in names)


def with_each_command(picture: figures.Picture) -> figures.Picture:
    """A table of recorded runs, and in a fold below it the command, the commit and the seconds of
    each run."""
    runs = sorted(
        fair.record_of("families", "pocket")["runs"],
        key=lambda run: (run["steps"], run["peak"], run["seed"]),
    )
    rows = [
        {
            "made by": (
                f"python bench/families.py --steps {run['steps']} --peak {run['peak']:g} --seed"
                f" {run['seed']}"
            ),
            "commit": run["commits"][-1][:7],
            "seconds": round(run["wall_seconds"]),
        }
        for run in runs
    ]
    return figures.folded(
        picture,
        figures.table(
            rows,
            wide=True,
            caption=f'All of them: python bench/fair.py run --part "{PART}". {fair.AFRESH}',
        ),
        "the command of each run",
    )


def with_more_steps(kinds: Sequence[str], steps: Sequence[int] = STEPS) -> figures.Picture:
    """What the recorded runs reach, a row for each way and a column for each kind (see `measured`;
    kinds of gaps, or others) and number of steps."""
    found = {number: recorded_runs(number) for number in steps}
    spoken, first = "perplexity" in kinds, found[steps[0]][0]
    rows = {
        way: {
            f"{kind}, {number:,}": over_runs(kind, way, runs)
            for kind in kinds
            for number, runs in found.items()
        }
        for way in sorted(first["perplexity" if spoken else "filled"])
    }
    if spoken:
        rows |= {
            f"{name} of French alone": {
                f"perplexity, {number:,}": f"{line:.1f}" for number in steps
            }
            for name, line in reversed(french_alone().items())
        }
    judged = [kind for kind in kinds if kind in ("BLEU", "chrF")]
    caption = (
        ("Continued and translated" if spoken else "Percent of gaps filled right")
        + " after "
        + " and ".join(f"{number:,}" for number in steps)
        + f" steps; {len(found[steps[0]])} seeds (lowest to highest)"
        + (f"; {signed(first, *judged)}" if judged else "")
    )
    return with_each_command(figures.table(rows, wide=True, caption=caption))


# What the recorded runs decide --------------------------------------------------------------------


def sentence_sums(
    kind: str, way: str, runs: Sequence[Mapping]
) -> tuple[list[list[float]], list[int]]:
    """Of each run what a measure adds up, sentence by sentence, and how much of it each sentence
    has.

    perplexity: nats, and words of the rest, also of an n-gram; else percent (100 for a sentence
    that is right), and ones."""
    if kind == "perplexity":
        return [
            (
                run["rest_nats"]
                if way in run["rest_nats"]
                else {name: row["nats"] for name, row in run["ngrams"].items()}
            )[way]
            for run in runs
        ], runs[0]["rest_words"]
    marks = [
        run["translated"][way]["right"] if kind == "exact" else run["filled_right"][way][kind]
        for run in runs
    ]
    return [[100.0 * (mark == "1") for mark in row] for row in marks], [1] * len(marks[0])


Difference = Callable[[Sequence, Sequence, Sequence[int]], dict]  # chapter 22's


def gap_between(
    difference: Difference,
    kind: str,
    ours: str,
    theirs: str,
    runs: Sequence[Mapping],
    others: Sequence[Mapping] = (),
) -> dict:
    """What `ours` has more than `theirs`, with its interval; in the same runs, or `theirs` in other
    ones with the same seeds."""
    (one, tokens), (other, _) = sentence_sums(kind, ours, runs), sentence_sums(
        kind, theirs, others or runs
    )
    return difference(one, other, tokens)


def decided_rows(difference: Difference, steps: int) -> list[dict]:
    """The pairs that the chapter talks about: differences with so many steps, and whether they are
    decided."""
    runs = recorded_runs(steps)
    gaps = [
        (kind, ours, theirs, gap_between(difference, kind, ours, theirs, runs))
        for kind, ours, theirs in PAIRS
    ]
    return [
        {
            "": f"{ours} − {theirs}",
            "of": UNITS[kind],
            "difference": gap_told(kind, gap),
            "decided": gap["decided"],
        }
        for kind, ours, theirs, gap in gaps
    ]


def gap_told(kind: str, gap: Mapping[str, float]) -> str:
    "A difference with its interval, in nats or in percentage points."
    return fair.gap_said(gap, 2 if kind == "perplexity" else 1)


def grouped(rows: Sequence[Mapping]) -> list[Mapping]:
    "The rows with a heading above those of one measure, instead of its name in each."
    found: list[Mapping] = []
    for k, row in enumerate(rows):
        found += [{"": row["of"]}] if not k or rows[k - 1]["of"] != row["of"] else []
        found.append({key: value for key, value in row.items() if key != "of"})
    return found


def intervals(difference: Difference) -> figures.Picture:
    """The table of differences between families after the longer trainings, and that of the shorter
    ones in a fold. difference: chapter 22's."""
    few, many = STEPS
    runs = recorded_runs(many)
    first = figures.table(
        grouped(decided_rows(difference, many)),
        caption=(
            f"After {many:,} steps; 95% intervals over {len(runs)} seeds and {runs[0]['unseen']}"
            f" unseen sentences. {beside()}"
        ),
    )
    return figures.folded(
        fair.with_commands(first, parts=[PART]),
        figures.table(grouped(decided_rows(difference, few)), caption=f"After {few:,} steps"),
        f"the same after {few:,} steps",
    )


def gains(difference: Difference) -> figures.Picture:
    "What more steps change, a row for each way and measure. difference: chapter 22's."
    few, many = map(recorded_runs, STEPS)
    rows = []
    for kind, way in CHANGES:
        gap = gap_between(difference, kind, way, way, many, few)
        means = [fmean(measured(kind, way, run) for run in runs) for runs in (few, many)]
        rows.append(
            {
                "": way,
                "of": UNITS[kind],
                "means": " to ".join(f"{value:.1f}" for value in means),
                "difference": gap_told(kind, gap),
                "decided": gap["decided"],
            }
        )
    found = figures.table(
        grouped(rows),
        caption=(
            f"From {STEPS[0]:,} to {STEPS[1]:,} steps. Means are perplexities where the difference"
            f" is in nats. {beside()}"
        ),
    )
    return fair.with_commands(found, parts=[PART])


def three_tasks(steps: Sequence[int] = STEPS) -> figures.Picture:
    """The result: fill, continue, translate in the recorded runs, a line for each way from the
    first number of steps to the last, a band for the seeds."""
    found = {number: recorded_runs(number) for number in steps}
    first = found[steps[0]][0]
    panels, told, ended = [], [], []
    for title, kind, ways, options in (
        ("Fill: il or elle", "il or elle", FILLERS, {"ylabel": "percent right", "ylim": (0, 105)}),
        (
            "Continue",
            "perplexity",
            SPEAKERS,
            {
                "ylabel": "perplexity, lower is better",
                "logy": True,
                "hline": (french_alone()["trigram"], "trigram"),
            },
        ),
        ("Translate", "BLEU", SPEAKERS, {"ylabel": "BLEU", "ylim": (0, 105)}),
    ):
        lines = {
            label: fair.band(
                steps, [[measured(kind, way, run) for run in runs] for runs in found.values()]
            )
            for way, (label, _) in ways.items()
        }
        panels.append(
            {
                "series": lines,
                "title": title,
                "colors": {label: COLOURS[way.split(",")[0]] for way, (label, _) in ways.items()},
                "styles": {label: style for label, style in ways.values()},
                **options,
            }
        )
        digits = 2 if kind == "perplexity" else 0
        what = {"il or elle": "percent of pronouns right", "perplexity": "Perplexity"}.get(
            kind, kind
        )
        told.append(
            f"{what}: "
            + ", ".join(
                f"{label} from {line[1][0]:.{digits}f} to {line[1][-1]:.{digits}f}"
                for label, line in lines.items()
            )
        )
        ended.append(
            f"{what}: "
            + ", ".join(f"{label} {line[1][-1]:.{digits}f}" for label, line in lines.items())
        )
    seeds = len(found[steps[0]])
    return fair.with_commands(
        figures.curve_panels(
            panels,
            logx=True,
            xlabel="steps of training",
            caption=(
                f"Means of {seeds} seeds; the bands hold all of them. After {steps[-1]:,} steps:"
                f" {'. '.join(ended)}. {beside()} {signed(first, 'BLEU')}."
            ),
            alt=(
                f"Three panels, each from {steps[0]:,} to {steps[-1]:,} steps of training:"
                f" {'. '.join(told)}."
            ),
        ),
        parts=[PART],
    )


def cut_into_patches(image: Tensor, patches: Tensor) -> figures.Picture:
    "An image of 4 × 4 pixels, and the four rows of numbers that its patches of 2 × 2 become."
    sheet = figures.Drawing(360, 194)
    sheet.text(90, 14, "an image of 4 × 4", weight="bold").text(
        282, 14, "four tokens", weight="bold"
    )
    for k, (row, column) in enumerate(((0, 0), (0, 2), (2, 0), (2, 2))):
        sheet.matrix(
            20 + 37 * column,
            32 + 39 * row,
            image[row : row + 2, column : column + 2] / 15,
            cell=32,
            fmt="",
            cmap="cividis",
        )
        sheet.matrix(218, 32 + 40 * k, patches[k : k + 1] / 15, cell=32, fmt="", cmap="cividis")
    sheet.arrow(174, 106, 208, 106)
    return sheet.show(
        alt=(
            "An image of four by four pixels is cut into four patches of two by two; each becomes a"
            " row of four numbers, a token."
        ),
        caption=(
            f"An image of {image.numel()} pixels becomes {len(patches)} tokens of {patches.size(1)}"
            " numbers."
        ),
    )


def famous() -> figures.Picture:
    "Well-known models: their family, what a token is, what they learn to say."
    return figures.table(
        [dict(zip(("model", "family", "a token is", "it learns to say"), row)) for row in FAMOUS],
        caption="Where the famous ones sit",
    )
