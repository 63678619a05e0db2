"""Reads the launches of CUDA kernels in a Python file, as C expressions.

CuPy's `kernel((blocks,), (threads,), (a, b))` and PyCUDA's `kernel(a, b, block=(threads, 1, 1))`.
A name is replaced by the value last assigned to it before the launch, in the function or at the top of the
module; a name without a known value stays. The shape that a call such as `cupy.zeros((n, m))` gives an array
is its allocation. Nothing is executed. Not covered: Triton, kernels that another module loads.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence

from kcurate.records import Argument, LaunchSite

_MARKS = b"RawKernel", b"RawModule", b"get_function", b"SourceModule", b"load_kernel"
MAX_BYTES = 1 << 22  # of a file; larger ones are not read
MAX_DEPTH = 12  # of names that stand for names, and of nested expressions
MAX_TEXT = 400  # characters of a name
_KERNEL = re.compile(r"[A-Za-z_]\w*(?:<[\w\s,:*]+>)?")
_ITEM_BYTES = re.compile(r"(?:complex(64|128)|\w*?(?:float|int)(8|16|32|64)|\w*(bool))\b")
_SHAPED = frozenset((
    "zeros", "ones", "empty", "full", "arange", "rand", "randn", "random", "random_sample",
    "GPUArray",
))  # fmt: skip
_LIKE = frozenset((
    "zeros_like", "ones_like", "empty_like", "full_like", "asarray", "array", "ascontiguousarray",
    "asfortranarray", "to_gpu", "copy", "astype", "ravel",
))  # fmt: skip
_METHODS = frozenset(("copy", "astype", "ravel"))
_NUMBERS = frozenset((
    "int", "float", "bool", "int32", "int64", "uint32", "uint64", "float32", "float64", "int8",
    "uint8", "int16", "uint16",
))  # fmt: skip
_SIGNS = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "/", ast.Div: "/", ast.Mod: "%",
    ast.LShift: "<<", ast.RShift: ">>",
}  # fmt: skip

Names = Mapping[str, ast.expr]


def launches(path: str, data: bytes) -> tuple[tuple[str, LaunchSite], ...]:
    """Every launch in a Python file, with the kernel's name; empty if it cannot be read."""
    if len(data) > MAX_BYTES or not any(mark in data for mark in _MARKS):
        return ()
    try:
        module = ast.parse(data)
        return tuple(_in_module(path, module))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()


def definitions(data: bytes) -> tuple[tuple[str, str], ...]:
    """The macros in capitals that a Python file defines for CUDA code, with their values.

    As in `{"IN_TYPE": "float", "TILE": 32}`, whose values are substituted in a text, and `"-DTILE=32"`.
    """
    if len(data) > MAX_BYTES or not any(mark in data for mark in _MARKS):
        return ()
    options = re.findall(rb"""["']-D([A-Z][A-Z0-9_]*)=([\w ]+)["']""", data)
    entries = re.findall(rb"""["']([A-Z][A-Z0-9_]*)["']\s*:\s*(?:["']([\w ]+)["']|(\d+))\s*[,}]""", data)
    pairs = [*options, *((name, text or number) for name, text, number in entries)]
    return tuple((name.decode(), value.decode()) for name, value in pairs if value.strip())


def _in_module(path: str, module: ast.Module) -> Iterator[tuple[str, LaunchSite]]:
    kernels = {
        _dotted(target): name
        for node in ast.walk(module)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
        for target, name in zip(_targets(node), _loaded(node.value), strict=False)
    }
    for call, scope in _calls(module, module):
        site = _site(path, call, _Scope(module, scope, call.lineno)) if _may_launch(call) else None
        loaded = _loaded(call.func) if isinstance(call.func, ast.Call) else []
        name = loaded[0] if loaded else kernels.get(_dotted(call.func), _last(call.func))
        if site is not None and name:
            yield name.partition("<")[0], site


