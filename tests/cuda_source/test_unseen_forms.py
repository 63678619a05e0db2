"""Forms of source that trees have and that hid kernels, or what kernels need: literals, macros, blocks."""

from __future__ import annotations

import time

import pytest

from kcurate.cuda_source import blank_comments, blank_literals
from kcurate.cuda_source.launches.template_heads import template_params
from kcurate.cuda_source.preprocess.splicing import local_includes
from kcurate.cuda_source.semantics.code_index import Code
from tests.cuda_source.test_unit import compiles, only, unit

# A device function that every kernel below needs, and a kernel behind something that could hide it.
HELPER = "__device__ int bumped(int v) { return v + 1; }\n"
BODY = "(int *v) { v[threadIdx.x] = bumped(v[threadIdx.x]); }\n"


@pytest.mark.parametrize(
    ("text", "blanked"),
    [
        (b"f(1'000, g(a), 2'000);", b"f(1'000, g(a), 2'000);"),
        (b"x = 0xFF'00u + 'a' + 1'0.5e1'0 + \"s\";", b"x = 0xFF'00u + ' ' + 1'0.5e1'0 + \" \";"),
        (b"u8'a' + L'b' + v1'c';", b"u8' ' + L' ' + v1' ';"),
        (b'a = R"(x)"; b = \'"\';', b"a = \"\"    ; b = ' ';"),
        (b'R"end(")x" // } )end" + c', b'""                    + c'),
        (b'u8R"(")" LR"(")" MACROR"("', b'u8""     L""     MACROR" "'),
        (b'R"(\n\')" + 1', b'"" \n    + 1'),
    ],
)
def test_quotes_in_numbers_and_raw_strings_begin_no_literal(text: bytes, blanked: bytes) -> None:
    assert blank_literals(text) == blanked
    assert blank_literals(blanked) == blanked
    assert len(blanked) == len(text)


def test_no_line_of_a_raw_string_is_a_directive() -> None:
    text = b'#include "a.h"\nconst char *s = R"(\n#include "b.h"\n#if 0\n)";\n#include "c.h"\n'
    assert local_includes(text) == ("a.h", "c.h")
    assert b"b.h" in blank_comments(text)
    report = unit({"main.cu": text.decode() + HELPER + "__global__ void k" + BODY, "a.h": "", "c.h": ""})
    assert compiles(only(report)) and report.conditions == 0


@pytest.mark.parametrize(
    "host",
    [
        "const char *s = R\"x(\n__global__ void other(int *v) { v[0] = ')'; }\n)x\";\n",
        "int n = 1'000, m = f(n, 2'000);\n",
        "const char *s = R\"(it's)\"; char c = '{';\n",
    ],
)
def test_a_kernel_behind_quotes_is_found_alone(host: str) -> None:
    report = unit(
        {"main.cu": host + HELPER + "__global__ void k" + BODY + "void run(int *v) { k<<<1'0, 32>>>(v); }"}
    )
    assert compiles(only(report))
    assert len(only(report).launch_sites) == 1
    assert not report.unread


@pytest.mark.parametrize("first", ['#include "part.h"\n', "#define TWO 2\n", "#pragma once\n"])
def test_a_byte_order_mark_hides_no_directive(first: str) -> None:
    text = b"\xef\xbb\xbf" + first.encode() + b"__global__ void k(int *v) { v[0] = TWO; }\n"
    if "TWO" not in first:
        text = text.replace(b"TWO", b"two()") if "part" in first else text.replace(b"TWO", b"2")
    kernel = only(
        unit({"main.cu": text, "part.h": b"\xef\xbb\xbf#define NINE 9\n__device__ int two() { return 2; }\n"})
    )
    assert compiles(kernel)
    assert text[kernel.span.start_byte : kernel.span.end_byte].startswith(b"__global__")


