"The first page: the running sentence is said by the shipped translator, and its switch shows what the weights say."
import html
import json
import re

import pytest

from transformer_lit.support import first_page
from transformer_lit.support.files import shipped
from transformer_lit.translation import Translator


@pytest.fixture(scope="module")
def translator():
    return Translator.from_pretrained(shipped("data/checkpoints/pocket"))


@pytest.fixture(scope="module")
def cases(translator):
    return [first_page.looks_of(translator, adjective) for adjective in first_page.WORDS]


def test_the_last_word_decides_the_pronoun(cases):
    tired, wide = cases
    assert tired["french"][tired["pronoun"]] == "il" and wide["french"][wide["pronoun"]] == "elle"
    assert [word for word, other in zip(tired["english"], wide["english"]) if word != other] == ["tired"]


def test_the_pronouns_link_and_note_are_the_weights(cases):
    for case, adjective in zip(cases, first_page.WORDS):
        (link,) = [link for link in case["links"] if link["pronoun"]]
        assert link["row"] == case["pronoun"] and case["english"][link["word"]] == adjective and link["weight"] > 0.5
        assert f"{link['weight']:.0%}" in case["note"] and adjective in case["note"]
        assert all(0 <= link["word"] < len(case["english"]) and 0 <= link["row"] < len(case["french"]) for link in case["links"])
        assert len({link["row"] for link in case["links"]}) == len(case["links"]), "one link for each word"


def test_an_answer_without_a_pronoun_is_refused(translator, monkeypatch):
    monkeypatch.setattr(translator, "translate", lambda sentences: ["L'animal."])
    with pytest.raises(ValueError, match="neither il nor elle"):
        first_page.looks_of(translator, "tired")


def test_the_page_can_be_read_without_a_script(translator, cases):
    page = first_page.running_sentence("<p>{{english}}|{{french}}|{{note}}</p><i data='{{data}}'></i>", translator)
    assert "{{" not in page and page.count("<span>") == len(cases[0]["english"]) + len(cases[0]["french"])
    assert json.loads(html.unescape(re.search("data='([^']*)'", page.replace("&#x27;", "&apos;"))[1])) == cases
