"""Chapter 26's figures and tables: three families of models, what each was asked, and what each can do."""
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from . import fair, figures
from .fair import over_seeds
from .sketches import Prose, in_a_row

ONE, LEFT, TWO = "encoder-only", "decoder-only", "encoder-decoder"
COLOURS = {ONE: figures.ENCODER, LEFT: figures.DECODER, TWO: figures.BRIDGE}
FAMOUS = (  # model, family, what a token is, what it learns to say
    ("BERT, 2018", ONE, "pieces of words", "covered words"),
    ("ViT, 2020", ONE, "patches of an image", "what the image shows"),
    ("AlphaFold 2, 2021", "no decoder; attention of its own", "residues of a protein and its relatives, and pairs of residues",
     "the folded shape, and covered residues"),
    ("GPT, 2018 to 2020", LEFT, "pieces of words", "the next one"),
    ("Transformer, 2017", TWO, "pieces of words", "translations"),
    ("BART, 2019", TWO, "pieces of words", "the text before it was spoilt"),
    ("T5, 2019", TWO, "pieces of words", "what was cut out; every task as text"),
    ("Whisper, 2022", TWO, "frames of sound in, pieces of words out", "what was said, or its English"))


def who_moves_whom(seen: Mapping[str, Tensor], words: Sequence[str]) -> figures.Picture:
    "A square of rows that move and columns that move them for each family. seen: family -> (L, L), true where the row moves."
    counts = ", ".join(f"{family} {int(open_.sum())} of {open_.numel()}" for family, open_ in seen.items())
    return figures.heatmaps([{"matrix": open_, "title": family, "rows": words, "cols": words} for family, open_ in seen.items()], cmap="mask",
                            caption=f"Squares in which the row's state moves with the column's word: {counts}.",
                            alt=f"Who moves whom, measured, light for yes: {counts} squares.")


def same_picture(found: Mapping[str, Tensor], seen: Mapping[str, Tensor]) -> Prose:
    "Which of the pictures each model has. found: model -> (L, L), seen: family -> (L, L)."
    return Prose(" ".join(f"The picture of {name} is " + (in_a_row([f"the {family} one" for family in same]) if same else "none of the three") + "."
                          for name, open_ in found.items() for same in [[family for family, one in seen.items() if torch.equal(open_, one)]]))


def shares_table(drawn: Mapping[str, tuple[float, Tensor]]) -> figures.Picture:
    "What was drawn beside what was wanted, and how far off it is in standard errors. drawn: what -> (wanted, one truth value per try)."
    rows = {name: {"wanted": f"{wanted:.0%}", "drawn": f"{hits.float().mean().item():.1%}",
                   "standard errors off": (hits.float().mean().item() - wanted) / (wanted * (1 - wanted) / len(hits)) ** 0.5}
            for name, (wanted, hits) in drawn.items()}
    most = max(abs(row["standard errors off"]) for row in rows.values())
    return figures.table(rows, fmt="{:+.1f}", caption=f"The four shares, at most {most:.1f} standard errors from those wanted")


def ways_to_ask(reports: Mapping[str, Mapping[str, float]]) -> figures.Picture:
    "Ways to choose what is asked, and what a copier makes of each. reports: name of the way -> what was counted."
    copied = [f"{name.replace('_', ' ')} {report['copier is right']:.0%}" for name, report in reports.items()]
    return figures.table({name.replace("_", " "): report for name, report in reports.items()}, fmt="{:.2f}",
                         caption=f"What a copier gets right: {', '.join(copied)}")


def covering_table(words: Sequence[str], first: Tensor, second: Tensor, read: Sequence[str], say: Sequence[str]) -> figures.Picture:
    "Word by word: two random numbers, what is read, and what is to be said; \"\" where nothing is. second counts if first < 0.15."
    return figures.table([{"word": word, "first": f"{a:.2f}", "second": f"{b:.2f}" if a < 0.15 else "–", "read": r, "to be said": s or "–"}
                          for word, a, b, r, s in zip(words, first.tolist(), second.tolist(), read, say)], caption="Two random numbers per word, and what becomes of it")


def end_of(losses: Sequence[float], n: int = 20) -> float:
    "The mean of the last `n` losses."
    return sum(losses[-n:]) / n


