"""One run of "Your own pair": the text that it trains on, the training, and what is found.

A training is the package's recipe for a row of the sizing table, in a folder, so that a stop loses
nothing. At each look, as many as the row has epochs, the loss on validation pairs is taken; the
weights of the least one are tested."""

import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import chain
from pathlib import Path
from random import Random
from statistics import mean, median

import numpy as np
import records
import torch
from common import scores
from records import Made, Resumable
from tokenizers import AddedToken, Tokenizer
from torch import nn

from litbook.results import load_record
from transformer_lit import data
from transformer_lit.equal_cost import cost
from transformer_lit.evaluation import checksum, line_counts
from transformer_lit.recipes import training_sets
from transformer_lit.custom_pair import clean as cleaning
from transformer_lit.runs.run import fingerprint
from transformer_lit.corpora.texts import TextPair
from transformer_lit.runs.checkpoints import load_weights, save_weights, model_tensors, read_file
from transformer_lit.serving.confidence import pair_scores
from transformer_lit.corpora.files import shipped, write_atomic
from transformer_lit.custom_pair.languages import wrong_language_reasons
from transformer_lit.custom_pair.report import leaked_references
from transformer_lit.custom_pair.train import SIZES, ModelSize, recipe_of
from transformer_lit.runtime.devices import device_of, resolve_precision
from transformer_lit.recipes.recipes import build_trainer, build_translator
from transformer_lit.runs.records import git_commit
from transformer_lit.corpora.texts import take_evenly
from transformer_lit.tokens import Subwords
from transformer_lit.training import PairBatches, TrainingConfig, validation_loss
from transformer_lit.translation import Translator, answers, from_pretrained

Pairs = list[TextPair]
BACK, TAG = ("greedy", "sampled"), "<synthetic>"
NOISE = ("misaligned", "wrong-language", "untranslated", "misordered")
DOMAIN = ("mixed", "tuned", "captions")


# What ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scale:
    """How large all of it is. sizes: the table's rows; short: epochs of runs that are only compared
    with each other; held: sentences of a test, and pairs to watch with; captions: pairs of the
    other domain; tune: updates on them; mono: the most sentences to translate back; tokens: of the
    largest row; share: of noise."""

    corpus: str = "tatoeba"
    sizes: tuple[ModelSize, ...] = SIZES
    short: int = 4
    held: int = 1000
    captions: int = 10_000
    tune: int = 500
    mono: int = 100_000
    tokens: int = 4_000_000
    share: float = 0.1
    seeds: tuple[int, ...] = (1, 2, 3)


TRIAL = Scale(
    "pocket",
    tuple(ModelSize(pairs, 400, 2, 64, 0.1, 1024, 2, 5) for pairs in (20, 40, 80, 90, 100)),
    short=1,
    held=6,
    captions=10,
    tune=2,
    mono=60,
    tokens=2000,
    seeds=(1,),
)
SCALE = Scale()


@dataclass(frozen=True)
class Job:
    """A training from English into French.

    pairs: a row of the table, and so many real pairs; text: what becomes of them; change: of the
    row, as "dropout=0.4"; epochs: of the real pairs, 0 as the row says. The texts: "real";
    "reverse", from French, which then translates monolingual French; "greedy" or "sampled", with
    what that made, "+tagged" with TAG in front of it; a kind of NOISE, "+cleaned" by rule or
    "+filtered" by the score of the model that trained on it; "mixed" with captions, "tuned" on
    them, "captions" alone; "general" text; "shipped", the book's own translator, which is only
    tested."""

    pairs: int
    text: str = "real"
    seed: int = 1
    change: str = ""
    epochs: int = 0

    @property
    def name(self) -> str:
        return "-".join(
            [
                str(self.pairs),
                self.text,
                *filter(None, [self.change, self.epochs and f"e{self.epochs}"]),
                f"s{self.seed}",
            ]
        )

    @classmethod
    def of(cls, name: str) -> "Job":
        "The run with this name. ValueError if none has it."
        found = re.fullmatch(r"(\d+)-(.+?)(?:-(\w+=[\d.]+))?(?:-e(\d+))?-s(\d+)", name)
        kind = found and found[2].partition("+")[0]
        if kind not in (*BACK, *NOISE, *DOMAIN, "real", "reverse", "general", "shipped"):
            raise ValueError(f"{name} is no run: as 10000-greedy+tagged-s1")
        pairs, text, change, epochs, seed = found.groups()
        return cls(int(pairs), text, int(seed), change or "", int(epochs or 0))

    @property
    def needs(self) -> "Job | None":
        "The run that must be there before: it wrote the text, or scored it."
        kind, _, way = self.text.partition("+")
        if kind in BACK:
            return Job(self.pairs, "reverse")
        return replace(self, text=kind) if way == "filtered" else None

    @property
    def size(self) -> ModelSize:
        row = next(size for size in SCALE.sizes if size.pairs == self.pairs)
        field, _, value = self.change.partition("=")
        changed = replace(row, **{field: type(getattr(row, field))(value)}) if field else row
        return replace(changed, epochs=self.epochs or row.epochs)


