"""Chapter 10: what a decoder is asked for."""

from collections.abc import Sequence

from litbook import figures


def shifted(words: Sequence[str]) -> figures.Picture:
    """What a decoder reads (below) and is asked to say (above); dashed lines carry each true word
    back as the next input."""
    n = len(words) - 1
    sheet, pitch, w = figures.Drawing(344, 178), 336 / n, 336 / n - 9
    for y, title in ((12, "is asked to say"), (166, "reads")):
        sheet.text(4, y, title, 12, "start", weight="bold")
    sheet.row(4, 24, words[1:], pitch, w, fill=figures.DECODER, size=11)
    sheet.row(4, 128, words[:-1], pitch, w, color=figures.GREY, size=11)
    for t in range(n):
        x = 4 + pitch * t
        sheet.arrow(x + w / 2, 128, x + w / 2, 51)
        if t < n - 1:
            out, back = x + 0.75 * w, x + pitch + 0.25 * w
            sheet.path([(out, 51), (out, 90), (back, 90), (back, 127)], figures.GREY, dash=True)
    return sheet.show(
        f"The decoder reads {', '.join(words[:-1])} and is asked for {', '.join(words[1:])}; dashed"
        " lines carry each true word back as the next input.",
        f"One pass asks for {n} words at once: each position reads a true word and must say the"
        " next.",
    )
