"""What can be set in a side: its named integer constants and its block size; a side with other values.

A knob is a `#define NAME 8`, a `constexpr int NAME = 8` (or `const`, `static`, `unsigned`) of the text, or
the block size of the plan where it is no product of constants. Numbers of the plan and of scratch buffers may
be the same number, or a product, so a knob has *links*, ways in which they follow it: those that are the
product of constants, and of a warp's 32 lanes, with this one among them (`product`), every multiple of the
value (`multiple`), none (`alone`). Of a side in Triton the knobs are the constants, warps and stages of its
launch, and a number of its grids may be any constant of that value. The judge tells which is right. Not
covered: that (`kcurate.tune.stage`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations, islice, product
from typing import Any, Literal

from kcurate.core import codec
from kcurate.errors import InputError
from kcurate.records import Configuration, Launch, Side, steps

Link = Literal["product", "multiple", "alone"]
LINKS: tuple[Link, ...] = ("product", "multiple", "alone")
BLOCK = "block"
WARP, MAX_THREADS = 32, 1024
# What a launch in Triton has beside constants, and the values to try.
OPTIONS: Mapping[str, tuple[int, ...]] = {"num_warps": (1, 2, 4, 8, 16), "num_stages": (1, 2, 3, 4, 5)}
# Ways in which the numbers of grids follow that are tried for one setting.
MOST_WAYS = 8
_CONSTANT = re.compile(
    r"^(?P<head>[ \t]*(?:#[ \t]*define[ \t]+(?P<macro>\w+)[ \t]+\(?"
    r"|(?:static[ \t]+)?(?:constexpr|const)[ \t]+(?:unsigned(?:[ \t]+int)?|int)[ \t]+(?P<name>\w+)"
    r"[ \t]*=[ \t]*))"
    r"(?P<value>\d+)(?=u?\)?[ \t]*;?[ \t]*(?://.*)?$)",
    re.MULTILINE,
)
_NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.])")


@dataclass(frozen=True)
class Knob:
    """A name, the value that the side has, and the values to try in ascending order, that one among them."""

    name: str
    value: int
    values: tuple[int, ...]

    def near(self, value: int) -> tuple[int, ...]:
        """The next smaller and the next larger value."""
        at = self.values.index(value)
        return self.values[max(0, at - 1) : at] + self.values[at + 1 : at + 2]


def find(side: Side, wanted: Mapping[str, Sequence[int]] | None = None) -> tuple[Knob, ...]:
    """The knobs of a side, in the order of the text; with `wanted`, only those, at these values.

    Raises:
        InputError: a wanted name is none.
    """
    found = of_launches(side) if side.language == "triton" else _of_text(side)
    if unknown := set(wanted or {}) - set(found):
        raise InputError(
            f"no constant {min(unknown)!r} in this side", hint=f"it has {', '.join(found) or 'none'}"
        )
    values = _values if side.language != "triton" else _values_in_triton
    made = (
        Knob(name, value, values(name, value, (wanted or {}).get(name)))
        for name, value in found.items()
        if name in (wanted or found)
    )
    return tuple(one for one in made if wanted or len(one.values) > 1)


def listed(side: Side, configurations: Iterable[Configuration]) -> list[dict[str, int]]:
    """The settings that a kernel in Triton lists for tuning, but those with values that are no knobs here."""
    known = of_launches(side)
    found = []
    for one in configurations:
        setting = {**one.constexprs, "num_warps": one.num_warps, "num_stages": one.num_stages}
        whole = {name: value for name, value in setting.items() if name in known and type(value) is int}
        if whole.keys() == setting.keys() and {**known, **whole} not in found:
            found.append({**known, **whole})
    return found


def _of_text(side: Side) -> dict[str, int]:
    found = {match["macro"] or match["name"]: int(match["value"]) for match in _CONSTANT.finditer(side.code)}
    found = {name: value for name, value in found.items() if value > 0}
    blocks = {math.prod(one.block) for one in _launches(side) if all(isinstance(n, int) for n in one.block)}
    if len(blocks) == 1 and (block := int(blocks.pop())) > 1 and not _products(block, found):
        found[BLOCK] = block
    return found


def of_launches(side: Side) -> dict[str, int]:
    """The numbers that all launches of a side in Triton agree on: compile-time constants, warps, stages."""
    found: dict[str, set[object]] = {}
    for one in (step for step in steps(side.plan) if isinstance(step, Launch)):
        options = {"num_warps": one.num_warps, "num_stages": one.num_stages}
        for name, value in {**one.constexprs, **options}.items():
            found.setdefault(name, set()).add(value)
    same = {name: values.pop() for name, values in found.items() if len(values) == 1}
    return {name: value for name, value in same.items() if type(value) is int and value > 0}


def _launches(side: Side) -> Iterator[Launch]:
    return (step for step in steps(side.plan) if isinstance(step, Launch) and step.block)


def _values_in_triton(name: str, value: int, given: Sequence[int] | None) -> tuple[int, ...]:
    """Those of options; else halves and doubles of powers of two, as blocks are."""
    if given or name in OPTIONS:
        return tuple(sorted({value, *(given or OPTIONS[name])}))
    if value == 1 or value & (value - 1):
        return (value,)
    return tuple(sorted({value, max(1, value // 4), value // 2, 2 * value, 4 * value}))


def _values(_: str, value: int, given: Sequence[int] | None) -> tuple[int, ...]:
    """Halves and doubles; small ones also one less and one more, those of warps only whole warps."""
    if given:
        return tuple(sorted({value, *given}))
    tried = {value, value // 4, value // 2, 2 * value, 4 * value}
    if value <= 8:
        tried |= {value - 1, value + 1}
    if value % WARP == 0:
        tried = {one for one in tried if one % WARP == 0 and one <= max(value, MAX_THREADS)}
    return tuple(sorted(one for one in tried if one > 0))


def changed(side: Side, knobs: Sequence[Knob], setting: Mapping[str, int], links: Mapping[str, Link]) -> Side:
    """The side with these values, the numbers of its plan and buffers following as `links` say."""
    code = _CONSTANT.sub(
        lambda m: m["head"] + str(setting.get(m["macro"] or m["name"], int(m["value"]))), side.code
    )
    values = {knob.name: knob.value for knob in knobs}
    if BLOCK in setting:
        bounds = re.compile(rf"(__launch_bounds__\(\s*){values[BLOCK]}\b")
        code = bounds.sub(lambda m: m[1] + str(setting[BLOCK]), code)
    constants = {**{knob.name: knob.value for knob in find(side)}, **values}
    data = codec.to_data(side)
    for part in ("plan", "buffers"):
        if part in data:
            data[part] = _renumbered(data[part], lambda n: _number(n, constants, setting, links))
    return codec.from_data(Side, {**data, "code": code})


def relaunched(side: Side, setting: Mapping[str, int]) -> Iterator[Side]:
    """A side in Triton at a setting, in each way that numbers of its grids and buffers may follow."""
    constants = {name: value for name, value in of_launches(side).items() if name not in OPTIONS}
    moved = {value for name, value in constants.items() if setting.get(name, value) != value}
    places: list[int] = []

    def seen(number: int) -> int:
        places.append(number)
        return number

    _resized(codec.to_data(side), seen)
    ways = []
    for at, number in enumerate(places):
        names = [name for name, value in constants.items() if value == number and value in moved]
        # The first 128 is likely the first name's, the second the second's.
        first = places[:at].count(number) % len(names) if names else 0
        ways.append([*names[first:], *names[:first], ""])
    for chosen in islice(product(*ways), MOST_WAYS):
        made = _resized(codec.to_data(side), partial(_following, iter(chosen), setting))
        yield codec.from_data(Side, {**made, "plan": _set(made["plan"], setting)})


def _following(names: Iterator[str], setting: Mapping[str, int], number: int) -> int:
    """The value of the next name; the number as it is where that is no knob."""
    return setting.get(next(names), number)


def _resized(data: dict[str, Any], number: Callable[[int], int]) -> dict[str, Any]:
    """A side's data with the numbers of grids and buffers replaced, in order."""

    def grids(part: Any) -> Any:
        if isinstance(part, list | tuple):
            return [grids(one) for one in part]
        if not isinstance(part, dict):
            return part
        return {
            key: _renumbered(value, number) if key == "grid" else grids(value) for key, value in part.items()
        }

    buffers = {"buffers": _renumbered(data["buffers"], number)} if "buffers" in data else {}
    return {**data, "plan": grids(data["plan"]), **buffers}


