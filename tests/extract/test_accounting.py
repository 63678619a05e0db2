"""Every `__global__` and `@triton.jit` of a tree ends as a kernel or with a reason; what bad input costs."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcurate.extract.stage import ExtractConfig, run
from kcurate.records import Summary

KERNEL = "__global__ void k(float *x) { x[0] = 1; }\n"


def extracted(root: Path, files: dict[str, str | bytes]) -> tuple[Summary, list[str]]:
    notes: list[str] = []
    for name, data in files.items():
        path = root / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
    summary = run(ExtractConfig((root / "tree",), root / "work", compile=False), note=notes.append)
    return summary, notes


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        (KERNEL + "__global__ void other(int);\ntemplate <class T> __global__ void t(T *x) { x[0] = 1; }\n"
         "template __global__ void t<int>(int *);\n// __global__\nchar *s = \"__global__\";\n",
         {"kernel": 2, "declaration": 2}),
        ("#define K __global__\n#define MAKE(n) __global__ void n(int *x) { x[0] = 1; }\nMAKE(a)\nMAKE(b)\n"
         "K void c(int *x) { x[0] = 1; }\n", {"in_macro": 2}),
        (KERNEL + "#if 0\n__global__ void a() {}\n#elif defined NEVER\n__global__ void b() {}\n#endif\n",
         {"kernel": 1, "behind_condition": 2}),
        (KERNEL + "#define HEAD(n) __global__ void n\nHEAD(a)(int *x) { x[0] = 1; }\n",
         {"kernel": 1, "in_macro": 1}),
        (KERNEL + "struct S { friend __global__ void a(S *); int n; };\n"
         "namespace { __global__ void b(\n  int *x\n); }\n", {"kernel": 1, "declaration": 2}),
    ],
)  # fmt: skip
def test_every_global_of_the_text_is_counted_once(tmp_path: Path, text: str, counts: dict[str, int]) -> None:
    summary, notes = extracted(tmp_path, {"a.cu": text, "b.cuh": KERNEL.replace("k(", "b(")})
    marks = dict(summary.counts["__global__"])
    assert marks == {**counts, "kernel": counts.get("kernel", 0) + 1}
    total = sum(marks.values())
    assert any(note.startswith(f"{total} __global__ in the text, all accounted for") for note in notes)


def test_every_triton_function_is_a_kernel_a_helper_or_has_a_reason(tmp_path: Path) -> None:
    body = "    i = tl.arange(0, 32)\n    tl.store(p + i, tl.load(p + i) + 1)\n"
    nested = "".join(f"    {line}\n" for line in f"@triton.jit\ndef deep(p):\n{body}".splitlines())
    inner = "".join("    " + line for line in body.splitlines(True))
    text = (
        "import triton\nimport triton.language as tl\n\n@triton.jit\ndef helper(x):\n    return x + 1\n\n"
        f"@triton.jit\ndef plain(p):\n    i = tl.arange(0, 32)\n    tl.store(p + i, helper(i))\n\n"
        f"if True:\n    @triton.jit\n    def branch(p):\n{inner}"
        f"\ndef make():\n{nested}    return deep\n\nclass Holder:\n{nested}"
    )
    summary, _ = extracted(tmp_path, {"a.py": text})
    assert summary.counts["@triton.jit"] == {"helper": 1, "kernel": 4}
