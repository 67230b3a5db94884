"""Screenshots of the built pages: `look.py [NN ...]` writes
.run/look/PAGE_{desktop,phone}_{light,dark}_K.png, in pieces of 15,000 pixels."""

import sys
from pathlib import Path

import chromium

ROOT = Path(__file__).resolve().parent.parent
SITE, LOOK = ROOT / "_build" / "html" / "book", ROOT / ".run" / "look"
PIECE = 15_000  # a browser's picture ends near 16,000


def main() -> None:
    pages = [
        p
        for p in sorted(SITE.glob("*.html"))
        if not sys.argv[1:] or any(p.name.startswith(n) for n in sys.argv[1:])
    ]
    LOOK.mkdir(parents=True, exist_ok=True)
    with chromium.opened() as browser:
        for path in pages:
            for device, width in (("desktop", 1280), ("phone", 390)):
                for theme in ("light", "dark"):
                    page = browser.new_page(
                        viewport={"width": width, "height": 900}, color_scheme=theme
                    )
                    page.goto(path.as_uri())
                    page.evaluate(f"document.documentElement.dataset.theme='{theme}'")
                    page.wait_for_timeout(400)
                    tall = page.evaluate("document.documentElement.scrollHeight")
                    for k, top in enumerate(range(0, tall, PIECE)):
                        target = LOOK / f"{path.stem}_{device}_{theme}_{k}.png"
                        clip = {"x": 0, "y": top, "width": width, "height": min(PIECE, tall - top)}
                        page.screenshot(path=target, full_page=True, clip=clip)
                    print(target, tall)
                    page.close()


if __name__ == "__main__":
    main()
