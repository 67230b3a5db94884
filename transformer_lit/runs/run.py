"""The output directory of a training run: configuration, log, lock, stop requests."""

import hashlib
import json
import os
import signal
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, is_dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from transformer_lit.corpora.files import read_json, write_json, write_text
from transformer_lit.runs import checkpoints
from transformer_lit.runtime import distributed

CONFIG, LOG, LOCK = "config.json", "log.jsonl", ".training.lock"
WRITTEN = (  # by most trainings, beside the configuration
    "translator.json", "tokenizer.json", checkpoints.NAME, "model.safetensors", LOG, "run.json",
    "hypotheses.txt",
)  # fmt: skip
# a finished run can be prolonged, and saved more often
MAY_CHANGE = "epochs", "checkpoint_every", "log_every"


def fingerprint(items: Iterable) -> str:
    "SHA-256 of lists and tuples of numbers and texts, the training pairs above all."
    digest = hashlib.sha256()
    for item in items:
        digest.update(repr(item).encode("utf-8", "surrogatepass") + b"\n")
    return digest.hexdigest()


def run_config(trainer, data) -> dict:
    """What may not change while a run goes on: sizes, settings, optimizer, learning rates, data,
    and the trainer's metadata."""
    sizes, settings = getattr(trainer.model, "config", None), asdict(trainer.config)
    rates = {f"rate at step {n}": trainer.lr_schedule(n) for n in (1, 10, 100, 1000, 10_000)}
    return {
        "model": dict(vars(sizes)) if is_dataclass(sizes) else type(trainer.model).__name__,
        "training": {name: x for name, x in settings.items() if name not in MAY_CHANGE},
        "optimizer": type(trainer.optimizer).__name__,
        "data": data.fingerprint(),
        **rates,
        **trainer.metadata,
    }


# The configuration -------------------------------------------------------------------------------


def load_config(folder: Path) -> dict:
    "What the run in a folder was begun with; {} if none was."
    return read_json(folder / CONFIG) if (folder / CONFIG).exists() else {}


def changes(config: dict, reference: dict) -> dict:
    "The entries of a configuration that another one has otherwise or not at all."
    return {
        name: changes(x, reference[name]) if isinstance(x, dict) and name in reference else x
        for name, x in config.items()
        if name not in reference or reference[name] != x
    }


def keep_config(folder: Path, config: dict) -> None:
    """Compare the configuration with the folder's, or write it if none was begun there.

    ValueError with what differs."""
    old, new = load_config(folder), json.loads(json.dumps(config))
    if not old:
        if (folder / LOG).exists():
            raise ValueError(f"{folder} has a log and no {CONFIG}: use another folder")
        write_json(folder / CONFIG, new)
    elif old != new:
        raise ValueError(
            f"{folder} was begun with {changes(old, new)}, and this run has {changes(new, old)}:"
            " keep to it (another text or data: other pairs, or Tatoeba's, which are mixed in where"
            " they can be had), or use another folder (--output-dir)"
        )


def check_folder(folder: Path, config: dict, files: Sequence[str] = ()) -> dict:
    """What the run in a folder was begun with; {} if none was. Nothing is written.

    config: the part of the configuration that is known already; files: names of files besides
    WRITTEN. OSError or ValueError if it was begun otherwise, or if a file would be written over."""
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"{folder} is a file: name a folder")
    if begun := load_config(folder):
        keep_config(folder, begun | config)
    elif held := [name for name in (*WRITTEN, *files) if (folder / name).exists()]:
        raise FileExistsError(
            f"{folder} holds {held[0]} and no {CONFIG} to compare with, and this training would"
            " write over it: use another folder (--output-dir)"
        )
    return begun


@contextmanager
def only_run(folder: Path) -> Iterator[None]:
    """Nobody else trains in `folder` inside the block; the same thread may ask again.

    BlockingIOError if the folder is taken. The lock is the system's, which frees it when the
    process ends, however it ends. Of several processes the first one holds it for all."""
    if distributed.rank():
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    try:
        lock = FileLock(folder.resolve() / LOCK, timeout=0, is_singleton=True).acquire()
    except Timeout:
        raise BlockingIOError(
            f"another training is at work in {folder}: let it end, or use another folder"
        ) from None
    with lock:
        yield


class Run:
    """with Run(folder, config, log) as run:
        while not run.should_stop():
            ...
            run.log("step", loss=2.3)

    Ctrl-C and SIGTERM set `stop_requested`, and act at the end of the block, when all is saved; the
    second one acts at once. None for a folder: nothing is written. ValueError if the folder was
    begun with another configuration, BlockingIOError if another training is at work in it."""

    def __init__(self, folder: Path | None, config: dict, entries: list[dict]):
        self.folder, self.config, self.entries = folder, config, entries
        self.signal: int | None = None
        self.stop_requested, self.n_calls = False, 0
        self.writes = folder is not None and distributed.rank() == 0
        self.handlers, self.exit = ExitStack(), ExitStack()

    def __enter__(self) -> "Run":
        if self.writes:
            self.exit.enter_context(only_run(self.folder))
            keep_config(self.folder, self.config)
            if not self.has_checkpoint():
                self.rewind_log(0)
        if threading.current_thread() is threading.main_thread():  # Python allows it to no other
            for number in signal.SIGINT, signal.SIGTERM:
                if signal.getsignal(number) != signal.SIG_IGN:
                    self.handlers.callback(
                        signal.signal, number, signal.signal(number, self.on_signal)
                    )
        return self

    def __exit__(self, error, *rest) -> None:
        self.handlers.close()
        self.exit.close()
        if error is None and self.signal is not None:
            place = f"saved in {self.folder}: the same command goes on there"
            words = f"stopped, and {place if self.folder else 'nothing is saved without a folder'}"
            if self.signal == signal.SIGINT:
                raise KeyboardInterrupt(words)
            print(words, file=sys.stderr)
            raise SystemExit(128 + self.signal)

    def on_signal(self, number: int, frame) -> None:
        self.stop_requested, self.signal = True, number
        self.handlers.close()  # as they were
        os.write(2, b"\nstopping after this step; once more stops at once\n")

    def should_stop(self) -> bool:
        "Was any process of this training asked to stop? GPUs are waited for, and seldom asked."
        self.n_calls += 1
        if distributed.world_size() == 1:
            return self.stop_requested
        seldom = distributed.group_device().type == "cuda" and self.n_calls % 10
        return not seldom and distributed.is_any(self.stop_requested)

    def has_checkpoint(self) -> bool:
        return self.folder is not None and (self.folder / checkpoints.NAME).exists()

    def log(self, kind: str, **values) -> None:
        "One more line, at once, so that another program can follow."
        entry = {"kind": kind, **values}
        self.entries.append(entry)
        if self.writes:
            with open(self.folder / LOG, "a", encoding="utf-8") as file:
                file.write(json.dumps(entry, default=float) + "\n")

    def rewind_log(self, length: int) -> None:
        "Drop what was logged after the checkpoint. ValueError if even that isn't there."
        path = self.folder / LOG
        lines = path.read_text("utf-8", "replace").splitlines()[:length] if path.exists() else []
        try:
            self.entries[:] = map(json.loads, lines)
        except ValueError as error:
            raise ValueError(f"{path} is no log of a training ({error})") from None
        if len(lines) < length:
            raise ValueError(f"{path} has {len(lines)} lines, and the checkpoint counts {length}")
        if self.writes:
            write_text(path, "".join(line + "\n" for line in lines))
