"""Device lambdas as template arguments: functors whose members are what they capture."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcurate.cuda_source.launches.device_lambdas import with_named_lambdas
from kcurate.cuda_source.preprocess.splicing import Text, splice
from kcurate.draft.stage import FORM_NAME, DraftConfig, draft
from kcurate.extract.stage import ExtractConfig
from kcurate.extract.stage import run as extract
from tests.cuda_source.test_unit import compiles, only, unit

EACH = """
template <class Body> __global__ void each(int n, Body body) { if (threadIdx.x < n) body(threadIdx.x); }
"""
MAIN = "int main() {{ int n = 99; float a = 2.0f, *x, *y; {} }}\n"
THROUGH = "template <int BLOCK = 64, class B> void each_of(int n, B &&b) { each<<<1, BLOCK>>>(n, b); }\n"


def named(source: str) -> Text:
    """The unit of a source with its lambdas named."""
    text = splice("main.cu", lambda _: source.encode(), lambda *_: None)
    assert text is not None
    return with_named_lambdas(text)


@pytest.mark.parametrize(
    ("host", "members"),
    [
        ("LAUNCH(n, [=] __device__(int i) { y[i] = a * x[i] + n; });", "float *y; float a; float *x; int n;"),
        (
            "LAUNCH(n, [y, a] __host__ __device__(auto i) -> void { float x = i; y[i] = a * x; });",
            "float *y; float a;",
        ),
        ("auto f = [=] __device__(int i) mutable {\n y[i] = 0;\n};\n LAUNCH(n, f);", "float *y;"),
        ("each_of(n, [=] __device__(int i) { y[i] = sqrtf(a); });", "float *y; float a;"),
    ],
)
def test_a_lambda_is_a_struct_of_what_it_captures(host: str, members: str) -> None:
    source = EACH + THROUGH + MAIN.format(host.replace("LAUNCH", "each<<<1, 64>>>"))
    kernel = only(unit({"main.cu": source}))
    assert kernel.instantiations == ("each<Lambda1>",)
    assert f"struct Lambda1 {{ {members} " in " ".join(kernel.code.decode().split())
    assert compiles(kernel)
    text = named(source)
    assert text.source.count(b"\n", 0, len(source)) == source.count("\n")
    assert text.source.startswith(source.partition("int main")[0].encode())


@pytest.mark.parametrize(
    ("host", "call", "instance"),
    [
        (
            "template <class T> void scale(T *y, T a, int n) { each<<<1, 64>>>(n, LAMBDA); }",
            "scale(y, a, n)",
            "float",
        ),
        (
            "template <class T> void scale(T *y, T a, int n) { auto f = LAMBDA; each_of<32>(n, f); }",
            "scale<double>(0, 1, n)",
            "double",
        ),
        (
            "template <typename T, int N = 3> void scale(T *y, T a, int n) { each<<<1, 64>>>(n, LAMBDA); }",
            "scale<float, 4>(y, a, n)",
            "float,4",
        ),
        (
            "template <class T> struct Run { static void go(T *y, T a, int n) { each_of(n, LAMBDA); } };",
            "Run<float>::go(y, a, n)",
            "float",
        ),
    ],
)
def test_a_lambda_in_a_host_template_is_a_template(host: str, call: str, instance: str) -> None:
    host = host.replace("LAMBDA", "[=] __device__(int i) { y[i] = a * T(2); }")
    kernel = only(unit({"main.cu": EACH + THROUGH + host + "\n" + MAIN.format(call + ";")}))
    assert kernel.instantiations == (f"each<Lambda1<{instance}>>",)
    assert compiles(kernel)


def test_a_lambda_in_a_template_that_names_none_of_its_parameters_is_none() -> None:
    made = "[=] __device__(int i) { y[i] = 1; }"
    host = f"template <class T> void fill(float *y, int n) {{ each<<<1, 64>>>(n, {made}); }}"
    kernel = only(unit({"main.cu": EACH + host + MAIN.format("fill<int>(y, n); fill<char>(y, n);")}))
    assert kernel.instantiations == ("each<Lambda1>",)
    assert compiles(kernel)


@pytest.mark.parametrize(
    "body",
    [
        "auto f = [=] __device__(int i) { return v[i] + 1; }; v[0] = f(1);",
        "auto f = [&] __host__ __device__(int i) { v[i] = 1; }; for (int i = 0; i < 4; ++i) { f(i); }",
        "if (v[0]) { v[1] = [](int i) { return i; }(2) + [] __device__(int i) -> int { return i; }(3); }",
    ],
)
def test_a_lambda_in_device_code_stays_one_without_its_annotation(body: str) -> None:
    text = f"__global__ void k(int *v) {{ {body} }}\n"
    kernel = only(unit({"main.cu": text}))
    assert compiles(kernel)
    assert len(named(text).source) == len(text)


def test_equal_lambdas_are_one_and_others_are_not() -> None:
    lambdas = ("[=] __device__(int i) { y[i] = a; }",) * 2 + ("[=] __device__(int i) { y[i] = -a; }",)
    kernel = only(
        unit({"main.cu": EACH + MAIN.format("".join(f"each<<<1, 64>>>(n, {each});" for each in lambdas))})
    )
    assert kernel.instantiations == ("each<Lambda1>", "each<Lambda2>")


@pytest.mark.parametrize(
    "host",
    [
        "auto q = made(n); each<<<1, 64>>>(n, [q] __device__(int i) { q.set(i); });",
        "each<<<1, 64>>>(n, [q = x + 1] __device__(int i) { q[i] = 1; });",
        "each<<<1, 64>>>(n, [](int i) { });",
    ],
)
def test_what_the_text_does_not_tell_stays_a_lambda(host: str) -> None:
    source = EACH + MAIN.format(host)
    assert named(source).source == source.encode()


def test_a_lambda_through_a_host_template_is_drafted(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    allocated = "cudaMalloc(&x, 4 * n); cudaMalloc(&y, 4 * n); "
    main = MAIN.format(allocated + "each_of(n, [=] __device__(int i) { y[i] = a * x[i]; });")
    (tmp_path / "tree" / "main.cu").write_text(EACH + THROUGH + main)
    work = tmp_path / "work"
    extract(ExtractConfig((tmp_path / "tree",), work, compile=False))
    draft(DraftConfig(work))
    (form,) = work.rglob(FORM_NAME)
    assert "Admitted on the emulator" in form.read_text() and 'template = ["Lambda1"]' in form.read_text()
