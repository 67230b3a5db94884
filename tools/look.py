"""How the built pages look: `look.py [NN ...]` photographs each in Chromium, on a desk and on a
phone, in both themes, as .run/look/PAGE_{desk,phone}_{light,dark}_K.png in pieces of 15,000
pixels."""

import sys
from itertools import product

import chromium
import still

LOOK = still.ROOT / ".run" / "look"
DEVICES = {"desk": 1280, "phone": 390}
PIECE = 15_000  # a browser's picture ends near 16,000


def main() -> None:
    LOOK.mkdir(parents=True, exist_ok=True)
    paths = (still.SITE / "book").glob("*.html")
    wanted = [path for path in paths if path.name.startswith(tuple(sys.argv[1:]) or "")]
    with chromium.opened() as browser:
        views = product(sorted(wanted), DEVICES.items(), ("light", "dark"))
        for path, (device, width), theme in views:
            page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=theme)
            page.goto(path.as_uri())
            page.wait_for_timeout(400)
            height = page.evaluate("document.documentElement.scrollHeight")
            for k, top in enumerate(range(0, height, PIECE)):
                clip = {"x": 0, "y": top, "width": width, "height": min(PIECE, height - top)}
                target = LOOK / f"{path.stem}_{device}_{theme}_{k}.png"
                page.screenshot(path=target, full_page=True, clip=clip)
            print(f"{path.stem:24}{device:6} {theme:6} {height} pixels")
            page.close()


if __name__ == "__main__":
    main()
