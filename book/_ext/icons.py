"""Only the icons that the pages show: the theme brings all of Font Awesome, 840 kB before a page's
first paint. What is used fits in a few.

After the build the pages' icons are read off their classes and style sheets, cut out of the theme's
own font, and the rest is taken away."""

import re
import shutil
from pathlib import Path

from fontTools import subset

STYLE = Path(__file__).parent.parent / "web" / "templates" / "icons.css"


def codes(sheet: str) -> dict[str, str]:
    "Name of an icon -> its character in hexadecimals, from Font Awesome's style sheet."
    rules = re.findall(r'([^{}]+)\{content:"\\([0-9a-f]{2,4})"\}', sheet)
    return {name: c for rule, c in rules for name in re.findall(r"\.fa-([a-z0-9-]+):", rule)}


def slim_page(page: str) -> str:
    "A page that asks for our icons in place of Font Awesome's."
    page = re.sub(r'\s*<(script|link rel="preload")[^>]*fontawesome[^>]*>(</script>)?', "", page)
    return re.sub(r'(?<=_static/)vendor/fontawesome/[^"]*', "icons.css", page)


def slim_icons(app, error) -> None:
    if error:
        return
    static = Path(app.outdir) / "_static"
    vendor = next((static / "vendor" / "fontawesome").iterdir())
    known = codes((vendor / "css" / "all.min.css").read_text("utf-8"))
    pages = {path: path.read_text("utf-8") for path in Path(app.outdir).rglob("*.html")}
    sheets = "\n".join(
        path.read_text("utf-8")
        for path in static.rglob("*")
        if path.suffix in (".css", ".js") and not {"vendor", "mathjax"} & set(path.parts)
    )
    used = re.findall(r"\bfa-([a-z0-9-]+)", "\n".join([sheets, *pages.values()]))
    names = sorted(known.keys() & used)
    characters = {known[name] for name in names}
    characters |= {*re.findall(r"\\(f[0-9a-f]{3})\b", sheets)}  # a style sheet may name those
    characters |= {f"{ord(c):x}" for c in re.findall("[\uf000-\uf8ff]", sheets)}
    font, unicodes = vendor / "webfonts" / "fa-solid-900.ttf", ",".join(sorted(characters))
    flags = ["--flavor=woff", "--layout-features=", "--notdef-outline", f"--unicodes={unicodes}"]
    subset.main([str(font), *flags, f"--output-file={static / 'icons.woff'}"])
    rules = [f'.fa-{name}::before {{content: "\\{known[name]}"}}\n' for name in names]
    (static / "icons.css").write_text(STYLE.read_text("utf-8") + "".join(rules), "utf-8")
    for folder in "js", "css", "webfonts":
        shutil.rmtree(vendor / folder)  # its license stays
    for path, text in pages.items():
        path.write_text(slim_page(text), "utf-8")


def setup(app):
    app.connect("build-finished", slim_icons, priority=900)
