"""From recipe, file and `--set` to one checked `TrainSettings`, and back to a file.

The later wins: the recipe that a recipe extends, the recipe, `--config`, `--set key=value`, and the options
of the command line. A key that is no setting is refused with the nearest one that is. Not covered: what the
settings mean (`settings`).
"""

from __future__ import annotations

import difflib
import json
import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from kcurate.errors import InputError
from kcurate.train.settings import TrainSettings

RECIPES = Path(__file__).with_name("recipes")
DEFAULT_RECIPE = "kernelcompare"
Table = Mapping[str, Any]


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
    """The settings of a run; `options` is nested like the file and comes last.

    Raises:
        InputError: unreadable, a key that is no setting, or a value of the wrong kind or size.
    """
    own = read(file) if file is not None else {}
    name = recipe or own.get("recipe") or DEFAULT_RECIPE
    layers = [*_recipe(str(name)), (str(file), own), ("--recipe", {"recipe": name})]
    merged: dict[str, Any] = {}
    for where, layer in layers:
        merged = _merge(merged, _checked(TrainSettings, layer, where))
    merged = _merge(merged, _together(sets))
    merged = _merge(merged, _checked(TrainSettings, options or {}, "options"))
    settings: TrainSettings = build(TrainSettings, merged)
    _check_ranges(settings)
    return settings


