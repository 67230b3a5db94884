"""Firefox without a window, for tests: `with opened() as page`. It is spoken to in its own
language, Marionette, so no driver is needed."""

import json
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

PREFERENCES = {  # it asks nobody on its own
    "browser.shell.checkDefaultBrowser": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "toolkit.telemetry.enabled": False,
    "app.update.enabled": False,
    "app.normandy.enabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "browser.safebrowsing.downloads.remote.enabled": False,
    "browser.safebrowsing.malware.enabled": False,
    "browser.safebrowsing.phishing.enabled": False,
    "extensions.update.enabled": False,
    "services.settings.server": "data:,",
    "browser.aboutwelcome.enabled": False,
    "dom.max_script_run_time": 0,
}
STARTS = 120  # seconds that a busy machine may take


def program() -> str | None:
    return shutil.which("firefox-esr") or shutil.which("firefox")


class Page:
    "One tab. `goto(address)`, and `evaluate(function, given)`, as Playwright's page has them."

    def __init__(self, port: int):
        self.count, self.line = 0, connected(port)
        self.stream = self.line.makefile("rb")
        self.answer()  # its greeting
        self.ask(
            "WebDriver:NewSession",
            capabilities={"alwaysMatch": {"timeouts": {"script": 900_000, "pageLoad": 120_000}}},
        )

    def answer(self):
        length = b""
        while (byte := self.stream.read(1)) != b":":
            if not byte:
                raise ConnectionError("Firefox has gone")
            length += byte
        return json.loads(self.stream.read(int(length)))

    def ask(self, command: str, **given):
        self.count += 1
        text = json.dumps([0, self.count, command, given]).encode()
        self.line.sendall(b"%d:%s" % (len(text), text))
        _, _, error, result = self.answer()
        if error:
            raise RuntimeError(f"{command}: {error['message']}")
        return result

    def goto(self, address: str) -> None:
        self.ask("WebDriver:Navigate", url=address)

    def evaluate(self, function: str, given=None):
        """What the page's own `async given => ...` gives; the page sees a script of its own, not a
        debugger's."""
        script ="""
            const [text, given, done] = arguments, script = document.createElement("script"), name = "tl-answer";
            window.addEventListener(name, event => done(JSON.parse(event.detail)), {once: true});
            script.textContent = `(async () => {
              let found;
              try { found = {value: await (${text})(${given})}; } catch (error) { found = {error: String(error)}; }
              dispatchEvent(new CustomEvent("${name}", {detail: JSON.stringify(found)}));
            })();`;
            document.head.appendChild(script);
            script.remove();"""
        found = self.ask(
            "WebDriver:ExecuteAsyncScript", script=script, args=[function, json.dumps(given)]
        )["value"]
        if "error" in found:
            raise RuntimeError(found["error"])
        return found.get("value")


def connected(port: int) -> socket.socket:
    end = time.monotonic() + STARTS
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=900)
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)


@contextmanager
def opened():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        lines = [
            f"user_pref({json.dumps(key)}, {json.dumps(value)});"
            for key, value in {**PREFERENCES, "marionette.port": port}.items()
        ]
        (Path(folder) / "user.js").write_text("\n".join(lines), "utf-8")
        process = subprocess.Popen(
            [program(), "--headless", "--marionette", "--no-remote", "--profile", folder],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={"HOME": folder, "PATH": "/usr/bin:/bin"},
        )
        page = None
        try:
            page = Page(port)
            yield page
        finally:
            try:
                if page:
                    page.ask("Marionette:Quit", flags=["eForceQuit"])
                process.wait(20)
            except (OSError, RuntimeError, ValueError, subprocess.TimeoutExpired):
                process.kill()
                process.wait()
