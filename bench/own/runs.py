"""One run of appendix A4: the training, and what is found.

A training is the package's recipe for a row of the sizing table, in a folder, so that a stop loses
nothing. At each look, as many as the row has epochs, the loss on validation pairs is taken; the
weights of the least one are tested."""

import math
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from statistics import fmean, mean

import numpy as np
import records
import torch
from common import EVERYDAY, scores
from own import text
from own.text import BACK, Job, Pairs, Test
from records import Made, Resumable
from tokenizers import AddedToken, Tokenizer
from torch import nn

from litbook.results import load_record
from transformer_lit.corpora.files import write_atomic
from transformer_lit.corpora.texts import take_evenly
from transformer_lit.custom_pair.clean import reject_pairs
from transformer_lit.custom_pair.languages import wrong_language_reasons
from transformer_lit.custom_pair.train import least_likely_pairs, recipe_of
from transformer_lit.data import seen_in_training, sentence_key
from transformer_lit.comparison import training_cost
from transformer_lit.evaluation import segment_stats
from transformer_lit.recipes.recipes import LONGEST, build_trainer, build_translator
from transformer_lit.runs.checkpoints import load_weights, model_tensors, read_file, save_weights
from transformer_lit.runs.run import fingerprint
from transformer_lit.runtime.devices import resolve_precision
from transformer_lit.tokenization import SubwordTokenizer
from transformer_lit.batching import PairBatches
from transformer_lit.training import TrainingConfig, validation_loss
from transformer_lit.translation import Translator, translate_ids

TUNING = 500  # updates on the other domain
TOKENS = 4_000_000  # target tokens of "general"


# A training ---------------------------------------------------------------------------------------


def vocabulary(job: Job, pairs: Pairs) -> SubwordTokenizer:
    """Made-up English and captions to be tuned on add no subwords: the other runs then differ in
    nothing else. The tag is one more token, and never cut."""
    if job.kind in ("reverse", "tuned", *BACK):
        pairs = job.real
    tokens = SubwordTokenizer.train(chain.from_iterable(pairs), job.size.vocabulary)
    if job.way == "tagged":
        tagged = Tokenizer.from_str(tokens.tokenizer.to_str())
        tagged.add_tokens([AddedToken(text.TAG, normalized=False)])
        tokens = SubwordTokenizer(tagged)
    return tokens


def updates(job: Job) -> int:
    """So many as the epochs of the REAL pairs come to, whatever is added to them; for captions some
    more. Not for general text."""
    size, tokens = job.size, vocabulary(Job(job.pairs, change=job.change), job.real)
    encoded = Translator(None, tokens, tokens).encode_pairs(job.real)
    short = [pair for pair in encoded if max(map(len, pair)) <= LONGEST]
    config = TrainingConfig(epochs=size.epochs, max_tokens=size.max_tokens)
    return PairBatches(short, config).total_steps + TUNING * (job.kind in ("mixed", "captions"))


def validation(translator: Translator, pairs: Pairs, loss: float) -> dict[str, float]:
    "A loss per token of the targets, and per character: so two vocabularies can be compared."
    tokens = sum(len(target) - 1 for _, target in translator.encode_pairs(pairs))
    characters = sum(len(target) + 1 for _, target in pairs)
    return {"valid_loss": loss, "valid_per_character": loss * tokens / characters}


