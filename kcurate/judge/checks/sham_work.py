"""Useless work that pads a slow side (the check `sham`), and text that says which side it is.

`find_sham_work` refuses code that no competent beginner writes: loops whose iterations all do the same, as in
`for (int i = 0; i < 64; i++) { sum = x[row]; }`, loops of barriers only, volatile locals, products with a
literal zero, and comments or names that admit it. It passes a loop whose body reads what an earlier iteration
wrote, calls an unknown function or can exit early. The outcome is `static_reject`, not `padded`, which needs
evidence from runs (`kcurate.judge.made_slow`). `label_leaks` only hints, since published code loses its
comments and gets neutral names. Both are token heuristics. Not covered: repeated launches
(`kcurate.judge.checks.repeated_launches`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kcurate.judge.checks.findings import Finding
from kcurate.judge.checks.lexer import Source, Token, matching_bracket
from kcurate.judge.checks.word_lists import word_set
from kcurate.problem.neutral import LABELS

_CONFESSION = re.compile(
    r"(?:intentional(?:ly)?|deliberate(?:ly)?|artificial(?:ly)?|purposely|needlessly) "
    r"(?:slow|inefficient|bad|wasteful|redundant|naive|delay|unoptimi|sub-?optimal)|"
    r"de-?optimi[sz]|sandbag|pessimi[sz]|(?:make|making|keep|keeping) (?:it|this) slow|"
    r"dummy (?:work|loop|computation|delay)",
    re.IGNORECASE,
)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
# Loops longer or deeper than this are not examined.
MAX_LOOPS = 1000
MAX_BODY_TOKENS = 2000
MAX_STATEMENT_DEPTH = 16
# Tokens examined in all loop bodies together; a nested loop is examined once for each loop around it.
MAX_EXAMINED_TOKENS = 100_000
# The declaration around a `volatile`: `extern __shared__ volatile`, `volatile unsigned long long int *p`.
TOKENS_BEFORE_VOLATILE, TOKENS_FROM_VOLATILE = 3, 6
_ZERO = re.compile(r"0*\.0*(?:[eE][+-]?\d+)?[fF]?|0+[fF]")
_ASSIGN = frozenset({"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="})
_KEYWORDS = word_set(
    """
    if else for while do return break continue int unsigned signed long short char float double half bool
    const auto volatile size_t float2 float4 int2 int4 double2 uint32_t int32_t uint64_t int64_t
    """
)
# Functions whose result depends on their arguments alone, so that a loop that calls them may be redundant.
_PURE_FUNCTIONS = word_set(
    """
    sqrtf sqrt expf exp logf log sinf cosf sin cos tanhf tanh fabsf fabs abs min max fminf fmaxf powf pow
    rsqrtf rsqrt fmaf fma __fmaf_rn __expf __logf __sinf __cosf __fdividef __ldg
    """
)
_WAITS = word_set("__syncthreads __syncwarp __threadfence __threadfence_block __threadfence_system")
# A loop body with one of these may exit early or have effects that this check does not follow; it passes.
_NOT_FOLLOWED = word_set("break return goto continue asm while do switch atomicAdd")


def find_sham_work(source: Source) -> Iterator[Finding]:
    """Redundant and empty loops, loops of barriers, volatile locals, products with zero, admissions."""
    plain = source.plain
    loops = [at for at, token in enumerate(plain) if token.text in ("for", "while")][:MAX_LOOPS]
    tokens_left = MAX_EXAMINED_TOKENS
    for at in loops:
        token = plain[at]
        if tokens_left <= 0:
            break
        if parts := _for_parts(plain, at) if token.text == "for" else _while_parts(plain, at):
            variable, body = parts
            tokens_left -= len(body)
            if not {t.text for t in body} - _WAITS - {"(", ")", ";", "{", "}"}:
                yield Finding("sham", "a loop that does nothing", token.line)
            elif variable and _iterations_repeat(variable, body):
                yield Finding("sham", "a loop that repeats the same work", token.line)
    yield from _volatile_locals(plain)
    yield from _products_with_zero(plain)
    yield from _confessions(source)


def _for_parts(plain: tuple[Token, ...], at: int) -> tuple[str | None, tuple[Token, ...]] | None:
    """A counted `for` loop's variable and body; None if its head does more than count."""
    opening = at + 1
    if opening >= len(plain) or plain[opening].text != "(":
        return None
    closing = matching_bracket(plain, opening, "(", ")", MAX_BODY_TOKENS)
    if closing + 1 >= len(plain):
        return None
    head = plain[opening + 1 : closing]
    cuts = [i for i, token in enumerate(head) if token.text == ";"]
    if len(cuts) != 2 or any(token.text == "(" for token in head):
        return None
    assigned = [i for i, token in enumerate(head[: cuts[0]]) if token.text == "="]
    variable = head[assigned[0] - 1].text if assigned and assigned[0] else None
    after = head[cuts[1] + 1 :]
    if sum(token.text in _ASSIGN or token.text in ("++", "--") for token in after) > 1:
        return None
    body = plain[closing + 1 : _statement_end(plain, closing + 1)]
    return (variable, body) if len(body) <= MAX_BODY_TOKENS else None


