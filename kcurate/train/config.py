"""Merges recipe, file, `--set` and options into one checked `TrainSettings`, and writes it back to a file.

In order of increasing precedence: the recipe that the chosen one extends, the chosen recipe, `--config`,
`--set key=value`, other command-line options. An unknown key is an error that suggests the nearest setting.
Not covered: what the settings mean (`settings`).
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from cattrs import ClassValidationError, Converter, ForbiddenExtraKeysError
from cattrs.gen import make_dict_structure_fn

from kcurate.core.config import near, read_toml
from kcurate.errors import InputError, OptionError
from kcurate.train.settings import TrainSettings

RECIPES = Path(__file__).with_name("recipes")
DEFAULT_RECIPE = "pairs"
Table = Mapping[str, Any]
_TYPES = {str: "a string", bool: "true or false", int: "an integer", float: "a number"}


def recipes() -> tuple[str, ...]:
    """The names of the recipes that come with kcurate."""
    return tuple(sorted(path.stem for path in RECIPES.glob("*.toml")))


def resolve(
    *,
    recipe: str | None = None,
    file: Path | None = None,
    sets: Sequence[str] = (),
    options: Table | None = None,
) -> TrainSettings:
    """The settings of a run; `options` is nested like the file and overrides everything else.

    Raises:
        InputError: an unreadable file, an unknown key, or a value of the wrong type or out of range.
    """
    from_file = read_toml(file) if file is not None else {}
    name = recipe or from_file.get("recipe") or DEFAULT_RECIPE
    merged: dict[str, Any] = {}
    for where, layer in (*_recipe(str(name)), (str(file), from_file), ("--recipe", {"recipe": name})):
        merged = _merge(merged, _checked(layer, where))
    merged = _merge(merged, _together(sets))
    merged = _merge(merged, _checked(options or {}, "options"))
    settings = _structured(merged, "training settings")
    _check_ranges(settings)
    return settings


def _recipe(name: str) -> list[tuple[str, Table]]:
    """The layers of a recipe; the recipe that it extends comes first."""
    path = RECIPES / f"{name}.toml"
    if name not in recipes():
        raise OptionError(f"no recipe {name!r}", where="--recipe", hint=_near(name, recipes()))
    data = read_toml(path)
    base = data.pop("extends", None)
    return [*(_recipe(base) if base else []), (str(path), data)]


def _together(sets: Sequence[str]) -> dict[str, Any]:
    """All `--set` options as one layer; if a key is set twice, the last one wins."""
    merged: dict[str, Any] = {}
    for text in sets:
        assigned = _checked(_assignment(text), f"--set {text}")
        if "recipe" in assigned:
            raise OptionError("a recipe cannot be chosen here", where=f"--set {text}", hint="--recipe NAME")
        merged = _merge(merged, assigned, drop_values=False)
    return merged


def _assignment(text: str) -> dict[str, Any]:
    """`sft.epochs=2` as nested data; a value that is not valid TOML is a string."""
    key, mark, value = text.partition("=")
    if not mark or not key.strip():
        raise OptionError(f"not KEY=VALUE: {text!r}", where="--set", hint="such as sft.epochs=2")
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value.strip()
    for part in reversed(key.strip().split(".")):
        parsed = {part: parsed}
    return dict(parsed)


def _merge(base: Table, overrides: Table, *, drop_values: bool = True) -> dict[str, Any]:
    """Both tables merged. With `drop_values`, overriding a scheme or policy drops the `values` in the base:
    they are parameters of the old one."""
    merged = dict(base)
    for choice in ("scheme", "policy") if drop_values else ():
        if choice in overrides and overrides[choice] != merged.get(choice):
            merged.pop("values", None)
    for key, value in overrides.items():
        both_tables = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _merge(merged[key], value, drop_values=drop_values) if both_tables else value
    return merged


def _checked(layer: Table, where: str) -> dict[str, Any]:
    """A layer with `-` in its keys replaced by `_`, after checking every key and type."""
    data = {
        key: _as_fields(value) if isinstance(value, Mapping) else value
        for key, value in _as_fields(layer).items()
    }
    _structured(data, where)
    return data


def _as_fields(table: Table) -> Table:
    return {key.replace("-", "_"): value for key, value in table.items()}


class _WrongKindError(ValueError):
    """A value of the wrong type for its setting; `example_key`: a key of the table that is expected."""

    def __init__(self, expected: str, example_key: str | None = None) -> None:
        super().__init__(expected)
        self.example_key = example_key


def _structured(data: Table, where: str) -> TrainSettings:
    try:
        return _converter().structure(data, TrainSettings)
    except ClassValidationError as error:
        raise _refusal(error, where) from error


def _refusal(error: Exception, where: str, key: str = "") -> InputError:
    """The first error that cattrs reports, as an `InputError`; `key`: the dotted key of its table."""
    if isinstance(error, ClassValidationError):
        with_field, others = error.group_exceptions()
        first, name = (with_field[0][0], with_field[0][1].name) if with_field else (others[0], "")
        return _refusal(first, where, f"{key}.{name}".strip("."))
    if isinstance(error, ForbiddenExtraKeysError):
        unknown, *siblings = (
            f"{key}.{field}".strip(".") for field in (min(error.extra_fields), *vars(error.cl()))
        )
        hint = _near(unknown, {*siblings, *_flat(TrainSettings())})
        return InputError(f"unknown key {unknown!r}", where=where, hint=hint)
    if not isinstance(error, _WrongKindError):
        raise error
    example = f"such as {key}.{error.example_key}" if error.example_key else None
    return InputError(f"{key} {error}", where=where, hint=example)


@cache
def _converter() -> Converter:
    """Takes each value unchanged; a value of the wrong type is refused, not converted."""
    converter = Converter(forbid_extra_keys=True)

    def listed(value: Any, kind: Any) -> tuple[Any, ...]:
        items = value if isinstance(value, list | tuple) else [value]
        return tuple(converter.structure(item, get_args(kind)[0]) for item in items)

    def table(cls: type[Any]) -> Callable[[Any, Any], Any]:
        structured_fields = make_dict_structure_fn(cls, converter, _cattrs_forbid_extra_keys=True)

        def structure(value: Any, kind: Any) -> Any:
            if not isinstance(value, Mapping):
                raise _WrongKindError("must be a table", fields(cls)[0].name)
            return structured_fields(value, kind)

        return structure

    def has_origin(origin: Any) -> Callable[[Any], bool]:
        return lambda kind: get_origin(kind) is origin

    converter.register_structure_hook_factory(is_dataclass, table)
    converter.register_structure_hook_func(has_origin(tuple), listed)
    for kind in _TYPES:
        converter.register_structure_hook(kind, _checked_value)
    for origin in (Literal, Mapping):
        converter.register_structure_hook_func(has_origin(origin), _checked_value)
    return converter


def _checked_value(value: Any, kind: Any) -> Any:
    if get_origin(kind) is Literal:
        valid, expected = value in get_args(kind), f"one of {', '.join(get_args(kind))}"
    elif get_origin(kind) is Mapping:
        valid = isinstance(value, Mapping) and _writable(value)
        expected = "a table of strings, numbers and lists"
    else:
        types = (int, float) if kind is float else kind
        valid = isinstance(value, types) and (kind is bool or not isinstance(value, bool))
        expected = _TYPES[kind]
    if not valid:
        raise _WrongKindError(f"must be {expected}, not {value!r}")
    return value


def _writable(value: Any) -> bool:
    """Whether a value can be written to `config.toml`; dates cannot."""
    if isinstance(value, Mapping):
        return all(map(_writable, value.values()))
    return all(map(_writable, value)) if isinstance(value, list) else isinstance(value, str | int | float)


def _flat(settings: TrainSettings) -> dict[str, Any]:
    """Every setting by dotted key."""
    flat: dict[str, Any] = {}
    for name, value in vars(settings).items():
        if is_dataclass(value):
            flat |= {f"{name}.{key}": nested for key, nested in vars(value).items()}
        else:
            flat[name] = value
    return flat


def _near(name: str, names: Iterable[str]) -> str:
    """A hint with the nearest name, or one with a similar last part."""
    tail, names = name.rsplit(".", 1)[-1], sorted(names)
    alike = [other for other in names if get_close_matches(tail, [other.rsplit(".", 1)[-1]], cutoff=0.75)]
    otherwise = f"did you mean {alike[0]}?" if alike else f"one of: {', '.join(names[:12])} ..."
    return near(name, names, otherwise=otherwise)


# Settings that must be at least 1, and those that must be at least 0 and below 1.
_POSITIVE = (
    "lora.r", "lora.alpha", "sft.batch", "sft.max_tokens", "sft.save_steps", "sft.keep_checkpoints",
    "grpo.prompts", "grpo.generate_every", "grpo.max_prompt_tokens", "grpo.max_completion_tokens",
    "grpo.turns", "grpo.save_steps", "grpo.keep_checkpoints", "rft.samples", "rft.answers", "rft.batch",
    "measure.batch",
)  # fmt: skip
_FRACTIONS = ("lora.dropout", "tasks.held_out", "tasks.rollout")


def _check_ranges(settings: TrainSettings) -> None:
    """Refuse values that the trainers would fail on later or silently accept."""
    flat = _flat(settings)
    for key in _POSITIVE:
        _must(key, flat[key] >= 1, "at least 1")
    for key in _FRACTIONS:
        _must(key, 0 <= flat[key] < 1, "at least 0 and below 1")
    for key, value in flat.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            _must(key, value >= 0, "at least 0")
            _must(key, math.isfinite(value), "a finite number")
    _must(
        "grpo.generations",
        settings.grpo.generations >= 2,
        "at least 2: GRPO compares the completions of a group",
    )
    for key in ("grpo.temperature", "rft.temperature", "measure.temperature"):
        _must(key, flat[key] > 0, "above 0")
    for key in ("grpo.top_p", "rft.top_p", "measure.top_p"):
        _must(key, 0 < flat[key] <= 1, "above 0 and at most 1")
    longest = settings.grpo.max_completion_tokens
    _must("grpo.overlong_tokens", settings.grpo.overlong_tokens <= longest, f"at most {longest}")
    _must("seed", settings.seed < 2**32, "below 2**32")


def _must(key: str, holds: bool, requirement: str) -> None:
    if not holds:
        raise InputError(f"{key} must be {requirement}", where="training settings", hint=f"--set {key}=...")


def to_toml(settings: TrainSettings) -> str:
    """The settings as TOML; `resolve(file=...)` reads it back unchanged."""
    lines: list[str] = []
    table = ""
    for key, value in _flat(settings).items():  # top-level keys come first
        prefix, _, name = key.rpartition(".")
        lines += ["", f"[{prefix}]"] if prefix != table else []
        lines.append(f"{name} = {_toml(value)}")
        table = prefix
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value)