def train(job: Job, folder: Path, pairs: Pairs) -> tuple[Translator, dict]:
    """Train in `folder` or go on, and take the weights of the least validation loss; "tuned" begins
    with those of a run on real pairs, at a quarter of the rate."""
    size, c = job.size, text.corpora()
    languages, valid = ("en", "fr"), c.valid["tatoeba"]
    if job.kind in text.DOMAIN:
        valid = valid[: text.HELD // 2] + c.valid["multi30k"][: text.HELD // 2]
    if job.kind == "reverse":
        languages, valid = ("fr", "en"), [pair[::-1] for pair in valid]
    recipe = recipe_of(size, languages, fingerprint(pairs))
    recipe.training = replace(recipe.training, seed=job.seed)
    if job.kind == "tuned":
        recipe.peak_lr /= 4
        base = Job(job.pairs, epochs=job.epochs)
        begin, _ = train(base, folder / "base", base.real)
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / "tokenizer.json", vocabulary(job, pairs).save)
    translator = build_translator(recipe, pairs, folder)
    if job.kind == "tuned":
        load_weights(translator.model, model_tensors(begin.model))
    trainer, batches = build_trainer(translator, pairs, recipe, folder)
    epoch = len(batches.epoch_batches(0))
    if job.kind == "general":
        labels = sum(len(target) - 1 for _, target in batches.pairs) / epoch
        batches.total_steps = math.ceil(TOKENS / labels)
    else:
        batches.total_steps = TUNING if job.kind == "tuned" else updates(job)
    steps = batches.total_steps
    encoded, best = translator.encode_pairs(valid), folder / "best.safetensors"
    looks = {round(k * steps / size.epochs) for k in range(1, size.epochs + 1)}
    run = Resumable.of(trainer, flop_every=max(2, steps // 6))

    def curve() -> list:
        return [[entry["step"], entry["valid"]] for entry in run.log_history if "valid" in entry]

    def look(run: Resumable) -> dict | None:
        if run.step in looks:
            loss = validation_loss(run.model, encoded)
            if loss <= min((before for _, before in curve()), default=math.inf):
                save_weights(best, run.model)
            return {"valid": loss}

    run.fit(batches, callback=look)
    step, loss = min(curve(), key=lambda point: (point[1], -point[0]))
    row = {
        "size": asdict(size),
        "recipe": asdict(recipe),
        "train_pairs": len(pairs),
        **training_cost(run),
        "steps": steps,
        "epochs_run": steps / epoch,
        "best_step": step,
        "best_epoch": step / epoch,
        **validation(translator, valid, loss),
        "curve": curve(),
    }
    # by which an epoch is chosen
    held = [source for source, _ in valid], [[target] for _, target in valid]
    if step < steps and job.kind != "reverse":
        row["last"] = tested(translator, c.tests["tatoeba"])[0]
        row["valid_last"] = tested(translator, held)[0]["first"]
    load_weights(run.model, read_file(best)[0])
    row["valid_best"] = tested(translator, held)[0]["first"]
    return translator, row


def shipped_translator(job: Job) -> tuple[Translator, dict]:
    """`tatoeba-fr`: this row's recipe, all pairs of the corpus, weights in 8 bits; and what its
    training's record tells."""
    record, _ = load_record(EVERYDAY.name)
    translator = Translator.load(EVERYDAY)
    valid, epochs = text.corpora().valid["tatoeba"], record["recipe"]["training"]["epochs"]
    loss = validation_loss(translator.model, translator.encode_pairs(valid))
    return translator, {
        "size": asdict(job.size),
        **{name: record[name] for name in ("recipe", "parameters", "tokens")},
        "train_pairs": record["data"]["train"],
        "cpu_seconds": record["seconds"],  # on the wall: the core was shared at times
        "epochs_run": epochs,
        "best_epoch": epochs,
        **validation(translator, valid, loss),
        "record": EVERYDAY.name,
    }


# What is found ------------------------------------------------------------------------------------


class Sampling(nn.Module):
    "A model whose likeliest token is a draw from what the model says: Gumbel noise on the logits."

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model, self.initial_state = model, model.initial_state

    def step(self, tokens: torch.Tensor, state):
        logits, state = self.model.step(tokens, state)
        noise = -torch.empty_like(logits, dtype=torch.float).exponential_().log()
        return logits.float() + noise, state


def back_translated(translator: Translator, lines: list[str], kind: str) -> list[str]:
    "The likeliest token each time, or a draw."
    torch.manual_seed(1)
    model, rows = translator.model.eval(), 128
    ids = [translator.source_tokenizer.encode(line) for line in lines]
    precision = resolve_precision("auto", torch.device("cpu"), rows)
    model = Sampling(model) if kind == "sampled" else model
    outputs = translate_ids(model, ids, 1, rows, precision)
    return [" ".join(translator.target_tokenizer.decode(output).split()) for output in outputs]


def reversed_lines(job: Job, translator: Translator) -> tuple[dict, list[str]]:
    """What a reverse model makes of monolingual text, a column for each way; shown: twenty lines;
    in_test: how many sentences of each way are test sentences."""
    lines = text.monolingual(job.pairs)
    kinds = BACK if job.pairs < text.SIZES[2].pairs else BACK[:1]
    columns = [back_translated(translator, lines, kind) for kind in kinds]
    known = set(map(sentence_key, text.corpora().tests["tatoeba"][0]))
    return {
        "shown": take_evenly([list(row) for row in zip(lines, *columns)], 20),
        "in_test": [sum(sentence_key(line) in known for line in column) for column in columns],
    }, ["\t".join(row) for row in zip(*columns)]


def tested(translator: Translator, test: Test) -> tuple[dict, np.ndarray, list[str]]:
    """Scores with the first reference and with all, the counts that BLEU is made of, and the
    outputs."""
    sources, references = test
    outputs = translator.translate(sources, precision="fp32")
    return (
        {
            "sentences": len(sources),
            "first": scores(outputs, [refs[:1] for refs in references]),
            "all": scores(outputs, references),
        },
        np.array(segment_stats(outputs, references), np.uint16),
        outputs,
    )


def noise_found(job: Job, translator: Translator, pairs: Pairs) -> tuple[dict, np.ndarray]:
    """What share of the noise, and what share of the clean pairs, each rule of the package's
    cleaning throws out, and the model's own score of its least likely tenth; which lines these are.
    """
    judged = reject_pairs(pairs)
    clean = {pair for pair, reason in judged if not reason}
    unlikely = {pair for _, pair in least_likely_pairs(translator, pairs)}
    rules = {
        "copied": [reason == "copied" for _, reason in judged],
        "lopsided": [reason == "lopsided" for _, reason in judged],
        "languages": list(map(bool, wrong_language_reasons(pairs))),
        "all rules": [pair not in clean for pair in pairs],
        "own score": [pair in unlikely for pair in pairs],
    }
    return {
        rule: {"recall": mean(flags[job.pairs :]), "false_alarms": mean(flags[: job.pairs])}
        for rule, flags in rules.items()
    }, np.flatnonzero(rules["own score"]).astype(np.uint32)


def work(job: Job, place: Path, folder: Path) -> Made:
    "Train, test, and keep the outputs of the first seed."
    c, pairs = text.corpora(), text.TEXTS[job.kind](job, folder)
    sources, references = c.tests["tatoeba"]
    firsts, tests = [refs[0] for refs in references], c.tests
    if job.kind == "shipped":
        translator, row = shipped_translator(job)
    else:
        translator, row = train(job, place / "run", pairs)
    if job.kind == "reverse":
        tests = {"tatoeba, reversed": (firsts, [[source] for source in sources])}
    results = {name: tested(translator, test) for name, test in tests.items()}
    row |= {"data": c.digest, "tests": {name: scored for name, (scored, *_) in results.items()}}
    arrays = {f"bleu/{name}": counts for name, (_, counts, _) in results.items()}
    if job.kind == "reverse":
        facts, lines = reversed_lines(job, translator)
        return Made(row | facts, arrays, lines)
    row["bleu"] = row["tests"]["tatoeba"]["all"]["bleu"]["value"]
    row["copied_answers"] = fmean(seen_in_training(references, pairs))
    if job.kind in text.NOISE and not job.way:
        row["found"], arrays["dropped"] = noise_found(job, translator, pairs)
    if job.seed != 1 or job.change:
        return Made(row, arrays)
    outputs = results["tatoeba"][2]
    row["shown"] = take_evenly([list(line) for line in zip(sources, firsts, outputs)], 20)
    row["repeats"] = mean(a.strip() == b.strip() for a, b in zip(sources, outputs))
    return Made(row, arrays, outputs)


def make(job: Job, home: Path, folder: Path = records.RUNS) -> dict:
    """Make a run or go on with it, and before it what it needs; returns its line. What the table
    has already is only read."""
    if job.needs:
        make(job.needs, home, folder)
    return records.make_run(
        "own", job.name, asdict(job), lambda place: work(job, place, folder), home, folder
    )
