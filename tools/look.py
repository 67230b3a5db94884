"""Screenshots of the built pages: `look.py [NN ...]` writes .run/look/PAGE_{desktop,phone}_{light,dark}_K.png, in pieces of one screen's height."""
import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent
SITE, LOOK = ROOT / "_build" / "html" / "book", ROOT / ".run" / "look"


def main() -> None:
    pages = [p for p in sorted(SITE.glob("*.html")) if not sys.argv[1:] or any(p.name.startswith(n) for n in sys.argv[1:])]
    LOOK.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"])
        for path in pages:
            for device, width in (("desktop", 1280), ("phone", 390)):
                for theme in ("light", "dark"):
                    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=theme)
                    page.goto(path.as_uri())
                    page.evaluate(f"document.documentElement.dataset.theme='{theme}'")
                    page.wait_for_timeout(400)
                    tall = page.evaluate("Math.max(document.documentElement.scrollHeight, 900)")
                    page.set_viewport_size({"width": width, "height": min(tall, 30000)})
                    target = LOOK / f"{path.stem}_{device}_{theme}.png"
                    page.screenshot(path=target)
                    print(target, tall)
                    page.close()
        browser.close()


if __name__ == "__main__":
    main()
