"""The configurations in `@triton.autotune` and `@triton.heuristics`, as values; nothing is run.

Evaluates numbers, lists, comprehensions over them, and `triton.Config`, also where functions of the tree
compute them. A configuration never changes results: of alternatives that depend on the machine, the first one
that is not for another vendor's hardware is taken. Not covered: configurations read from files.
"""

from __future__ import annotations

import ast
import itertools
import operator
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kcurate.triton_source.module_names import Defined, File, Member
from kcurate.triton_source.module_text import parts_of

# Only this many configurations are kept, the first ones.
MAX_CONFIGURATIONS = 8
MAX_VALUES = 4096
WARPS, STAGES = 4, 3
_UNKNOWN = object()
_BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod, ast.Div: operator.truediv,
}  # fmt: skip
_COMPARE: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}  # fmt: skip


_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "range": lambda *bounds: list(itertools.islice(range(*bounds), MAX_VALUES)),
    "product": lambda *lists: list(map(list, itertools.islice(itertools.product(*lists), MAX_VALUES))),
    "zip": lambda *lists: list(map(list, zip(*lists, strict=False))),
    "next_power_of_2": lambda number: 1 << (number - 1).bit_length(),
    "cdiv": lambda number, by: -(-number // by),
    "list": list, "len": len, "min": min, "max": max, "sorted": sorted,
}  # fmt: skip
# Conditions that test for hardware of another vendor.
_OTHER_VENDOR = re.compile(
    r"amd|hip|rocm|cdna|rdna|npu|ascend|xpu|intel|cpu|interpret|musa|mlu", re.IGNORECASE
)


class _ReturnSignal(Exception):  # noqa: N818 - control flow: an interpreted `return`
    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


class _ContinueSignal(Exception):  # noqa: N818 - control flow: an interpreted `continue`
    pass


class NotLiteralError(Exception):
    """The value of an expression is not known from the text."""


@dataclass(frozen=True)
class Config:
    """One `triton.Config`."""

    constants: Mapping[str, Any]
    num_warps: int = WARPS
    num_stages: int = STAGES