# The text -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Texts:
    "All text in its fixed order; no English sentence of `tests` or `valid` is in the rest."

    train: Pairs
    captions: Pairs
    german: Pairs
    valid: dict[str, Pairs]
    tests: dict[str, tuple[list[str], list[list[str]]]]
    digest: str


@cache
def texts(scale: Scale) -> Texts:
    "Tatoeba and captions; for a trial the pocket corpus, of which some plays each part."
    parts = data.load(scale.corpus)
    if scale.corpus == "pocket":
        captions = {
            "train": parts["train"][1000:1200],
            "valid": parts["valid"][500:],
            "test": parts["test_it"],
        }
        german = [(english, other[::-1]) for english, other in parts["train"][2000:2400]]
    else:
        captions, german = (
            data.load("multi30k"),
            [pair for part in data.load("tatoeba", "de").values() for pair in part],
        )
    held = [
        english
        for each in (parts, captions)
        for part in ("valid", "test")
        for english, _ in each[part]
    ]
    train, others, german = (
        data.without(pairs, held) for pairs in (parts["train"], captions["train"], german)
    )
    valid = {"tatoeba": parts["valid"][: scale.held], "multi30k": captions["valid"][: scale.held]}
    tests = {
        "tatoeba": tuple(side[: scale.held] for side in data.grouped(parts["test"])),
        "multi30k": tuple(side[: scale.held] for side in data.grouped(captions["test"])),
    }
    digest = fingerprint(
        [*train, *others[: scale.captions], *valid["tatoeba"], *map(str, tests.values())]
    )
    return Texts(train, others[: scale.captions], german, valid, tests, digest)


@cache
def general(scale: Scale) -> Pairs:
    "As many pairs as the table's last row: all of Tatoeba's, and law and manuals spread evenly."
    t, n = texts(scale), scale.sizes[-1].pairs
    if scale.corpus == "pocket":
        return t.train[:n]
    held = [english for pairs in t.valid.values() for english, _ in pairs]
    held += [english for sources, _ in t.tests.values() for english in sources]
    read = chain.from_iterable(source.read() for source in training_sets.general_files("fr"))
    return t.train + take_evenly(data.without(data.clean(read)[0], held), n - len(t.train))


def monolingual(pairs: int) -> list[str]:
    """French sentences to translate back, four for each pair: of pairs that no subset has, and none
    that a test or a subset knows."""
    t, subsets = texts(SCALE), SCALE.sizes[2].pairs
    known = {data.sentence_key(french) for _, french in t.train[:subsets] + t.valid["tatoeba"]}
    known |= {
        data.sentence_key(one)
        for _, references in t.tests.values()
        for refs in references
        for one in refs
    }
    found: dict[str, str] = {}
    for _, french in t.train[subsets:]:
        if (key := data.sentence_key(french)) not in known:
            found.setdefault(key, french)
    return list(found.values())[: min(4 * pairs, SCALE.mono)]


