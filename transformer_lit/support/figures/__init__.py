"""Every figure of the book is one call: an SVG in the page's own ink, with a sentence for those who can't see it."""
from .diagram import architecture
from .drawing import Drawing, attention_lines
from .explorers import Explorer, explore_masks, explore_noam, explore_softmax
from .plots import bars, curve_panels, curves, dots, heatmap, heatmaps
from .style import BRIDGE, CYCLE, DECODER, ENCODER, GREY, INK, KEY, MASK, QUERY, STYLE, VALUE, Picture, panel, to_svg
from .tables import table

__all__ = ["BRIDGE", "CYCLE", "DECODER", "ENCODER", "GREY", "INK", "KEY", "MASK", "QUERY", "STYLE", "VALUE",
           "Drawing", "Explorer", "Picture", "architecture", "attention_lines", "bars", "curve_panels", "curves", "dots",
           "explore_masks", "explore_noam", "explore_softmax", "heatmap", "heatmaps", "panel", "table", "to_svg"]
