"""Chapter 10: what a decoder is asked for."""

from collections.abc import Sequence

from litbook import figures


def shifted(words: Sequence[str]) -> figures.Picture:
    """What a decoder reads (below) and is asked to say (above); dashed lines carry each true word
    back as the next input."""
    last = len(words) - 2

    def draw(width: int) -> str:
        pitch = (width - 8) / (last + 1)
        sheet, w, size = figures.Drawing(width, 178), pitch - 9, 13 if width > figures.PHONE else 11
        sheet.text(4, 12, "is asked to say", 12, "start", weight="bold").text(
            4, 166, "reads", 12, "start", weight="bold"
        )
        for t, (reads, says) in enumerate(zip(words, words[1:])):
            x = 4 + pitch * t
            sheet.box(x, 24, w, 26, says, figures.DECODER, size=size).box(
                x, 128, w, 26, reads, "none", figures.GREY, size=size
            )
            sheet.arrow(x + w / 2, 128, x + w / 2, 51)
            if t < last:
                out, back = x + 0.75 * w, x + pitch + 0.25 * w
                sheet.line(out, 51, out, 90, figures.GREY, dash=True).line(
                    out, 90, back, 90, figures.GREY, dash=True
                )
                sheet.arrow(back, 90, back, 127, figures.GREY, dash=True)
        return sheet.svg()

    return figures.sketch(
        draw,
        f"The decoder reads {', '.join(words[:-1])} and is asked for {', '.join(words[1:])}; dashed"
        " lines carry each true word back as the next input.",
        f"One pass asks for {last + 1} words at once: each position reads a true word and must say"
        " the next.",
    )
