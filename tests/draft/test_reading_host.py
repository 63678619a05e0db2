"""Host code: what a size, a grid or an allocation is worth in the usual idioms."""

from __future__ import annotations

import time

import pytest

from kcurate.cuda_source.semantics.c_expressions import parse
from kcurate.cuda_source.semantics.code_index import Code
from kcurate.draft.algebra import from_node
from kcurate.draft.host.allocations import allocation
from kcurate.draft.host.name_values import HostValues
from kcurate.draft.inferred.launch_configuration import Site


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
        ("(n) <= (m) ? (n) : (m)", "min(n, m)"),
        ("n > m ? n : m", "max(n, m)"),
        ("n < 64 ? 64 : n", "max(n, 64)"),
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


@pytest.mark.parametrize(
    "text",
    [
        "f(x)(", "a[", "x = 3", "", "1.5 * n", "rand()", "(" * 3000, "n / 0", "n % 0", "ceil(n / 0.0)",
        "ceil(rand() / 4.0)", "ceil(4.0 / rand())", "ceil_div(n, 0)", "1 << 62", "n >> m", "max(n)", "1e300",
    ],
)  # fmt: skip
def test_expressions_that_are_not_sizes_are_none(text: str) -> None:
    node = parse(text)
    assert node is None or from_node(node) is None


def grid(body: str, outside: str = "") -> tuple[object, ...] | None:
    host = Code(f"{outside}\nvoid run(float *p, int n) {{ {body} k<<<grid, block>>>(p, n); }}".encode())
    (launch,) = host.launches
    values = HostValues(host)
    nodes = values.extents(launch.grid, values.scope(launch.at))
    return (
        None if nodes is None else tuple(poly.expr() if (poly := from_node(node)) else None for node in nodes)
    )


