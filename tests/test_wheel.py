"""What the wheel holds, what its license expression says, and what it asks for."""

import ast
import re
import subprocess
import sys
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from test_alone import wheel  # noqa: F401

DATA = "transformer_lit/_shipped/data/"
NAMES = {"MIT": "MIT", "CC BY 4.0": "CC-BY-4.0", "CC BY 2.0 FR": "LicenseRef-CC-BY-2.0-FR"}


@pytest.fixture(scope="module")
def files(wheel):
    "The wheel's files by name, as text where they are."
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def licenses_of(files):
    "Each file or folder of data/, as the table of data/README.md has it: {name: its licenses}."
    page = files[DATA + "README.md"].decode()
    rows = re.findall(r"^\| `([\w./-]+)` \|.*?\|.*?\| (.*?) \|", page, re.M)
    return {name: {NAMES[license] for license in NAMES if license in words} for name, words in rows}


def test_the_expression_names_the_license_of_each_file(files):
    metadata = Parser().parsestr(
        next(text for name, text in files.items() if name.endswith("/METADATA")).decode()
    )
    expression = set(metadata["License-Expression"].split(" AND "))
    licenses, by_name = {"MIT", "CC-BY-4.0"}, licenses_of(files)  # code; records and texts
    for name in (name.removeprefix(DATA) for name in files if name.startswith(DATA)):
        if name != "README.md":
            row = next(row for row in by_name if name.startswith(row))
            assert by_name[row], f"{name} has a license that the expression doesn't name"
            licenses |= by_name[row]
    assert licenses == expression
    assert metadata.get_all("License-File") == ["LICENSE", "LICENSE-CONTENT", "LICENSE-TATOEBA"]


def test_the_translator_apart_is_packed_beside_the_wheel(wheel, tmp_path, monkeypatch):
    from transformer_lit.serving.files import load_translator

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    ours = load_translator(Path(__file__).parents[1] / "data/checkpoints/mixture-fr")
    theirs = load_translator(wheel.with_name("mixture-fr.zip"))
    assert theirs.translate(["A dog runs."]) == ours.translate(["A dog runs."])


def test_a_translator_needs_no_library_of_the_pages(files):
    "With the pages' libraries blocked every module of transformer_lit can be imported."
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))
    extra = project["project"]["optional-dependencies"]["book"]
    blocked = ["litbook", *(re.split("[>=]", requirement)[0] for requirement in extra)]
    modules = [
        name.removesuffix(".py").replace("/", ".")
        for name in files
        if re.match(r"transformer_lit/(?!_).*(?<!__)\.py$", name)
    ]
    code = f"import sys; sys.modules |= dict.fromkeys({blocked})\nimport {', '.join(modules)}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert not done.returncode, done.stderr[-500:]


def test_the_doctor_is_a_wheel_that_needs_torch_alone(wheel):
    (doctor,) = wheel.parent.glob("transformer_doctor-*.whl")
    code = f"""import sys
sys.path.insert(0, {str(doctor)!r})
import torch
before = set(sys.modules)
from transformer_doctor import examine
model = torch.nn.Sequential(torch.nn.Embedding(30, 30))
model.forward = lambda ids: model[0](ids)
print(examine(model, vocab_size=30, quick=True))
names = {{name.split(".")[0] for name in set(sys.modules) - before}}
print(names - sys.stdlib_module_names)"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "position sensitivity" in done.stdout, done.stderr[-500:]
    own = ast.literal_eval(done.stdout.splitlines()[-1])
    assert set(own) <= {"transformer_doctor", "torch"}, own
