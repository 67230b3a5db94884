"""Every command that a page, a README or a record shows can be typed: it is parsed, not run."""

import json
import re
import shlex
from pathlib import Path

import nbformat
import pytest

from litbook import results
from transformer_lit import cli

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "book/results/README.md"]
PAGES += [path for kind in ("md", "ipynb") for path in (ROOT / "book").glob(f"*.{kind}")]
RECORDS = [json.loads(p.read_text("utf-8")) for p in (ROOT / "book/results/bench").glob("*.json")]
PROGRAM = re.compile(r"(transformer-lit \S+ \S|make\b|python (bench|tools)/)")


def shown(text):
    "The commands in blocks and between backticks."
    text = re.sub(r"\\\n\s*", "", text).replace("$RECIPE", "--recipe mixture-en-fr")
    for block, code in re.findall(r"^```.*?\n(.*?)```|`([^`]+)`", text, re.M | re.S):
        for line in block.splitlines() or [code.replace("\n", " ")]:
            line = re.sub(r"^(torchrun .*|python) -m transformer_lit\b", "transformer-lit", line)
            line = re.split(r" [#>|&]|; ", line.removeprefix("!").removeprefix("while "))[0]
            if PROGRAM.match(line):
                yield line.removesuffix(" --help").strip()


def words_of(page):
    if page.suffix == ".md":
        return page.read_text("utf-8")
    return "\n".join(c.source for c in nbformat.read(page, 4).cells if c.cell_type == "markdown")


COMMANDS = {command for page in PAGES for command in shown(words_of(page))}
COMMANDS |= {results.command_of(record) for record in RECORDS if isinstance(record, dict)}


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_a_command_that_is_shown_can_be_typed(command):
    program, *words = shlex.split(command)
    if program == "transformer-lit":
        cli.build_parser(cli.COMMANDS).parse_args(words)
    elif program == "make":
        rules = (ROOT / "Makefile").read_text("utf-8")
        for target in (word for word in words if "=" not in word):
            assert re.search(rf"^([\w -]+ )?{target}\b[\w -]*:", rules, re.M), target
    else:
        script = ROOT / words[0]
        code = (script / "__main__.py" if script.is_dir() else script).read_text("utf-8")
        for option in (word[2:] for word in words if word.startswith("--")):
            assert re.search(rf"\b{option.replace('-', '[-_]')}\b", code), option
