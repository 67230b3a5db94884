"""Chapter 26's three families with more seeds and two and eight times the steps.

What is trained and asked is what the chapter exports; here only the seed (weights, order of
sentences, what is masked and cut), the number of steps and the peak rate are others. Beside each
share and mean is what it is made of, sentence by sentence, for the intervals."""

import math
import random

import numpy as np
import torch
import torch.nn.functional as F
from fair import ngrams

from transformer_lit import families as chapter
from transformer_lit.batching import PairBatches, collate
from transformer_lit.comparison import build_trainer, count_parameters
from transformer_lit.decoding import greedy_decode
from transformer_lit.evaluation import sacrebleu_scores
from transformer_lit.masks import EOS
from transformer_lit.translation import Translator

ONE, LEFT, TWO = chapter.FAMILIES
ONCE, EACH = f"{ONE}, one look", f"{ONE}, a look per word"
N_GIVEN = 6  # words of a sentence that is continued


def run(steps: int, seed: int, peak: float = 6e-3) -> tuple[dict, dict[str, np.ndarray]]:
    "All three trained for `steps` steps, and how each fills, continues and translates."
    texts, unseen = map(chapter.load_crossing, ("train", "test_it"))
    english, french = chapter.build_tokenizers(texts)
    encode, vocab_size = Translator(None, english, french).encode_pairs, len(french)
    pairs = [(s if i % 2 else [EOS], target) for i, (s, target) in enumerate(encode(texts))]
    trainers = {
        family: build_trainer(variant, chapter.FAMILY_SETUP, vocab_size, peak, steps, seed)
        for family, variant in chapter.FAMILIES.items()
    }
    random.seed(seed)
    for trainer in trainers.values():
        trainer.fit(PairBatches(pairs, trainer.config, steps))
    models = {family: trainer.model.eval() for family, trainer in trainers.items()}
    row = {
        "steps": steps,
        "unseen": len(unseen),
        "pairs": len(pairs),
        "parameters": {family: count_parameters(model) for family, model in models.items()},
        "filled": {},
        "perplexity": {},
        "translated": {},
    }
    test = encode(unseen)
    sources, answers = collate(test)

    # Fill: il or elle, and the word of each that the chapter draws
    torch.manual_seed(0)
    draws = torch.rand(len(answers)) * (answers > EOS).sum(1)
    arrays, gaps = {}, {
        "il or elle": torch.isin(answers, torch.tensor(french.encode("il elle")[:2])),
        "any word": F.one_hot(1 + draws.long(), answers.size(1)).bool(),
    }
    for kind, is_gap in gaps.items():
        words = {
            family: chapter.predict_gaps(model, answers, is_gap)[is_gap].argmax(-1)
            for family, model in models.items()
        }
        words[f"{LEFT}, 16 looks"] = chapter.fill_by_score(models[LEFT], answers, is_gap)
        for way, ids in words.items():
            right = ids == answers[is_gap]
            arrays[f"right/{way}/{kind}"] = right.numpy()
            row["filled"].setdefault(way, {})[kind] = right.float().mean().item()

    # Continue
    rest = answers[:, N_GIVEN + 1 :]
    is_rest = (answers > EOS) & (torch.arange(answers.size(1)) > N_GIVEN)
    logits = {way: chapter.predict_gaps(model, answers, is_rest) for way, model in models.items()}
    logits[ONCE] = logits.pop(ONE)
    logits[EACH] = chapter.predict_by_word(models[ONE], answers, is_rest)
    for way, each in logits.items():
        loss = F.cross_entropy(each[:, N_GIVEN + 1 :].mT, rest, reduction="none") * (rest > EOS)
        arrays[f"rest_nats/{way}"] = loss.sum(1).numpy()
        row["perplexity"][way] = loss[rest > EOS].mean().exp().item()
    arrays["rest_words"] = is_rest.sum(1).numpy().astype(np.uint16)
    # of the French alone; EOS isn't measured, as in the chapter
    held_out = [target[:-1] for _, target in test]
    lines = ngrams.losses([target for _, target in pairs], held_out, vocab_size, N_GIVEN)
    arrays |= {f"rest_nats/{name}": each.astype(np.float32) for name, each in lines.items()}
    n_words = arrays["rest_words"].sum()
    row["ngrams"] = {name: math.exp(each.sum() / n_words) for name, each in lines.items()}

    # Translate; encoder-only is told how many words the French has
    outputs = {family: greedy_decode(models[family], sources, 30) for family in (LEFT, TWO)}
    masked = answers.masked_fill(answers > EOS, chapter.GAP)
    for way, n in ((ONCE, masked.size(1)), (EACH, 1)):
        filled = chapter.fill_gaps(models[ONE], sources, masked, n)
        outputs[way] = filled[:, 1:].tolist()
    references = [text for _, text in unseen]
    for way, ids in outputs.items():
        texts = [*map(french.decode, ids)]
        scores = sacrebleu_scores(texts, [[text] for text in references])
        exact = arrays[f"right/{way}/exact"] = np.array([*map(str.__eq__, texts, references)])
        values = {score["metric"]: score["value"] for score in scores}
        row["translated"][way] = values | {"exact": exact.mean().item()}
    row["signatures"] = {score["metric"]: score["signature"] for score in scores}
    return row, arrays
