"""Converts records to plain JSON data and back (cattrs); no files, no schemas.

Fields at their default are omitted, to keep files short. A trailing underscore in a field name (`from_`,
`for_`) is not part of the JSON name. An `Init` is flat: `{"kind": ..., **params}`.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar, cast

from cattrs import Converter
from cattrs.errors import BaseValidationError, CattrsError, ForbiddenExtraKeysError
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override

from kcurate import records as r
from kcurate.errors import RecordError

T = TypeVar("T")

# The JSON key that identifies each kind of plan step.
STEP_KEYS: Mapping[str, type[Any]] = {
    "launch": r.Launch,
    "fill": r.Fill,
    "copy": r.Copy,
    "upload": r.Upload,
    "bind_texture": r.BindTexture,
    "swap": r.Swap,
    "for": r.For,
    "while_nonzero": r.WhileNonzero,
    "call": r.Call,
}


def _structure_step(data: Any, _: Any, converter: Converter) -> r.Step:
    for key, cls in STEP_KEYS.items():
        if isinstance(data, dict) and key in data:
            return cast(r.Step, converter.structure(data, cls))
    raise ValueError(f"a plan step needs one of {', '.join(STEP_KEYS)}")


def _structure_arg(data: Any, _: Any, converter: Converter) -> r.Arg:
    if isinstance(data, str):
        return data
    by_key: Mapping[str, type[r.BufferArg | r.PointersArg | r.TensorMapArg]] = {
        "buffer": r.BufferArg,
        "pointers": r.PointersArg,
        "tensor_map": r.TensorMapArg,
    }
    cls = next((cls for key, cls in by_key.items() if key in data), r.ValueArg)
    return cast(r.Arg, converter.structure(data, cls))


# Exceptions raised when data has the wrong form.
_REFUSALS = (
    *(BaseValidationError, CattrsError, ForbiddenExtraKeysError),
    *(ValueError, OverflowError, TypeError, KeyError, AttributeError, RecursionError),
)
_REPAIR = "repair or delete it"
# An escape that may be one half of a surrogate pair.
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")

# Unions of JSON scalars, which stay as they are.
_PLAIN_UNIONS: tuple[Any, ...] = (
    r.Expr,
    r.Expr | float,
    r.Expr | None,
    int | float | str | bool,
    int | float | bool,
    str | float | int | bool | None,
)


def _structure_scalar(data: Any, _: Any) -> r.Scalar:
    dtype = data["dtype"]
    if not isinstance(dtype, str):
        dtype = tuple(r.StructField(**member) for member in dtype)
    return r.Scalar(dtype, data["value"])


def _structure_bench(data: Any, _: Any, converter: Converter) -> Any:
    """One size setting, or a list of named ones."""
    cls: Any = Mapping[str, int] if isinstance(data, Mapping) else tuple[r.BenchSize, ...]
    return converter.structure(data, cls)


def _structure_init(data: Any, _: Any) -> r.Init:
    return r.Init(data["kind"], {key: value for key, value in data.items() if key != "kind"})


@cache
def converter() -> Converter:
    """The shared converter (built on first use, which takes some milliseconds)."""
    conv = Converter(
        forbid_extra_keys=True, detailed_validation=False, unstruct_collection_overrides={tuple: list}
    )

    def is_record(cls: Any) -> bool:
        return dataclasses.is_dataclass(cls)

    def names(cls: Any) -> dict[str, Any]:
        return {
            f.name: override(rename=f.name.rstrip("_"), omit_if_default=True) for f in dataclasses.fields(cls)
        }

    def unstructure_fn(cls: Any) -> Any:
        return make_dict_unstructure_fn(cls, conv, **names(cls))

    conv.register_unstructure_hook_factory(is_record, unstructure_fn)

    def structure_fn(cls: Any) -> Any:
        return make_dict_structure_fn(
            cls, conv, _cattrs_forbid_extra_keys=True, _cattrs_detailed_validation=False, **names(cls)
        )

    conv.register_structure_hook_factory(is_record, structure_fn)
    conv.register_structure_hook_func(lambda t: t == r.Step, lambda d, t: _structure_step(d, t, conv))
    conv.register_structure_hook_func(lambda t: t == r.Arg, lambda d, t: _structure_arg(d, t, conv))
    conv.register_structure_hook_func(
        lambda t: t == Mapping[str, int] | tuple[r.BenchSize, ...], lambda d, t: _structure_bench(d, t, conv)
    )
    conv.register_structure_hook_func(_PLAIN_UNIONS.__contains__, lambda value, _: value)
    conv.register_structure_hook_func(lambda t: t == tuple[float, ...], lambda d, _: tuple(map(float, d)))
    conv.register_structure_hook(r.Scalar, _structure_scalar)
    conv.register_structure_hook(r.Init, _structure_init)
    conv.register_unstructure_hook(r.Init, lambda init: {"kind": init.kind, **init.params})
    return conv


def to_data(record: Any) -> Any:
    """A record as plain dicts, lists, strings and numbers (defaults omitted)."""
    return converter().unstructure(record)


def from_data(cls: type[T], data: Any, *, where: str | None = None) -> T:
    """The record of type `cls` that `data` describes.

    Raises:
        RecordError: `data` does not describe one; the message includes `where`.
    """
    try:
        return converter().structure(data, cls)
    except _REFUSALS as error:
        raise RecordError(
            f"not a {cls.__name__} record: {error}", where=where, hint="see schemas/ for the form"
        ) from error


def parse(data: bytes, *, where: str, lone_surrogates: bool = False) -> Any:
    r"""Parse JSON text; `lone_surrogates` accepts text that UTF-8 cannot encode (`"\ud800"`).

    Raises:
        RecordError: it is not JSON, or it is nested too deeply.
    """
    try:
        text = data.decode(json.detect_encoding(data), "surrogatepass" if lone_surrogates else "strict")
        plain = json.loads(text)
        if not lone_surrogates and _SURROGATE.search(text):
            json.dumps(plain, ensure_ascii=False).encode()
    except RecursionError as error:
        raise RecordError("not JSON: nested too deeply", where=where, hint=_REPAIR) from error
    except ValueError as error:
        raise RecordError(f"not JSON: {error}", where=where, hint=_REPAIR) from error
    return plain


def canonical_json(data: Any) -> bytes:
    """The canonical byte form of plain data: sorted keys, no spaces, UTF-8 (for hashing)."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