def _calls(node: ast.AST, scope: ast.AST) -> Iterator[tuple[ast.Call, ast.AST]]:
    """Every call below a node, with the innermost function around it (`scope`: that around the node)."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call):
            yield child, scope
        yield from _calls(
            child, child if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else scope
        )


def _may_launch(call: ast.Call) -> bool:
    keywords = {keyword.arg for keyword in call.keywords}
    return "block" in keywords or len(keywords & {"grid", "args"}) + len(call.args) >= 3


def _targets(node: ast.Assign) -> Sequence[ast.expr]:
    target = node.targets[0]
    return target.elts if isinstance(target, ast.Tuple | ast.List) else [target]


def _last(node: ast.AST) -> str:
    return _dotted(node).rpartition(".")[2]


def _dotted(node: ast.AST) -> str:
    return ast.unparse(node) if isinstance(node, ast.Name | ast.Attribute) else ""


def _loaded(call: ast.Call) -> list[str]:
    """The kernels that a call such as `RawKernel(code, "add")` or `module.get_function("add")` returns."""
    values = [*call.args, *(word.value for word in call.keywords if word.arg in ("name", "func_name"))]
    candidates = [node.elts if isinstance(node, ast.Tuple) else [node] for node in values]
    names = [
        [node.value for node in group if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        for group in candidates
    ]
    return next((group for group in names if group and all(map(_KERNEL.fullmatch, group))), [])


class _Scope:
    """The values of names in a function or module at a line, as expressions."""

    def __init__(self, module: ast.Module, scope: ast.AST, line: int) -> None:
        self.names: dict[str, ast.expr] = {}
        statements = [node for node in module.body if scope is not module or node.lineno < line]
        if scope is not module:  # a function runs after the whole module
            inside = (node for node in ast.walk(scope) if isinstance(node, ast.stmt) and node.lineno < line)
            statements += sorted(inside, key=lambda node: node.lineno)
        for node in statements:
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    self._bind(target, node.value)
            elif isinstance(node, ast.AugAssign | ast.For):
                self.names.pop(_dotted(node.target), None)

    def _bind(self, target: ast.expr, value: ast.expr) -> None:
        if not isinstance(target, ast.Tuple | ast.List):
            self.names.pop(_dotted(target), None)
            if _dotted(target) not in map(_dotted, ast.walk(value)):
                self.names[_dotted(target)] = value
            return
        values: Sequence[ast.expr | None] = [None] * len(target.elts)
        if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(values):
            values = value.elts
        elif isinstance(value, ast.Attribute) and value.attr == "shape":
            values = [ast.Subscript(value, ast.Constant(axis), ast.Load()) for axis in range(len(values))]
        for element, element_value in zip(target.elts, values, strict=True):
            self._bind(element, element_value if element_value is not None else element)

    def value(self, node: ast.expr) -> ast.expr:
        """The expression that a name stands for; any other expression unchanged."""
        for _ in range(MAX_DEPTH):
            if (following := self.names.get(_dotted(node))) is None:
                break
            node = following
        return node

    def shape(self, node: ast.expr, depth: int = 0) -> tuple[Sequence[ast.expr], str] | None:
        """The extents of an array and its dtype as text; None: they are not known."""
        call = self.value(node)
        if not isinstance(call, ast.Call) or depth > MAX_DEPTH:
            return None
        function, keywords = _last(call.func), {keyword.arg: keyword.value for keyword in call.keywords}
        candidates = (*call.args[function != "astype" :], keywords.get("dtype"))
        types = [ast.unparse(self.value(candidate)) for candidate in candidates if candidate is not None]
        type_ = next((text for text in types if _ITEM_BYTES.search(text)), "")
        if function in _LIKE:
            method = function in _METHODS and isinstance(call.func, ast.Attribute)
            source = call.func.value if method else next(iter(call.args), None)  # type: ignore[attr-defined]
            known = self.shape(source, depth + 1) if source is not None else None
            return known and (known[0], type_ or known[1])
        extents = [*call.args, *(keywords[name] for name in ("shape", "size") if name in keywords)]
        if function not in _SHAPED or not extents:
            return None
        first_extent = self.value(extents[0])
        axes = first_extent.elts if isinstance(first_extent, ast.Tuple | ast.List) else [first_extent]
        return (extents if function in ("rand", "randn") else axes), type_

    def text(self, node: ast.expr, depth: int = 0) -> str:
        """An expression in C; one that C cannot express becomes a name."""
        node = self.value(node)
        if depth > MAX_DEPTH:
            return _named(node)
        match node:
            case ast.Constant(value=bool() | int() | float()):
                return str(node.value).lower() if isinstance(node.value, bool) else repr(node.value)
            case ast.UnaryOp(op=ast.USub(), operand=ast.BinOp(op=ast.FloorDiv()) as quotient) if isinstance(
                quotient.left, ast.UnaryOp
            ):  # -(-n // b)
                return self._ceil(quotient.left.operand, quotient.right, depth)
            case ast.UnaryOp(op=ast.USub()):
                return f"(-{self.text(node.operand, depth + 1)})"
            case ast.BinOp() if type(node.op) in _SIGNS:
                left, right = self.text(node.left, depth + 1), self.text(node.right, depth + 1)
                return f"({left} {_SIGNS[type(node.op)]} {right})"
            case ast.Call():
                return self._call(node, depth)
            case ast.Subscript(
                value=ast.Attribute(value=array, attr="shape"), slice=ast.Constant(value=int() as axis)
            ):
                known = self.shape(array)
                if known is not None and -len(known[0]) <= axis < len(known[0]):
                    return self.text(known[0][axis], depth + 1)
            case ast.Attribute(attr="size") if (known := self.shape(node.value)) is not None:
                return self.product(known[0], depth)
        return _named(node)

    def product(self, extents: Sequence[ast.expr], depth: int = 0) -> str:
        """The number of elements of an array, in C."""
        return " * ".join(self.text(extent, depth + 1) for extent in extents) or "1"

    def _ceil(self, dividend: ast.expr, divisor: ast.expr, depth: int) -> str:
        return f"ceil_div({self.text(dividend, depth + 1)}, {self.text(divisor, depth + 1)})"

    def _call(self, call: ast.Call, depth: int) -> str:
        function = _last(call.func)
        inner = self.value(call.args[0]) if function == "ceil" and len(call.args) == 1 else None
        if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Div):
            return self._ceil(inner.left, inner.right, depth)
        if function in (*_NUMBERS, "ceil", "floor") and len(call.args) == 1:
            return self.text(call.args[0], depth + 1)
        if function in ("min", "max") and len(call.args) == 2:
            return f"{function}({', '.join(self.text(argument, depth + 1) for argument in call.args)})"
        if function == "len" and len(call.args) == 1:
            return self.text(ast.parse(f"{ast.unparse(call.args[0])}.shape[0]", mode="eval").body, depth + 1)
        return _named(call)


def _named(node: ast.expr) -> str:
    """A name for an expression that C cannot express: `n` for `self.n`, `x_shape_0` for `x.shape[0]`."""
    text = re.sub(r"^(?:self|cls)\.", "", ast.unparse(node))
    text = text.rpartition(".")[2] if isinstance(node, ast.Attribute) and "shape" not in text else text
    return re.sub(r"\W+", "_", text)[:MAX_TEXT].strip("_") or "value"


def _site(path: str, call: ast.Call, scope: _Scope) -> LaunchSite | None:
    """The launch in a call; None if it launches nothing."""
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    passed: Sequence[ast.expr]
    if "block" in keywords and "args" not in keywords:  # PyCUDA
        grid, block, passed = keywords.get("grid"), keywords.get("block"), call.args
    else:  # CuPy
        positional = dict(zip(("grid", "block", "args"), call.args, strict=False))
        grid, block, args = ((positional | keywords).get(name) for name in ("grid", "block", "args"))
        arguments = scope.value(args) if args is not None else None
        if grid is None or not isinstance(arguments, ast.Tuple | ast.List):
            return None
        passed = arguments.elts
    grid_text = _extents(grid, scope) if grid is not None else "1"
    block_text = _extents(block, scope) if block is not None else None
    if grid_text is None or block_text is None:
        return None
    shared = keywords.get("shared_mem", keywords.get("shared"))
    return LaunchSite(
        path=path,
        line=call.lineno,
        grid=grid_text,
        block=block_text,
        shared_bytes=scope.text(shared) if shared is not None else None,
        arguments=tuple(_argument(argument, scope) for argument in passed),
    )


def _extents(node: ast.expr, scope: _Scope) -> str | None:
    """The extents of a grid or block; None: the expression is not a tuple of one to three."""
    extents = scope.value(node)
    if not isinstance(extents, ast.Tuple | ast.List) or not 1 <= len(extents.elts) <= 3:
        return None
    texts = [scope.text(extent) for extent in extents.elts]
    return texts[0] if len(texts) == 1 else f"dim3({', '.join(texts)})"


def _argument(node: ast.expr, scope: _Scope) -> Argument:
    bare = node
    while isinstance(bare, ast.Call) and _last(bare.func) in ("In", "Out", "InOut") and bare.args:
        bare = bare.args[0]
    while isinstance(bare, ast.Attribute) and bare.attr in ("data", "ptr", "gpudata"):
        bare = bare.value
    if (known := scope.shape(bare)) is not None:
        match = _ITEM_BYTES.search(known[1])
        bits = int(match[1] or match[2] or 8) if match else 64  # NumPy's default dtype is float64
        return Argument(_named(bare), "buffer", allocation=f"{scope.product(known[0])} * {bits // 8}")
    value = scope.value(bare)
    is_number = isinstance(value, ast.Constant | ast.BinOp | ast.UnaryOp | ast.Subscript | ast.Attribute)
    is_number |= isinstance(value, ast.Call) and _last(value.func) in (*_NUMBERS, "len", "min", "max")
    text = scope.text(bare) if is_number else _named(bare)
    return Argument(text, "name" if text.isidentifier() else "expression")
