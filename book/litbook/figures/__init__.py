"""Every figure of the book is one call: an SVG in the page's own ink, with a sentence for those who
can't see it."""

# ruff: noqa: F401  what pages draw with
from .diagram import architecture
from .drawing import Drawing, attention_lines, side_by_side
from .heat_maps import heatmap, heatmaps
from .plots import bars, curve_panels, curves, heights, named_rows, spread
from .style import (
    BRIDGE,
    COLUMN,
    CYCLE,
    DECODER,
    ENCODER,
    FAULT,
    GRAY,
    INK,
    KEY,
    NAMED,
    OCHRE,
    PLUM,
    QUERY,
    SLATE,
    TEAL,
    VALUE,
    Picture,
    panel,
    powers,
    sketch,
    to_svg,
)
from .tables import folded, table
