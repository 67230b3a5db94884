"""Drawings and tables of single chapters, each one call with numbers that the page has made; and
sentences made from numbers."""

from .attention import attention_sheet, heads_apart, query_key_value, two_masks
from .layers import (
    across_then_alone,
    known_and_found,
    leaning_on,
    moved_by_layer,
    norm_axes,
    norm_orders,
    one_matrix,
    parameter_areas,
    post_or_pre,
    residual_or_none,
    who_reads,
)
from .positions import joined_clocks, over_clocks, shift_by, table_of_clocks, windows_read
from .recurrence import loop_and_look, two_readers, unrolled

__all__ = [
    "across_then_alone",
    "attention_sheet",
    "heads_apart",
    "joined_clocks",
    "known_and_found",
    "leaning_on",
    "loop_and_look",
    "moved_by_layer",
    "norm_axes",
    "norm_orders",
    "one_matrix",
    "over_clocks",
    "parameter_areas",
    "post_or_pre",
    "query_key_value",
    "residual_or_none",
    "shift_by",
    "table_of_clocks",
    "two_masks",
    "two_readers",
    "unrolled",
    "who_reads",
    "windows_read",
]
