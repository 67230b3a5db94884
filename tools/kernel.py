"""The engine's product of matrices as a WebAssembly module, written here and assembled here: `kernel.py` puts it into engine.js.

    python tools/kernel.py            write the module, as base64, into book/web/engine.js
    python tools/kernel.py --show     print the instructions

y = bias + scale * (x Wᵀ), where W holds whole numbers of one byte: four rows of x at once (`four`), or one (`one`). Sixteen weights are
read, made into floats, and multiplied with sixteen numbers of each row. Everything else of the model is JavaScript.
"""

import base64
import re
import sys
from pathlib import Path

ENGINE = Path(__file__).resolve().parent.parent / "book" / "web" / "engine.js"
NUMBERS = (  # the parameters, all i32: addresses in bytes, and the sizes of the matrix
    "x inner w scale bias outer y"
)


# The instructions ---------------------------------------------------------------------------------


def product(rows: int) -> tuple[str, str, str]:
    """The text of the function for so many rows of x: its i32 locals, its v128 locals, its
    instructions."""
    each = range(rows)
    text = []

    def say(*lines: str) -> None:
        text.extend(lines)

    def add(name: str, what: str) -> None:
        say(f"local.get {name}", what, "i32.add", f"local.set {name}")

    say("local.get y", "local.set out0")
    for r in each[1:]:  # where each row of y begins
        say(
            f"local.get out{r - 1}",
            "local.get outer",
            "i32.const 2",
            "i32.shl",
            "i32.add",
            f"local.set out{r}",
        )
    say("loop")  # over the rows of W: one number for each row of x
    say("local.get x", "local.set in0", "local.get inner", "local.set k")
    for r in each[1:]:
        say(
            f"local.get in{r - 1}",
            "local.get inner",
            "i32.const 2",
            "i32.shl",
            "i32.add",
            f"local.set in{r}",
        )
    for r in each:
        say("v128.zero", f"local.set sum{r}")
    say("loop")  # over that row, sixteen weights at a time
    for half in 0, 1:
        say(
            "local.get w",
            f"v128.load8x8_s {8 * half}",
            "local.set wide",
            "local.get wide",
            "i32x4.extend_low_i16x8_s",
            "f32x4.convert_i32x4_s",
            f"local.set w{2 * half}",
            "local.get wide",
            "i32x4.extend_high_i16x8_s",
            "f32x4.convert_i32x4_s",
            f"local.set w{2 * half + 1}",
        )
    for r in each:
        for four in range(4):
            say(f"local.get in{r}", f"v128.load {16 * four}", f"local.get w{four}", "f32x4.mul")
            say(*["f32x4.add"] * (four % 2))
        say("f32x4.add", f"local.get sum{r}", "f32x4.add", f"local.set sum{r}")
        add(f"in{r}", "i32.const 64")
    add("w", "i32.const 16")
    say("local.get k", "i32.const 16", "i32.sub", "local.tee k", "br_if 0", "end")
    for r in each:
        say(f"local.get out{r}")
        for lane in range(4):
            say(f"local.get sum{r}", f"f32x4.extract_lane {lane}", *["f32.add"] * (lane > 0))
        say(
            "local.get scale",
            "f32.load 0",
            "f32.mul",
            "local.get bias",
            "f32.load 0",
            "f32.add",
            "f32.store 0",
        )
        add(f"out{r}", "i32.const 4")
    add("scale", "i32.const 4")
    add("bias", "i32.const 4")
    say("local.get outer", "i32.const 1", "i32.sub", "local.tee outer", "br_if 0", "end")
    return (
        " ".join(["k", *(f"{name}{r}" for r in each for name in ("in", "out"))]),
        " ".join(["wide", "w0", "w1", "w2", "w3", *(f"sum{r}" for r in each)]),
        "\n".join(text),
    )


# The assembler ------------------------------------------------------------------------------------

