"""Chapter 23: one summary, or a look for each word."""

from litbook import figures


def two_readers() -> figures.Picture:
    """The two RNN translators: one summary of the sentence, or a look at all its states for each
    word."""
    sheet = figures.Drawing(350, 236)
    for top, look in ((-40, False), (94, True)):
        for j, word in enumerate(("it", "was", "tired")):
            x = 12 + 56 * j
            sheet.box(x, top + 62, 42, 26, "h" + "₁₂₃"[j], figures.ENCODER, figures.ENCODER)
            sheet.text(x + 21, top + 108, word)
            if j:
                sheet.arrow(x - 14, top + 70, x - 1, top + 70)
                sheet.arrow(x - 1, top + 80, x - 14, top + 80)
            if look:
                sheet.line(x + 21, top + 61, 252, top + 34, figures.BRIDGE, width=(0.8, 1.2, 4)[j])
        for t, word in enumerate(("il", "était", "fatigué")):
            x = 196 + 52 * t
            sheet.box(x - 4, top + 62, 40, 26, "s" + "₁₂₃"[t], figures.DECODER, figures.DECODER)
            sheet.text(x + 16, top + 108, word)
            if t:
                sheet.arrow(x - 16, top + 75, x - 5, top + 75)
        if look:
            sheet.arrow(252, top + 34, 310, top + 60, figures.BRIDGE)
            sheet.text(204, top + 22, "a look for each word", 11)
        else:
            sheet.arrow(167, top + 75, 190, top + 75, figures.BRIDGE)
            sheet.text(204, top + 54, "one summary", 11)
    return sheet.show(
        "Twice an encoder of three states that reads from both ends and a decoder of three states."
        " Above, one arrow leads from the one to the other; below, the state that says fatigué"
        " looks at all three, most at tired.",
        "Above, one summary is all that the decoder gets; below, each word takes a look of its"
        " own.",
    )
