"""Every sentence of an explained answer is read back as the one fact that it states."""

from __future__ import annotations

import re

import pytest
from dataset.telling import WORDS, heard, sentences

from kcurate.prompts import Answer, read_reply, write_answer
from kcurate.prompts.explained import CHANGE, DIAGNOSIS, TEMPLATES, Fact, say, write

VALUES = {
    "gpu": "NVIDIA H100 80GB HBM3",
    "kernel": "_Z4packILi11EEvPKjPji",
    "name": "tensor-cores",
    "meaning": "matrix instructions (mma, wmma, wgmma)",
}
NUMBERS = ("1,080", "0.085%", "4.26", "3 launches", "1 launch", "4.2M instructions", "2.5 GB", "1.27e+03")


@pytest.mark.parametrize("kind", TEMPLATES)
def test_a_sentence_is_read_back_as_its_fact(kind: str) -> None:
    fields = set(re.findall(r"\{(\w+)\}", "".join(TEMPLATES[kind])))
    said = set()
    for pick, template in enumerate(TEMPLATES[kind]):
        assert sorted(re.findall(r"\{(\w+)\}", template)) == sorted(fields), "each field once"
        for turn in range(len(NUMBERS)):
            numbers = {name: NUMBERS[(at + turn) % len(NUMBERS)] for at, name in enumerate(sorted(fields))}
            fact = Fact(kind, numbers | {name: VALUES[name] for name in fields & WORDS})
            sentence = say(fact, pick)
            said.add(sentence)
            assert heard(sentence) == [fact]
    assert len(said) >= len(TEMPLATES[kind]) > 1


def test_an_answer_in_three_parts_has_its_code_and_its_sentences() -> None:
    answer = Answer("__global__ void k() {}\n", [{"launch": "k"}])
    text = write(["It is 1.5 long.", "It reads a. b."], ["It changes."], write_answer(answer))
    assert read_reply(text, "text") == answer
    assert list(sentences(text)) == [
        (DIAGNOSIS, "It is 1.5 long."),
        (DIAGNOSIS, "It reads a. b."),
        (CHANGE, "It changes."),
    ]
    assert heard("The given code is bad.") == []
