"""The pocket model and the default one for the engine in the page, as scripts: engine.js and
model-NAME-0.js, model-NAME-1.js and so on.

A page that was opened from a folder may read no files, but it may run scripts; so the weights come
as base64 in calls of tlEngine.part, in pieces of a megabyte, one after the other, which shows how
far it is and never holds up the page. The weights stay as they are shipped: one byte each, with a
scale for each row. Nothing of this is kept in git.
"""

import base64
import hashlib
import json
import shutil
from dataclasses import asdict
from pathlib import Path

import numpy as np
from torch import Tensor

from transformer_lit.corpora.files import shipped
from transformer_lit.runs.checkpoints import read_file
from transformer_lit.tokenization import BYTE_ALPHABET, SPECIAL_TOKENS, SubwordTokenizer
from transformer_lit.translation import Translator

ENGINE = Path(__file__).resolve().parent.parent / "book" / "web" / "engine.js"
NAMES = "pocket", "open-fr"
PART = 786_432  # bytes in one script: 1 MiB of base64


def merges(tokens: SubwordTokenizer) -> np.ndarray:
    """The merges of the library's tokenizer as pairs of ids. Token 260 + i must be what merge i
    makes: then the pairs are all that a tokenizer needs. ValueError where it isn't so."""
    model = json.loads(tokens.tokenizer.to_str())["model"]
    ids, pairs, first = model["vocab"], model["merges"], len(SPECIAL_TOKENS) + len(BYTE_ALPHABET)
    if [ids[a + b] for a, b in pairs] != list(range(first, len(ids))):
        raise ValueError("the ids don't follow the order of the merges")
    return np.array([[ids[a], ids[b]] for a, b in pairs], dtype="<u2")


def packed(name: str, translator: Translator, weights: dict[str, Tensor]) -> bytes:
    """One file of it all: the length of the header (4 bytes), the header in JSON, zeros up to a
    multiple of 16, the numbers.

    header.tensors says where each tensor begins among the numbers, in bytes, and how many entries
    it has. Vectors have 4 bytes an entry and begin at multiples of 4, matrices have one byte an
    entry, and `merges` two. `weights` as `precision.pack` gives them."""
    target, places, numbers = translator.target_tokenizer, {}, bytearray()
    arrays = {key.removeprefix("model."): t.contiguous().numpy() for key, t in weights.items()}
    header = {"name": name, "config": asdict(translator.model.config), "tensors": places}
    header |= {"languages": translator.languages, "limits": translator.length_limits}
    if isinstance(target, SubwordTokenizer):
        arrays["merges"] = merges(target)
    else:
        source, own = (
            words.tokens[len(SPECIAL_TOKENS) :] for words in (translator.source_tokenizer, target)
        )
        header["words"] = {"source": source, "target": own, "language": target.language}
    for key, array in arrays.items():
        numbers += bytes(-len(numbers) % 16)
        places[key] = [len(numbers), array.size]
        numbers += array.astype(array.dtype.newbyteorder("<")).tobytes()
    header["size"] = len(numbers)
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    start = len(text).to_bytes(4, "little") + text
    assert len(start) < PART, "the page reads the header from the first script"
    return start + bytes(-len(start) % 16) + bytes(numbers)


def scripts(name: str, file: bytes) -> list[str]:
    "The file as scripts, in their order."
    parts = [base64.b64encode(file[at : at + PART]).decode() for at in range(0, len(file), PART)]
    total = sum(map(len, parts))
    stamp = hashlib.sha256(file).hexdigest()[:16]  # an older part in a cache has another one
    return [
        f'tlEngine.part("{name}",{i},{len(parts)},{total},"{part}","{stamp}");\n'
        for i, part in enumerate(parts)
    ]


def write_model(folder: Path, name: str, file: bytes) -> None:
    for i, script in enumerate(scripts(name, file)):
        (folder / f"model-{name}-{i}.js").write_text(script, encoding="ascii")


def shipped_model(name: str) -> bytes:
    "A translator of data/checkpoints, with the very bytes that model.safetensors holds."
    folder = shipped(f"data/checkpoints/{name}")
    weights, _ = read_file(folder / "model.safetensors", True)
    return packed(name, Translator.load(folder), weights)


def write(folder: Path) -> None:
    "engine.js, and the two models beside it."
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(ENGINE, folder)
    for name in NAMES:
        write_model(folder, name, shipped_model(name))