def read(path: Path) -> dict[str, Any]:
    """A TOML file as plain data.

    Raises:
        InputError: unreadable, or not TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read: {error.strerror}", where=str(path)) from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"not TOML: {error}", where=str(path)) from error


def _recipe(name: str) -> list[tuple[str, Table]]:
    """The layers of a recipe, the one that it extends first."""
    path = RECIPES / f"{name}.toml"
    if name not in recipes():
        raise InputError(f"no recipe {name!r}", where="--recipe", hint=_near(name, recipes()))
    data = read(path)
    base = data.pop("extends", None)
    return [*(_recipe(base) if base else []), (str(path), data)]


def _together(sets: Sequence[str]) -> dict[str, Any]:
    """All of `--set` as one layer: their order says nothing, but for a key that is set twice."""
    merged: dict[str, Any] = {}
    for text in sets:
        one = _checked(TrainSettings, _assignment(text), f"--set {text}")
        if "recipe" in one:
            raise InputError("a recipe is more than its name", where=f"--set {text}", hint="--recipe NAME")
        merged = _merge(merged, one, anew=False)
    return merged


def _assignment(text: str) -> dict[str, Any]:
    """`sft.epochs=2` as nested data; a value that is no TOML is a text."""
    key, mark, value = text.partition("=")
    if not mark or not key.strip():
        raise InputError(f"not KEY=VALUE: {text!r}", where="--set", hint="such as sft.epochs=2")
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value.strip()
    for part in reversed(key.strip().split(".")):
        parsed = {part: parsed}
    return dict(parsed)


def _merge(below: Table, above: Table, *, anew: bool = True) -> dict[str, Any]:
    """Both tables as one; with `anew`, another reward or curriculum does not keep the numbers before it."""
    merged = dict(below)
    for choice in ("scheme", "policy") if anew else ():
        if choice in above and above[choice] != merged.get(choice):
            merged.pop("values", None)
    for key, value in above.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _merge(merged[key], value, anew=anew) if both else value
    return merged


def _checked(cls: type[Any], data: Table, where: str, inside: str = "") -> dict[str, Any]:
    """The data with every key known and every value of its kind."""
    hints = get_type_hints(cls)
    result: dict[str, Any] = {}
    for raw, value in data.items():
        name = raw.replace("-", "_")
        shown = f"{inside}{raw}"
        if name not in hints:
            known = [*(f"{inside}{one}" for one in hints), *keys()]
            raise InputError(f"unknown key {shown!r}", where=where, hint=_near(f"{inside}{name}", known))
        kind = hints[name]
        if is_dataclass(kind):
            if not isinstance(value, Mapping):
                raise InputError(f"{shown} is a table", where=where, hint=f"such as {shown}.{_first(kind)}")
            result[name] = _checked(kind if isinstance(kind, type) else type(kind), value, where, f"{shown}.")
        else:
            result[name] = _value(kind, value, shown, where)
    return result


def _value(kind: Any, value: Any, name: str, where: str) -> Any:
    origin = get_origin(kind)
    if origin is tuple:
        inner = get_args(kind)[0]
        listed = value if isinstance(value, list | tuple) else [value]
        return tuple(_value(inner, one, name, where) for one in listed)
    if origin is not None:  # Mapping[str, Any]: passed on as it is
        good = isinstance(value, Mapping) and _writable(value)
        result: Any = value
    elif kind is float:
        good = isinstance(value, int | float) and not isinstance(value, bool)
        result = value
    else:
        good = isinstance(value, kind) and not (kind is int and isinstance(value, bool))
        result = value
    if not good:
        wanted = (
            "a table of texts, numbers and lists"
            if origin is not None
            else {str: "a text", float: "a number"}.get(kind, kind.__name__)
        )
        raise InputError(f"{name} is {wanted}, not {value!r}", where=where)
    return result


def _writable(value: Any) -> bool:
    """Whether a value can stand in `config.toml`; dates cannot."""
    if isinstance(value, Mapping):
        return all(map(_writable, value.values()))
    return all(map(_writable, value)) if isinstance(value, list) else isinstance(value, str | int | float)


def build(cls: type[Any], data: Table) -> Any:
    """Checked data as nested dataclasses."""
    hints = get_type_hints(cls)
    return cls(
        **{
            name: build(hints[name], value) if is_dataclass(hints[name]) else value
            for name, value in data.items()
        }
    )


def keys(cls: type[Any] = TrainSettings, inside: str = "") -> Iterator[str]:
    """Every key of the settings, dotted."""
    for name, kind in get_type_hints(cls).items():
        if is_dataclass(kind) and isinstance(kind, type):
            yield from keys(kind, f"{inside}{name}.")
        else:
            yield f"{inside}{name}"


def _first(kind: Any) -> str:
    return str(next(iter(get_type_hints(kind))))


def _near(name: str, names: Sequence[str]) -> str:
    tail = name.rsplit(".", 1)[-1]
    close = difflib.get_close_matches(name, names, n=1) or [
        one for one in names if difflib.SequenceMatcher(None, one.rsplit(".", 1)[-1], tail).ratio() > 0.75
    ]
    return f"did you mean {close[0]}?" if close else f"one of: {', '.join(sorted(names)[:12])} ..."


# What must be at least 1, at least 0, and between 0 and 1 (the last excluded).
_POSITIVE = (
    "lora.r", "lora.alpha", "sft.batch", "sft.max_tokens", "sft.save_steps", "sft.keep_checkpoints",
    "grpo.prompts", "grpo.generate_every", "grpo.max_prompt_tokens", "grpo.max_completion_tokens",
    "grpo.save_steps", "grpo.keep_checkpoints", "measure.batch",
)  # fmt: skip
_FRACTIONS = ("lora.dropout", "tasks.held_out")
_CHOICES = {
    "model.dtype": ("auto", "float32", "bfloat16", "float16"),
    "grpo.vllm": ("off", "colocate", "server"),
    "grpo.loss": ("grpo", "bnpo", "dr_grpo", "dapo", "luspo", "cispo", "sapo", "vespo"),
    "judge.backend": ("auto", "cuda", "emulator"),
}


def _check_ranges(settings: TrainSettings) -> None:
    """Refuse what the trainers would fail on later, or take without a word."""
    for key in _POSITIVE:
        _must(key, _get(settings, key) >= 1, "at least 1")
    for key in _FRACTIONS:
        _must(key, 0 <= _get(settings, key) < 1, "at least 0 and below 1")
    for key, names in _CHOICES.items():
        _must(key, _get(settings, key) in names, f"one of {', '.join(names)}")
    for key in keys():
        value = _get(settings, key)
        if isinstance(value, int | float) and not isinstance(value, bool):
            _must(key, value >= 0, "at least 0")
            _must(key, math.isfinite(value), "a finite number")
    _must("grpo.generations", settings.grpo.generations >= 2, "at least 2: answers are compared in a group")
    _must("measure.temperature", settings.measure.temperature > 0, "above 0")
    _must("grpo.temperature", settings.grpo.temperature > 0, "above 0")
    for key in ("grpo.top_p", "measure.top_p"):
        _must(key, 0 < _get(settings, key) <= 1, "above 0 and at most 1")
    _must("seed", settings.seed < 2**32, "below 2**32")


def _must(key: str, holds: bool, what: str) -> None:
    if not holds:
        raise InputError(f"{key} must be {what}", where="training settings", hint=f"--set {key}=...")


def _get(settings: Any, key: str) -> Any:
    for part in key.split("."):
        settings = getattr(settings, part)
    return settings


def to_toml(settings: TrainSettings) -> str:
    """The settings as a file that `resolve(file=...)` reads back to the same."""
    lines = [f"{name.name} = {_toml(getattr(settings, name.name))}" for name in _plain(settings)]
    for table in fields(settings):
        value = getattr(settings, table.name)
        if is_dataclass(value):
            lines += ["", f"[{table.name}]"]
            lines += [f"{one.name} = {_toml(getattr(value, one.name))}" for one in fields(value)]
    return "\n".join(lines) + "\n"


def _plain(settings: TrainSettings) -> list[Any]:
    return [one for one in fields(settings) if not is_dataclass(getattr(settings, one.name))]


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value)
