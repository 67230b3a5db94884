"""How a design's setting is chosen in part IV: chapter 22's search, for every design alike."""

# Each part yields trials and is sent their validation losses (infinite for a run that didn't
# train), so that what is due next can hang on what was found.
import math
from collections.abc import Callable, Generator
from statistics import mean

from transformer_lit.equal_cost import SCALES, Setting, next_peak, next_setting

SEEDS, SEARCH_SEEDS = SCALES["tatoeba"].seeds, SCALES["tatoeba"].search_seeds
FULL, SEARCH = 2_000_000, {"tatoeba": 500_000, "pocket": 300_000}  # target tokens
BEHIND = 0.15  # nats: a trial so far behind the best isn't run with the second seed
MOST_PEAKS = 6  # of the second part

Trial = tuple[int, float, float, int]  # target tokens, peak of the rate, share of warm-up, seed


def first_part(tokens: int) -> Generator[Trial, float, dict[Setting, float]]:
    """Peak times warm-up on a quarter of the budget, with two seeds that no result has: setting ->
    mean loss; infinite where the first seed was too far behind.

    From three peaks at a warm-up of 0.1 it walks to the better neighbor until the best trial has
    four worse ones around it, or until chapter 22's TRIALS are spent. One seed's loss isn't
    compared with a mean of two."""
    tried: dict[Setting, float] = {}
    lowest = math.inf  # of the first seed
    while setting := next_setting(tried):
        losses = []
        for seed in SEARCH_SEEDS:
            losses.append((yield tokens, *setting, seed))
            if losses[0] > lowest + BEHIND:
                losses = [math.inf]
                break
            lowest = min(lowest, losses[0])
        tried[setting] = mean(losses)
    return tried


def second_part(tokens: int, start: Setting) -> Generator[Trial, float, dict[float, float]]:
    """Peaks with the full budget, or another, and one seed: halved or doubled as long as that
    helps, for the best peak of a short run need not be that of a long one."""
    tried: dict[float, float] = {}
    peak: float | None = start[0]
    while peak is not None and len(tried) < MOST_PEAKS:
        tried[peak] = yield tokens, peak, start[1], SEARCH_SEEDS[0]
        peak = next_peak(tried)
    return tried


def search(ground: str, longer: int = 0) -> Generator[Trial, float, Setting | None]:
    """Peak and warm-up after both parts; None if nothing trained. longer: a budget above the full
    one, for which the second part is walked again from its choice."""
    tried = yield from first_part(SEARCH[ground])
    setting = min(tried, key=tried.__getitem__)
    for budget in (FULL, *([longer] if longer else [])):
        if math.isinf(tried[setting]):
            return None
        peaks = yield from second_part(budget, setting)
        setting = min(peaks, key=peaks.__getitem__), setting[1]
        tried = {setting: min(peaks.values())}
    return None if math.isinf(tried[setting]) else setting


def walk(steps: Generator[Trial, float, Setting | None], loss_of: Callable[[Trial], float]):
    "Through a search; loss_of makes a trial or reads it. Returns the choice."
    try:
        trial = next(steps)
        while True:
            trial = steps.send(loss_of(trial))
    except StopIteration as end:
        return end.value
