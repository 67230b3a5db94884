"""One run of "Your own pair": the text that it trains on, the training, and what is found.

A training is the package's recipe for a row of the sizing table, in a folder, so that a stop loses
nothing. At each look, as many as the row has epochs, the loss on validation pairs is taken; the
weights of the least one are tested."""

import math
import re
from collections.abc import Callable, Sequence
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
from transformer_lit.corpora.files import shipped, write_atomic
from transformer_lit.corpora.texts import TextPair, take_evenly
from transformer_lit.custom_pair import clean as cleaning
from transformer_lit.custom_pair.languages import wrong_language_reasons
from transformer_lit.custom_pair.report import leaked_references
from transformer_lit.custom_pair.train import SIZES, ModelSize, recipe_of
from transformer_lit.data import clean, grouped, load, sentence_key, without
from transformer_lit.equal_cost import cost
from transformer_lit.evaluation import checksum, line_counts
from transformer_lit.recipes import training_sets
from transformer_lit.recipes.recipes import LONGEST, build_trainer, build_translator
from transformer_lit.runs.checkpoints import load_weights, model_tensors, read_file, save_weights
from transformer_lit.runs.run import fingerprint
from transformer_lit.runtime.devices import resolve_precision
from transformer_lit.serving.confidence import pair_scores
from transformer_lit.tokens import Subwords
from transformer_lit.training import PairBatches, TrainingConfig, validation_loss
from transformer_lit.translation import Translator, answers, from_pretrained

Pairs = list[TextPair]
HELD = 1000  # sentences of a test, and pairs to watch with
CAPTIONS, TUNING = 10_000, 500  # pairs of the other domain, and updates on them
MONOLINGUAL = 100_000  # the most sentences to translate back
TOKENS = 4_000_000  # target tokens of "general"
SHARE = 0.1  # of noise
SHIPPED = "tatoeba-fr"
BACK, TAG = ("greedy", "sampled"), "<synthetic>"
DOMAIN = ("mixed", "tuned", "captions")


# What ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Job:
    """A training from English into French.

    pairs: a row of the table, and so many real pairs; text: what becomes of them, one of TEXTS;
    change: of the row, as "dropout=0.4"; epochs: of the real pairs, 0 as the row says."""

    pairs: int
    text: str = "real"
    seed: int = 1
    change: str = ""
    epochs: int = 0

    @property
    def name(self) -> str:
        changes = filter(None, [self.change, self.epochs and f"e{self.epochs}"])
        return "-".join([str(self.pairs), self.text, *changes, f"s{self.seed}"])

    @classmethod
    def of(cls, name: str) -> "Job":
        "The run with this name. ValueError if none has it."
        found = re.fullmatch(r"(\d+)-(.+?)(?:-(\w+=[\d.]+))?(?:-e(\d+))?-s(\d+)", name)
        if not found or found[2].partition("+")[0] not in TEXTS:
            raise ValueError(f"{name} is no run: as 10000-greedy+tagged-s1")
        pairs, text, change, epochs, seed = found.groups()
        return cls(int(pairs), text, int(seed), change or "", int(epochs or 0))

    @property
    def kind(self) -> str:
        return self.text.partition("+")[0]

    @property
    def way(self) -> str:
        return self.text.partition("+")[2]

    @property
    def needs(self) -> "Job | None":
        "The run that must be there before: it wrote the text, or scored it."
        if self.kind in BACK:
            return Job(self.pairs, "reverse")
        return replace(self, text=self.kind) if self.way == "filtered" else None

    @property
    def size(self) -> ModelSize:
        row = next(size for size in SIZES if size.pairs == self.pairs)
        field, _, value = self.change.partition("=")
        changed = replace(row, **{field: type(getattr(row, field))(value)}) if field else row
        return replace(changed, epochs=self.epochs or row.epochs)

    @property
    def real(self) -> Pairs:
        return texts().train[: self.pairs]


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
def texts() -> Texts:
    corpora = {"tatoeba": load("tatoeba"), "multi30k": load("multi30k")}
    held = [
        english
        for parts in corpora.values()
        for part in ("valid", "test")
        for english, _ in parts[part]
    ]
    german = without(chain.from_iterable(load("tatoeba", "de").values()), held)
    train, captions = (without(parts["train"], held) for parts in corpora.values())
    captions = captions[:CAPTIONS]
    valid = {name: parts["valid"][:HELD] for name, parts in corpora.items()}
    tests = {
        name: tuple(side[:HELD] for side in grouped(parts["test"]))
        for name, parts in corpora.items()
    }
    digest = fingerprint([*train, *captions, *valid["tatoeba"], *map(str, tests.values())])
    return Texts(train, captions, german, valid, tests, digest)


