"""Parameters passed by value: what they are over sizes, and the argument that the draft's launch passes.

Not covered: how numbers in a struct are written (`struct_numbers`), pointers (`pointer_parameters`).
"""

from __future__ import annotations

import re

from kcurate.draft.algebra import Poly, number
from kcurate.draft.inferred import launch_configuration, struct_numbers
from kcurate.draft.inferred.draft_parts import Parts
from kcurate.draft.inferred.launch_configuration import GUESSED_WHOLE
from kcurate.draft.sketch import OPEN, Reason
from kcurate.problem import c_types as types
from kcurate.records import Arg, Param, Scalar, ValueArg

_TEXTURES = re.compile(r"cuda(?:Texture|Surface)Object_t|texture\s*<")


def record_value(parts: Parts, param: Param, text: str) -> None:
    """Record a scalar's value over sizes, if it has one, or those of the integers in a struct."""
    if _empty(parts, param):
        return
    members = _struct_members(parts, param)
    if members is not None:
        parts.values |= struct_numbers.integers_over_sizes(
            param.name, text, members, parts.site, parts.device.text
        )
    elif not real_type(parts, param) and (poly := parts.site.poly(text)) is not None:
        parts.values[param.name] = poly


def scalar_argument(parts: Parts, param: Param) -> Arg:
    """What the launch step passes for a parameter by value; its scalar and remarks go to the draft."""
    element = parts.element(param.type)
    place, text = f"scalars.{param.name}", parts.text_of(param)
    members = _struct_members(parts, param)
    if members is not None:
        scalar, remarks = struct_numbers.scalar_of(param.name, text, members, parts.values, parts.site)
        parts.scalars[param.name] = scalar
        parts.remarks += remarks
        return param.name
    if _empty(parts, param):
        return ValueArg(0, "uint8")
    if element is None or element.lanes != 1:
        reason = Reason.TEXTURE if _TEXTURES.search(param.type) else Reason.STRUCT_ARGUMENT
        parts.note(place, f"a {param.type} by value", reason)
        parts.scalars[param.name] = Scalar("int32", OPEN)
        return param.name
    poly = parts.values.get(param.name)
    if element.dtype in types.FLOATS:
        real_value = parts.site.real(text)
        if real_value is None:
            parts.note(place, f"guess: the host passes {text}")
            others = (other.value for other in parts.scalars.values() if isinstance(other.value, float))
            real_value = struct_numbers.guessed_real(param.name, others)
        parts.scalars[param.name] = Scalar(element.dtype, real_value)
        return param.name
    if poly is None:
        parts.note(place, f"guess: the host passes {text}")
        return ValueArg(GUESSED_WHOLE, element.dtype)
    poly = _first_round(parts, param, poly)
    value = poly.expr()
    if isinstance(value, str) and element.dtype == "int32" and re.fullmatch(r"[A-Za-z_]\w*", value):
        return value
    return ValueArg(value, element.dtype)


def real_type(parts: Parts, param: Param) -> bool:
    """Whether a parameter is a floating-point number."""
    element = parts.element(param.type)
    return element is not None and element.dtype in types.FLOATS


def _struct_members(parts: Parts, param: Param) -> tuple[types.PlacedMember, ...] | None:
    """The members of a parameter that is a struct of numbers by value; None for any other parameter."""
    typed = param.type, parts.names, parts.device.text
    element = types.element(*typed)
    if element is not None and element.lanes == 1 and types.members(*typed) is None:
        return None
    return types.layout(*typed)


def _empty(parts: Parts, param: Param) -> bool:
    return types.is_empty_struct(param.type, parts.names, parts.device.text)


def _first_round(parts: Parts, param: Param, poly: Poly) -> Poly:
    """For a host loop variable, its first value."""
    host_values = parts.site.host_values
    counted = launch_configuration.names_of(poly) & host_values.loops
    loop_variables = {
        name for name in counted if any(re.search(rf"\b{name}\b", loop) for loop in parts.site.launch.loops)
    }
    if not loop_variables:
        return poly
    parts.note(
        f"scalars.{param.name}",
        f"guess: the host loops over {', '.join(sorted(loop_variables))}; first iteration",
    )
    parts.site.frozen.update({name: host_values.defaults.get(name, GUESSED_WHOLE) for name in loop_variables})
    return parts.site.poly(parts.text_of(param)) or number(GUESSED_WHOLE)