@pytest.mark.parametrize(
    ("body", "outside", "meant"),
    [
        ("dim3 block(16, 8), grid(n / block.x, n / block.y);", "", ("(n/16)", "(n/8)")),
        ("dim3 grid; grid.x = n / 4; grid.y = 2;", "", ("(n/4)", 2)),
        ("int other, grid; grid = other = n / 32;", "", ("(n/32)",)),
        ("int grid = n / 64 + ((n % 64 == 0) ? 0 : 1);", "", ("(n/64) + min(1, (n % 64))",)),
        ("int grid = n / 64; if (n % 64 != 0) grid++;", "", ("(n/64) + min(1, (n % 64))",)),
        ("int grid = DIVUP(n, 32);", "#define DIVUP(a, b) (((a) + (b) - 1) / (b))", ("ceil_div(n, 32)",)),
        ("int grid = up(n, 32);", "int up(int a, int b) { return (a + b - 1) / b; }", ("ceil_div(n, 32)",)),
        (
            "int grid = up(n, 32);",
            "int up(int a, int b) { return (a % b != 0) ? (a / b + 1) : (a / b); }",
            ("ceil_div(n, 32)",),
        ),
        (
            "int grid = up(n);",
            "int up(int a, int b = 64) { int all = a + b - 1; int most = 99; return min(all / b, most); }",
            ("min(ceil_div(n, 64), 99)",),
        ),
        ("int grid = up(n);", "int up(int a) { int b = a; b = 2 * b; return b; }", ("grid",)),
        ("int grid = parts[0].rows * steps[k];", "", ("parts_0_rows*steps_k",)),
        ("int grid = max(n);", "#define max(a) max(a)", ("grid",)),
        ("int grid = grid * 2;", "", ("grid",)),
        ("int grid = n; grid = n / 2;", "", ("(n/2)",)),
        ("int grid = n; grid = atoi(text);", "", ("grid",)),
        ("int grid = n; grid = grid / 2;", "", ("grid",)),
        ("int grid = n; grid = p ? atoi(text) : n / 2;", "", ("(n/2)",)),
        ("int grid = n; grid /= 2;", "", ("grid",)),
        ("int other = grid; int grid = other;", "", ("grid",)),
        ("int grid = other; int other = grid;", "", ("other",)),
        ("int m = 4; { int m = n; use(m); } int grid = m;", "", ("m",)),
        ("int grid; if (p) { int m = 8; grid = m * n; } else { int m = 16; use(m); }", "", ("m*n",)),
        ("for (int m = 0; m < 3; m++) use(m); int m = n / 2; int grid = m;", "", ("(n/2)",)),
        ("int grid = p ? n / 4 : n >> 2;", "", ("(n/4)",)),
        ("int grid = n > 3 ? n : n / 2;", "", ("grid",)),
        ("int grid = 0 ? n : n / 2;", "", ("(n/2)",)),
        ("int grid = p ? n : rand();", "", ("n",)),
        ("Sizes s; s.n = 4096; int grid = s.n / 4;", "", ("(s_n/4)",)),
        ("Sizes *s; s->n = n * 8; int grid = s->n / 4;", "", ("2*n",)),
        ("Sizes s; s.n = s.n * 2; int grid = s.n;", "", ("s_n",)),
        ("Sizes s; s.n = s.m; s.m = s.n; int grid = s.n;", "", ("s_n",)),
        ("dim3 grid(n); grid = dim3(grid.x * 2, 3);", "", ("2*n", 3)),
        ("dim3 grid(BLOCKS.y);", "#define BLOCKS dim3(2, 4)", (4,)),
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
        (
            "void give(float **q, int m) { cudaMalloc((void **)q, m * 4); }"
            "void f(int n) { float *q, *p; give(&q, 3); give(&p, n); k<<<1, 1>>>(p); }",
            "4*n",
        ),
        (
            "float *make(int m); float *make(int m) { float *t; cudaMalloc(&t, 4 * m); return t; }"
            "void f(int n) { float *p = make(n); k<<<1, 1>>>(p); }",
            "4*n",
        ),
        ("void g(float *q) { k<<<1, 1>>>(q); } void f(int n) { float *p; cudaMalloc(&p, n); g(p); }", "n"),
        ("void f(int n) { thrust::device_vector<float> p(n); k<<<1, 1>>>(p); }", "4*n"),
        ("void f(int n) { std::vector<float> h(n); Device<float> p = h; k<<<1, 1>>>(p.get()); }", "4*n"),
        (
            "void f(int n) { Host<float> h(n); Device<float> p(h.begin(), h.end()); k<<<1, 1>>>(&p[0]); }",
            "4*n",
        ),
        (
            "void f() { Host<float> h = read(); Device<float> p(h); int n = h.size(); k<<<1, 1>>>(&p[0]); }",
            "4*h_count",
        ),
        ("void f(int n) { Buffer<double> p; p.resize(3 * n); k<<<1, 1>>>(p.data()); }", "24*n"),
        (
            "struct S { Buffer<int> p; void a(int n) { p.resize(n); } void f() { k<<<1, 1>>>(p.data()); } };",
            "4*n",
        ),
        ("struct S { Buffer<int> p; S(int n) : p(n) {} void f() { k<<<1, 1>>>(this->p.data()); } };", "4*n"),
        (
            "struct S { float *p; int m; S(int n) : p(nullptr), m(n) { cudaMalloc(&p, m); }"
            "void f() { k<<<1, 1>>>(p); } };",
            "n",
        ),
        ("void f(float *q) { std::unique_ptr<float> p(q); k<<<1, 1>>>(p.get()); }", None),
        ("void f(int n) { auto p = torch::zeros({n, 3}, like); k<<<1, 1>>>(p.data_ptr<float>()); }", "12*n"),
        (
            "void f(Tensor x) { int n = x.size(1); auto p = x.new_empty({n});"
            "k<<<1, 1>>>(p.data_ptr<float>()); }",
            "4*x_size_1",
        ),
        (
            "void f(Tensor x, int n) { auto p = at::empty_like(x).contiguous(); g(x.numel());"
            "k<<<1, 1>>>(p.data_ptr<float>()); }",
            "4*x_count",
        ),
        (
            "void f(Tensor p) { int n = p.size(0), m = p.size(2); k<<<1, 1>>>(p.data_ptr<float>()); }",
            "4*p_size_0*p_size_1*p_size_2",
        ),
        (
            "void g(Tensor p) { k<<<1, 1>>>(p.data_ptr<float>()); }"
            "void f(int n) { auto q = at::ones({n}); g(q); }",
            "4*n",
        ),
        ("void f(Tensor p) { k<<<1, 1>>>(p.data_ptr<float>()); }", None),
        ("void f(float *p) { k<<<1, 1>>>(p); }", None),
        (
            "#define N 22\nint t[N][2]; void f() { int *p; cudaMalloc(&p, sizeof(t)); k<<<1, 1>>>(p); }",
            176,
        ),
        ("void f(int n) { int t[n], *p; cudaMalloc(&p, sizeof(t)); k<<<1, 1>>>(p); }", None),
    ],
)
def test_allocations(text: str, meant: int | str | None) -> None:
    host = Code(text.encode())
    (launch,) = host.launches
    values = HostValues(host)
    found = allocation(values, launch.arguments[0].expression, values.scope(launch.at), 4)
    poly = from_node(found[0]) if found else None
    assert (poly.expr() if poly else None) == meant


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("p.size(0)", "n"),
        ("p.size(-1)", 3),
        ("p.numel()", "3*n"),
        ("q.size(1)", "q_size_1"),
        ("q.size(-1)", "q_size_last"),
        ("q.numel() / q.size(-1)", "q_size_0*q_size_1"),
        ("q.dim()", None),
    ],
)
def test_what_a_tensor_is_asked_for(asked: str, meant: int | str | None) -> None:
    host = Code(
        f"void f(Tensor q, int n) {{ auto p = torch::rand({{n, 3}}); int m = q.size(1), l = q.size(-1);"
        f" g(q.size(0)); k<<<{asked}, 1>>>(); }}".encode()
    )
    (launch,) = host.launches
    values = HostValues(host)
    node = values.resolve_text(launch.grid, values.scope(launch.at))
    poly = from_node(node) if node else None
    assert (poly.expr() if poly else None) == meant