@pytest.mark.parametrize(
    "macros",
    [
        "constexpr int most(int n) { return n < 99 ? n : 99; }\n"
        "#define MARK(n) __launch_bounds__(most(n), (1 + 1))\n",
        "#define MARK(n) __attribute__((optimize(#n), used))\n",
        "#define INNER(n) __launch_bounds__((n) * (2))\n#define MARK(n) INNER(n)\n",
        "#define MARK(n) [[gnu::used]] __attribute__((used))\n",
    ],
)
@pytest.mark.parametrize("head", ["MARK(8) __global__ void k", "__global__ void MARK((4 + 4)) k"])
def test_a_macro_that_annotates_hides_no_kernel(macros: str, head: str) -> None:
    report = unit({"main.cu": macros + HELPER + head + BODY})
    assert compiles(only(report)) and not report.unread


@pytest.mark.parametrize(
    ("before", "after", "qualified"),
    [
        ('#define EXPORT __attribute__((visibility("default")))\nnamespace EXPORT lib {\n', "}\n", "lib::k"),
        ('#include "absent.h"\nnamespace ABSENT_API lib {\n', "}\n", "lib::k"),
        ('namespace lib __attribute__((visibility("hidden"))) {\n', "}\n", "lib::k"),
        ('#define HIDDEN __attribute__((visibility("hidden")))\nnamespace lib HIDDEN {\n', "}\n", "lib::k"),
        ("#define OPEN namespace lib {\n#define CLOSE }\nOPEN\n", "CLOSE\n", "lib::k"),
        (
            "#define OPEN(a, b) namespace a { namespace b {\n#define CLOSE() }}\nOPEN(x, y)\n",
            "CLOSE()\n",
            "x::y::k",
        ),
        ('#define OPEN extern "C" {\n#define CLOSE }\nOPEN\n', "CLOSE\n", "k"),
        ("#define VERSION inline namespace v1\nnamespace lib { VERSION\n{\n", "} }\n", "lib::k"),
        (
            "#define OPEN namespace lib {\n#define CLOSE }\nnamespace a { OPEN namespace b {\n",
            "} CLOSE }\n",
            "a::lib::b::k",
        ),
        ('#define PLAIN extern "C"\nPLAIN void other();\nPLAIN {\n', "}\n", "k"),
        ("#define LIB namespace lib\nLIB { LIB { int x; }\n", "}\n", "lib::k"),
        ("namespace a { namespace inside {}\n}\nnamespace lib {\n", "}\n", "lib::k"),
    ],
)
def test_a_macro_in_or_for_the_head_of_a_namespace(before: str, after: str, qualified: str) -> None:
    report = unit({"main.cu": before + HELPER + "__global__ void k" + BODY + after})
    assert only(report).qualified == qualified
    assert compiles(only(report))


def test_what_follows_a_block_that_a_macro_closes_is_outside_of_it() -> None:
    text = (
        "#define OPEN namespace lib {\n#define CLOSE }\nOPEN\n" + HELPER + "CLOSE\n__global__ void k" + BODY
    )
    (kernel,) = unit(
        {"main.cu": text.replace("bumped(v[threadIdx.x])", "lib::bumped(v[threadIdx.x])")}
    ).kernels
    assert kernel.qualified == "k"
    assert compiles(kernel)


@pytest.mark.parametrize("name", ["cuda/helper.h", "cub/mine.h", "cooperative_groups/own.cuh"])
def test_a_header_of_another_project_is_no_librarys_by_its_folder(name: str) -> None:
    report = unit(
        {"main.cu": f'#include "{name}"\n#include <{name}>\n' + HELPER + "__global__ void k" + BODY}
    )
    assert compiles(only(report))
    assert report.not_found == (name,)


