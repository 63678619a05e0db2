"""What the allow-list for Triton modules passes and refuses; nothing is executed."""

from __future__ import annotations

import pytest

from kcurate.core import resources
from kcurate.errors import ProblemError
from kcurate.triton_source import kernels, refusals, respelled

HEAD = "import triton\nimport triton.language as tl\n\n"
# Everything that honest kernels use.
HONEST = (
    HEAD
    + '''
"""Not a docstring, but text would be one if it came first."""
'''
)
WHOLE = (
    HEAD
    + '''
LIMIT = 3
SCALE = tl.constexpr(2 * LIMIT + 0.5)
KIND = tl.float32


@triton.jit
def add(a, b):
    return a + b


@triton.jit
def kernel(x, out, n, stride, BLOCK: tl.constexpr, EVEN: tl.constexpr = True, OTHER: tl.constexpr = LIMIT):
    """What it does."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[None, :]
    held: tl.constexpr = BLOCK // 2
    if EVEN and not BLOCK % 2:
        value = tl.load(x + at, eviction_policy="evict_first")
    else:
        value = tl.load(x + at, mask=at < n, other=float("-inf"))
    total = tl.zeros([1, BLOCK], dtype=KIND)
    for i in tl.range(0, tl.cdiv(n, BLOCK), num_stages=2):
        total += value.to(tl.float32) * SCALE
    while stride > 0:
        stride = stride // 2
    first, second = tl.max(total, axis=1), tl.reduce(total, 1, add)
    bits: tl.constexpr = tl.float32.primitive_bitwidth
    tl.static_assert(bits == 32)
    tl.store(out + at, -first[:, None] if held > 1 else tl.math.exp2(second)[:, None], mask=at < n)
'''
)


def only(code: str) -> str:
    (found,) = refusals(code)
    return f"{found.what} (line {found.line})"


def test_what_honest_kernels_use_is_allowed() -> None:
    assert list(refusals(WHOLE)) == []
    kernel = kernels(WHOLE)["kernel"]
    assert kernel.passed == ("x", "out", "n", "stride")
    assert kernel.constants == ("BLOCK", "EVEN", "OTHER")
    assert kernel.optional == {"EVEN", "OTHER"}


def body(line: str) -> str:
    return f"{HEAD}@triton.jit\ndef f(x, n):\n    {line}\n"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (HONEST, "Expr at the top level of the module (line 5)"),
        ("import triton as tl\nimport triton.language as tl\n", "'tl' has a meaning already (line 2)"),
        ("import os as triton\n", "imports os; only `import triton` and"),
        (HEAD + "X = tl.core\n", "a value at the top level that is not a plain constant (line 4)"),
        (HEAD + "X = (1).__class__\n", "a value at the top level that is not a plain constant (line 4)"),
        (
            HEAD + "@triton.jit\ndef f(x):\n    tl.store(x, 9 ** 9 ** 9)\n",
            "9 ** 9 ** 9: a power or shift that may be huge (line 6)",
        ),
        (
            HEAD + "@triton.jit\ndef f(x):\n    tl.store(x, 1 << (1 << 40))\n",
            "1 << (1 << 40): a power or shift that may be huge (line 6)",
        ),
        (HEAD + "X = 2 ** 100\n", "a value at the top level that is not a plain constant (line 4)"),
        (HEAD + "range = 1\n", "'range' has a meaning already (line 4)"),
        (HEAD + "def f(x):\n    return x\n", "f has decorators other than @triton.jit alone (line 4)"),
        (HEAD + "@triton.jit()\ndef f(x):\n    return x\n", "f has decorators other than"),
        (HEAD + "@triton.jit\ndef f(*x):\n    return 1\n", "f has *, /, ** or a return annotation (line 5)"),
        (body("x.store(n)"), "the attribute .store is not on the list (line 6)"),
        (body("x.dtype.__class__"), "the attribute .__class__ is not on the list (line 6)"),
        (body("tl.math.__dict__"), "triton.language.math.__dict__ is not on the list (line 6)"),
        (body("tl.math"), "triton.language.math is not on the list (line 6)"),
        (body("triton.jit"), "triton.jit is not on the list (line 6)"),
        (body("y = tl"), "'tl' as a value (line 6)"),
        (body("for tl in range(3): pass"), "assigns to 'tl', which has a meaning already (line 6)"),
        (body("x[0] = 1"), "assigns to an element (line 6)"),
        (body("f(x, n)"), "f calls itself (line 6)"),
        (body("g(x, n)"), "the name 'g' is not defined above f (line 6)"),
        (body("__import__('os')"), "the name '__import__' is not defined above f (line 6)"),
        (body("tl.load(x, **n)"), "the keyword argument ** (line 6)"),
        (body("tl.load(*x)"), "`*` in f (line 6)"),
        (body("(y := n)"), "`:=` in f (line 6)"),
        (body("y = x if n else 1j"), "the constant 1j (line 6)"),
        (body("tl.load(x)(n)"), "calls something other than a function by its name (line 6)"),
        (body("y: int = n"), "an annotation other than tl.constexpr (line 6)"),
        ("\0", "not Python: "),
        ("x = " + "(" * 5000, "not Python: "),
        ("x = " + "-" * 300 + "1", "Triton nested more than 120 levels deep (line 1)"),
        ("#" * (1 << 19), "524288 characters of Triton, more than 262144 (line 1)"),
    ],
)
def test_what_else_there_is_is_refused_in_one_line(code: str, said: str) -> None:
    found = only(code)
    assert found.startswith(said)
    assert "\n" not in found


def test_a_module_is_written_anew_from_its_tree() -> None:
    text = respelled(
        "import triton\n# coding: latin-1 \\\nx = 1_000 + 0x_f # a comment\n\n\ny = ('a' \"b\")\n"
    )
    assert text == "import triton\nx = 1000 + 15\ny = 'ab'\n"
    assert respelled(text) == text
    with pytest.raises(ProblemError, match="not Python"):
        respelled("def f(:\n")


def test_every_built_in_module_is_written_anew() -> None:
    modules = sorted(resources.pairs_dir().glob("*/*/*.py"))
    assert modules
    for path in modules:
        code = path.read_text()
        assert not list(refusals(respelled(code))), path
