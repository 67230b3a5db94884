"""What runs on the pretended GPU, in one process: `python tests/fake_cuda_checks.py STORE OUT`,
with FAKE_CUDA set.

Each check returns what tests/test_fake_cuda.py looks at, and all of it goes into one JSON file; a
check that fails leaves its traceback."""

import itertools
import json
import sys
import tempfile
import time
import traceback
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import fake_cuda  # before torch
from fake_cuda import Card, pretended

import torch

from transformer_lit import wmt
from transformer_lit.decoding import beam_search, greedy_decode
from transformer_lit.masks import BOS, EOS, PAD, same_randomness
from transformer_lit.model import Transformer, TransformerConfig
from litbook.live import looks
from transformer_lit.recipes import experiments
from transformer_lit.runs import checkpoints as checkpoint
from transformer_lit.runtime.optimizers import MuonAndAdam
from litbook.quantization import precision_losses
from transformer_lit.training import PairBatches, Trainer, TrainingConfig, validation_loss
from translators import PAIRS, joint

torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)
SIZES = dict(d_model=16, n_heads=2, d_ff=32, n_encoder_layers=1, n_decoder_layers=1, dropout=0.0)


def a_model(**changes):
    torch.manual_seed(0)
    return Transformer(TransformerConfig(40, **{**SIZES, **changes}))


def a_batch(rows=6, seed=1):
    dice = torch.Generator().manual_seed(seed)
    source, target = (torch.randint(4, 40, (rows, n), generator=dice) for n in (7, 8))
    target[:, 0], source[1, 5:], target[-1, 6:] = BOS, PAD, PAD
    return source, target


def pairs(n=40):
    dice = torch.Generator().manual_seed(2)
    return [
        (
            [*torch.randint(4, 40, (k,), generator=dice).tolist(), EOS],
            [BOS, *torch.randint(4, 40, (k,), generator=dice).tolist(), EOS],
        )
        for k in torch.randint(2, 9, (n,), generator=dice).tolist()
    ]


def steps(place, precision, norm, accumulate, muon, tied, clip, n=2):
    "Losses and norms of some steps on a device, and the waits in them."
    model = a_model(norm=norm, tied=tied).to(place)
    with_muon = patch(
        "transformer_lit.runtime.optimizers.resolve_precision", lambda *_: "fp32"
    )  # on both devices alike
    run = Trainer(
        model,
        TrainingConfig(precision=precision, accumulate=accumulate, clip=clip, warmup=4),
        optimizer=MuonAndAdam(model) if muon else None,
    )
    sides = [side.to(place) for side in a_batch()]
    fake_cuda.DEVICE[0].waits.clear(), fake_cuda.DEVICE[0].ops.clear()
    with with_muon:
        found = [run.train_step(*sides) for _ in range(n)]
    waits = list(fake_cuda.DEVICE[0].waits)
    return [[float(x) for x in one.values()] for one in found], waits


def training():
    "All ways to train: what each waits for, and how far it comes from the processor's."
    rows, choices = [], (
        ("fp32", "bf16"),
        ("post", "pre"),
        (1, 3),
        (False, True),
        (True, False),
        (0.0, 1.0),
    )
    for a, b, c, d in itertools.product(
        (0, 1), repeat=4
    ):  # a quarter of all 64, in which any three choices meet in every way
        way = [own[i] for own, i in zip(choices, (a, b, c, d, a ^ b ^ c, b ^ c ^ d))]
        with pretended() as device:
            found, waits = steps("cuda", *way)
            half = device.ops.get("_to_copy", 0)
        plain, _ = steps("cpu", *way)
        rows.append(
            {
                "way": way,
                "waits": waits,
                "copies": half,
                "apart": max(
                    abs(a - b) for one, two in zip(found, plain) for a, b in zip(one, two)
                ),
            }
        )
    return rows


