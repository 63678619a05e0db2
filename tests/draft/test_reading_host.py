"""Host code: what a size, a grid or an allocation is worth in the usual idioms."""

from __future__ import annotations

import pytest

from kcurate.draft.algebra import from_node
from kcurate.draft.cexpr import parse
from kcurate.draft.host import Host
from kcurate.draft.meaning import Meaning
from kcurate.draft.memory import allocation


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("(n + 255) / 256", "ceil_div(n, 256)"),
        ("(n - 1) / b + 1", "((n - 1)/b) + 1"),
        ("(size_t)ceil(((float)n) / ((float)32))", "ceil_div(n, 32)"),
        ("ceil(n / 32)", "(n/32)"),
        ("n * m * 4 + m * n", "5*m*n"),
        ("std::min(n, 65535)", "min(n, 65535)"),
        ("static_cast<unsigned>(n) << 2", "4*n"),
        ("(n * 8) / 4", "2*n"),
        ("(a + b) / 8 * c", "((a + b)/8)*c"),
        ("1 << 20", 1 << 20),
        ("0x10", 16),
    ],
)
def test_integer_expressions(text: str, meant: int | str) -> None:
    node = parse(text)
    poly = from_node(node) if node else None
    assert poly is not None
    assert poly.expr() == meant


@pytest.mark.parametrize("text", ["f(x)(", "a[", "x = 3", "", "1.5 * n", "rand()", "(" * 3000])
def test_expressions_that_are_not_sizes_are_none(text: str) -> None:
    node = parse(text)
    assert node is None or from_node(node) is None


def grid(body: str, outside: str = "") -> tuple[object, ...] | None:
    host = Host(f"{outside}\nvoid run(float *p, int n) {{ {body} k<<<grid, block>>>(p, n); }}".encode())
    (launch,) = host.launches
    meaning = Meaning(host)
    nodes = meaning.extents(launch.grid, meaning.scope(launch.at))
    return (
        None if nodes is None else tuple(poly.expr() if (poly := from_node(node)) else None for node in nodes)
    )


@pytest.mark.parametrize(
    ("body", "outside", "meant"),
    [
        ("dim3 block(16, 8), grid(n / block.x, n / block.y);", "", ("(n/16)", "(n/8)")),
        ("dim3 grid; grid.x = n / 4; grid.y = 2;", "", ("(n/4)", 2)),
        ("int grid = n / 64 + ((n % 64 == 0) ? 0 : 1);", "", ("(n/64) + min(1, (n % 64))",)),
        ("int grid = n / 64; if (n % 64 != 0) grid++;", "", ("(n/64) + min(1, (n % 64))",)),
        ("int grid = DIVUP(n, 32);", "#define DIVUP(a, b) (((a) + (b) - 1) / (b))", ("ceil_div(n, 32)",)),
        ("int grid = up(n, 32);", "int up(int a, int b) { return (a + b - 1) / b; }", ("ceil_div(n, 32)",)),
        ("int grid = max(n);", "#define max(a) max(a)", ("grid",)),
        ("int grid = grid * 2;", "", ("grid",)),
    ],
)
def test_grids(body: str, outside: str, meant: tuple[object, ...]) -> None:
    assert grid(body, outside) == meant


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("void f(int n) { float *p; cudaMalloc((void **)&p, sizeof(float) * n); k<<<1, 1>>>(p); }", "4*n"),
        ("void f(int n) { double *p; cudaMalloc(&p, n * sizeof(*p)); k<<<1, 1>>>(p); }", "8*n"),
        ("typedef short T; void f(int n) { T *p; cudaMalloc(&p, n * sizeof(T)); k<<<1, 1>>>(p); }", "2*n"),
        (
            "template <typename T> T *make(int m) { T *t; cudaMalloc(&t, sizeof(T) * m); return t; }"
            "void f(int n) { int *p = make<int>(3 * n); k<<<1, 1>>>(p); }",
            "12*n",
        ),
        (
            "void give(float **q, int m) { cudaMalloc((void **)q, m * 4); }"
            "void f(int n) { float *p; give(&p, n * n); k<<<1, 1>>>(p); }",
            "4*n*n",
        ),
        ("void g(float *q) { k<<<1, 1>>>(q); } void f(int n) { float *p; cudaMalloc(&p, n); g(p); }", "n"),
        ("void f(int n) { thrust::device_vector<float> p(n); k<<<1, 1>>>(p); }", "4*n"),
        ("void f(float *p) { k<<<1, 1>>>(p); }", None),
    ],
)
def test_allocations(text: str, meant: str | None) -> None:
    host = Host(text.encode())
    (launch,) = host.launches
    meaning = Meaning(host)
    found = allocation(meaning, launch.arguments[0].expression, meaning.scope(launch.at))
    poly = from_node(found[0]) if found else None
    assert (poly.expr() if poly else None) == meant


def test_command_line_value_has_the_default_next_to_it() -> None:
    host = Host(b"int main(int c, char **v) { int n = c > 1 ? atoi(v[1]) : 4096; k<<<n, 1>>>(n); }")
    meaning = Meaning(host)
    node = meaning.resolve_text("n", meaning.scope(host.launches[0].at))
    assert node is not None
    assert meaning.defaults == {"n": 4096}
