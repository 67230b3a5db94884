"""Icons: the few that pages show are cut out of the theme's font, and pages ask for nothing else of
Font Awesome."""

import importlib.util
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from fontTools import ttLib

ROOT = Path(__file__).resolve().parent.parent
spec = importlib.util.spec_from_file_location("icons", ROOT / "book" / "_ext" / "icons.py")
icons = importlib.util.module_from_spec(spec)
spec.loader.exec_module(icons)
FOUND = importlib.util.find_spec("pydata_sphinx_theme")
THEME = (
    Path(FOUND.origin if FOUND else "/nowhere/theme").parent
    / "theme/pydata_sphinx_theme/static/vendor/fontawesome"
)
VENDOR = "../_static/vendor/fontawesome/6.5.2"
PAGE = f"""<link href="{VENDOR}/css/all.min.css?digest=1" rel="stylesheet" />
  <link rel="preload" as="font" crossorigin href="{VENDOR}/webfonts/fa-solid-900.woff2" />
  <script src="{VENDOR}/js/all.min.js?digest=1"></script>
<body><i class="fa-solid fa-sun fa-lg"></i><i class="fas fa-download"></i>%s</body>"""


@pytest.mark.skipif(not THEME.exists(), reason="the theme is not installed: make book")
def test_what_pages_and_style_sheets_use_is_cut_out_of_the_font(tmp_path):
    static = tmp_path / "_static"
    shutil.copytree(THEME, static / "vendor" / "fontawesome")
    (tmp_path / "page.html").write_text(PAGE % "", encoding="utf-8")
    (static / "theme.css").write_text(
        '.tip::before {content: "\uf0eb"} .fold::after {content: "\\f107"}', encoding="utf-8"
    )
    (static / "theme.js").write_text('"fa-solid fa-xmark"', encoding="utf-8")
    icons.slim_icons(SimpleNamespace(outdir=tmp_path, builder=SimpleNamespace(format="html")), None)
    there = set(ttLib.TTFont(static / "icons.woff").getBestCmap())
    sun_download_bulb_arrow_cross = {0xF185, 0xF019, 0xF0EB, 0xF107, 0xF00D}
    assert there == sun_download_bulb_arrow_cross
    left = [path.name for path in (static / "vendor").rglob("*") if path.is_file()]
    assert left == ["LICENSE.txt"], f"its license stays, {left} doesn't need to"
    assert "vendor/fontawesome" not in (tmp_path / "page.html").read_text(encoding="utf-8")
