"""C expressions as trees: enough of the language for sizes, grids and launch arguments.

Casts are dropped except for one fact: whether a division is floating-point (`ceil((float)n / 256)`). What is
not understood has no tree. Not covered: what names mean (`host`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

_TOKEN = re.compile(
    r"\s*(?:(0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)([a-zA-Z]*)|([A-Za-z_]\w*)"
    r"|(<<|>>|<=|>=|==|!=|&&|\|\||->|::|[-+*/%()\[\]{},.<>?:!&|~^]))"
)
_TYPE_WORDS = frozenset(
    (
        "unsigned", "signed", "int", "long", "short", "char", "float", "double", "size_t", "bool", "const",
        "uint", "ulong", "uint32_t", "int32_t", "uint64_t", "int64_t", "uint8_t", "int8_t", "uint16_t",
        "int16_t", "ssize_t", "void", "half", "__half",
    )
)  # fmt: skip
_REAL_WORDS = frozenset(("float", "double"))
_BINARY: tuple[tuple[str, ...], ...] = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", ">", "<=", ">="), ("<<", ">>"), ("+", "-"),
    ("*", "/", "%"),
)  # fmt: skip
_CASTS = frozenset(("static_cast", "reinterpret_cast", "const_cast"))
MAX_LENGTH = 2000


@dataclass(frozen=True)
class Node:
    """`op` is `num` (digits in `text`), `name`, `call`, `member`, `index`, `sizeof`, `?`, or an operator.

    `real` marks floating-point literals and casts; for a call, `text` is the function.
    """

    op: str
    args: tuple[Node, ...] = ()
    text: str = ""
    real: bool = False


def number(value: int | float) -> Node:
    """A literal."""
    return Node("num", text=repr(value), real=isinstance(value, float))


def name(text: str) -> Node:
    """A variable."""
    return Node("name", text=text)


class _Refused(Exception):  # noqa: N818 - an event inside this module
    """Not an expression that this parser understands."""


class _Parser:
    def __init__(self, text: str) -> None:
        if len(text) > MAX_LENGTH:
            raise _Refused
        self.tokens: list[tuple[str, str]] = []
        at = 0
        text = text.rstrip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise _Refused
            digits, suffix, word, symbol = match.groups()
            if digits is not None:
                real = ("." in digits or "e" in digits.lower()) and not digits.lower().startswith("0x")
                real = real or suffix.lower() == "f"
                self.tokens.append(("real" if real else "int", digits))
            else:
                self.tokens.append(("word", word) if word else ("op", symbol))
            at = match.end()
        self.at = 0

    def peek(self, ahead: int = 0) -> str:
        at = self.at + ahead
        return self.tokens[at][1] if at < len(self.tokens) else ""

    def kind(self, ahead: int = 0) -> str:
        at = self.at + ahead
        return self.tokens[at][0] if at < len(self.tokens) else ""

    def take(self, wanted: str = "") -> str:
        if self.at >= len(self.tokens) or (wanted and self.peek() != wanted):
            raise _Refused
        self.at += 1
        return self.tokens[self.at - 1][1]

    def whole(self) -> Node:
        node = self.ternary()
        if self.at != len(self.tokens):
            raise _Refused
        return node

    def ternary(self) -> Node:
        condition = self.binary(0)
        if self.peek() != "?":
            return condition
        self.take("?")
        yes = self.ternary()
        self.take(":")
        return Node("?", (condition, yes, self.ternary()))

    def binary(self, level: int) -> Node:
        if level == len(_BINARY):
            return self.unary()
        left = self.binary(level + 1)
        while self.kind() == "op" and self.peek() in _BINARY[level]:
            operator = self.take()
            left = Node(operator, (left, self.binary(level + 1)))
        return left

    def unary(self) -> Node:
        token = self.peek()
        if self.kind() == "op" and token in ("-", "+", "!", "~", "&", "*"):
            self.take()
            inner = self.unary()
            return inner if token == "+" else Node(f"unary{token}", (inner,))
        if token == "(" and (end := self._type_ahead(1)) and self.peek(end) == ")":
            real = any(self.peek(i) in _REAL_WORDS for i in range(1, end))
            pointer = any(self.peek(i) == "*" for i in range(1, end))
            self.at += end + 1
            inner = self.unary()
            return Node("cast", (inner,), real=real) if not pointer else Node("pointer_cast", (inner,))
        return self.postfix(self.primary())

    def _type_ahead(self, ahead: int) -> int:
        """The end of a type that starts at `ahead`; 0 if there is none."""
        start = ahead
        while self.kind(ahead) == "word" and self.peek(ahead) in _TYPE_WORDS:
            ahead += 1
        known = ahead > start
        if not known:
            # `(T*)x` or `(T)x`: a single name in parentheses followed by another operand.
            if self.kind(ahead) != "word":
                return 0
            ahead += 1
        stars = ahead
        while self.peek(ahead) in ("*", "const", "__restrict__", "&"):
            ahead += 1
        if not known and ahead == stars:
            after = self.kind(ahead + 1)
            return ahead if self.peek(ahead) == ")" and after in ("word", "int", "real") else 0
        return ahead if self.peek(ahead) == ")" else 0

    def primary(self) -> Node:
        kind, token = self.kind(), self.take()
        if kind in ("int", "real"):
            value: int | float = float(token) if kind == "real" else _integer(token)
            return number(value)
        if token == "(":
            node = self.ternary()
            self.take(")")
            return node
        if kind != "word":
            raise _Refused
        if token == "sizeof":
            return self._sizeof()
        while self.peek() == "::":
            self.take()
            token = self.take()
        if token in _CASTS:
            return self._angle_cast()
        if token in _TYPE_WORDS and self.peek() == "(":
            self.take("(")
            node = Node("cast", (self.ternary(),), real=token in _REAL_WORDS)
            self.take(")")
            return node
        return name(token)

    def _sizeof(self) -> Node:
        if self.peek() != "(":
            return Node("sizeof", text=self.take())
        self.take("(")
        depth, words = 1, []
        while depth:
            word = self.take()
            depth += {"(": 1, ")": -1}.get(word, 0)
            words.append(word)
        return Node("sizeof", text=" ".join(words[:-1]))

    def _angle_cast(self) -> Node:
        self.take("<")
        depth, words = 1, []
        while depth:
            word = self.take()
            depth += {"<": 1, ">": -1, ">>": -2}.get(word, 0)
            words.append(word)
        self.take("(")
        inner = self.ternary()
        self.take(")")
        if "*" in words:
            return Node("pointer_cast", (inner,))
        return Node("cast", (inner,), real=bool(_REAL_WORDS & set(words)))

    def postfix(self, node: Node) -> Node:
        while True:
            token = self.peek()
            if token in (".", "->"):
                self.take()
                node = Node("member", (node,), self.take())
            elif token == "[":
                self.take()
                node = Node("index", (node, self.ternary()))
                self.take("]")
            elif token == "(" and node.op in ("name", "member"):
                self.take()
                arguments = []
                while self.peek() != ")":
                    arguments.append(self.ternary())
                    if self.peek() != ")":
                        self.take(",")
                self.take(")")
                owner = node.args if node.op == "member" else ()
                node = Node("call", (*owner, *arguments), node.text, real=node.op == "member")
            else:
                return node


def _integer(token: str) -> int:
    if token.lower().startswith("0x"):
        return int(token, 16)
    return (
        int(token, 8)
        if token.startswith("0") and token.isdigit() and set(token) <= set("01234567")
        else int(token)
    )


def parse(text: str) -> Node | None:
    """The tree of an expression; None if it is not understood."""
    try:
        return _Parser(text).whole()
    except (_Refused, ValueError, RecursionError):
        return None


def substitute(node: Node, meaning: Callable[[Node], Node | None]) -> Node:
    """The tree with every part known to `meaning` replaced, outermost first; replacements are final."""
    found = meaning(node)
    if found is not None:
        return found
    if not node.args:
        return node
    return Node(node.op, tuple(substitute(arg, meaning) for arg in node.args), node.text, node.real)


def plain(node: Node) -> Node:
    """The tree without enclosing casts."""
    while node.op in ("cast", "pointer_cast"):
        node = node.args[0]
    return node


def names(node: Node) -> frozenset[str]:
    """Every variable in a tree."""
    own = frozenset((node.text,)) if node.op == "name" else frozenset()
    return own.union(*(names(arg) for arg in node.args))


def is_real(node: Node) -> bool:
    """Whether C evaluates it in floating point, as far as literals and casts show."""
    if node.op == "num":
        return node.real
    if node.op == "cast":
        return node.real
    if node.op in ("+", "-", "*", "/", "unary-"):
        return any(is_real(arg) for arg in node.args)
    return node.op == "call" and node.text in (
        "ceil",
        "ceilf",
        "floor",
        "floorf",
        "sqrt",
        "sqrtf",
        "pow",
        "powf",
    )
