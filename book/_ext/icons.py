"""Only the icons that the pages show: the theme brings all of Font Awesome, 840 kB before a page's
first paint. What is used fits in a few.

After the build the pages' icons are read off their classes and style sheets, cut out of the theme's
own font, and the rest is taken away. Pages without a formula don't load MathJax."""

import re
import shutil
from pathlib import Path

from fontTools import subset, ttLib

STYLE = Path(__file__).parent.parent / "web" / "templates" / "icons.css"


def codes(sheet: str) -> dict[str, int]:
    "Name of an icon -> its character, from Font Awesome's style sheet."
    rules = re.findall(r'([^{}]+)\{content:"\\([0-9a-f]{2,4})"\}', sheet)
    return {
        name: int(code, 16)
        for rule, code in rules
        for name in re.findall(r"\.fa-([a-z0-9-]+):", rule)
    }


def used_names(text: str) -> set[str]:
    return set(re.findall(r"\bfa-([a-z0-9-]+)", text))


def used_characters(text: str) -> set[int]:
    "Icons that a style sheet names by their character."
    return {ord(c) for c in re.findall("[\uf000-\uf8ff]", text)} | {
        int(c, 16) for c in re.findall(r"\\(f[0-9a-f]{3})\b", text)
    }


def slim_page(page: str) -> str:
    """A page that asks for our icons in place of Font Awesome's, and for MathJax only where there
    is a formula."""
    page = re.sub(
        r'\s*<script[^>]*fontawesome[^>]*></script>|\s*<link rel="preload"'
        r' as="font"[^>]*fontawesome[^>]*>',
        "",
        page,
    )
    page = re.sub(
        r'<link href="([^"]*_static/)vendor/fontawesome/[^"]*" rel="stylesheet" />',
        r'<link href="\1icons.css" rel="stylesheet" />',
        page,
    )
    if not re.search(r'class="math|\\\(|\\\[', page):
        page = re.sub(
            r"\s*<script>window\.MathJax = [^<]*</script>|\s*<script[^>]*mathjax/[^>]*></script>",
            "",
            page,
        )
    return page


def slim_icons(app, error) -> None:
    if error or app.builder.format != "html":
        return
    static = Path(app.outdir) / "_static"
    vendor = next((static / "vendor" / "fontawesome").iterdir())
    all_codes = codes((vendor / "css" / "all.min.css").read_text(encoding="utf-8"))
    pages = {path: path.read_text(encoding="utf-8") for path in Path(app.outdir).rglob("*.html")}
    sheets = [
        path.read_text(encoding="utf-8")
        for path in static.rglob("*")
        if path.suffix in (".css", ".js") and not {"vendor", "mathjax"} & set(path.parts)
    ]
    names = set().union(*map(used_names, [*pages.values(), *sheets])) & set(all_codes)
    wanted = {all_codes[name] for name in names}.union(*map(used_characters, sheets))
    font = ttLib.TTFont(vendor / "webfonts" / "fa-solid-900.ttf")
    cut = subset.Subsetter(subset.Options(flavor="woff", layout_features=[], notdef_outline=True))
    cut.populate(unicodes=wanted)
    cut.subset(font)
    font.flavor = "woff"
    font.save(static / "icons.woff")
    rules = [f'.fa-{name}::before {{content: "\\{all_codes[name]:x}"}}' for name in sorted(names)]
    sheet = STYLE.read_text(encoding="utf-8") + "\n".join(rules)
    (static / "icons.css").write_text(f"{sheet}\n", encoding="utf-8")
    for folder in "js", "css", "webfonts":
        shutil.rmtree(vendor / folder)  # its licence stays
    for path, text in pages.items():
        path.write_text(slim_page(text), encoding="utf-8")


def setup(app):
    app.connect("build-finished", slim_icons, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
