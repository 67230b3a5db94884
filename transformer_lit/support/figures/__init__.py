"""Every figure of the book is one call: an SVG in the page's own ink, with a sentence for those who can't see it."""
from .diagram import architecture
from .drawing import Drawing, attention_lines
from .explorers import Explorer, explore_masks, explore_noam, explore_softmax
from .plots import bars, curve_panels, curves, dots, heatmap, heatmaps, heights, spread
from .style import (BRIDGE, COLUMN, CYCLE, DECODER, ENCODER, FAULT, GREY, INK, KEY, MASK, NAMED, OCHRE, OLIVE, PHONE, PLUM, QUERY, SLATE, STYLE,
                    TEAL, VALUE, Picture, panel, powers, to_svg)
from .tables import folded, table

__all__ = ["BRIDGE", "COLUMN", "CYCLE", "DECODER", "ENCODER", "FAULT", "GREY", "INK", "KEY", "MASK", "NAMED", "OCHRE", "OLIVE", "PHONE",
           "PLUM", "QUERY", "SLATE", "STYLE", "TEAL", "VALUE",
           "Drawing", "Explorer", "Picture", "architecture", "attention_lines", "bars", "curve_panels", "curves", "dots",
           "explore_masks", "explore_noam", "explore_softmax", "folded", "heatmap", "heatmaps", "heights", "panel", "powers", "spread",
           "table", "to_svg"]