@dataclass
class _Interpreter:
    """An interpreter for the few expressions and statements with which modules build lists of configurations.

    `of` dispatches on the class of a node: `ast.BinOp` goes to `_binop`. `names`: local variables;
    `steps_left`: evaluations that are still allowed.
    """

    file: File
    names: dict[str, Any] = field(default_factory=dict)
    steps_left: int = MAX_VALUES

    def of(self, node: ast.expr) -> Any:
        self.steps_left -= 1
        if self.steps_left < 0:
            raise NotLiteralError("too many values")
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is None:
            raise NotLiteralError(ast.unparse(node))
        return method(node)

    def _constant(self, node: ast.Constant) -> Any:
        return node.value

    def _tuple(self, node: ast.Tuple | ast.List | ast.Set) -> list[Any]:
        return [self.of(element) for element in node.elts]

    _list = _set = _tuple

    def _dict(self, node: ast.Dict) -> dict[Any, Any]:
        if None in node.keys:
            raise NotLiteralError(ast.unparse(node))
        return {
            self.of(key): self.of(value) for key, value in zip(node.keys, node.values, strict=True) if key
        }

    def _name(self, node: ast.Name) -> Any:
        if node.id in self.names:
            if self.names[node.id] is _UNKNOWN:
                raise NotLiteralError(node.id)
            return self.names[node.id]
        definition = self.file.resolve((node.id,))
        if not isinstance(definition, Defined) or isinstance(definition.node, ast.FunctionDef):
            raise NotLiteralError(node.id)
        inner = _Interpreter(definition.file, steps_left=self.steps_left)
        value, self.steps_left = inner.of(definition.node), inner.steps_left
        return value

    def _unaryop(self, node: ast.UnaryOp) -> Any:
        value = self.of(node.operand)
        return (
            not value if isinstance(node.op, ast.Not) else -value if isinstance(node.op, ast.USub) else value
        )

    def _binop(self, node: ast.BinOp) -> Any:
        left, right = self.of(node.left), self.of(node.right)
        lists = isinstance(left, list) or isinstance(right, list)
        if isinstance(node.op, ast.Pow) and not lists and 0 <= right <= 64:
            return self._bounded(left**right, node)
        operation = _BINARY.get(type(node.op))
        if operation is None or (lists and not (isinstance(left, list) and isinstance(right, list))):
            raise NotLiteralError(ast.unparse(node))
        if isinstance(node.op, ast.Mult | ast.Mod) and isinstance(left, str | bytes):
            raise NotLiteralError(ast.unparse(node))
        return self._bounded(operation(left, right), node)

    def _bounded(self, value: Any, node: ast.expr) -> Any:
        length = len(value) if isinstance(value, list | str) else 0
        if (value.bit_length() if isinstance(value, int) else length) > MAX_VALUES:
            raise NotLiteralError(ast.unparse(node))
        return value

    def _compare(self, node: ast.Compare) -> bool:
        values = [self.of(operand) for operand in (node.left, *node.comparators)]
        pairs = zip(node.ops, itertools.pairwise(values), strict=True)
        if any(type(op) not in _COMPARE for op in node.ops):
            raise NotLiteralError(ast.unparse(node))
        return all(_COMPARE[type(op)](*pair) for op, pair in pairs)

    def _boolop(self, node: ast.BoolOp) -> bool:
        values = [bool(self.of(operand)) for operand in node.values]
        return all(values) if isinstance(node.op, ast.And) else any(values)

    def _ifexp(self, node: ast.IfExp) -> Any:
        return self.of(node.body if self._holds(node.test) else node.orelse)

    def _holds(self, test: ast.expr) -> bool:
        """Whether a condition holds; one about the machine does, unless it is for another vendor's
        hardware."""
        try:
            return bool(self.of(test))
        except NotLiteralError:
            if self.steps_left < 0:
                raise
            turned = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
            return turned == bool(_OTHER_VENDOR.search(ast.unparse(test)))

    def _listcomp(self, node: ast.ListComp) -> list[Any]:
        saved = dict(self.names)
        elements = list(self._comprehension_values(node.generators, node.elt))
        self.names = saved
        return elements

    def _comprehension_values(self, loops: list[ast.comprehension], element: ast.expr) -> Iterator[Any]:
        if not loops:
            yield self.of(element)
            return
        first, *rest = loops
        for value in self.of(first.iter):
            self._bind(first.target, value)
            if all(self._holds(test) for test in first.ifs):
                yield from self._comprehension_values(rest, element)

    def _call(self, node: ast.Call) -> Any:
        parts = parts_of(node.func)
        callee = self.file.resolve(parts) if parts else None
        if isinstance(callee, Member) and callee.name == "triton.Config":
            return self._config(node)
        if parts and parts[-1] in _FUNCTIONS and callee is None and not node.keywords:
            return _FUNCTIONS[parts[-1]](*(self.of(argument) for argument in node.args))
        if isinstance(callee, Defined) and isinstance(callee.node, ast.FunctionDef):
            return self._result_of_call(callee.file, callee.node, node)
        raise NotLiteralError(ast.unparse(node.func) + "(...)")

    def _result_of_call(self, file: File, function: ast.FunctionDef, call: ast.Call) -> Any:
        """The value that a function of the tree returns."""
        parameters = function.args.args
        defaults = function.args.defaults
        names = {
            arg.arg: self.of(value)
            for arg, value in zip(parameters[len(parameters) - len(defaults) :], defaults, strict=True)
        }
        names |= {arg.arg: self.of(value) for arg, value in zip(parameters, call.args, strict=False)}
        names |= {word.arg: self.of(word.value) for word in call.keywords if word.arg}
        inner = _Interpreter(file, names, self.steps_left)
        try:
            inner.run(function.body)
        except _ReturnSignal as returned:
            return returned.value
        finally:
            self.steps_left = inner.steps_left
        return None

    def run(self, body: Sequence[ast.stmt]) -> None:
        """Execute statements: assignments, list appends, loops over lists, conditions, returns."""
        for node in body:
            self._statement(node)

    def _statement(self, node: ast.stmt) -> None:
        self.steps_left -= 1
        match node:
            case ast.Return(value=ast.expr() as value):
                raise _ReturnSignal(self.of(value))
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self.names[name] = self.of(value)
            case ast.AugAssign(target=ast.Name(id=name) as target, op=op, value=value):
                self.names[name] = self.of(ast.BinOp(ast.Name(target.id, ast.Load()), op, value))
            case ast.For(target=target, iter=values, body=body, orelse=[]):
                self._loop(target, values, body)
            case ast.If(test=test, body=body, orelse=orelse):
                self.run(body if self._holds(test) else orelse)
            case ast.Expr(
                value=ast.Call(func=ast.Attribute(value=owner, attr="append" | "extend" as way), args=[value])
            ):
                elements = self.of(owner)
                if not isinstance(elements, list):
                    raise NotLiteralError(ast.unparse(node))
                elements += [self.of(value)] if way == "append" else self.of(value)
                self._bounded(elements, value)
            case ast.Continue():
                raise _ContinueSignal
            case ast.Pass() | ast.Expr(value=ast.Constant()):
                pass
            case _:
                raise NotLiteralError(ast.unparse(node).partition("\n")[0])

    def _loop(self, target: ast.expr, values: ast.expr, body: Sequence[ast.stmt]) -> None:
        for value in list(self.of(values)):
            self._bind(target, value)
            try:
                self.run(body)
            except _ContinueSignal:
                continue

    def _bind(self, target: ast.expr, value: Any) -> None:
        names = target.elts if isinstance(target, ast.Tuple) else [target]
        for name, part in zip(names, value if isinstance(target, ast.Tuple) else [value], strict=True):
            if not isinstance(name, ast.Name):
                raise NotLiteralError(ast.unparse(target))
            self.names[name.id] = part

    def _config(self, node: ast.Call) -> Config:
        options = {
            word.arg: self.of(word.value)
            for word in node.keywords
            if word.arg in ("kwargs", "num_warps", "num_stages")
        }
        constants = self.of(node.args[0]) if node.args else options.get("kwargs")
        if not isinstance(constants, dict):
            raise NotLiteralError(ast.unparse(node))
        positional = zip(("num_warps", "num_stages"), map(self.of, node.args[1:3]), strict=False)
        options = {"num_warps": WARPS, "num_stages": STAGES, **options, **dict(positional)}
        return Config(constants, options["num_warps"], options["num_stages"])