def a_step_with(step):
    """Waits per step of a search that says nothing but other words until its limit, and whether its
    answers are the processor's."""
    model = a_model().eval()
    with torch.no_grad():
        model.output.weight[[PAD, BOS]] -= 100.0
    found = {}
    for rows in 2, 8:
        source, _ = a_batch(rows)
        plain = step(model, source, 6)
        with pretended() as device:
            card = a_model().eval().to("cuda")
            card.load_state_dict(model.state_dict())
            here, calls, take = source.to("cuda"), [], card.step

            def counted(*args, take=take, device=device, calls=calls):
                calls.append(len(device.waits))
                return take(*args)

            card.step = counted
            said = step(card, here, 6)
            each = [b - a for a, b in zip(calls, calls[1:])]
            found[rows] = {
                "most": max(each),
                "in_all": len(device.waits),
                "steps": len(calls),
                "where": sorted(set(device.waits)),
                "same": said == plain,
                "masks": device.ops.get("nonzero", 0),
            }
    return found


def greedy():
    return a_step_with(greedy_decode)


def beam():
    return a_step_with(lambda model, source, longest: beam_search(model, source, 3, 0.6, longest))


def trained(folder, stops, place):
    "The losses of six steps of a run, in as many parts as there are stops."
    for stop in stops:
        torch.manual_seed(5)
        model = a_model(dropout=0.1).to(place)
        config = TrainingConfig(max_tokens=60, warmup=4, checkpoint_every=2)
        run = Trainer(model, config, folder=folder, log_every=1, optimizer=MuonAndAdam(model))
        run.fit(PairBatches(pairs(), config, steps=6), stop)
    return [entry["loss"] for entry in run.log if entry["kind"] == "step"]


def resume():
    "A run through, and the same in two parts."
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two, pretended():
        return {"through": trained(one, [6], "cuda"), "parts": trained(two, [3, 6], "cuda")}


def an_experiment(corpus):
    e = wmt.experiment_for(
        corpus,
        "ours",
        "tiny",
        400,
        dict(max_tokens=400, warmup=5, precision="fp32", checkpoint_every=3),
    )
    return replace(
        e,
        model=SIZES | dict(norm="pre"),
        sample=400,
        optimizer="muon",
        steps=12,
        look_every=6,
        lines=2,
        average=2,
        keep_every=2,
    )


def whole_run(store, corpus):
    "A large run from a store to its record; the waits of its steps, beside their number."
    found, take = {}, Trainer.train_step
    brief = patch(
        "transformer_lit.recipes.experiments.Translator.translate",
        lambda self, lines, **how: ["une réponse"] * len(lines),
    )
    for place in "cpu", "cuda":
        waited, asked = [], []

        def step(run, *sides):
            before = len(fake_cuda.DEVICE[0].waits)
            out = take(run, *sides)
            waited.extend(fake_cuda.DEVICE[0].waits[before:])
            asked.append(tuple(side.device.type for side in sides))
            return out

        with (
            tempfile.TemporaryDirectory() as folder,
            brief,
            patch.object(Trainer, "train_step", step),
            patch.object(experiments, "matmul_flops", lambda *_: 1e12),
            patch.object(experiments, "micro_batches_that_fit", lambda *_: 1),
        ):

            def run():
                return experiments.run_experiment(
                    an_experiment(corpus), Path(folder), store, device=place
                )

            if place == "cuda":
                with pretended() as device:
                    record = run()
                    outside = [
                        one
                        for one in device.waits
                        if "fit" in one or "over" in one or "late" in one or "largest" in one
                    ]
            else:
                record, outside = run(), []
            log = [
                json.loads(line) for line in (Path(folder) / "log.jsonl").read_text().splitlines()
            ]
            found[place] = {
                "loss": [one["loss"] for one in log if one["kind"] == "step"],
                "valid": [one["valid_loss"] for one in log if one["kind"] == "look"],
                "hardware": record["hardware"],
                "waits": waited,
                "outside": outside,
                "places": sorted(set(asked)),
            }
    return found


def clock():
    "Seconds by the run's clock and by the wall, where a step leaves 40 ms of work to the device."
    with (
        tempfile.TemporaryDirectory() as folder,
        pretended(costs={"_fused_adam_": 0.04}) as device,
        patch("time.perf_counter", lambda: device.now),
    ):
        model = a_model().to("cuda")
        config = TrainingConfig(max_tokens=60, warmup=4, checkpoint_every=0)
        run = Trainer(model, config, folder=folder)
        began = device.now
        run.fit(
            PairBatches(pairs(), config, steps=20), experiments.time_is_up(time.monotonic() + 1000)
        )
        return {
            "own": run.seconds,
            "wall": device.now - began,
            "busy": 0.04 * device.ops["_fused_adam_"],
            "steps": run.step,
            "epochs": run.epoch,
        }