def general(job: Job, folder: Path) -> Pairs:
    "As many pairs as the table's last row: all of Tatoeba's, and law and manuals spread evenly."
    t = texts()
    held = [english for pairs in t.valid.values() for english, _ in pairs]
    held += [english for sources, _ in t.tests.values() for english in sources]
    read = chain.from_iterable(source.read() for source in training_sets.general_files("fr"))
    return t.train + take_evenly(without(clean(read)[0], held), job.pairs - len(t.train))


def monolingual(pairs: int) -> list[str]:
    """French sentences to translate back, four for each pair: of pairs that no subset has, and none
    that a test or a subset knows."""
    t, subsets = texts(), SIZES[2].pairs
    known = {sentence_key(french) for _, french in t.train[:subsets] + t.valid["tatoeba"]}
    for _, references in t.tests.values():
        known.update(map(sentence_key, chain.from_iterable(references)))
    lines: dict[str, str] = {}
    for _, french in t.train[subsets:]:
        if (key := sentence_key(french)) not in known:
            lines.setdefault(key, french)
    return list(lines.values())[: min(4 * pairs, MONOLINGUAL)]


def with_back_translations(job: Job, folder: Path) -> Pairs:
    "What the reverse model wrote is read from its table."
    lines = records.outputs_of("own", job.needs.name, folder)
    tag, column = TAG * (job.way == "tagged"), BACK.index(job.kind)
    made = zip(lines, monolingual(job.pairs), strict=True)
    back = [(tag + line.split("\t")[column], french) for line, french in made]
    return job.real + [pair for pair in back if pair[0] not in ("", TAG)]


def misordered(french: str, rng: Random) -> str:
    words = french.split()
    while words == french.split():
        rng.shuffle(words)
    return " ".join(words)


