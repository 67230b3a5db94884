"""Text put into a page of HTML so that it stays text."""

# A page in book/web/views holds places like {{alt}}. Words come from anywhere: a token may look
# like a place, like a tag or like the end of an attribute. So all places are filled in one pass,
# and what goes in is escaped for where it stands.
import html
import json
import re

from transformer_lit.corpora.files import shipped


def compact(value: object) -> str:
    "A value as JSON without spaces."
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def attribute(value: object) -> str:
    "A value as JSON, for between the quotes of an attribute."
    return html.escape(compact(value))


def script(value: object) -> str:
    """A value as JSON for inside <script>, where entities are not read: the signs of HTML are
    written as \\uXXXX."""
    return re.sub("[<>&\u2028\u2029]", lambda sign: f"\\u{ord(sign[0]):04x}", compact(value))


def filled(page: str, **texts: str) -> str:
    """Every {{name}} of the page replaced by texts[name], in one pass: what goes in is not looked
    at again.

    KeyError if the page has a place that is not given."""
    return re.sub(r"\{\{(\w+)\}\}", lambda place: texts[place[1]], page)


def live_view(name: str, **texts: str) -> str:
    """A live view of book/web/views, behind the style and the helpers that all of them share;
    `texts` fill its places."""
    shared, page = (
        shipped(f"web/views/{file}.html").read_text("utf-8") for file in ("shared", name)
    )
    return shared + filled(page, **texts)