def looking():
    "What else asks a model on a GPU: held-out loss, what a page shows, fewer bits."
    plain = joint()
    texts = [("I see a cats.", "Je vois a chats."), *PAIRS[:3]]

    def asked(translator):
        return {
            "valid": validation_loss(translator.model, translator.encode_pairs(PAIRS)),
            "bits": [row["loss"] for row in precision_losses(translator, PAIRS)],
            "letters": looks.looked_at(translator, texts[0][0])["said"],
            "steps": [
                [word for _, _, word in step] for step in looks.beam_steps(translator, texts[0][0])
            ][:4],
            "answers": translator.translate(
                [english for english, _ in texts], beam_size=2, precision="fp32"
            ),
        }

    here = asked(plain)
    with pretended():
        card = joint()
        card.model.to("cuda")
        return {"cpu": here, "cuda": asked(card)}


def kept():
    "Weights on the GPU go to a file; spoilt ones don't."
    with tempfile.TemporaryDirectory() as folder, pretended():
        path, model = Path(folder) / "step-1.safetensors", a_model().to("cuda")
        checkpoint.save_weights(path, model)
        other = a_model(tied=True)
        torch.nn.init.zeros_(other.output.weight)
        checkpoint.average_files(other, [path])
        same = all(
            torch.equal(a, b.detach().cpu()) for a, b in zip(other.parameters(), model.parameters())
        )
        path.unlink()
        with torch.no_grad():
            model.output.weight[3, 3] = float("nan")
        try:
            checkpoint.save_weights(path, model)
            said = ""
        except ValueError as error:
            said = str(error)
        return {"same": same, "said": said, "written": path.exists()}


def randomness():
    "The GPU's random state around `same_randomness`."
    state = torch.tensor([7, 7])
    with (
        pretended(),
        patch.object(torch.cuda, "get_rng_state", lambda *_: state.clone()),
        patch.object(torch.cuda, "set_rng_state", lambda new, *_: state.copy_(new)),
        patch.object(torch.cuda, "manual_seed_all", lambda seed: state.fill_(seed)),
    ):
        same_randomness(lambda x: x, torch.zeros(1))
        return state.tolist()


def two_devices():
    "What the pretended GPU refuses, and what it notes: it must itself be able to fail."
    said = {}
    with pretended() as device:
        card = torch.ones(3, device="cuda")
        assert (
            isinstance(card, Card) and card.is_cuda and torch.tensor([1, 2], device="cuda").is_cuda
        )
        for name, wrong in {
            "a sum": lambda: card + torch.ones(3),
            "an index": lambda: card[torch.tensor([0, 1])],
            "a list": lambda: torch.cat([card, torch.ones(3)]),
        }.items():
            try:
                wrong()
                said[name] = ""
            except RuntimeError as error:
                said[name] = str(error)
        device.waits.clear()
        card + torch.tensor(2.0), card[torch.tensor([0, 1], device="cuda")], card.sum()
        said["none"] = list(device.waits)
        for wait in (
            lambda: card.sum().item(),
            lambda: card.tolist(),
            lambda: card[card > 0],
            lambda: card.nonzero(),
            lambda: card.cpu(),
            lambda: bool(card.any()),
            lambda: [0, 1][card.int()[0]],
        ):
            wait()
        said["waits"] = [one.split()[-1] for one in device.waits]
    return said


CHECKS = (two_devices, training, greedy, beam, resume, clock, looking, kept, randomness)


def main(store: str, corpus: str, out: str) -> None:
    found = {}
    for check in *CHECKS, lambda: whole_run(store, corpus):
        name, began = (
            getattr(check, "__name__", "").replace("<lambda>", "whole_run"),
            time.process_time(),
        )
        try:
            found[name] = {"found": check()}
        except Exception:
            found[name] = {"error": traceback.format_exc()[-3000:]}
        found[name]["seconds"] = round(time.process_time() - began, 1)
    Path(out).write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