@pytest.mark.parametrize(("callers", "levels"), [(2, 20), (5, 16), (9, 30)])
def test_template_callers_take_no_time_for_each_path(callers: int, levels: int) -> None:
    kernel = "template <class T> __global__ void k(T *v) { v[0] = T(1); }\n"
    host = ["template <class T> void f0(T *v) { k<T><<<1, 1>>>(v); }\n"]
    for level in range(1, levels):
        calls = "".join(f"f{max(0, level - back - 1)}<T>(v); " for back in range(callers))
        host.append(f"template <class T> void f{level}(T *v) {{ {calls}}}\n")
    last = f"void run(double *v) {{ f{min(levels - 1, 4)}<double>(v); }}\n"
    start = time.monotonic()
    report = unit({"main.cu": kernel + "".join(host) + last})
    assert time.monotonic() - start < 10  # seconds; each path followed by itself: minutes
    assert only(report).instantiations == ("k<double>",)


OPERATION = (
    "struct Grow {{ float by; __device__ float operator()(float x) const {{ return by * x; }} }};\n{more}"
)
APPLY = (
    "template <class Op> __global__ void apply(float *v, Op op) { v[threadIdx.x] = op(v[threadIdx.x]); }\n"
)


@pytest.mark.parametrize(
    ("space", "host", "instance"),
    [
        ("", "apply<<<1, 32>>>(v, Grow{2.f});", "apply<Grow>"),
        ("", "apply<<<1, 32>>>(v, Grow(Grow{2.f}));", "apply<Grow>"),
        ("", "auto grow = Grow{2.f}; apply<<<1, 32>>>(v, grow);", "apply<Grow>"),
        ("", "const auto &grow = Grow{2.f}; apply<<<1, 32>>>(v, grow);", "apply<Grow>"),
        ("lib", "lib::apply<<<1, 32>>>(v, lib::Grow{2.f});", "lib::apply<lib::Grow>"),
        ("lib", "lib::Grow grow{2.f}; lib::apply<<<1, 32>>>(v, grow);", "lib::apply<lib::Grow>"),
        ("lib", "using namespace lib; apply<Grow><<<1, 32>>>(v, Grow{2.f});", "lib::apply<lib::Grow>"),
        ("a::b", "a::b::apply<a::b::Grow><<<1, 32>>>(v, {2.f});", "a::b::apply<a::b::Grow>"),
        ("a::b", "using a::b::apply; apply<<<1, 32>>>(v, a::b::Grow{2.f});", "a::b::apply<a::b::Grow>"),
    ],
)
def test_a_functor_that_a_launch_passes_is_the_template_argument(
    space: str, host: str, instance: str
) -> None:
    device = OPERATION.format(more=APPLY)
    inside = f"namespace {space} {{\n{device}}}\n" if space else device
    kernel = only(unit({"main.cu": inside + f"void run(float *v) {{ {host} }}\n"}))
    assert kernel.instantiations == (instance,)
    assert compiles(kernel)


def test_of_types_with_one_name_the_kernels_own_namespace_has_it() -> None:
    spaces = "".join(f"namespace {name} {{\n{OPERATION.format(more=APPLY)}}}\n" for name in ("a", "b"))
    host = "namespace b { void run(float *v) { apply<Grow><<<1, 32>>>(v, Grow{1.f}); } }\n"
    kernels = unit({"main.cu": spaces + host}).kernels
    assert [kernel.instantiations for kernel in kernels][1] == ("b::apply<b::Grow>",)


@pytest.mark.parametrize(
    ("head", "names"),
    [
        ("template <class T, class P = T*> __global__", ["T", "P"]),
        ("template <int N, bool B = (N > 4), class U = int> __global__", ["N", "B", "U"]),
        ("template <class T, enable_if_t<is_same<T, int>::value == true, int> = 0> __global__", ["T", ""]),
    ],
)
def test_the_head_of_a_template_is_read_whatever_its_defaults_are(head: str, names: list[str]) -> None:
    assert [param.name.decode() for param in template_params(head.encode())] == names
    (function,) = Code(f"{head} void k(T *v) {{ v[0] = 1; }}".encode()).functions
    assert list(function.template) == names


