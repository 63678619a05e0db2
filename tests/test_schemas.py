"""Records and schemas agree, in both directions, and by example."""

from __future__ import annotations

import dataclasses
import json
import math
import types
import typing
from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kcurate import records
from kcurate.core import codec, resources, store
from kcurate.errors import RecordError
from kcurate.records import (
    Attempt,
    BatchJob,
    Candidate,
    Capture,
    Kernel,
    KnownProblem,
    Profile,
    Summary,
    Transcript,
    Verdict,
    WrongAttempt,
)
from kcurate.suites import Manifest

ROOTS: dict[str, type[Any]] = {
    "attempt": Attempt,
    "batchjob": BatchJob,
    "capture": Capture,
    "kernel": Kernel,
    "knownproblem": KnownProblem,
    "pair": Candidate,
    "profile": Profile,
    "source": Manifest,
    "summary": Summary,
    "transcript": Transcript,
    "verdict": Verdict,
    "wrongattempt": WrongAttempt,
}
# Definitions that are a union or a plain type in Python, not a dataclass.
ALIASES = {"Arg", "Expr", "Step"}
# Where the file says it in another way than the record, and why.
RENAMED = {
    ("Summary", "items"): "the counts under their old name",
    ("Candidate", "schema"): "the file names its own form",
    ("Side", "file"): "the code lies in a file beside pair.json",
    ("Side", "code"): "the code lies in a file beside pair.json",
}


def schema(name: str) -> dict[str, Any]:
    return typing.cast(dict[str, Any], json.loads((resources.schemas_dir() / f"{name}.json").read_bytes()))


def inside(hint: Any) -> Iterator[Any]:
    """Every type that a type hint mentions."""
    yield hint
    for part in typing.get_args(hint):
        yield from inside(part)


def reachable(cls: type[Any], seen: set[type[Any]] | None = None) -> set[type[Any]]:
    seen = set() if seen is None else seen
    if cls not in seen:
        seen.add(cls)
        for hint in typing.get_type_hints(cls).values():
            for part in inside(hint):
                if dataclasses.is_dataclass(part):
                    reachable(typing.cast(type[Any], part), seen)
    return seen


def borrowed(name: str) -> set[str]:
    """Records that a schema refers to in the files of others."""
    text = json.dumps(schema(name))
    found = set(schema("pair")["$defs"]) if "pair.json#" in text else set()
    for other in ROOTS.keys() - {name}:
        if f'"{other}.json"' in text.replace(f'"$id": "{other}.json"', ""):
            found |= {cls.__name__ for cls in reachable(ROOTS[other])}
    return found


def pairs_of_record_and_schema() -> list[Any]:
    found = []
    for name, root in ROOTS.items():
        document = schema(name)
        for cls in sorted(reachable(root), key=lambda c: c.__name__):
            if cls is not root and cls.__name__ in borrowed(name) - set(document.get("$defs", {})):
                continue  # defined once, elsewhere
            part = document if cls is root else document["$defs"].get(cls.__name__)
            found.append(pytest.param(cls, part, id=f"{name}-{cls.__name__}"))
    return found


def test_every_schema_file_has_its_record() -> None:
    vocabularies = {"techniques", "output"}  # `output`: a summary with keys of single commands
    assert {path.stem for path in resources.schemas_dir().glob("*.json")} - vocabularies == set(ROOTS)


@pytest.mark.parametrize("name", ROOTS)
def test_definitions_are_the_reachable_records(name: str) -> None:
    names = {cls.__name__ for cls in reachable(ROOTS[name])} - {ROOTS[name].__name__}
    own = set(schema(name).get("$defs", {}))
    assert own - ALIASES == names - (borrowed(name) - own)


@pytest.mark.parametrize(("cls", "part"), pairs_of_record_and_schema())
def test_fields_and_properties_agree(cls: type[Any], part: dict[str, Any] | None) -> None:
    assert part is not None, f"{cls.__name__} has no definition"
    if cls is records.Init:
        assert set(part["properties"]) == {"kind"}  # flat: its parameters are the other properties
        return
    allowed = {name for owner, name in RENAMED if owner == cls.__name__}
    fields = {field.name.rstrip("_"): field for field in dataclasses.fields(cls)}
    assert set(fields) - allowed == set(part["properties"]) - allowed
    assert part["additionalProperties"] is False
    required = {
        name
        for name, field in fields.items()
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    }
    assert required - allowed == set(part["required"]) - allowed