def _set(part: Any, setting: Mapping[str, int]) -> Any:
    """Plan data with the constants, warps and stages of a setting in its launches."""
    if isinstance(part, list | tuple):
        return [_set(one, setting) for one in part]
    if not isinstance(part, dict):
        return part
    if "launch" not in part:
        return {key: _set(value, setting) for key, value in part.items()}
    given = part.get("constexprs", {})
    constants = {name: setting.get(name, value) for name, value in given.items()}
    return {**part, "constexprs": constants, **{name: setting[name] for name in OPTIONS if name in setting}}


def _products(number: int, constants: Mapping[str, int]) -> list[tuple[str, ...]]:
    """The constants whose product a number is; where there are none, with a warp's lanes as a factor."""
    names = [found for count in (1, 2, 3) for found in combinations(constants, count)]
    products = {one: math.prod(constants[name] for name in one) for one in names}
    exact = [one for one in names if products[one] == number]
    return exact or [one for one in names if WARP * products[one] == number]


def _number(
    number: int, constants: Mapping[str, int], setting: Mapping[str, int], links: Mapping[str, Link]
) -> int:
    """A number of the plan at a setting."""
    moved = [name for name, value in setting.items() if value != constants[name]]
    linked = {name for name in moved if links.get(name) == "product"}
    for names in _products(number, constants):
        if linked & set(names):
            for name in linked & set(names):
                number = number // constants[name] * setting[name]
            return number
    for name in moved:
        value = constants[name]
        if links.get(name) == "multiple" and value > 1 and number % value == 0:
            number = number // value * setting[name]
    return number


def _renumbered(data: Any, number: Callable[[int], int]) -> Any:
    """Plan data with every integer, alone or in an expression, replaced."""
    if isinstance(data, dict):
        return {key: _renumbered(value, number) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_renumbered(one, number) for one in data]
    if isinstance(data, str):
        return _NUMBER.sub(lambda m: str(number(int(m[0]))), data)
    return number(data) if type(data) is int else data
