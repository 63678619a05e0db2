"""The allow-list for Triton modules: `refusals` reports everything in the syntax tree that is not on it.

A module consists of imports of `triton` and `triton.language`, constants, and functions decorated only with
`@triton.jit`. A name is a parameter, a local, a constant, an earlier function of the module, or one of
`BUILTINS`; a member of `triton` and `triton.language` is one of `MEMBERS`, of anything else one of `METHODS`.
So the text cannot reach Python's own objects. Not covered: the sandbox in which modules are nevertheless
compiled (`kcurate.judge.workers.inside.isolation`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from kcurate.errors import ProblemError
from kcurate.triton_source.module_text import is_constexpr, parsed, parts_of

# The functions and types of `triton.language` that a kernel needs; without assembly, prints, device asserts,
# libraries, tensor descriptors (which need scratch memory) and pointer types.
_LANGUAGE = """
    abs add advance arange argmax argmin associative_scan assume atomic_add atomic_and atomic_cas atomic_max
    atomic_min atomic_or atomic_xchg atomic_xor bfloat16 broadcast broadcast_to cast cat cdiv ceil clamp
    constexpr cos cumprod cumsum debug_barrier div_rn dot dot_scaled erf exp exp2 expand_dims fdiv flip
    float16 float32 float64 float8e4nv float8e5 floor fma full gather histogram int1 int16 int32 int64 int8
    interleave join load log log2 make_block_ptr max max_constancy max_contiguous maximum min minimum mul
    multiple_of num_programs permute philox program_id rand rand4x randint randint4x randn randn4x range
    ravel reduce reshape rsqrt sigmoid sin softmax sort split sqrt sqrt_rn static_assert static_range store
    sub sum swizzle2d topk trans uint16 uint32 uint64 uint8 umulhi view where xor_sum zeros zeros_like
