"The first page's running sentence: what the book's small translator says, and where it looks, as a page of its own."
import html
import json
from typing import Any

from transformer_lit.attention_maps import piece_names, read_pairs

RUNNING = "The animal didn't cross the street because it was too {}."
WORDS = ("tired", "wide")
FAINT = 0.15  # a thinner link than this isn't drawn


def looks_of(translator: Any, adjective: str) -> dict:
    """The running sentence with this adjective, as `translator` says it, word by word.

    links: for each French piece the English piece that the first cross-attention layer's heads look at most, on average,
    while it is said; the pronoun's from the last layer's first head. note: one sentence with the pronoun's numbers.
    Raises ValueError when the answer has no pronoun to show."""
    english = RUNNING.format(adjective)
    (french,) = translator.translate([english])
    maps, source, target = read_pairs(translator, [(english, french)])
    read = piece_names(source[0], translator.source)[:-1]
    said = piece_names(target[0], translator.target)[1:-1]
    pronoun = next((i for i, word in enumerate(said) if word in ("il", "elle")), None)
    if pronoun is None:
        raise ValueError(f"{french!r} has neither il nor elle to show")
    weights = maps["cross"][0, 0]  # heads, rows, English pieces; row i reads piece i and says piece i + 1
    mean, first = weights.mean(0), maps["cross"][-1, 0, 0, pronoun]
    links = []
    for row in range(len(said)):
        if row != pronoun:
            word = int(mean[row, : len(read)].argmax())
            if mean[row, word] >= FAINT:
                links.append({"row": row, "word": word, "weight": round(float(mean[row, word]), 2), "pronoun": False})
    looked = int(first[: len(read)].argmax())
    links.append({"row": pronoun, "word": looked, "weight": round(float(first[looked]), 2), "pronoun": True})
    return {"english": read, "french": said, "links": links, "pronoun": pronoun,
            "note": f"While it says {said[pronoun]}, one head of the last layer puts {first[looked]:.0%} of its attention on {read[looked]}."}


def running_sentence(template: str, translator: Any) -> str:
    "`template` with both sentences; the first can be read without a script."
    cases = [looks_of(translator, adjective) for adjective in WORDS]
    spans = {name: "".join(f"<span>{html.escape(word)}</span>" for word in cases[0][name]) for name in ("english", "french")}
    data = html.escape(json.dumps(cases, ensure_ascii=False, separators=(",", ":")), quote=True)
    page = template.replace("{{data}}", data).replace("{{note}}", html.escape(cases[0]["note"]))
    return page.replace("{{english}}", spans["english"]).replace("{{french}}", spans["french"])
