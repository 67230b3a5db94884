"""Interactive views: a page that works without a kernel and, where one answers, sliders."""

from collections.abc import Callable

import ipywidgets

from litbook import figures
from litbook.live.pages import live_view


class Explorer:
    """A view of book/web/views, and sliders for the picture that `draw(**values)` returns. A
    notebook takes the richest form that it can show."""

    def __init__(self, page: str, draw: Callable[..., figures.Picture], **controls):
        self.html = live_view(page)
        self.widget = ipywidgets.interactive(draw, {"auto_display": True}, **controls)

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        bundle = self.widget._repr_mimebundle_() or {}
        widgets = {kind: value for kind, value in bundle.items() if "widget" in kind}
        return {"text/html": self.html, "text/plain": "controls", **widgets}