def test_command_line_value_has_the_default_next_to_it() -> None:
    host = Code(b"int main(int c, char **v) { int n = c > 1 ? atoi(v[1]) : 4096; k<<<n, 1>>>(n); }")
    values = HostValues(host)
    node = values.resolve_text("n", values.scope(host.launches[0].at))
    assert node is not None
    assert values.defaults == {"n": 4096}


@pytest.mark.parametrize(
    ("body", "defaults"),
    [
        ("int n = 4096;", {"n": 4096}),
        ("int n = 1;", {"n": 1}),
        ("int n = 4096; read(&n);", {"n": 4096}),
        ("int n = 0; read(&n);", {}),
        ("int n = 0; n = 512;", {"n": 512}),
        ("int n = 2; n *= 8;", {"n": 2}),
        ("int n = 4096.0;", {}),
    ],
)
def test_a_size_has_the_value_that_the_host_gives_it_unless_a_call_sets_it(
    body: str, defaults: dict[str, int]
) -> None:
    host = Code(f"void f() {{ {body} k<<<n, 1>>>(n); }}".encode())
    values = HostValues(host)
    values.resolve_text("n", values.scope(host.launches[0].at))
    assert values.defaults == defaults


def test_a_parameter_has_the_number_that_its_caller_passes() -> None:
    host = Code(b"void f(float x, int n) { k<<<n / 64, 1>>>(n); } void g(float x) { f(x, 4096); }")
    values = HostValues(host)
    nodes = values.extents(host.launches[0].grid, values.scope(host.launches[0].at))
    assert nodes is not None and [poly.expr() for node in nodes if (poly := from_node(node))] == ["(n/64)"]
    assert values.defaults == {"n": 4096}


DOUBLED = "".join(f"int n{i + 1} = n{i} + n{i};" for i in range(200))
CHOSEN = "int n1 = " + "".join(f"n > {i} ? n + {i} : (" for i in range(100)) + "n" + ")" * 100 + ";"
MACROS = "".join(f"#define M{i + 1}(x) M{i}(x) * M{i}(x)\n" for i in range(200))
CALLERS = "".join(f"void f{i}(int n) {{ f{i + 1}(n); }}" for i in range(200)) + "void f200(int n) { f0(n); }"


@pytest.mark.parametrize(
    ("outside", "body"),
    [
        ("", f"{DOUBLED} k<<<n200, 1>>>(n);"),
        (f"int g(int n0) {{ {DOUBLED} return n200; }}", "k<<<g(n), 1>>>(n);"),
        ("", "Buf<int> a(b), b(a); Tensor c = c.clone(); k<<<a.size(c.size(b.size())), 1>>>(n);"),
        ("", f"{CHOSEN} k<<<n1, 1>>>(n);"),
        (MACROS, "k<<<M200(n), 1>>>(n);"),
        (CALLERS, "f0(n); } void f200(int n) { k<<<n, 1>>>(n);"),
        ("", "dim3 a(b.x), b(a.x); k<<<a, 1>>>(n);"),
        ("void g(dim3 a) { h(a); }", "} void h(dim3 a) { g(a); k<<<a, 1>>>(1);"),
    ],
    ids=[
        "doubled",
        "doubled in a function",
        "containers of each other",
        "chosen",
        "macros",
        "callers",
        "each other",
        "dim3 of callers",
    ],
)
def test_host_code_that_leads_nowhere_is_given_up_soon(outside: str, body: str) -> None:
    host = Code(f"{outside}\nvoid f(int n) {{ {body} }}".encode())
    values = HostValues(host)
    (launch,) = host.launches
    started = time.process_time()
    values.extents(launch.grid, values.scope(launch.at))
    assert time.process_time() - started < 5


def test_a_declaration_is_no_call_even_with_a_comment_in_it() -> None:
    comment = f"/* {'what it is for ' * 10}*/"
    host = Code(f"void {comment} go(int n);\nint f() {{ return {comment} go(3); }}\n".encode())
    assert [call.args for call in host.calls["go"]] == [("3",)]


@pytest.mark.parametrize(
    ("params", "call", "known"),
    [
        ("int &count, float &by", "read(n, a)", False),
        ("int *count, float *by", "read(&n, &a)", False),
        ("const int &count, const float &by", "read(n, a)", True),
        ("int count, float by", "read(n, a)", True),
    ],
)
def test_what_a_call_may_set_has_no_value_yet(params: str, call: str, known: bool) -> None:
    host = Code(
        f"void read({params}) {{ }}\n"
        f"void run(float *p) {{ int n = 0; float a = 0.0f; {call}; k<<<1, 64>>>(p, n, a); }}".encode()
    )
    (launch,) = host.launches
    site = Site(launch, HostValues(host), HostValues(host).scope(launch.at))
    assert (site.real("a") == 0.0) == known
    assert site.poly("n") is not None
    assert site.default("n") == (0 if known else None), "an offset of 0 stays"
