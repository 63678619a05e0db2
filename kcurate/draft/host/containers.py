"""How many elements host objects hold that own memory: vectors and buffers of any class, tensors of PyTorch.

An object whose construction is not in the code gets sizes of its own: `x_size_0` for `x.size(0)`, as many
extents as the code queries, else `x_count`. Not covered: what expressions for sizes are worth
(`name_values`), plain allocations (`allocations`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce

from kcurate.cuda_source.parse.syntax_tree import Node as Syntax
from kcurate.cuda_source.semantics import c_expressions as cexpr
from kcurate.cuda_source.semantics.c_expressions import Node
from kcurate.cuda_source.semantics.code_index import Call, Code
from kcurate.cuda_source.semantics.declarations import Setting
from kcurate.cuda_source.semantics.pointer_paths import path_in, path_of, without_casts

# The tree of an expression at a position in the host code.
Resolve = Callable[[str, int], Node | None]
MAX_DEPTH = 8
# If the code queries fewer extents of a tensor, it may have more than those.
LEAST_QUERIED = 2
_RESIZING = frozenset(("resize", "allocate", "alloc", "reallocate", "realloc", "create", "assign"))
_SHAPED = frozenset(("zeros", "ones", "empty", "full", "rand", "randn"))
# Methods of a tensor that give one of the same extents.
_SAME = frozenset(("contiguous", "clone", "to", "cuda", "cpu", "detach", "fill_", "zero_", "toType"))
_COUNTS = frozenset(("size", "length", "numel", "nelement"))
_QUERIED = re.compile(r"\w+_(?:count|size_(?:\d+|last\d*))")
_INSTANCE = re.compile(r"([\w:]*\w)\s*<(.*)>\s*&?", re.DOTALL)


@dataclass(frozen=True)
class ExtentSource:
    """Extents as written at a position, or another object that has the same ones; the type of an element."""

    at: int
    extents: tuple[str, ...] = ()
    like: str = ""
    type: str = ""


def shape(host: Code, name: str, at: int | None, resolve: Resolve, depth: int = 0) -> tuple[Node, ...] | None:
    """The extents that the host code gives an object; None if it does not make it."""
    if depth > MAX_DEPTH:
        return None
    for holder in extent_sources(host, name, at):
        if holder.like and holder.like != name:
            extents = shape(host, holder.like, holder.at, resolve, depth + 1)
        else:
            nodes = [resolve(text, holder.at) for text in holder.extents]
            resolved = tuple(node for node in nodes if node is not None)
            extents = resolved if 0 < len(resolved) == len(nodes) else None
        if extents is not None:
            return extents
    function = host.function_at(at) if at is not None else None
    for call_at, argument in host.arguments_passed_for(name, function) if function is not None else ():
        extents = shape(host, path_in(argument), call_at, resolve, depth + 1)
        if extents is not None:
            return extents
    return None


def elements(host: Code, name: str, at: int | None, resolve: Resolve) -> Node | None:
    """The number of elements; None if neither an allocation nor the queried extents give it."""
    extents = shape(host, name, at, resolve)
    if extents is None:
        name, at = _origin(host, name, at)
        queries = [
            call
            for call in _method_calls(host, name, at, _COUNTS)
            if call.name == "size" and len(call.args) == 1
        ]
        most = max((int(call.args[0]) for call in queries if call.args[0].isdigit()), default=-1)
        extents = tuple(_extent(name, axis) for axis in range(most + 1))
        if any(call.args[0].replace(" ", "") == "-1" for call in queries):
            extents += (_extent(name, -1),)
        if len(extents) < LEAST_QUERIED:
            extents = ()
    if not extents and any(not call.args for call in _method_calls(host, name, at, _COUNTS)):
        return cexpr.name(f"{_flat(name)}_count")
    return reduce(lambda left, right: Node("*", (left, right)), extents) if extents else None


def queried(host: Code, call: Node, at: int | None, resolve: Resolve) -> Node | None:
    """What `x.size()`, `x.size(1)` and `x.numel()` give; None for any other method."""
    name = cexpr.path(call.args[0]) if call.args else ""
    name = name.removeprefix("this.")
    if not name:
        return None
    if len(call.args) == 1 and call.text in _COUNTS:
        return elements(host, name, at, resolve)
    axis = cexpr.plain(call.args[1]) if len(call.args) == 2 and call.text == "size" else None
    back = axis is not None and axis.op == "unary-"
    axis = cexpr.plain(axis.args[0]) if axis is not None and back else axis
    if axis is None or axis.op != "num" or axis.real:
        return None
    number = -int(axis.text) if back else int(axis.text)
    extents = shape(host, name, at, resolve)
    if extents is not None:
        return extents[number] if -len(extents) <= number < len(extents) else None
    return _extent(_origin(host, name, at)[0], number)


def _origin(host: Code, name: str, at: int | None) -> tuple[str, int | None]:
    """The object that another one is made like, and where; itself if there is none."""
    for _ in range(MAX_DEPTH):
        like = next((holder for holder in extent_sources(host, name, at) if holder.like), None)
        if like is None or like.like == name:
            break
        name, at = like.like, like.at
    return name, at


def type_of(host: Code, name: str, at: int | None) -> str:
    """The type of the elements of a vector or buffer; empty if its class does not tell."""
    instance = _INSTANCE.search(host.type_of(name, at) or "")
    return instance[2].split(",")[0].strip() if instance is not None else ""


def extent_sources(host: Code, name: str, at: int | None) -> Iterator[ExtentSource]:
    """The extents in an object's declarations, assignments and resizing calls, the latest first."""
    inside = at is not None and host.declared(name, at) is not None
    settings = (*(host.settings(name) if not inside else ()), *(host.settings(name, at) if at else ()))
    for setting in reversed(settings):
        instance = _INSTANCE.search(setting.type or host.type_of(name, setting.at) or "")
        owns = instance is not None and not instance[1].endswith("_ptr")
        if setting.how in ("(", "{") and setting.value and owns:
            yield _constructed(host, setting)
        elif setting.how == "=" and setting.node is not None:
            tensor = _tensor(host, setting.node)
            if tensor is not None:
                yield tensor
    for call in reversed(_method_calls(host, name, at, _RESIZING)):
        if call.args:
            yield ExtentSource(call.at, (call.args[0],))


