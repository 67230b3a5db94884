"""What a run was planned with: written once, compared whole before anything is changed."""

# A training that goes on must be the training that was begun. `compare` reads the plan that lies in
# a run's folder and says in one sentence what differs; it writes nothing. `agree` does both: it
# compares, or writes the plan when there was none.
import hashlib
import json
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, is_dataclass
from pathlib import Path

from transformer_lit.corpora.files import write_text
from transformer_lit.runtime.distributed import process

NAME = "plan.json"


def text(plan: dict) -> str:
    "The plan as the file holds it."
    return json.dumps(plan, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def digest(anything) -> str:
    """SHA-256 of what `anything` looks like: lists and tuples of numbers and texts, the training
    pairs above all."""
    found = hashlib.sha256()
    for item in anything:
        found.update(repr(item).encode("utf-8", "surrogatepass") + b"\n")
    return found.hexdigest()


def plan_for(model, config, optimizer, batches, **more) -> dict:
    """All that decides how a training comes out: sizes, settings, optimiser, pairs and their hash,
    and `more`.

    `epochs` and `checkpoint_every` are left out: a run that is done can be prolonged, and saved
    more often."""
    sizes, settings = getattr(model, "config", None), asdict(config)
    for free in "epochs", "checkpoint_every":
        del settings[free]
    return {
        "model": (
            asdict(sizes)
            if is_dataclass(sizes) and not isinstance(sizes, type)
            else type(model).__name__
        ),
        "training": settings,
        "optimizer": type(optimizer).__name__,
        "pairs": len(batches),
        "data": batches.digest(),
        **more,
    }


def leaves(plan, path: tuple = ()) -> dict[tuple, object]:
    "Every value by its path of names; lists are values."
    if isinstance(plan, dict) and plan:
        return {k: v for name, part in plan.items() for k, v in leaves(part, (*path, name)).items()}
    return {path: plan}


def differences(kept: dict, now: dict) -> list[str]:
    """What differs, as 'n_heads=2; now n_heads=4'. A name that stands in several places is given
    with its path."""
    one, two = (leaves(json.loads(text(plan))) for plan in (kept, now))
    paths = list(dict.fromkeys([*two, *one]))
    often = Counter(path[-1] for path in paths)
    said = []
    for path in paths:
        if path in one and path in two and one[path] == two[path]:
            continue
        name = path[-1] if often[path[-1]] == 1 else ".".join(path)
        values = [shown(found[path]) if path in found else None for found in (one, two)]
        if any(value is not None and len(value) > 40 for value in values):
            said.append(f"other {name}")
        else:
            was, is_ = (f"no {name}" if value is None else f"{name}={value}" for value in values)
            said.append(f"{was}; now {is_}")
    return said


def shown(value) -> str:
    return (
        "none"
        if value is None
        else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    )


def compare(path: Path, now: dict, part: bool = False, most: int = 3) -> bool:
    """Is there a plan already, and the same one? False if there is none yet.

    part: `now` is a part of a plan, and the rest isn't looked at. Raises ValueError with one
    sentence that names what differs, or says that the file can't be read. Writes nothing.
    """
    if not path.exists():
        return False
    try:
        kept = json.loads(path.read_text("utf-8"))
        if not isinstance(kept, dict) or not kept:
            raise ValueError("it holds no plan")
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"{path} can't be read ({error}): put the old file back, or use another folder"
            " (--folder)"
        ) from None
    if part:
        kept = {name: kept[name] for name in now if name in kept}
        if not kept:
            raise ValueError(
                f"{path.parent} was begun by another command: use another folder (--folder)"
            )
    found = differences(kept, now)
    if found:
        more = f", and {len(found) - most} more" if len(found) > most else ""
        raise ValueError(
            f"{path.parent} was begun with {', '.join(found[:most])}{more}: keep to it, or use"
            " another folder (--folder)"
        )
    return True


def agree(folder: Path, now: dict) -> None:
    """Compare the folder's plan with `now`, or write it, whole, if there is none. ValueError as
    `compare`."""
    path = folder / NAME
    if not compare(path, now):
        write_text(path, text(now))


def keep_to(trainer, batches) -> None:
    """Compare the plan in a trainer's folder with this run, or write it: its own, or `plan_for`
    with the rate at some steps.

    Of several processes the first does it. ValueError as `compare`."""
    if process()[0] == 0:
        log, begun = (
            trainer.folder / "log.jsonl",
            (trainer.folder / NAME).exists() or trainer.step > 0,
        )
        if not begun and log.exists() and log.stat().st_size:
            raise FileExistsError(
                f"{log} belongs to another run, of which neither plan nor checkpoint is there: use"
                " another folder"
            )
        rates = {f"rate at step {n}": trainer.schedule(n) for n in (1, 10, 100, 1000, 10000)}
        agree(
            trainer.folder,
            trainer.plan
            or plan_for(trainer.model, trainer.config, trainer.optimizer, batches, **rates),
        )


def settings_in(folder: Path) -> dict:
    """The training settings of the run that was begun in a folder; none, if none was or its plan
    can't be read, which `compare` tells."""
    with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
        return dict(json.loads((folder / NAME).read_text("utf-8"))["training"])
    return {}


def same_order(path: Path, kept: list, now: list) -> None:
    """ValueError unless the checkpoint at `path` counts the same batches as this run: from the same
    pairs, seed and limit.

    The plan says more; this holds where plan.json was lost."""
    if kept != now:
        raise ValueError(
            f"{path} was planned with pairs, seed, max_tokens = {kept}: keep them, or use another"
            " folder"
        )