NOISE: dict[str, Callable[[Pairs, Random], Pairs]] = {
    # half the list away, because neighbors may share a sentence
    "misaligned": lambda pairs, _: [
        (english, pairs[(k + len(pairs) // 2) % len(pairs)][1])
        for k, (english, _) in enumerate(pairs)
    ],
    "wrong-language": lambda pairs, _: pairs,
    "untranslated": lambda pairs, _: [(english, english) for english, _ in pairs],
    "misordered": lambda pairs, rng: [(en, misordered(fr, rng)) for en, fr in pairs],
}


def planted(kind: str, pairs: int) -> tuple[Pairs, list[bool]]:
    """Clean pairs with noise added, a share of their number, as Khayrallah and Koehn (2018) add it;
    and which lines are noise.

    All kinds but the wrong language spoil the same pairs, of at least three French words, which no
    subset has."""
    t = texts()
    real, spare = t.train[:pairs], t.train[SIZES[2].pairs :]
    if kind == "wrong-language":
        spare = without(t.german, (english for english, _ in real))
    else:
        spare = [pair for pair in spare if len(set(pair[1].split())) > 2]
    noise = NOISE[kind](spare[: round(SHARE * pairs)], Random(1))
    return real + noise, [False] * len(real) + [True] * len(noise)


def noisy(job: Job, folder: Path) -> Pairs:
    pairs, _ = planted(job.kind, job.pairs)
    if job.way == "cleaned":
        return cleaning.clean_pairs(pairs)[0]
    if job.way == "filtered":
        dropped = set(records.arrays_of("own", folder)[f"{job.needs.name}/dropped"].tolist())
        return [pair for k, pair in enumerate(pairs) if k not in dropped]
    return pairs


TEXTS: dict[str, Callable[[Job, Path], Pairs]] = {
    "real": lambda job, _: job.real,
    "reverse": lambda job, _: [pair[::-1] for pair in job.real],
    **dict.fromkeys(BACK, with_back_translations),
    **dict.fromkeys(NOISE, noisy),
    "mixed": lambda job, _: job.real + texts().captions,
    **dict.fromkeys(["tuned", "captions"], lambda job, _: texts().captions),
    "general": general,
    "shipped": lambda job, _: texts().train,  # the book's own translator, which is only tested
}


# A training ---------------------------------------------------------------------------------------


def with_tag(tokens: Subwords) -> Subwords:
    "The same, and TAG, which is one token and never cut."
    copy = Tokenizer.from_str(tokens.tokenizer.to_str())
    copy.add_tokens([AddedToken(TAG, normalized=False)])
    return Subwords(copy)


def vocabulary(job: Job, pairs: Pairs) -> Subwords:
    """Made-up English and captions to be tuned on add no subwords: the other runs then differ in
    nothing else."""
    if job.kind in ("reverse", "tuned", *BACK):
        pairs = job.real
    tokens = Subwords.build(chain.from_iterable(pairs), job.size.vocabulary)
    return with_tag(tokens) if job.way == "tagged" else tokens


def updates(job: Job) -> int:
    """So many as the epochs of the REAL pairs come to, whatever is added to them; for captions some
    more. Not for general text."""
    size, tokens = job.size, vocabulary(Job(job.pairs, change=job.change), job.real)
    encoded = Translator(None, tokens, tokens).encode_pairs(job.real)
    short = [pair for pair in encoded if max(map(len, pair)) <= LONGEST]
    config = TrainingConfig(epochs=size.epochs, max_tokens=size.max_tokens)
    return PairBatches(short, config).steps + TUNING * (job.kind in ("mixed", "captions"))


def validation(translator: Translator, pairs: Pairs, loss: float) -> dict[str, float]:
    "A loss per token of the targets, and per character: so two vocabularies can be compared."
    tokens = sum(len(target) - 1 for _, target in translator.encode_pairs(pairs))
    characters = sum(len(target) + 1 for _, target in pairs)
    return {"valid_loss": loss, "valid_per_character": loss * tokens / characters}


def train(job: Job, folder: Path, pairs: Pairs) -> tuple[Translator, dict]:
    """Train in `folder` or go on, and take the weights of the least validation loss; "tuned" begins
    with those of a run on real pairs, at a quarter of the rate."""
    size, t = job.size, texts()
    languages, valid = ("en", "fr"), t.valid["tatoeba"]
    if job.kind in DOMAIN:
        valid = valid[: HELD // 2] + t.valid["multi30k"][: HELD // 2]
    if job.kind == "reverse":
        languages, valid = ("fr", "en"), [pair[::-1] for pair in valid]
    recipe = recipe_of(size, languages, fingerprint(pairs))
    recipe.training = replace(recipe.training, seed=job.seed)
    if job.kind == "tuned":
        recipe.peak /= 4
        base = Job(job.pairs, epochs=job.epochs)
        begin, _ = train(base, folder / "base", base.real)
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / "tokenizer.json", vocabulary(job, pairs).save)
    translator = build_translator(recipe, pairs, folder)
    if job.kind == "tuned":
        load_weights(translator.model, model_tensors(begin.model))
    trainer, batches = build_trainer(translator, pairs, recipe, folder)
    epoch = len(batches.epoch(0))
    if job.kind == "general":
        labels = sum(len(target) - 1 for _, target in batches.pairs) / epoch
        batches.steps = math.ceil(TOKENS / labels)
    else:
        batches.steps = TUNING if job.kind == "tuned" else updates(job)
    steps = batches.steps
    # the table says: a tenth or less
    recipe.training.warmup = max(1, min(size.warmup, steps // 10))
    held, best = translator.encode_pairs(valid), folder / "best.safetensors"
    at = {round(k * steps / size.epochs) for k in range(1, size.epochs + 1)}
    run = Resumable.of(trainer, every=max(2, steps // 6))

    def curve() -> list:
        return [[entry["step"], entry["valid"]] for entry in run.log if "valid" in entry]

    def look(run: Resumable) -> dict | None:
        if run.step in at:
            loss = validation_loss(run.model, held)
            if loss <= min((before for _, before in curve()), default=math.inf):
                save_weights(best, run.model)
            return {"valid": loss}

    run.fit(batches, on_step=look)
    step, loss = min(curve(), key=lambda point: (point[1], -point[0]))
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
        **validation(translator, valid, loss),
        "curve": curve(),
    }
    if step < steps and job.kind != "reverse":
        found, *_ = tested(translator, t.tests["tatoeba"])
        row["last"] = {name: found[name] for name in ("first", "all")}
    load_weights(run.model, read_file(best)[0])
    return translator, row


def shipped_translator(job: Job) -> tuple[Translator, dict]:
    """The translator that comes with the book: this row's recipe, all pairs of the corpus, weights
    in 8 bits; and what its training's record tells."""
    record, _ = load_record(SHIPPED)
    translator = from_pretrained(shipped(f"data/checkpoints/{SHIPPED}"))
    valid, epochs = texts().valid["tatoeba"], record["recipe"]["training"]["epochs"]
    loss = validation_loss(translator.model, translator.encode_pairs(valid))
    return translator, {
        "size": asdict(job.size),
        **{name: record[name] for name in ("recipe", "parameters", "tokens")},
        "train_pairs": record["data"]["train"],
        "cpu_seconds": record["seconds"],  # on the wall: the core was shared at times
        "epochs_run": epochs,
        "best_epoch": epochs,
        **validation(translator, valid, loss),
        "record": SHIPPED,
    }


# What is found ------------------------------------------------------------------------------------


class Sampling(nn.Module):
    "A model whose likeliest token is a draw from what the model says: Gumbel noise on the logits."

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model, self.start = model, model.start

    def step(self, tokens: torch.Tensor, state):
        logits, state = self.model.step(tokens, state)
        noise = -torch.empty_like(logits, dtype=torch.float).exponential_().log()
        return logits.float() + noise, state


def back_translated(translator: Translator, lines: list[str], kind: str) -> list[str]:
    "The likeliest token each time, or a draw."
    torch.manual_seed(1)
    model, rows = translator.model.eval(), 128
    ids = [translator.source.encode(line) for line in lines]
    precision = resolve_precision("auto", torch.device("cpu"), rows)
    found = answers(Sampling(model) if kind == "sampled" else model, ids, 1, rows, precision)
    return [" ".join(translator.target.decode(answer).split()) for answer in found]


def reversed_lines(job: Job, translator: Translator) -> tuple[dict, list[str]]:
    """What a reverse model makes of monolingual text, a column for each way; shown: twenty lines;
    in_test: how many sentences of each way are test sentences."""
    lines = monolingual(job.pairs)
    kinds = BACK if job.pairs < SIZES[2].pairs else BACK[:1]
    columns = [back_translated(translator, lines, kind) for kind in kinds]
    known = set(map(sentence_key, texts().tests["tatoeba"][0]))
    return {
        "monolingual": len(lines),
        "shown": take_evenly([list(row) for row in zip(lines, *columns)], 20),
        "in_test": [sum(sentence_key(line) in known for line in column) for column in columns],
    }, ["\t".join(row) for row in zip(*columns)]


def tested(translator: Translator, test: tuple[list[str], list[list[str]]]):
    """Scores with the first reference and with all, the counts that BLEU is made of, and the
    outputs."""
    sources, references = test
    outputs = translator.translate(sources, precision="fp32")
    found = {
        "sentences": len(sources),
        "sha256": checksum(sources, references),
        "first": scores(outputs, [refs[:1] for refs in references]),
        "all": scores(outputs, references),
    }
    return found, np.array(line_counts(outputs, references), np.uint16), outputs


def hit_rates(flags: Sequence[bool], marks: Sequence[bool]) -> dict[str, float]:
    "What share of the noise was thrown out, and what share of the clean pairs."
    hits = sum(flag and mark for flag, mark in zip(flags, marks, strict=True))
    return {
        "recall": hits / max(sum(marks), 1),
        "false_alarms": (sum(flags) - hits) / max(len(marks) - sum(marks), 1),
    }


def found_noise(job: Job, translator: Translator, pairs: Pairs) -> tuple[dict, list[int]]:
    """What each rule of the package's cleaning throws out of a noisy text, and the worst tenth by
    the model's own score."""
    _, marks = planted(job.kind, job.pairs)
    score = pair_scores(translator, translator.encode_pairs(pairs))
    worst = sorted(sorted(range(len(pairs)), key=score.__getitem__)[: len(pairs) // 10])
    kept, drop = set(cleaning.clean_pairs(pairs)[0]), set(worst)
    ratio = median(len(french) / len(english) for english, french in pairs)
    usual = median(len(french) for _, french in pairs)
    rules = {
        "copied": [cleaning.rejection_reason(pair) == "copied" for pair in pairs],
        "lopsided": [cleaning.has_extreme_length_ratio(pair, ratio, usual) for pair in pairs],
        "languages": [bool(why) for why in wrong_language_reasons(pairs)],
        "all rules": [pair not in kept for pair in pairs],
        "own score": [k in drop for k in range(len(pairs))],
    }
    lines = {"kind": job.text, "lines": sum(marks), "clean": len(marks) - sum(marks)}
    found = {rule: hit_rates(flags, marks) for rule, flags in rules.items()}
    return {"planted": lines, "found": found}, worst


def work(job: Job, place: Path, folder: Path) -> Made:
    "Train, test, and keep the outputs of the first seed."
    t, pairs = texts(), TEXTS[job.kind](job, folder)
    if job.kind == "shipped":
        translator, row = shipped_translator(job)
    else:
        translator, row = train(job, place / "run", pairs)
    row["data"] = t.digest
    sources, references = t.tests["tatoeba"]
    firsts = [refs[0] for refs in references]
    if job.kind == "reverse":
        name = "tatoeba, reversed"
        row["tests"], counts = {}, {}
        row["tests"][name], counts[f"bleu/{name}"], _ = tested(
            translator, (firsts, [[source] for source in sources])
        )
        more, lines = reversed_lines(job, translator)
        return Made(row | more, counts, lines)
    found = {name: tested(translator, test) for name, test in t.tests.items()}
    arrays = {f"bleu/{name}": counts for name, (_, counts, _) in found.items()}
    outputs = found["tatoeba"][2]
    row |= {
        "tests": {name: scored for name, (scored, *_) in found.items()},
        "bleu": found["tatoeba"][0]["all"]["bleu"]["value"],
        "copied_answers": leaked_references(references, pairs),
    }
    if job.kind in NOISE and not job.way:
        noise, worst = found_noise(job, translator, pairs)
        row |= noise
        arrays["dropped"] = np.array(worst, np.uint32)
    if job.seed != 1 or job.change:
        return Made(row, arrays)
    row["shown"] = take_evenly([list(line) for line in zip(sources, firsts, outputs)], 20)
    row["repeats"] = mean(a.strip() == b.strip() for a, b in zip(sources, outputs, strict=True))
    return Made(row, arrays, outputs)


def make(job: Job, home: Path, folder: Path = records.RUNS) -> dict:
    """Make a run or go on with it, and before it what it needs; returns its line. What the table
    has already is only read."""
    if job.needs:
        make(job.needs, home, folder)
    return records.rows_of("own", folder).get(job.name) or records.make_run(
        "own", job.name, asdict(job), lambda place: work(job, place, folder), home, folder
    )
