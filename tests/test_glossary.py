"""The term list of `translate`: what is kept, and what happens where a placeholder is lost."""

import pytest
from plugins.commands import refused

from transformer_lit.serving.glossary import load_glossary, with_glossary

TERMS = {"brake pad": "plaquette de frein", "pad": "tampon", "REX-7": "REX-7", "US": "USA"}


def spoken(lines):
    "Says a line backwards, word by word; of two lines that have T3 the placeholder is gone."
    return [" ".join(reversed(line.replace("T3", "").split())) for line in lines]


@pytest.mark.parametrize(
    "line, output",
    [
        ("the brake pad", "plaquette de frein the"),
        ("Brake pad REX-7", "REX-7 Plaquette de frein"),
        ("pads, us and REX-70", "REX-70 and us pads,"),
        ("pad pad", "tampon tampon"),
        ("pad T1", "T1 pad"),
        ("我pad是", "我tampon是"),
        ("pad pad REX-7", "REX-7 pad pad"),
    ],
)
def test_terms_are_kept_as_whole_words(line, output):
    assert with_glossary(spoken, TERMS)([line, "no term"]) == [output, "term no"]


def test_a_list_is_read_at_the_door(typed, tmp_path):
    (tmp_path / "a.tsv").write_text("REX-7\nbread\tbaguette\n\n", encoding="utf-8")
    assert load_glossary(tmp_path / "a.tsv") == {"REX-7": "REX-7", "bread": "baguette"}
    answer = typed("translate --beam-size 1 --glossary a.tsv --model pocket bread")
    assert answer.status == 0
    (tmp_path / "b.tsv").write_text("\n", encoding="utf-8")
    refused(typed("translate --glossary b.tsv bread"), "b.tsv")
    (tmp_path / "b.tsv").write_text("\tbaguette\n", encoding="utf-8")
    refused(typed("translate --glossary b.tsv bread"), "b.tsv")
    refused(typed("translate --glossary c.tsv bread"), "c.tsv")
