"""What many pages show beside figures: sentences made from numbers, a mapping as a table, tokens in
boxes, losses by epoch."""

import html
from collections.abc import Mapping, Sequence
from itertools import zip_longest

import numpy as np

from litbook import figures


def in_a_row(words: Sequence[str]) -> str:
    "Words as a sentence holds them: a, b and c."
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def two_columns(
    values: Mapping,
    name: str = "",
    value: str = "",
    fmt: str = "{:.3f}",
    caption: str | None = None,
) -> figures.Picture:
    "A mapping as a table of two columns with these names."
    rows = [dict(zip((name, value), item)) for item in values.items()]
    return figures.table(rows, [name, value], caption, fmt)


class Prose:
    "Sentences made from numbers; a notebook shows them as text, not as output."

    def __init__(self, *texts: str):
        self.texts = texts

    def _repr_markdown_(self) -> str:
        return figures.powers("\n\n".join(self.texts))

    def __repr__(self) -> str:
        return "\n".join(self.texts)


def readable_piece(piece: str | bytes) -> str:
    "A piece as one reads it: ␣ for a space, hexadecimal digits for bytes that are no text."
    if isinstance(piece, bytes):
        try:
            piece = piece.decode("utf-8")
        except UnicodeDecodeError:
            return " ".join(f"{byte:02X}" for byte in piece)
    return piece.replace("\u0120", " ").replace(" ", "␣").replace("\n", "↵").replace("\t", "⇥")


def token_boxes(
    rows: Mapping[str, Sequence[str | bytes]], numbers: Mapping[str, Sequence[int]] | None = None
) -> figures.Picture:
    """Tokens in boxes, a row for each name, with their `numbers` below them; "" as the only name
    leaves the names out."""
    box = (
        '<span style="display:inline-flex;flex-direction:column;align-items:center;'
        'vertical-align:top;margin:2px 3px 2px 0">'
        '<span style="border:1px solid #888;border-radius:4px;padding:0 5px;white-space:nowrap;'
        'font-family:var(--tl-code,monospace);font-size:13px;line-height:1.6">{}</span>'
        '<span style="font-size:11px;line-height:1.4">{}</span></span>'
    )
    lines = ""
    for name, row in rows.items():
        texts = (html.escape(readable_piece(piece)) or "&nbsp;" for piece in row)
        below = (numbers or {}).get(name, [])
        cells = (box.format(*pair) for pair in zip_longest(texts, below, fillvalue=""))
        lines += f"<span>{html.escape(name)}</span>" * any(rows) + f"<span>{''.join(cells)}</span>"
    # the rows' tokens begin below each other, also on a phone
    columns = "fit-content(8em) " * any(rows) + "minmax(0,1fr)"
    return figures.Picture(
        f'<div style="font-size:14px;display:grid;grid-template-columns:{columns};gap:6px 10px;'
        f'align-items:baseline">{lines}</div>',
        None,
    )


def validation_by_epoch(
    series: Mapping[str, tuple[Sequence[int], Sequence[float]]],
    reference: str | None = None,
    fault: str | None = None,
    caption: str | None = None,
) -> figures.Picture:
    """Validation losses of several runs by epoch, (epochs, losses) each; a name with a comma is a
    part of a run, dotted.

    reference: the name of the run to compare with, in gray; fault: that of the faulty one, dashed.
    caption: without one it says after which epoch each run is best."""
    runs = {name: entry for name, entry in series.items() if "," not in name}
    best = [
        f"epoch {epochs[int(np.argmin(losses))]} ({name})"
        for name, (epochs, losses) in runs.items()
    ]
    colors = {reference: figures.GRAY, fault: figures.FAULT}
    ours = [name for name in runs if name not in colors]
    return figures.curves(
        dict(series),
        xlabel="epoch",
        ylabel="validation loss, nats per word",
        colors=colors | {name: figures.INK for name in ours[:1]},
        styles={fault: "--"} | {name: ":" for name in series if name not in runs},
        caption=caption or f"The loss is lowest after {in_a_row(best)}.",
    )