def _while_parts(plain: tuple[Token, ...], at: int) -> tuple[str | None, tuple[Token, ...]] | None:
    """As `_for_parts`, for a `while` whose body ends by stepping a variable that its condition compares."""
    closing = matching_bracket(plain, at + 1, "(", ")", MAX_BODY_TOKENS)
    if closing + 1 >= len(plain) or plain[closing + 1].text != "{":
        return None
    head = {token.text for token in plain[at + 2 : closing] if token.kind == "word"}
    body = plain[closing + 2 : matching_bracket(plain, closing + 1, "{", "}", MAX_BODY_TOKENS + 2)]
    if len(body) > MAX_BODY_TOKENS or not body or body[-1].text != ";":
        return None
    start = next((i + 1 for i in range(len(body) - 2, -1, -1) if body[i].text in (";", "{", "}")), 0)
    step = [token.text for token in body[start:-1]]
    counted = set(step) & head
    if len(counted) != 1 or not ({"++", "--"} & set(step) or step[1:2] in (["+="], ["-="])) or len(step) > 3:
        return None
    return counted.pop(), body[:start]


def _iterations_repeat(variable: str, body: tuple[Token, ...]) -> bool:
    """Whether each iteration does the same: none reads `variable` or a value that an earlier one wrote."""
    texts = {token.text for token in body}
    if variable in texts or texts & _NOT_FOLLOWED:
        return False
    for before, token, after in zip((None, *body), body, (*body[1:], None), strict=False):
        called = token.kind == "word" and after is not None and after.text == "("
        if called and token.text not in _PURE_FUNCTIONS | _WAITS | {"if", "for", "sizeof"}:
            return False
        if token.text == "&" and (before is None or before.text in ("(", ",", "=")):
            return False
    written, read = _written_and_read(body)
    return bool(written) and not written & read


def _written_and_read(body: tuple[Token, ...]) -> tuple[set[str], set[str]]:
    """Names that the body writes, and names that it may read before it assigns them in the same iteration."""
    accesses = _NameAccesses()
    accesses.block(body, certain=True)
    return accesses.written, accesses.read


class _NameAccesses:
    """Walks a loop body; `written` and `read` as in `_written_and_read`, `assigned`: assigned for certain."""

    def __init__(self) -> None:
        self.written: set[str] = set()
        self.read: set[str] = set()
        self.assigned: set[str] = set()
        self.depth = 0

    def block(self, tokens: tuple[Token, ...], *, certain: bool) -> None:
        """Read statements in order; `certain`: they run in every iteration."""
        self.depth += 1
        if self.depth > MAX_STATEMENT_DEPTH:
            names = _names(tokens)
            self.written |= names
            self.read |= names
        else:
            self.statements(tokens, certain=certain)
        self.depth -= 1

    def statements(self, tokens: tuple[Token, ...], *, certain: bool) -> None:
        """Read the statements of a block."""
        at = 0
        while at < len(tokens):
            end = _statement_end(tokens, at)
            self.statement(tokens[at:end], certain=certain)
            at = end

    def statement(self, tokens: tuple[Token, ...], *, certain: bool) -> None:
        """Read one statement."""
        first = tokens[0].text
        if first == "{":
            self.block(tokens[1:-1], certain=certain)
        elif first in ("for", "if"):
            close = matching_bracket(tokens, 1, "(", ")")
            head = tokens[2:close]
            cuts = [i for i, token in enumerate(head) if token.text == ";"]
            if first == "for" and len(cuts) == 2:
                self.simple(head[: cuts[0]], certain=certain)
                self.simple(head[cuts[0] + 1 : cuts[1]], certain=False)
                self.block(tokens[close + 1 :], certain=False)
                self.simple(head[cuts[1] + 1 :], certain=False)
            else:
                self.simple(head, certain=False)
                self.block(tokens[close + 1 :], certain=False)
        elif first == "else":
            self.block(tokens[1:], certain=False)
        else:
            self.simple(tokens, certain=certain)

    def simple(self, tokens: tuple[Token, ...], *, certain: bool) -> None:
        """Read an assignment or declaration; any other simple statement reads all its names."""
        assigns = [i for i, token in enumerate(tokens) if token.text in _ASSIGN]
        stepped = {"++", "--"} & {token.text for token in tokens}
        if stepped or len(assigns) > 1:
            names = _names(tokens)
            self.written |= names
            self.read |= names - self.assigned
            return
        if not assigns:
            self.read |= _names(tokens) - self.assigned
            return
        left, right = tokens[: assigns[0]], tokens[assigns[0] + 1 :]
        self.read |= _names(right) - self.assigned
        target = next((t.text for t in left if t.kind == "word" and t.text not in _KEYWORDS), None)
        typed = len(left) > 1 and left[0].kind == left[-1].kind == "word"
        if typed and all(t.kind == "word" or t.text in ("*", "&", "::") for t in left):
            self.assigned.add(left[-1].text)
            return
        self.read |= _names(left[1:]) - self.assigned - ({target} if target else set())
        if target is None:
            return
        self.written.add(target)
        if tokens[assigns[0]].text != "=":
            self.read |= {target} - self.assigned
        elif certain and len(left) == 1:
            self.assigned.add(target)


