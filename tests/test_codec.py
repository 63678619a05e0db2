"""Records to plain data and back: the forms that differ from a dataclass's own."""

from __future__ import annotations

import pytest

from kcurate.core import codec
from kcurate.errors import RecordError
from kcurate.records import (
    BufferArg,
    For,
    Init,
    Launch,
    Origin,
    Side,
    Step,
    Swap,
    Upload,
    ValueArg,
    WhileNonzero,
)


def test_defaults_are_left_out() -> None:
    assert codec.to_data(Launch("k", ("n",), (32,))) == {"launch": "k", "grid": ["n"], "block": [32]}


def test_keyword_fields_lose_their_underscore() -> None:
    step = For("i", to="n", from_=1, do=(Upload("table", from_="x"),))
    data = {"for": "i", "to": "n", "from": 1, "do": [{"upload": "table", "from": "x"}]}
    assert codec.to_data(step) == data
    assert codec.from_data(For, data) == step


def test_steps_and_arguments_are_told_apart_by_their_keys() -> None:
    plan: tuple[Step, ...] = (
        WhileNonzero(
            "flag", max=9, do=(Launch("k", (1,), (1,), args=("a", BufferArg("b", "i*n"), ValueArg(2))),)
        ),
        Swap(("a", "b")),
    )
    side = Side("code", plan)
    assert codec.from_data(Side, codec.to_data(side)) == side


def test_init_is_flat() -> None:
    init = Init("uniform", {"low": -1, "high": 2.5})
    assert codec.to_data(init) == {"kind": "uniform", "low": -1, "high": 2.5}
    assert codec.from_data(Init, codec.to_data(init)) == init


def test_unknown_step_names_the_known_ones() -> None:
    with pytest.raises(RecordError, match=r"here: .*launch, fill, copy"):
        codec.from_data(Side, {"code": "", "plan": [{"explode": 1}]}, where="here")


def test_unknown_field_is_refused() -> None:
    with pytest.raises(RecordError, match="colour"):
        codec.from_data(Launch, {"launch": "k", "grid": [1], "block": [1], "colour": 1})


def test_canonical_json_does_not_depend_on_order() -> None:
    assert codec.canonical_json({"b": 1, "a": "é"}) == codec.canonical_json({"a": "é", "b": 1})
    assert codec.canonical_json({"a": "é"}) == '{"a":"é"}'.encode()


def test_a_value_outside_a_fields_literals_is_refused() -> None:
    with pytest.raises(RecordError, match="not a Origin record"):
        codec.from_data(Origin, {"kind": "nonsense"})


@pytest.mark.parametrize(
    "text", [b"{", b"[" * 200_000, b'"\\ud800"', b'"\xed\xa0\x80"', b'"\\uDC00\\ud800"', b"\xff"]
)
def test_invalid_json_names_its_place(text: bytes) -> None:
    with pytest.raises(RecordError, match=r"lines\.jsonl:7: not JSON") as caught:
        codec.parse(text, where="lines.jsonl:7")
    assert "\n" not in str(caught.value)
    str(caught.value).encode()


def test_pairs_of_surrogates_are_text_and_lone_ones_where_they_may_be() -> None:
    assert codec.parse(b'"\\ud83d\\ude00 \\\\ud800"', where="x") == "\U0001f600 \\ud800"
    assert codec.parse(b'"\\ud800"', where="x", lone_surrogates=True) == "\ud800"


def test_data_nested_too_deeply_is_a_record_error() -> None:
    data: dict[str, object] = {"swap": ["x", "y"]}
    for _ in range(5000):
        data = {"for": "i", "to": 1, "do": [data]}
    with pytest.raises(RecordError):
        codec.from_data(Side, {"code": "", "plan": [data]})
