"""Compiles book/web/kernel.wat, the engine's product of matrices, into engine.js as base64."""

import base64
import re
from pathlib import Path

from wasmtime import wat2wasm

WEB = Path(__file__).resolve().parent.parent / "book" / "web"


def with_kernel(script: str) -> str:
    "engine.js with the module in its place."
    module = base64.b64encode(wat2wasm((WEB / "kernel.wat").read_text("utf-8")))
    return re.sub(r'(?<=const KERNEL = ")[^"]*', module.decode(), script)


if __name__ == "__main__":
    engine = WEB / "engine.js"
    engine.write_text(with_kernel(engine.read_text("utf-8")), "utf-8")