def configurations_in(file: File, node: ast.expr) -> list[Config]:
    """The first configurations of a list.

    Raises:
        NotLiteralError: they are not known from the text.
    """
    values = value_of(file, node)
    if not isinstance(values, list) or not all(isinstance(configuration, Config) for configuration in values):
        raise NotLiteralError(ast.unparse(node))
    return values[:MAX_CONFIGURATIONS]


def value_of(
    file: File, node: ast.expr, names: Mapping[str, Any] = {}, unknown_names: Collection[str] = ()
) -> Any:
    """The value of an expression; `names`: known values; other `unknown_names` are unknown.

    Raises:
        NotLiteralError: it is not known from the text.
    """
    values = _Interpreter(file, {**dict.fromkeys(unknown_names, _UNKNOWN), **names})
    try:
        return values.of(node)
    except (TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise NotLiteralError(ast.unparse(node)) from error


def heuristics(file: File, node: ast.expr) -> dict[str, str]:
    """Each constant that heuristics compute, as an expression of the launch's arguments.

    Raises:
        NotLiteralError: they are not a dictionary of lambdas or of functions with a single `return`, or use
            their argument in another way than `args["NAME"]`.
    """
    parts = parts_of(node)
    named = file.resolve(parts) if parts else None
    if isinstance(named, Defined) and isinstance(named.node, ast.Dict):
        return heuristics(named.file, named.node)
    if not isinstance(node, ast.Dict):
        raise NotLiteralError(ast.unparse(node))
    expressions = {}
    for key, value in zip(node.keys, node.values, strict=True):
        parameters, body = _parameters_and_result(file, value)
        if not isinstance(key, ast.Constant) or len(parameters) != 1 or body is None:
            raise NotLiteralError(ast.unparse(value))
        text = _Arguments(parameters[0].arg).visit(ast.parse(ast.unparse(body), mode="eval"))
        if any(isinstance(node, ast.Name) and node.id == parameters[0].arg for node in ast.walk(text)):
            raise NotLiteralError(ast.unparse(value))
        expressions[str(key.value)] = ast.unparse(text)
    return expressions


def _parameters_and_result(file: File, node: ast.expr) -> tuple[list[ast.arg], ast.expr | None]:
    """The parameters and the returned expression of a lambda, or of a function with a single `return`."""
    if isinstance(node, ast.Lambda):
        return node.args.args, node.body
    parts = parts_of(node)
    definition = file.resolve(parts) if parts else None
    if not isinstance(definition, Defined) or not isinstance(definition.node, ast.FunctionDef):
        return [], None
    body = [statement for statement in definition.node.body if not isinstance(statement, ast.Expr)]
    last = body[0].value if len(body) == 1 and isinstance(body[0], ast.Return) else None
    return definition.node.args.args, last


class _Arguments(ast.NodeTransformer):
    """Replaces `args["NAME"]` by `NAME`."""

    def __init__(self, argument_name: str) -> None:
        self._own = argument_name

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        of_own = isinstance(node.value, ast.Name) and node.value.id == self._own
        if of_own and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
            return ast.Name(node.slice.value, ast.Load())
        return node