def losses_by_way(leaks: Mapping[str, tuple[Sequence[float], float]]) -> figures.Picture:
    "Training losses of three ways to cover. leaks: name of the way -> (losses, share of gaps filled right)."
    lines = {name.replace("_", " "): losses for name, (losses, _) in leaks.items()}
    shares = {name.replace("_", " "): share for name, (_, share) in leaks.items()}
    low, wrong = min(lines, key=lambda name: end_of(lines[name])), [name for name in lines if name != "covered"]
    return figures.curves(lines, xlabel="step", ylabel="loss of the words asked for", colors={"covered": figures.INK, **dict.fromkeys(wrong, figures.FAULT)},
                          styles=dict(zip(wrong, ("--", ":"))),
                          caption=f"The lowest loss, {end_of(lines[low]):.2f}, belongs to {low}; covered ends at {end_of(lines['covered']):.2f}. "
                          f"Gaps filled right: {', '.join(f'{name} {share:.0%}' for name, share in shares.items())}.",
                          alt=f"{len(lines)} training losses. Mean of the last twenty: " + ", ".join(
                              f"{name} {end_of(losses):.2f}" for name, losses in lines.items()) + ".")


def products_table(products: Mapping[str, Tensor]) -> figures.Picture:
    "Two words: what each way multiplies to for two of the four sentences, and for all together. products: way -> (2, 2)."
    return figures.table([{"way": way, "il fatigué": p[0, 0].item(), "il fatiguée": p[0, 1].item(), "sum of all four": p.sum().item()}
                          for way, p in products.items()], fmt="{:.2f}", caption="What three models make of four sentences")


def sums_table(cases: Sequence[tuple[str, Callable]], sums: Sequence[float]) -> figures.Picture:
    "The sum of the probabilities of all sentences, by family and by the function that reads each word."
    return figures.table([{"family": family, "each word read": way.__name__.replace("_", " "), "sum over all sentences": total}
                          for (family, way), total in zip(cases, sums)], fmt="{:.4f}", caption="The probabilities of all sentences, added up")


def smoothed(losses: Sequence[float], n: int = 10) -> list[float]:
    "Of each step the mean of the last `n` losses, of fewer at the start."
    return [sum(losses[max(0, i - n + 1):i + 1]) / len(losses[max(0, i - n + 1):i + 1]) for i in range(len(losses))]


def three_trainings(losses: Mapping[str, Sequence[float]]) -> figures.Picture:
    "Loss per word asked for, ten steps' mean. The decoder-only loss is the sum of two, one per language, and is halved."
    lines = {family: [y / (2 if family == LEFT else 1) for y in smoothed(ys)] for family, ys in losses.items()}
    ends = ", ".join(f"{family} from {ys[0]:.2f} to {ys[-1]:.2f}" for family, ys in lines.items())
    return figures.curves(lines, xlabel="step", ylabel="loss per word asked for", colors=COLOURS, caption=f"Three questions, three losses: {ends}.",
                          alt=f"Losses of three questions, so their heights can't be compared: {ends}.")


def efforts(sizes: Mapping[str, int], losses: Mapping[str, Sequence[float]], counted: Mapping[str, int],
            asked: Mapping[str, Sequence[int]]) -> figures.Picture:
    "Weights, steps, operations and questions. asked: family -> the words asked for in each sentence; the table has their mean."
    return figures.table([{"family": family, "parameters": sizes[family], "steps": len(losses[family]), "operations, 10⁶": round(counted[family] / 1e6),
                           "words asked per sentence": sum(asked[family]) / len(asked[family])} for family in sizes], fmt="{:.1f}",
                         caption="Equal weights and steps, unequal work and questions")


def reading_map(sight: Tensor, families: Sequence[str], words: Sequence[str], gap: int) -> figures.Picture:
    "Which words of a sentence each family reads when it names the word at place `gap`: (families, words)."
    words = [*words[:gap], "…", *words[gap + 1:]]
    return figures.heatmap(sight, rows=list(families), cols=list(words), cmap="mask",
                           caption=f"To name the gap, of {len(words)} places " + ", ".join(
                               f"{family} reads {int(row.sum())}" for family, row in zip(families, sight)) + ".",
                           alt="A row for each family over the words of a sentence with a gap; light is what is read.")


def gaps_filled(filled: Mapping[str, Mapping[str, float]], n: int) -> figures.Picture:
    "The shares of gaps filled right. filled: way -> kind of gap -> share; n: how many sentences."
    return figures.table({way: {kind: f"{share:.0%}" for kind, share in row.items()} for way, row in filled.items()},
                         caption=f"Gaps filled right in {n} unseen sentences")


def continuing(perplexities: Mapping[str, float]) -> figures.Picture:
    "Perplexity of the rest of a sentence, a bar for each way to go on; a way's name begins with its family."
    best, worst = min(perplexities, key=perplexities.__getitem__), max(perplexities, key=perplexities.__getitem__)
    ends = f"{perplexities[best]:.2f} ({best}) to {perplexities[worst]:.2f} ({worst})"
    return figures.bars(perplexities, xlabel="perplexity of the rest", colors={way: COLOURS[way.split(",")[0]] for way in perplexities},
                        caption=f"Perplexity of the rest, from {ends}.", alt=f"Perplexity of the rest of a sentence, the shortest bar is the best: from {ends}.")


