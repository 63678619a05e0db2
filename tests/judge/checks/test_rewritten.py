"""What compilers get has the tokens that the checks saw, and nothing that can be read in two ways."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.compiler_texts import FRAGMENTS, search
from kcurate.errors import ProblemError
from kcurate.judge.checks import static
from kcurate.judge.checks.lexer import compiler_text, numbers, rewritten, tokenize
from kcurate.records import Side

KERNEL = 'extern "C" __global__ void k(int *x) { x[0] = 1; }\n'


def tokens(code: str) -> list[tuple[str, str]]:
    return [(token.kind, token.text) for token in tokenize(code) if token.kind != "directive"]


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(FRAGMENTS), max_size=30).map("".join))
def test_the_text_has_the_same_tokens_and_lines(code: str) -> None:
    result = rewritten(code)
    if result.ambiguous:
        return
    assert tokens(result.text) == tokens(code)
    assert result.text.count("\n") == code.count("\n")
    assert rewritten(result.text).text == result.text
    assert "\\\n" not in result.text
    assert not rewritten(result.text).ambiguous


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("int a;\nint k = __LINE__;\n", "int a;\nint k =  2 ;\n"),
        ("#define AT __LINE__\nint k = AT;\n", "#define AT  1 \nint k = AT;\n"),
        ("auto t = __func__;\n", 'auto t =  "__func__" ;\n'),
        ("auto t = s.__LINE__;\n", "auto t = s. 1 ;\n"),
        ('auto t = "__LINE__";\n', 'auto t = "__LINE__";\n'),
    ],
)
def test_lines_and_functions_are_spelled_out(code: str, text: str) -> None:
    assert compiler_text(code) == text


def test_a_line_that_is_spelled_out_is_a_number() -> None:
    assert 3 in numbers("\n\nif (n == __LINE__) return;")


@pytest.mark.parametrize(
    "code",
    [
        "// ends \\ \nint x;",
        "#define A 1 \\\t\nint x;",
        "/* a */ int x; // b \\ ",
        'const char *t = R"(a)";',
        'const wchar_t *t = LR"(a)";',
        'const char *t = u8R"(a)";',
        'const wchar_t *t = L"a";',
        'const char *t = "a"_x;',
        'const char *t = "a"END;',
        "char c = 'ab';",
        "char c = u'a';",
        "char c = 'a'_x;",
        "int x = 1'_a;",
        "#if 0\nisn't\n#endif",
        '#if 0\n"open\n#endif',
        "'",
        "int x <: 3 :>;",
        "void f() <% %>",
        "%:define A",
        "auto y = f<::>();",
        "int x; // what??/\nint y;",
        'const char *t = "??/";',
        "int x;\rint y;",
        "int x;\x00int y;",
        "int x;\x1aint y;",
        "int \u00fc;",
        "int x\\u0041;",
        "int x$ = 1;",
        "int $x = 1;",
        "int x = 1$;",
        "int x = `a`;",
        'const char *t = "\\e";',
        "int x; // \udc80",
        "int x; /* open",
        "int x; /*/ open",
    ],
)
def test_what_compilers_may_read_in_two_ways_is_refused(code: str) -> None:
    with pytest.raises(ProblemError, match="compilers may read it in two ways"):
        compiler_text(f"{code}\n{KERNEL}")
    found = static.check_source(Side(f"{code}\n{KERNEL}", ()))
    assert "characters" in [finding.check for finding in found]


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ('int x; // it\'s "odd" \\\n  and goes on\nint y;', "int x;  \n\nint y;"),
        ("int /* a\n b */ x;\nint y;", "int   x;\n\nint y;"),
        ("#define A(x) \\\n  x + /* one\n two */ 1\nint y;", "#define A(x)   x +   1\n\n\nint y;"),
        ("#define F/**/(x) x\n", "#define F (x) x\n"),
        ("int x = 1'000'000 + 0xff'ff;", "int x = 1000000 + 0xffff;"),
        ("if (a and not b or c bitand(&d)) ;", "if (a  &&   !  b  ||  c  & (&d)) ;"),
        ("auto y = f<::own::two>();", "auto y = f< ::own::two>();"),
        ('#include "cuda_fp16.h" // half\r\nint y;', "#include <cuda_fp16.h>\nint y;"),
        ("#/* a */include <cuda/barrier>\nint y;", "#include <cuda/barrier>\nint y;"),
        ('#include "/etc/passwd"\nint y;', "#include \nint y;"),
        ("#include NAME\nint y;", "#include \nint y;"),
        ("extern\"C\"{ char c = '\\'', d = '\"'; }", "extern \"C\"{ char c = '\\'', d = '\"'; }"),
        ("a ? b : c; // why??!\fx", "a ? b : c;  "),
        ("in\\\nt x;\nint y;", "int x;\n\nint y;"),
        ('const char *t = "/* \u00fc */ //";', 'const char *t = "/* \u00fc */ //";'),
    ],
)
def test_code_is_written_anew(code: str, text: str) -> None:
    assert compiler_text(code) == text


@pytest.mark.slow
def test_gcc_and_nvrtc_read_the_same_tokens() -> None:
    pytest.importorskip("cuda.bindings", reason="NVRTC is not installed")
    report = search(60, seed=0)
    assert report.strings > 100
    assert report.disagreement is None, report.disagreement


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("x == 0x1234567", {0x1234567}),
        ("a = 1'000'003u, 0777, 0b101ull;", {1000003, 0o777, 5}),
        ("(1 << 24) - 1", {1, 24, 1 << 24, (1 << 24) - 1}),
        ("f(-3.5e2f, .5f, 0x1p3)", {3.5e2, -3.5e2, 0.5, 8.0}),
        ("x[7] - 2 + ~9", {7, 2, -2, 9, ~9, -2 + ~9}),
        ("#define KEY (40 | 2)\nint8_t name3 = x1;", {40, 2, 42}),
        ("1 << 9999, 1e999, 08", {1, 9999}),
        ("// 5\n\"6\" '7'", set()),
    ],
)
def test_numbers_are_literals_and_what_is_computed_from_them(code: str, found: set[float]) -> None:
    assert numbers(code) == found


@pytest.mark.parametrize(
    "code", ["(" * 50_000 + "1" + ")" * 50_000, "#" * 50_000, "-" * 50_000 + "1", "9*" * 50_000]
)
def test_numbers_of_odd_text_take_linear_time(code: str) -> None:
    assert len(numbers(code)) < 100