"""
_MATH = "abs ceil cos div_rn erf exp exp2 fdiv floor fma log log2 rsqrt sin sqrt sqrt_rn umulhi"
MEMBERS = {
    "triton": frozenset({"cdiv", "next_power_of_2"}),
    "triton.language": frozenset(_LANGUAGE.split()),
    "triton.language.math": frozenset(_MATH.split()),
}
METHODS = frozenset(
    """
    T abs argmax argmin broadcast_to cast cumprod cumsum dtype element_ty exp expand_dims flip is_bf16
    is_floating is_fp16 is_fp32 is_fp64 is_int is_int64 log max min permute primitive_bitwidth ravel reduce
    reshape rsqrt scalar shape sigmoid softmax sort split sqrt sum to trans type value view xor_sum
    """.split()  # noqa: SIM905
)
BUILTINS = frozenset({"abs", "bool", "float", "int", "len", "max", "min", "range"})
# Names to which Triton or Python would give another meaning.
_RESERVED = BUILTINS | {"print", "list", "isinstance", "getattr", "hasattr", "triton"}

_STATEMENTS = (
    ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.If, ast.For, ast.While, ast.Return, ast.Pass,
    ast.Break, ast.Continue, ast.Assert,
)  # fmt: skip
_EXPRESSIONS = (
    ast.Name, ast.Attribute, ast.Call, ast.Constant, ast.Tuple, ast.List, ast.BinOp, ast.UnaryOp, ast.Compare,
    ast.BoolOp, ast.IfExp, ast.Subscript, ast.Slice,
)  # fmt: skip
_ARITHMETIC = (ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.Constant)
_MOST_EXPONENT = 64
_HARMLESS = (ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.expr_context, ast.keyword)
_WORDS = {
    ast.JoinedStr: "an f-string", ast.Lambda: "a lambda", ast.ClassDef: "a class", ast.Import: "an import",
    ast.ImportFrom: "an import", ast.Global: "`global`", ast.Nonlocal: "`nonlocal`", ast.Delete: "`del`",
    ast.With: "`with`", ast.Try: "`try`", ast.Raise: "`raise`", ast.Await: "`await`", ast.Starred: "`*`",
    ast.FunctionDef: "a nested function", ast.AsyncFunctionDef: "an async function", ast.NamedExpr: "`:=`",
    ast.ListComp: "a comprehension", ast.Yield: "`yield`", ast.Dict: "a dictionary", ast.Set: "a set",
    ast.For: "a loop", ast.While: "a loop", ast.If: "a condition", ast.Match: "`match`",
}  # fmt: skip


@dataclass(frozen=True)
class Refusal:
    """Something that is not allowed, and its line."""

    what: str
    line: int


def refusals(code: str) -> Iterator[Refusal]:
    """Everything in the text that is not allowed."""
    try:
        tree = parsed(code)
    except ProblemError as error:
        yield Refusal(error.what, 1)
        return
    yield from _Module().visit(tree)


def _word(node: ast.AST) -> str:
    return next((word for kind, word in _WORDS.items() if isinstance(node, kind)), type(node).__name__)


def _private(name: str) -> bool:
    return name.startswith("__") or not name.isascii()


class _Module:
    """Walks a module and keeps track of its names."""

    def __init__(self) -> None:
        self.modules: dict[str, str] = {}
        self.constants: set[str] = set()
        self.functions: set[str] = set()

    def visit(self, tree: ast.Module) -> Iterator[Refusal]:
        for index, node in enumerate(tree.body):
            if isinstance(node, ast.Import | ast.ImportFrom):
                yield from self._import(node)
            elif isinstance(node, ast.FunctionDef):
                yield from self._function(node)
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                yield from self._constant(node)
            elif not (index == 0 and isinstance(node, ast.Expr) and _is_text(node.value)):
                yield Refusal(f"{_word(node)} at the top level of the module", node.lineno)

    def _import(self, node: ast.Import | ast.ImportFrom) -> Iterator[Refusal]:
        for alias in node.names:
            if isinstance(node, ast.Import):
                whole = alias.name
                name = alias.asname or whole
            else:
                whole = f"{node.module}.{alias.name}" if not node.level else alias.name
                name = alias.asname or alias.name
            if whole not in ("triton", "triton.language") or "." in name or _private(name):
                form = "only `import triton` and `import triton.language as tl` are allowed"
                yield Refusal(f"imports {whole}; {form}", node.lineno)
            elif self._taken(name) or (name in _RESERVED and (name, whole) != ("triton", "triton")):
                yield Refusal(f"{name!r} has a meaning already", node.lineno)
            else:
                self.modules[name] = whole

    def _taken(self, name: str) -> bool:
        return name in self.modules or name in self.functions or name in self.constants

    def _constant(self, node: ast.Assign | ast.AnnAssign) -> Iterator[Refusal]:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if isinstance(node, ast.AnnAssign) and not self._constexpr(node.annotation):
            yield Refusal("an annotation other than tl.constexpr", node.lineno)
        for target in targets:
            if not isinstance(target, ast.Name):
                yield Refusal(f"assigns to {ast.unparse(target)}, which is not a name", node.lineno)
            elif self._taken(target.id) or target.id in _RESERVED or _private(target.id):
                yield Refusal(f"{target.id!r} has a meaning already", node.lineno)
            else:
                self.constants.add(target.id)
        if node.value is None or not self._is_constant(node.value):
            yield Refusal("a value at the top level that is not a plain constant", node.lineno)

    def _constexpr(self, annotation: ast.expr | None) -> bool:
        return is_constexpr(annotation) and self._member(annotation) == "triton.language.constexpr"

    def _member(self, node: ast.expr | None) -> str | None:
        """The dotted name of a member of a module; None for anything else."""
        parts = parts_of(node) if node is not None else None
        if parts is None or len(parts) == 1 or parts[0] not in self.modules:
            return None
        return ".".join((self.modules[parts[0]], *parts[1:]))

    def _is_constant(self, node: ast.expr) -> bool:
        """Whether a value is arithmetic on numbers (no powers, which may be huge), a type or a constant."""
        if isinstance(node, ast.Call):
            simple = len(node.args) == 1 and not node.keywords and self._constexpr(node.func)
            return simple and self._is_constant(node.args[0])
        if isinstance(node, ast.Attribute):
            member = self._member(node)
            return member is not None and self._allowed_member(member)
        if isinstance(node, ast.Name):
            return node.id in self.constants
        if isinstance(node, ast.Constant):
            return isinstance(node.value, int | float | None)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow | ast.LShift | ast.MatMult):
            return False
        if not isinstance(node, _ARITHMETIC):
            return False
        return all(
            self._is_constant(child) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)
        )

    def _allowed_member(self, member: str) -> bool:
        module, _, name = member.rpartition(".")
        return name in MEMBERS.get(module, ())

    def _function(self, node: ast.FunctionDef) -> Iterator[Refusal]:
        if [self._member(decorator) for decorator in node.decorator_list] != ["triton.jit"]:
            yield Refusal(f"{node.name} has decorators other than @triton.jit alone", node.lineno)
        if self._taken(node.name) or node.name in _RESERVED or _private(node.name):
            yield Refusal(f"{node.name!r} has a meaning already", node.lineno)
        yield from self._parameters(node)
        yield from _Function(self, node).visit()
        self.functions.add(node.name)

    def _parameters(self, node: ast.FunctionDef) -> Iterator[Refusal]:
        args = node.args
        if args.vararg or args.kwarg or args.kwonlyargs or args.posonlyargs or node.returns is not None:
            yield Refusal(f"{node.name} has *, /, ** or a return annotation", node.lineno)
        if getattr(node, "type_params", None):
            yield Refusal(f"{node.name} has type parameters", node.lineno)
        for arg in args.args:
            if arg.annotation is not None and not self._constexpr(arg.annotation):
                yield Refusal(f"the annotation of {arg.arg!r} is not tl.constexpr", arg.lineno)
            if arg.arg in _RESERVED or _private(arg.arg) or arg.arg in self.modules:
                yield Refusal(f"the parameter {arg.arg!r} has a meaning already", arg.lineno)
        for default in args.defaults:
            if not self._is_constant(default):
                yield Refusal("a default that is not a plain constant", default.lineno)


class _Function:
    """Walks the body of one function."""

    def __init__(self, module: _Module, node: ast.FunctionDef) -> None:
        self._module, self._node = module, node
        stored = {name.id for name in ast.walk(node) if isinstance(name, ast.Name) and _is_stored(name)}
        self._locals = {arg.arg for arg in node.args.args} | stored

    def visit(self) -> Iterator[Refusal]:
        for at, statement in enumerate(self._node.body):
            if not (at == 0 and isinstance(statement, ast.Expr) and _is_text(statement.value)):
                yield from self._statement(statement)

    def _statement(self, node: ast.stmt) -> Iterator[Refusal]:
        if not isinstance(node, _STATEMENTS):
            yield Refusal(f"{_word(node)} in {self._node.name}", node.lineno)
            return
        if isinstance(node, ast.AnnAssign) and not self._module._constexpr(node.annotation):
            yield Refusal("an annotation other than tl.constexpr", node.lineno)
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "type_comment"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.stmt):
                    yield from self._statement(child)
                elif isinstance(child, ast.expr):
                    yield from self._expression(child)

    def _expression(self, node: ast.expr) -> Iterator[Refusal]:
        if not isinstance(node, _EXPRESSIONS):
            yield Refusal(f"{_word(node)} in {self._node.name}", node.lineno)
            return
        if isinstance(node, ast.Name):
            yield from self._name(node)
        elif isinstance(node, ast.Attribute):
            yield from self._attribute(node)
        elif isinstance(node, ast.Constant):
            if isinstance(node.value, bytes | complex) or node.value is Ellipsis:
                yield Refusal(f"the constant {node.value!r}", node.lineno)
        else:
            if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
                yield Refusal("assigns to an element", node.lineno)
            if isinstance(node, ast.Call):
                yield from self._call(node)
            if isinstance(node, ast.BinOp) and _may_be_huge(node):
                yield Refusal(f"{ast.unparse(node)}: a power or shift that may be huge", node.lineno)
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    yield from self._expression(child)
                elif isinstance(child, ast.keyword):
                    yield from self._expression(child.value)
                elif not isinstance(child, _HARMLESS):
                    yield Refusal(_word(child), node.lineno)

    def _call(self, node: ast.Call) -> Iterator[Refusal]:
        if not isinstance(node.func, ast.Name | ast.Attribute):
            yield Refusal("calls something other than a function by its name", node.lineno)
        for keyword in node.keywords:
            if keyword.arg is None or keyword.arg.startswith("_"):
                yield Refusal(f"the keyword argument {keyword.arg or '**'}", node.lineno)

    def _name(self, node: ast.Name) -> Iterator[Refusal]:
        name, module = node.id, self._module
        if _is_stored(node):
            known = name in module.modules or name in module.functions or name in module.constants
            if known or name in _RESERVED or _private(name) or name == self._node.name:
                yield Refusal(f"assigns to {name!r}, which has a meaning already", node.lineno)
        elif name in module.modules:
            yield Refusal(f"{name!r} as a value", node.lineno)
        elif name == self._node.name:
            yield Refusal(f"{name} calls itself", node.lineno)
        elif not (name in self._locals or name in BUILTINS or module._taken(name)):
            yield Refusal(f"the name {name!r} is not defined above {self._node.name}", node.lineno)

    def _attribute(self, node: ast.Attribute) -> Iterator[Refusal]:
        if not isinstance(node.ctx, ast.Load):
            yield Refusal(f"assigns to {ast.unparse(node)}", node.lineno)
            return
        member = self._module._member(node)
        if member is not None:
            *_, last = member.split(".")
            deeper = member.rpartition(".")[0]
            if self._module._allowed_member(member):
                return
            # A member of a type: `tl.float32.primitive_bitwidth`.
            if last in METHODS and self._module._allowed_member(deeper):
                return
            yield Refusal(f"{member} is not on the list", node.lineno)
        elif node.attr not in METHODS:
            yield Refusal(f"the attribute .{node.attr} is not on the list", node.lineno)
        else:
            yield from self._expression(node.value)


def _may_be_huge(node: ast.BinOp) -> bool:
    """Whether Python may compute a number of very many digits: by a shift or power, unless by a small number.

    Shifts by anything but arithmetic on literals are computed by Triton, not by Python.
    """
    if not isinstance(node.op, ast.Pow | ast.LShift):
        return False
    names = any(isinstance(part, ast.Name) for part in ast.walk(node.right))
    if isinstance(node.op, ast.LShift) and names:
        return False
    power = isinstance(node.op, ast.Pow)
    nested = power and any(isinstance(part, ast.Pow | ast.LShift) for part in ast.walk(node.left))
    return nested or not _is_small(node.right)


def _is_small(exponent: ast.expr) -> bool:
    """Whether an exponent is one number, and not large."""
    if isinstance(exponent, ast.UnaryOp):
        exponent = exponent.operand
    value = exponent.value if isinstance(exponent, ast.Constant) else None
    return isinstance(value, int | float) and abs(value) <= _MOST_EXPONENT


def _is_stored(node: ast.Name) -> bool:
    return not isinstance(node.ctx, ast.Load)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