def _names(tokens: tuple[Token, ...]) -> set[str]:
    return {token.text for token in tokens if token.kind == "word" and token.text not in _KEYWORDS}


def _statement_end(tokens: tuple[Token, ...], at: int) -> int:
    """The index after the statement at `at`: after its `;` or brace, at most `MAX_BODY_TOKENS` further on."""
    last = min(len(tokens), at + MAX_BODY_TOKENS + 1)
    while at < last and tokens[at].text in ("for", "if", "else"):
        is_else = tokens[at].text == "else"
        at = at + 1 if is_else else matching_bracket(tokens, at + 1, "(", ")", last - at) + 1
    if at >= last:
        return min(at, len(tokens))
    if tokens[at].text == "{":
        return min(len(tokens), matching_bracket(tokens, at, "{", "}", last - at) + 1)
    return next((i + 1 for i in range(at, last) if tokens[i].text == ";"), last)


def _volatile_locals(plain: tuple[Token, ...]) -> Iterator[Finding]:
    """`volatile` on a local, except shared memory and pointers, which old warp-synchronous code needs."""
    depth = 0
    for at, token in enumerate(plain):
        depth += (token.text == "{") - (token.text == "}")
        if token.text != "volatile" or not depth:
            continue
        near = {item.text for item in plain[max(0, at - TOKENS_BEFORE_VOLATILE) : at + TOKENS_FROM_VOLATILE]}
        if not {"__shared__", "*", "&", "asm", "__asm__"} & near:
            yield Finding("sham", "a volatile local", token.line)


def _products_with_zero(plain: tuple[Token, ...]) -> Iterator[Finding]:
    """Results multiplied by a literal 0.0, which IEEE rules keep the compiler from removing."""
    for before, token, after in zip(plain, plain[1:], plain[2:], strict=False):
        factors = {"*": (before, after), "*=": (after,)}.get(token.text, ())
        if any(factor.kind == "number" and _ZERO.fullmatch(factor.text) for factor in factors):
            yield Finding("sham", "a product with 0.0", token.line)


def _confessions(source: Source) -> Iterator[Finding]:
    """Comments and names that say that the code is slow on purpose."""
    for comment in _COMMENT.finditer(source.code):
        if admission := _CONFESSION.search(" ".join(comment.group().split())):
            line = source.code.count("\n", 0, comment.start()) + 1
            yield Finding("sham", f"a comment says {admission.group()!r}", line)
    for token in source.plain:
        if token.kind == "word" and _CONFESSION.search(token.text.replace("_", " ")):
            yield Finding("sham", f"the name {token.text!r}", token.line)


def label_leaks(source: Source) -> Iterator[Finding]:
    """Comments and names that tell which side this is; hints, never refusals."""
    for comment in _COMMENT.finditer(source.code):
        if label := LABELS.search(comment.group()):
            line = source.code.count("\n", 0, comment.start()) + 1
            yield Finding("label_leaks", f"a comment says {label.group()!r}", line)
    seen = set()
    for token in source.plain:
        if token.kind == "word" and token.text not in seen and (label := LABELS.search(token.text)):
            seen.add(token.text)
            yield Finding("label_leaks", f"the name {token.text!r}", token.line)