def ends_table(beginning: str, ends: Mapping[str, str]) -> figures.Picture:
    "How each family goes on. ends: family -> what it says after `beginning`."
    return figures.table([{"family": family, f"{beginning} …": end} for family, end in ends.items()], caption="One beginning, three ends")


def translations(translated: Mapping[str, Mapping[str, Any]], english: str, signature: str) -> figures.Picture:
    "BLEU, exact matches and the first translation. translated: way -> these three; `english` is what the first one translates."
    return figures.table({way: {**row, "exact": f"{row['exact']:.0%}", "BLEU": f"{row['BLEU']:.1f}"} for way, row in sorted(translated.items())},
                         caption=f"{english} ({signature})")


def all_tasks(filled: Mapping[str, Mapping[str, float]], perplexities: Mapping[str, float],
              translated: Mapping[str, Mapping[str, Any]]) -> figures.Picture:
    "Fill, continue, translate: a row for each family and way. Each argument: way -> what was measured."
    def row(fills: str = "", goes: str = "", says: str = "") -> dict[str, str]:
        found = {task: f"{filled[fills][task]:.0%}" if fills else "" for task in ("il or elle", "any word")}
        found["perplexity"] = f"{perplexities[goes]:.2f}" if goes else ""
        found["exact"] = f"{translated[says]['exact']:.0%}" if says else ""
        return found | {"BLEU": f"{translated[says]['BLEU']:.1f}" if says else ""}

    once, many = f"{ONE}, one look", f"{ONE}, a look per word"
    return figures.table({once: row(ONE, once, once), many: row("", many, many), LEFT: row(LEFT, LEFT, LEFT),
                          f"{LEFT}, 16 looks": row(f"{LEFT}, 16 looks"), TWO: row(TWO, TWO, TWO)},
                         caption="Fill, continue, translate: one seed")


def recorded_runs(steps: int, peak: float = 6e-3) -> list[dict]:
    "The recorded runs with so many steps and this peak of the rate, in the order of their seeds."
    runs = fair.record_of("families", "pocket")["runs"]
    return sorted((run for run in runs if (run["steps"], run["peak"]) == (steps, peak)), key=lambda run: run["seed"])


def over_runs(kind: str, way: str, runs: Sequence[Mapping]) -> str:
    "One measure of one way: mean, lowest and highest of the seeds. kind: a kind of gap (in percent), perplexity, or BLEU."
    values = [run["perplexity"][way] if kind == "perplexity" else run["translated"][way]["BLEU"] if kind == "BLEU"
              else 100 * run["filled"][way][kind] for run in runs]
    return over_seeds(values, 1 if kind == "perplexity" else 0)


def with_more_steps(kinds: Sequence[str], steps: Sequence[int] = (800, 3200)) -> figures.Picture:
    "What the recorded runs reach, a row for each way and a column for each kind (see `over_runs`; kinds of gaps, or others) and number of steps."
    found = {number: recorded_runs(number) for number in steps}
    spoken = "perplexity" in kinds
    ways = found[steps[0]][0]["perplexity" if spoken else "filled"]
    return figures.table({way: {f"{kind}, {number:,}": over_runs(kind, way, runs) for kind in kinds for number, runs in found.items()}
                          for way in sorted(ways)}, caption=("Continued and translated" if spoken else "Percent of gaps filled right") + " after "
                         + " and ".join(f"{number:,}" for number in steps) + f" steps; {len(found[steps[0]])} seeds (lowest to highest)")


def cut_into_patches(image: Tensor, patches: Tensor) -> figures.Picture:
    "An image of 4 × 4 pixels, and the four rows of numbers that its patches of 2 × 2 become."
    sheet = figures.Drawing(360, 194)
    sheet.text(90, 14, "an image of 4 × 4", weight="bold").text(282, 14, "four tokens", weight="bold")
    for k, (row, column) in enumerate(((0, 0), (0, 2), (2, 0), (2, 2))):
        sheet.matrix(20 + 37 * column, 32 + 39 * row, image[row:row + 2, column:column + 2] / 15, cell=32, fmt="", cmap="cividis")
        sheet.matrix(218, 32 + 40 * k, patches[k:k + 1] / 15, cell=32, fmt="", cmap="cividis")
    sheet.arrow(174, 106, 208, 106)
    return sheet.show(alt="An image of four by four pixels is cut into four patches of two by two; each becomes a row of four numbers, a token.",
                      caption=f"An image of {image.numel()} pixels becomes {len(patches)} tokens of {patches.size(1)} numbers.")


def famous() -> figures.Picture:
    "Well-known models: their family, what a token is, what they learn to say."
    return figures.table([dict(zip(("model", "family", "a token is", "it learns to say"), row)) for row in FAMOUS],
                         caption="Where the famous ones sit")