@pytest.mark.parametrize(("cls", "part"), pairs_of_record_and_schema())
def test_named_choices_agree(cls: type[Any], part: dict[str, Any]) -> None:
    for name, hint in typing.get_type_hints(cls).items():
        prop = part["properties"].get(name.rstrip("_"))
        options = (prop or {}).get("oneOf", [prop or {}])
        options = [option.get("items") or option for option in options]
        written = {value for option in options for value in option.get("enum", ())}
        for choice in inside(hint):
            if typing.get_origin(choice) is typing.Literal:
                assert written == set(typing.get_args(choice)), name
            elif isinstance(choice, type) and issubclass(choice, StrEnum):
                assert written == set(choice), name


names = st.text(alphabet="abcdefghij_", min_size=1, max_size=5)


def values(hint: Any, depth: int = 0) -> st.SearchStrategy[Any]:
    """Any value that a type hint allows; nested plans end at depth 4."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if hint is type(None):
        return st.none()
    if hint is typing.Any:
        return st.recursive(st.none() | st.booleans() | names, lambda inner: st.lists(inner, max_size=2))
    if hint is str:
        return names
    if hint is bool:
        return st.booleans()
    if hint is int:
        return st.integers(-(2**40), 2**40)
    if hint is float:
        return st.floats(0, 1)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return st.sampled_from(list(hint))
    if origin is typing.Literal:
        return st.sampled_from(args)
    if origin in (typing.Union, types.UnionType):
        return st.one_of([values(arg, depth) for arg in args])
    if origin is tuple and args[-1] is Ellipsis:
        least = 1 if args[0] in (records.StructField, records.BenchSize) else 0  # both are refused when empty
        return st.lists(values(args[0], depth), min_size=least, max_size=least if depth > 4 else 2).map(tuple)
    if origin is tuple:
        return st.tuples(*(values(arg, depth) for arg in args))
    if origin is Mapping:
        return st.dictionaries(values(args[0], depth), values(args[1], depth), max_size=2)
    assert dataclasses.is_dataclass(hint), hint
    return st.deferred(lambda: built(typing.cast(type[Any], hint), depth + 1))


@cache
def built(cls: type[Any], depth: int = 0) -> st.SearchStrategy[Any]:
    hints = typing.get_type_hints(cls)
    return st.builds(cls, **{name: values(hint, depth) for name, hint in hints.items()})


# A manifest is written by people, never by us: its schema is stricter than its record.
@pytest.mark.parametrize("name", sorted(ROOTS.keys() - {"source"}))
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(data=st.data())
def test_any_record_passes_its_schema_and_comes_back(name: str, data: st.DataObject) -> None:
    record = data.draw(built(ROOTS[name]))
    plain = json.loads(json.dumps(codec.to_data(record)))
    on_file = store.candidate_data(record) if isinstance(record, Candidate) else plain
    store.check_schema(name, json.loads(json.dumps(on_file)), where="here")
    assert codec.from_data(ROOTS[name], plain) == record


def test_unknown_property_is_refused_by_name() -> None:
    with pytest.raises(RecordError, match="'colour' was unexpected"):
        store.check_schema("summary", {"stage": "x", "counts": {}, "wall_s": 1, "colour": 1}, where="here")


def test_a_wrong_value_is_named_by_its_path() -> None:
    with pytest.raises(RecordError, match=r"^here: \$\.counts\.files\.pair: 'many'"):
        store.check_schema(
            "summary", {"stage": "x", "counts": {"files": {"pair": "many"}}, "wall_s": 1}, where="here"
        )


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_a_number_that_json_does_not_have_passes(number: float) -> None:
    store.check_schema("summary", {"stage": "x", "counts": {}, "wall_s": number}, where="here")
    with pytest.raises(RecordError, match="'colour' was unexpected"):
        store.check_schema(
            "summary", {"stage": "x", "counts": {}, "wall_s": number, "colour": 1}, where="here"
        )


def test_references_lead_into_other_files() -> None:
    known = {"suite": "s", "benchmark": "b", "problem": {"sizes": 1, "buffers": {}}, "sides": {}}
    with pytest.raises(RecordError, match=r"\$\.problem\.sizes: 1 is not of type 'object'"):
        store.check_schema("knownproblem", known, where="here")


def test_an_unknown_schema_is_an_error() -> None:
    with pytest.raises(RecordError, match="no schema nothing"):
        store.check_schema("nothing", {}, where="here")