def planted(kind: str, pairs: int) -> tuple[Pairs, list[bool]]:
    """Clean pairs with noise added, a share of their number, as Khayrallah and Koehn (2018) add it;
    and which lines are noise.

    All kinds but the wrong language spoil the same pairs, of at least three French words, which no
    subset has."""
    t, rng = texts(SCALE), Random(1)
    real, n = t.train[:pairs], round(SCALE.share * pairs)
    spare = [pair for pair in t.train[SCALE.sizes[2].pairs :] if len(set(pair[1].split())) > 2][:n]
    if kind == "misaligned":  # half the list away, because neighbours may share a sentence
        noise = [(english, spare[(k + n // 2) % n][1]) for k, (english, _) in enumerate(spare)]
    elif kind == "wrong-language":
        noise = data.without(t.german, (english for english, _ in real))[:n]
    elif kind == "untranslated":
        noise = [(english, english) for english, _ in spare]
    else:
        noise = []
        for english, french in spare:
            words = french.split()
            while words == french.split():
                rng.shuffle(words)
            noise.append((english, " ".join(words)))
    return real + noise, [False] * len(real) + [True] * len(noise)


def found_by(pairs: Pairs) -> dict[str, list[bool]]:
    "For each rule of the package's cleaning, and for all of them, which pairs it throws out."
    kept = set(cleaning.clean_pairs(pairs)[0])
    per, usual = (
        median(len(french) / len(english) for english, french in pairs),
        median(len(french) for _, french in pairs),
    )
    return {
        "copied": [cleaning.rejection_reason(pair) == "copied" for pair in pairs],
        "lopsided": [cleaning.has_extreme_length_ratio(pair, per, usual) for pair in pairs],
        "languages": [bool(why) for why in wrong_language_reasons(pairs)],
        "all rules": [pair not in kept for pair in pairs],
    }


def told(flags: Sequence[bool], marks: Sequence[bool]) -> dict[str, float]:
    "What share of the noise was thrown out, and what share of the clean pairs."
    hits = sum(flag and mark for flag, mark in zip(flags, marks, strict=True))
    return {
        "recall": hits / max(sum(marks), 1),
        "false_alarms": (sum(flags) - hits) / max(len(marks) - sum(marks), 1),
    }


def given(job: Job, folder: Path = records.RUNS) -> Pairs:
    "What a job trains on. Text that another run made is read from its table."
    t, (kind, _, way) = texts(SCALE), job.text.partition("+")
    real = t.train[: job.pairs]
    if kind == "reverse":
        return [pair[::-1] for pair in real]
    if kind in BACK:
        made = records.outputs_of("own", job.needs.name, folder)
        back = [
            (TAG * (way == "tagged") + line.split("\t")[BACK.index(kind)], french)
            for line, french in zip(made, monolingual(job.pairs), strict=True)
        ]
        return real + [pair for pair in back if pair[0] not in ("", TAG)]
    if kind in NOISE:
        pairs, _ = planted(kind, job.pairs)
        if way == "cleaned":
            return cleaning.clean_pairs(pairs)[0]
        dropped: set[int] = set()
        if way == "filtered":
            dropped.update(records.arrays_of("own", folder)[f"{job.needs.name}/dropped"].tolist())
        return [pair for k, pair in enumerate(pairs) if k not in dropped]
    if kind == "general":
        return general(SCALE)
    return {"real": real, "mixed": real + t.captions, "shipped": t.train}.get(kind, t.captions)


# A training ---------------------------------------------------------------------------------------


def subwords(pairs: Pairs, size: int) -> Subwords:
    return Subwords.build(chain.from_iterable(pairs), size)


@cache
def of_real(scale: Scale, pairs: int, size: int) -> Subwords:
    "The vocabulary of a subset."
    return subwords(texts(scale).train[:pairs], size)


def tagged(tokens: Subwords) -> Subwords:
    "The same, and TAG, which is one token and never cut."
    copy = Tokenizer.from_str(tokens.tokenizer.to_str())
    copy.add_tokens([AddedToken(TAG, normalized=False)])
    return Subwords(copy)


def vocabulary(job: Job, pairs: Pairs) -> Subwords:
    """Made-up English and captions to be tuned on add no subwords: the other runs then differ in
    nothing else."""
    kind, _, way = job.text.partition("+")
    if kind in ("real", "reverse", "tuned", *BACK):
        real = of_real(SCALE, job.pairs, job.size.vocabulary)
        return tagged(real) if way else real
    return subwords(pairs, job.size.vocabulary)


@cache
def epoch_of(scale: Scale, pairs: int, size: int, max_tokens: int) -> int:
    "Updates in an epoch of a subset."
    tokens = of_real(scale, pairs, size)
    encoded = Translator(None, tokens, tokens).encode_pairs(texts(scale).train[:pairs])
    return PairBatches(
        [pair for pair in encoded if max(map(len, pair)) <= 128],
        TrainingConfig(epochs=1, max_tokens=max_tokens),
    ).steps


def updates(job: Job) -> int:
    """So many as the epochs of the REAL pairs come to, whatever is added to them; for captions some
    more. Not for general text."""
    size = job.size
    return size.epochs * epoch_of(
        SCALE, job.pairs, size.vocabulary, size.max_tokens
    ) + SCALE.tune * (job.text in ("mixed", "captions"))


def per_character(loss: float, encoded: Sequence, pairs: Pairs) -> float:
    "A loss per token of the targets as one per character: so two vocabularies can be compared."
    return (
        loss
        * sum(len(target) - 1 for _, target in encoded)
        / sum(len(target) + 1 for _, target in pairs)
    )


@dataclass
class Trained:
    translator: Translator
    run: Resumable | None
    row: dict
    last: dict  # weights


def train(job: Job, folder: Path, pairs: Pairs, begin: dict | None = None) -> Trained:
    """Train in `folder` or go on, and take the weights of the least validation loss. begin: weights
    to tune, at a quarter of the rate."""
    size, t = job.size, texts(SCALE)
    languages, valid = ("en", "fr"), t.valid["tatoeba"]
    if job.text in DOMAIN:
        valid = valid[: SCALE.held // 2] + t.valid["multi30k"][: SCALE.held // 2]
    if job.text == "reverse":
        languages, valid = ("fr", "en"), [pair[::-1] for pair in valid]
    recipe = recipe_of(size, languages, fingerprint(pairs))
    recipe.training = replace(recipe.training, seed=job.seed)
    recipe.peak /= 4 if begin else 1
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / "tokenizer.json", vocabulary(job, pairs).save)
    translator = build_translator(recipe, pairs, folder)
    if begin:
        load_weights(translator.model, begin)
    trainer, batches = build_trainer(translator, pairs, recipe, folder)
    epoch = len(batches.epoch(0))
    if job.text == "general":
        labels = sum(len(target) - 1 for _, target in batches.pairs) / epoch
        batches.steps = math.ceil(SCALE.tokens / labels)
    else:
        batches.steps = SCALE.tune if begin else updates(job)
    steps = batches.steps
    recipe.training.warmup = max(
        1, min(size.warmup, steps // 10)
    )  # the table says: a tenth or less
    held, best = translator.encode_pairs(valid), folder / "best.safetensors"
    at = {round(k * steps / size.epochs) for k in range(1, size.epochs + 1)}
    run = Resumable.of(trainer, every=max(2, steps // 6))

    def look(run: Resumable) -> dict | None:
        if run.step in at:
            loss = validation_loss(run.model, held)
            if loss <= min(
                (entry["valid"] for entry in run.log if "valid" in entry), default=math.inf
            ):
                save_weights(best, run.model)
            return {"valid": loss}

    run.fit(batches, on_step=look)
    curve = [[entry["step"], entry["valid"]] for entry in run.log if "valid" in entry]
    step, loss = min(curve, key=lambda point: (point[1], -point[0]))
    last = {name: weight.detach().clone() for name, weight in model_tensors(run.model).items()}
    load_weights(run.model, read_file(best)[0])
    row = {
        "size": asdict(size),
        "recipe": asdict(recipe),
        "train_pairs": len(pairs),
        "too_long": len(pairs) - len(batches),
        **cost(run),
        "steps": steps,
        "epochs_run": steps / epoch,
        "best_step": step,
        "best_epoch": step / epoch,
        "valid_loss": loss,
        "valid_per_character": per_character(loss, held, valid),
        "curve": curve,
    }
    return Trained(translator, run, row, last)


def shipped_translator(job: Job) -> Trained:
    """The translator that comes with the book: this row's recipe, all pairs of the corpus, weights
    in 8 bits; and what its training's record tells."""
    t, name = texts(SCALE), "tatoeba-fr" if SCALE.corpus == "tatoeba" else "pocket"
    record, _ = load_record(name)
    translator, valid = from_pretrained(shipped(f"data/checkpoints/{name}")), t.valid["tatoeba"]
    held, epochs = translator.encode_pairs(valid), record["recipe"]["training"]["epochs"]
    loss = validation_loss(translator.model, held)
    row = {
        "size": asdict(job.size),
        "recipe": record["recipe"],
        "train_pairs": record["data"]["train"],
        "parameters": record["parameters"],
        "tokens": record["tokens"],
        "cpu_seconds": record["seconds"],  # on the wall: the core was shared at times
        "epochs_run": epochs,
        "best_epoch": epochs,
        "valid_loss": loss,
        "valid_per_character": per_character(loss, held, valid),
        "record": name,
    }
    return Trained(translator, None, row, {})


# What is found ------------------------------------------------------------------------------------


class Sampling(nn.Module):
    "A model whose likeliest token is a draw from what the model says: Gumbel noise on the logits."

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def start(self, source: torch.Tensor):
        return self.model.start(source)

    def step(self, tokens: torch.Tensor, state):
        logits, state = self.model.step(tokens, state)
        noise = -torch.empty_like(logits, dtype=torch.float).exponential_().log()
        return logits.float() + noise, state


def back_translated(
    translator: Translator, lines: list[str], sample: bool, rows: int = 128
) -> list[str]:
    "The likeliest token each time, or a draw."
    torch.manual_seed(1)
    model = Sampling(translator.model.eval()) if sample else translator.model.eval()
    ids = answers(
        model,
        [translator.source.encode(line) for line in lines],
        1,
        rows,
        resolve_precision("auto", device_of(translator.model), rows),
    )
    return [re.sub(r"\s+", " ", translator.target.decode(one)).strip() for one in ids]


def tested(
    translator: Translator, test: tuple[list[str], list[list[str]]]
) -> tuple[dict, np.ndarray, list[str]]:
    """Scores with the first reference and with all, the counts that BLEU is made of, and what was
    said."""
    sources, references = test
    said = translator.translate(sources, precision="fp32")
    return (
        {
            "sentences": len(sources),
            "sha256": checksum(sources, references),
            "first": scores(said, [refs[:1] for refs in references]),
            "all": scores(said, references),
        },
        np.array(line_counts(said, references), np.uint16),
        said,
    )


def weights_of(job: Job, home: Path, place: Path) -> dict:
    "The weights of a short run on real pairs; trained again where they aren't on this machine."
    base = Job(job.pairs, epochs=job.epochs)
    path = home / "weights" / f"{base.name}.safetensors"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        save_weights(path, train(base, place / "base", given(base)).run.model)
    return read_file(path)[0]


def reversed_lines(job: Job, translator: Translator) -> tuple[dict, list[str]]:
    """What a reverse model makes of monolingual text, a column for each way; shown: twenty lines;
    in_test: how many sentences of each way are test sentences."""
    lines = monolingual(job.pairs)
    kinds = BACK if job.pairs < SCALE.sizes[2].pairs else BACK[:1]
    columns = [back_translated(translator, lines, kind == "sampled") for kind in kinds]
    known = set(map(data.sentence_key, texts(SCALE).tests["tatoeba"][0]))
    return {
        "monolingual": len(lines),
        "shown": take_evenly([list(row) for row in zip(lines, *columns)], 20),
        "in_test": [sum(data.sentence_key(said) in known for said in way) for way in columns],
    }, ["\t".join(row) for row in zip(*columns)]


def found_noise(job: Job, translator: Translator, pairs: Pairs) -> tuple[dict, list[int]]:
    "What each rule throws out of a noisy text, and the worst tenth by the model's own score."
    _, marks = planted(job.text, job.pairs)
    score = pair_scores(translator, translator.encode_pairs(pairs))
    worst = sorted(sorted(range(len(pairs)), key=score.__getitem__)[: len(pairs) // 10])
    drop = set(worst)
    rules = found_by(pairs) | {"own score": [k in drop for k in range(len(pairs))]}
    lines = {"kind": job.text, "lines": sum(marks), "clean": len(marks) - sum(marks)}
    return {
        "planted": lines,
        "found": {rule: told(flags, marks) for rule, flags in rules.items()},
    }, worst


def work(job: Job, home: Path, place: Path, folder: Path) -> Made:
    "Train, test, and keep what the first seed said."
    t, pairs = texts(SCALE), given(job, folder)
    if job.text == "shipped":
        made = shipped_translator(job)
    else:
        begin = weights_of(job, home, place) if job.text == "tuned" else None
        made = train(job, place / "run", pairs, begin)
    row, translator = made.row | {"data": t.digest}, made.translator
    if job.text == "reverse":
        sources, references = t.tests["tatoeba"]
        test = [refs[0] for refs in references], [[source] for source in sources]
        scored, counts, _ = tested(translator, test)
        more, lines = reversed_lines(job, translator)
        name = "tatoeba, reversed"
        return Made(row | {"tests": {name: scored}} | more, {f"bleu/{name}": counts}, lines)
    row_itself = job.text == "real" and not job.change
    both = job.text in DOMAIN or row_itself and job.epochs == SCALE.short
    found = {
        name: tested(translator, t.tests[name]) for name in t.tests if both or name == "tatoeba"
    }
    arrays = {f"bleu/{name}": counts for name, (_, counts, _) in found.items()}
    said, (sources, references) = found["tatoeba"][2], t.tests["tatoeba"]
    row |= {
        "tests": {name: scored for name, (scored, *_) in found.items()},
        "bleu": found["tatoeba"][0]["all"]["bleu"]["value"],
        "copied_answers": leaked_references(references, pairs),
    }
    if job.seed == 1 and (row_itself or job.text in ("general", "shipped")):
        firsts = [refs[0] for refs in references]
        row["shown"] = take_evenly([list(line) for line in zip(sources, firsts, said)], 20)
    if both and job.text == "real" and job.seed == 1:
        (home / "weights").mkdir(parents=True, exist_ok=True)
        save_weights(home / "weights" / f"{job.name}.safetensors", made.run.model)
    if job.text in NOISE:
        noise, worst = found_noise(job, translator, pairs)
        row |= noise
        arrays["dropped"] = np.array(worst, np.uint32)
    if (job.text == "real" or job.text in DOMAIN) and row["best_step"] < row["steps"]:
        load_weights(made.run.model, made.last)
        last, *_ = tested(translator, t.tests["tatoeba"])
        row["last"] = {name: last[name] for name in ("first", "all")}
    if job.seed != 1 or job.change:
        return Made(row, arrays)
    row["repeats"] = mean(a.strip() == b.strip() for a, b in zip(sources, said, strict=True))
    return Made(row, arrays, said)


def make(job: Job, home: Path, folder: Path = records.RUNS) -> dict:
    """Make a run or go on with it, and before it what it needs; returns its line. What the table
    has already is only read. A trial needs no clean tree."""
    if job.needs:
        make(job.needs, home, folder)
    known = records.rows_of("own", folder).get(job.name)
    if known:
        return known
    return records.make_run(
        "own",
        job.name,
        asdict(job),
        lambda place: work(job, home, place, folder),
        home,
        folder,
        (git_commit() or "none") if SCALE.corpus == "pocket" else None,
    )
