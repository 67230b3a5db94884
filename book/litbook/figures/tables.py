"""Tables of numbers."""

import html
import re
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np

from .style import Picture, powers


def is_number(value: object) -> bool:
    "A number to stand to the right; what is true or false is none."
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def breakable(text: str) -> str:
    """HTML in which a name that is long for a phone's column may break after its underscores and
    points."""
    return re.sub(
        r"[A-Za-z][\w.]{15,}", lambda name: re.sub(r"(?<=[_.])(?=[A-Za-z])", "<wbr>", name[0]), text
    )


def table_cell(value: object, fmt: str, head: bool = False) -> str:
    """One cell, or the head of a row: numbers to the right and on one line; words may break; a tick
    or a cross for what is true or false."""
    if isinstance(value, (bool, np.bool_)):
        return (
            '<td style="padding:2px 10px;text-align:left"'
            f' aria-label="{"yes" if value else "no"}">{"✓" if value else "✗"}</td>'
        )
    text = (
        fmt.format(value)
        if isinstance(value, float)
        else f"{value:,}" if is_number(value) else str(value)
    )
    side = "right" if is_number(value) else "left"
    words = re.search("[a-z]", text.replace("nan", ""), re.I)
    nowrap = (
        "" if words or len(text) > 24 else ";white-space:nowrap"
    )  # a row of ids is longer than a phone is wide
    tag, details = ('th scope="row"', ";font-weight:inherit") if head else ("td", "")
    return (
        f'<{tag} style="text-align:{side};padding:2px'
        f' 10px{nowrap}{details}">{breakable(powers(html.escape(text)))}</{tag[:2]}>'
    )


def table_caption(caption: str, wide: bool) -> str:
    """The caption, on one line where a phone has room for it; over a wide table it stays in view
    while the table scrolls."""
    words = powers(html.escape(caption))
    if wide:
        return (
            '<caption style="text-align:left;white-space:normal">'
            '<span style="display:inline-block;position:sticky;left:0;'
            f'max-width:min(38rem,76vw);overflow-wrap:anywhere">{words}</span></caption>'
        )
    nowrap = ' style="white-space:nowrap"' if len(caption) <= 44 else ""
    return f"<caption{nowrap}>{words}</caption>"


def folded(first: Picture, details: Picture, summary: str) -> Picture:
    "A table or a figure, and a table that waits in a fold below it."
    both = copy(first)
    both.html += (
        '<details class="tl-more" style="margin:.2em 0 1em"><summary'
        ' style="cursor:pointer;font-size:.85em">'
        f"{html.escape(summary)}</summary>{details.html}</details>"
    )
    return both


def table(
    rows: Sequence[Mapping] | Mapping[Any, Mapping],
    columns: Sequence[Any] | None = None,
    caption: str | None = None,
    fmt: str = "{:.3f}",
    wide: bool = False,
) -> Picture:
    """Dictionaries as rows of an HTML table, numbers to the right.

    rows: a list of rows, or {name: row}, where the names become the first column. columns: which,
    in which order; without it all that occur. fmt: for floats; whole numbers get commas. wide:
    nothing breaks, the table scrolls and its first column stays."""
    if isinstance(rows, Mapping):
        rows = [{"": name, **row} for name, row in rows.items()]
    columns = columns or list(dict.fromkeys(key for row in rows for key in row))

    def head(name) -> str:
        side = "right" if all(is_number(row.get(name)) for row in rows) else "left"
        text = html.escape(str(name))
        return f'<th scope="col" style="text-align:{side};padding:2px 10px">{text}</th>'

    heads = "".join(map(head, columns))
    # a column without a name has those of the rows: who listens hears them with each number
    lines = (
        "".join(table_cell(row.get(name, ""), fmt, name == "") for name in columns) for row in rows
    )
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    style = ' class="tl-wide" style="white-space:nowrap"' if wide else ""
    return Picture(
        f'<div style="overflow-x:auto" tabindex="0" role="region" aria-label="Table"><table{style}>'
        f"{table_caption(caption, wide) if caption else ''}<thead><tr>{heads}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>",
        None,
    )
