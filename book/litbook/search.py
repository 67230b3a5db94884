"""Hyperparameter search of part IV: chapter 22's, for every system alike."""

# loss_of makes a trial or reads it, and returns its validation loss: infinite for a run that didn't
# train.
import math
from collections.abc import Callable
from statistics import mean

from transformer_lit.comparison import SETUPS, Hyperparameters, next_peak_lr, next_trial

SEEDS, SEARCH_SEEDS = SETUPS["tatoeba"].seeds, SETUPS["tatoeba"].search_seeds
FULL, SEARCH = 2_000_000, {"tatoeba": 500_000, "pocket": 300_000}  # target tokens
BEHIND = 0.15  # nats: a trial so far behind the best isn't run with the second seed
MAX_PEAKS = 6  # of the second part

# of target tokens, peak of the rate, share of warm-up, seed
LossOf = Callable[[tuple[int, float, float, int]], float]


def first_part(tokens: int, loss_of: LossOf) -> dict[Hyperparameters, float]:
    """Peak times warm-up on a quarter of the budget, with two seeds that no result has: setting ->
    mean loss; infinite where the first seed was too far behind.

    From three peaks at a warm-up of 0.1 it walks to the better neighbor until the best trial has
    four worse ones around it, or until chapter 22's MAX_TRIALS are spent. One seed's loss isn't
    compared with a mean of two."""
    trials: dict[Hyperparameters, float] = {}
    lowest = math.inf  # of the first seed
    while setting := next_trial(trials):
        losses = []
        for seed in SEARCH_SEEDS:
            losses.append(loss_of((tokens, *setting, seed)))
            if losses[0] > lowest + BEHIND:
                losses = [math.inf]
                break
            lowest = min(lowest, losses[0])
        trials[setting] = mean(losses)
    return trials


def second_part(tokens: int, start: Hyperparameters, loss_of: LossOf) -> dict[float, float]:
    """Peaks with the full budget, or another, and one seed: halved or doubled as long as that
    helps, for the best peak of a short run need not be that of a long one."""
    trials: dict[float, float] = {}
    peak: float | None = start[0]
    while peak is not None and len(trials) < MAX_PEAKS:
        trials[peak] = loss_of((tokens, peak, start[1], SEARCH_SEEDS[0]))
        peak = next_peak_lr(trials)
    return trials


def search(ground: str, loss_of: LossOf) -> Hyperparameters | None:
    "Peak and warm-up after both parts; None if nothing trained."
    trials = first_part(SEARCH[ground], loss_of)
    setting = min(trials, key=trials.__getitem__)
    if math.isinf(trials[setting]):
        return None
    peaks = second_part(FULL, setting, loss_of)
    peak = min(peaks, key=peaks.__getitem__)
    return None if math.isinf(peaks[peak]) else (peak, setting[1])