def _constructed(host: Code, setting: Setting) -> ExtentSource:
    """`Vector<float> x(n)`, `x(other)` and `x(other.begin(), other.end())`."""
    argument = next(iter(_arguments(setting.node, host)), setting.value)
    source = path_in(argument)
    is_container = source.isidentifier() and "<" in (host.type_of(source, setting.at) or "")
    return ExtentSource(setting.at, like=source) if is_container else ExtentSource(setting.at, (argument,))


def _tensor(host: Code, node: Syntax) -> ExtentSource | None:
    """`torch::zeros({n, m}, ...)`, `x.new_zeros({n})`, `torch::empty_like(x)`, `x.contiguous()`."""
    node = without_casts(node)
    called = node.child_by_field_name("function") if node.type == "call_expression" else None
    if called is None:
        return None
    arguments = node.child_by_field_name("arguments").named_children
    if called.type == "field_expression":
        owner, method = called.child_by_field_name("argument"), host.of(called.child_by_field_name("field"))
        if method.partition("<")[0] in _SAME:
            return _tensor(host, owner) or ExtentSource(node.start_byte, like=path_of(owner))
    else:
        method = host.of(called).partition("<")[0].rpartition("::")[2]
        if method.endswith("_like") and arguments:
            return ExtentSource(node.start_byte, like=path_of(arguments[0]))
    shape_argument = arguments[0] if arguments and method.removeprefix("new_") in _SHAPED else None
    if shape_argument is None:
        return None
    if shape_argument.type == "initializer_list":
        return ExtentSource(node.start_byte, tuple(map(host.of, shape_argument.named_children)))
    is_like = host.of(shape_argument).endswith(".sizes()")
    return ExtentSource(node.start_byte, like=path_of(shape_argument)) if is_like else None


def _arguments(node: Syntax | None, host: Code) -> list[str]:
    return [host.of(argument) for argument in node.named_children] if node is not None else []


def _method_calls(host: Code, name: str, at: int | None, methods: frozenset[str]) -> list[Call]:
    """Calls of some of an object's methods: in the function around a position, for a member anywhere.

    A member that another object holds, `atoms.mass`, has the calls that its own class makes, on `mass`.
    """
    function = host.function_at(at) if at is not None else None
    last = name.rpartition(".")[2]
    calls = host.methods.get(name) or [
        call for owner, some in host.methods.items() if owner.rpartition(".")[2] == last for call in some
    ]
    calls = [call for call in calls if call.name.lower() in methods]
    near = [call for call in calls if function is not None and function.body <= call.at < function.end]
    parameter = function is not None and any(param == name for _, param in function.params)
    local = at is not None and host.declared(name, at) is not None
    return near if near or local or parameter else calls


def is_queried(size: str) -> bool:
    """Whether a size is named after a query (`x_size_0`), because the object's construction is not in the
    code."""
    return _QUERIED.fullmatch(size) is not None


def _extent(name: str, axis: int) -> Node:
    return cexpr.name(f"{_flat(name)}_size_{axis if axis >= 0 else f'last{-axis}'.removesuffix('1')}")


def _flat(name: str) -> str:
    return name.replace(".", "_")