@pytest.mark.parametrize(
    "before",
    [
        "template <class T, class P = T*> ",
        "typedef float *P; typedef float T; ",
        "using T = float; using P = T *; ",
    ],
)
def test_a_parameter_whose_type_is_a_name_for_a_pointer_is_a_pointer(before: str) -> None:
    text = before + "__global__ void k(P out, const T *in, int n) { out[n] = in[n]; }\n"
    host = "void run(float *v) { k" + ("<float>" if "template" in before else "") + "<<<1, 1>>>(v, v, 0); }\n"
    kernel = only(unit({"main.cu": text + host}))
    assert [param.pointer for param in kernel.params] == [True, True, False]
    assert compiles(kernel)


@pytest.mark.parametrize(
    ("before", "word", "after"),
    [
        ("", "__asm__ __volatile__", ""),
        ("#define asm __asm__ __volatile__\n", "asm", "#undef asm\n"),
        ("#define asm __asm__\n", "asm volatile", ""),
    ],
)
def test_gnus_word_for_asm_becomes_the_one_that_nvrtc_knows(before: str, word: str, after: str) -> None:
    helper = f'__device__ int low(int v) {{ {word}("and.b32 %0, %0, 1;" : "+r"(v)); return v; }}\n'
    kernel = only(
        unit({"main.cu": before + helper + after + "__global__ void k(int *v) { v[0] = low(v[1]); }"})
    )
    assert compiles(kernel)
    assert "asm" in kernel.shims
    assert b"#define" not in kernel.code


@pytest.mark.parametrize(
    ("macros", "body"),
    [
        (
            "#define STEP s = v[0] - s;\n#define FOUR STEP STEP STEP STEP\n",
            "for (int i = 0; i < 2; ++i) { FOUR FOUR\nFOUR }",
        ),
        (
            "#define CHECK(x) if (x > 9) { return; }\n#define ADD(a, b) a += b;\n",
            "CHECK(s) ADD(s, 2)\n  CHECK(v[0])\n  s = s * 2;",
        ),
        (
            "#define EACH(i, n) for (int i = 0; i < n; ++i) {\n#define DONE }\n",
            "EACH(i, 3) s += i; EACH(j, 2)\n s += j; DONE DONE",
        ),
        ("#define RESTRICTED __restrict__\n#define LIMIT(n) __launch_bounds__(n)\n", "s += 1;"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("head", ["", "template <class T> ", "namespace lib { "])
def test_a_macro_that_is_a_statement_or_a_qualifier_hides_nothing(macros: str, body: str, head: str) -> None:
    type_text = "T" if "template" in head else "int"
    marks = ("LIMIT\n(64) ", "RESTRICTED ") if "LIMIT" in macros else ("", "")
    params = f"({type_text} * {marks[1]}v)"
    text = f"{macros}{head}__global__ void {marks[0]}k{params} {{ {type_text} s = v[1]; {body} v[2] = s; }}\n"
    text += "}\n" if "namespace" in head else ""
    text += "__global__ void after(int *v) { v[0] = 1; }\nvoid run(int *v) { after<<<1, 1>>>(v); }\n"
    report = unit({"main.cu": text})
    assert [kernel.name for kernel in report.kernels] == ["k", "after"]
    assert not report.unread
    assert all(map(compiles, report.kernels))
    assert len(report.kernels[1].launch_sites) == 1


@pytest.mark.parametrize(
    "body",
    [
        "register int a = v[1];",
        "register const unsigned int a = v[1];",
        "for (register int a = 3; a < 4; ++a) v[2] = a; int a = 1;",
    ],
)
def test_the_word_register_is_dropped(body: str) -> None:
    kernel = only(
        unit({"main.cu": f'__global__ void k(int *v) {{ {body} asm("// register x"); v[0] = a; }}'})
    )
    assert compiles(kernel)
    assert "register" in kernel.shims
    assert b"// register x" in kernel.code
