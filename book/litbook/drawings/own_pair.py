"""The recorded runs of the appendix on your own pair: what the tables of its page are made of."""

# Runs on so many real pairs, with some other text, one change of the recipe, or fewer epochs (0:
# as many as the row of the table has). Runs that differ in the seed alone are one cell.
from collections.abc import Sequence

import pandas as pd

from litbook import results as recorded

TEST, SHORT = "tatoeba", 4  # SHORT: epochs of runs that are compared with each other alone
NOISE = {
    "misaligned": "French of another pair",
    "misordered": "French words shuffled",
    "wrong-language": "German for French",
    "untranslated": "English on both sides",
}


def cell(pairs: int, text: str = "real", change: str = "", epochs: int = 0) -> pd.DataFrame:
    "The runs of a cell, in the order of seeds; none if it wasn't run."
    runs = recorded.load_runs("own")
    runs = runs[
        (runs.pairs == pairs)
        & (runs.text == text)
        & (runs.change == change)
        & (runs.epochs == epochs)
        & runs.tests.notna()
    ]
    return recorded.read(runs.sort_values("seed"))


def row(pairs: int) -> pd.DataFrame:
    """The whole runs of a row of the table. The book's own translator is the only one of its row;
    the last row has other text besides, law and manuals, and its run is cut short."""
    texts = "real", "shipped", "general"
    return next(runs for text in texts if len(runs := cell(pairs, text)))


def scores(
    runs: pd.DataFrame, metric: str = "bleu", best: bool = False, which: str = "all"
) -> list[dict]:
    """A score of each run on the everyday test, with its interval: after the last epoch, as the
    command keeps a model, or at its best one; with all references or the first."""
    lasts = runs["last"].where(runs["last"].notna(), None)
    return [
        ((not best and last) or tests[TEST])[which][metric]
        for last, tests in zip(lasts, runs.tests)
    ]


def values(runs: pd.DataFrame, *score, **options) -> list[float]:
    "The scores without their intervals."
    return [score["value"] for score in scores(runs, *score, **options)]


def with_same_seeds(ours: pd.DataFrame, theirs: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    "Of two cells the runs whose seeds both have."
    return ours[ours.seed.isin(theirs.seed)], theirs[theirs.seed.isin(ours.seed)]


def gain(ours: pd.DataFrame, theirs: pd.DataFrame, test: str = TEST) -> dict:
    "BLEU that a cell has more than another at the epoch of least loss, over the seeds of both."
    kept = recorded.load_sentences("own")
    sides = with_same_seeds(ours, theirs)
    return recorded.bleu_difference(*([kept[f"{run}/bleu/{test}"] for run in s.run] for s in sides))


def gain_text(ours: pd.DataFrame, theirs: pd.DataFrame, test: str = TEST, verdict=False) -> str:
    "The same in words; of several seeds also whether it is decided."
    several = len(with_same_seeds(ours, theirs)[0]) > 1
    return recorded.gap_text(gain(ours, theirs, test), 1, verdict and several)


def loss_over(ours: pd.DataFrame, theirs: pd.DataFrame) -> float:
    "Validation loss per character over that of another cell with the same seeds, less 1."
    one, two = with_same_seeds(ours, theirs)
    return one.valid_per_character.mean() / two.valid_per_character.mean() - 1


def change_rows(pairs: int) -> list[dict]:
    """Each change of a row of the table: validation loss per character over the row's, and gains in
    BLEU; the least loss first. The gain at the best epoch has its interval, that at the end
    hasn't."""
    runs = recorded.load_runs("own")
    same = (runs.pairs == pairs) & (runs.text == "real") & (runs.epochs == 0)
    rows = []
    for change in filter(None, runs[same].change.unique()):
        field, _, value = change.partition("=")
        ours, base = with_same_seeds(cell(pairs, change=change), cell(pairs))
        before = base["size"].iloc[0][field]
        name = {"max_tokens": "tokens in a batch", "vocabulary": "subwords"}.get(field, field)
        name += " of each stack" * (field == "layers")
        ends = sum(values(ours)) / len(ours) - sum(values(base)) / len(base)
        rows.append(
            {
                "": f"{name}: {type(before)(value):,}, not {before:,}",
                "loss": loss_over(ours, base),
                "BLEU, best": gain_text(ours, base),
                "BLEU, end": f"{round(ends, 1) + 0.0:+.1f}",
                "seeds": len(ours),
            }
        )
    rows.sort(key=lambda row: row["loss"])
    return [{**row, "loss": f"{row['loss']:+.1%}"} for row in rows]


def noise_ways() -> dict[str, tuple[str, str]]:
    "The ways to train on wrong lines: what is added to the text's name, the rule that finds it."
    return {
        "on all lines": ("", ""),
        "worst tenth out": ("+filtered", "own score"),
        "cleaned": ("+cleaned", "all rules"),
    }


def found(kind: str, rule: str, key: str = "recall") -> float:
    "The share of the wrong lines of a kind, or of the clean ones, that a rule throws out."
    shares = [found[rule][key] for found in cell(50_000, kind, epochs=SHORT).found]
    return sum(shares) / len(shares)


def shown(pairs: int, text: str, sentences: Sequence[str]) -> list[list[str]]:
    "What the first seed's record shows for some sentences. KeyError for one that isn't there."
    kept = {first: rest for first, *rest in cell(pairs, text).shown.iloc[0]}
    return [kept[sentence] for sentence in sentences]