I32, V128, FUNCTION = b"\x7f", b"\x7b", b"\x60"
PLAIN = {
    "end": b"\x0b",
    "i32.add": b"\x6a",
    "i32.sub": b"\x6b",
    "i32.shl": b"\x74",
    "f32.add": b"\x92",
    "f32.mul": b"\x94",
}
VECTOR = {
    "f32x4.add": 0xE4,
    "f32x4.mul": 0xE6,
    "f32x4.convert_i32x4_s": 0xFA,
    "i32x4.extend_low_i16x8_s": 0xA7,
    "i32x4.extend_high_i16x8_s": 0xA8,
}
LOCAL = {"local.get": b"\x20", "local.set": b"\x21", "local.tee": b"\x22"}
MEMORY = {
    "f32.load": (b"\x2a", 2),
    "f32.store": (b"\x38", 2),
    "v128.load": (b"\xfd\x00", 2),
    "v128.load8x8_s": (b"\xfd\x01", 0),
}  # and alignment


def leb(number: int) -> bytes:
    "An unsigned number in groups of seven bits, the last ones first."
    more, low = number >> 7, number & 127
    return bytes([low | 128]) + leb(more) if more else bytes([low])


def signed(number: int) -> bytes:
    "As `leb`, for a constant from 0 on: a group more where the sign's bit would be set."
    more, low = number >> 7, number & 127
    return bytes([low]) if not more and low < 64 else bytes([low | 128]) + signed(more)


def instruction(line: str, names: list[str]) -> bytes:
    "One line as bytes; ValueError for a word that isn't known here."
    word, _, rest = line.partition(" ")
    if word in PLAIN:
        return PLAIN[word]
    if word in VECTOR:
        return b"\xfd" + leb(VECTOR[word])
    if word in LOCAL:
        return LOCAL[word] + leb(names.index(rest))
    if word in MEMORY:
        code, alignment = MEMORY[word]
        return code + leb(alignment) + leb(int(rest))
    if word == "i32.const":
        return b"\x41" + signed(int(rest))
    if word == "loop":
        return b"\x03\x40"  # it leaves nothing on the stack
    if word == "br_if":
        return b"\x0d" + leb(int(rest))
    if word == "v128.zero":
        return b"\xfd\x0c" + bytes(16)
    if word == "f32x4.extract_lane":
        return b"\xfd\x1f" + bytes([int(rest)])
    raise ValueError(f"no instruction called {line!r}")


def many(parts: list[bytes]) -> bytes:
    return leb(len(parts)) + b"".join(parts)


def sized(held: bytes) -> bytes:
    return leb(len(held)) + held


def text(word: str) -> bytes:
    return sized(word.encode())


def body(rows: int) -> bytes:
    "A function's locals and its instructions."
    integers, vectors, lines = product(rows)
    names = f"{NUMBERS} {integers} {vectors}".split()
    kinds = many([leb(len(integers.split())) + I32, leb(len(vectors.split())) + V128])
    return sized(
        kinds + b"".join(instruction(line, names) for line in lines.split("\n")) + PLAIN["end"]
    )


def module() -> bytes:
    "The whole module: it imports page.memory, and exports `one` and `four`."
    sections = {
        1: many(
            [FUNCTION + many([I32] * len(NUMBERS.split())) + many([])]
        ),  # the type of both functions
        2: many(
            [text("page") + text("memory") + b"\x02\x00" + leb(1)]
        ),  # a memory of at least one page
        3: many([leb(0), leb(0)]),  # two functions of type 0
        7: many([text(name) + b"\x00" + leb(i) for i, name in enumerate(("one", "four"))]),
        10: many([body(1), body(4)]),
    }
    return b"\0asm\x01\0\0\0" + b"".join(
        bytes([number]) + sized(held) for number, held in sections.items()
    )


def written(script: str) -> str:
    "engine.js with the module in its place."
    return re.sub(
        r'(const KERNEL = ")[^"]*',
        lambda found: found[1] + base64.b64encode(module()).decode(),
        script,
    )


if __name__ == "__main__":
    if "--show" in sys.argv:
        print(product(1)[2], product(4)[2], sep="\n\n")
    else:
        ENGINE.write_text(written(ENGINE.read_text("utf-8")), "utf-8")
        print(f"{len(module())} bytes in {ENGINE.name}")
