"""An integer is an address only if a pointer's or array's went into it, and an offset."""

from __future__ import annotations

import pytest

from kcurate.judge.checks.lexer import Source
from kcurate.judge.checks.pointers import int_as_ptr

K = 'extern "C" __global__ void k(float* __restrict__ x, const float* y, int n, unsigned long long m) {\n%s\n}\n'  # noqa: E501
ADDRESSES = [
    "float4* p = (float4*)(((uintptr_t)x + 15) & ~15);",
    "float4* p = (float4*)(((uintptr_t)x + 15) & ~(uintptr_t)15);",
    "float4* p = (float4*)(((size_t)x + 15ull) / 16 * 16);",
    "float4* p = reinterpret_cast<float4*>((reinterpret_cast<uintptr_t>(x) + 127) & ~uintptr_t(127));",
    "const float4* p = (const float4*)(uintptr_t)y;",
    "unsigned long long row = (unsigned long long)x + n * 4ull; float* r = (float*)row; r[0] = 1;",
    "uint64_t row = reinterpret_cast<uint64_t>(y); row += 64; const float* r = reinterpret_cast<const float*>(row);",  # noqa: E501
    "extern __shared__ char raw[]; uintptr_t a = (uintptr_t)raw; a = (a + 127) & ~127ull; float* s = (float*)a; s[0] = 1;",  # noqa: E501
    "uintptr_t a = (uintptr_t)x; float* p = (float*)(a + (-a & 15)); p[0]=1;",
    "uintptr_t a = (uintptr_t)x; float* p = (float*)(a + (16 - a % 16) % 16);",
    "__shared__ float s[64]; unsigned long long rows[2]; rows[0] = (unsigned long long)(x + n); float* r = (float*)rows[0];",  # noqa: E501
    "uintptr_t a = (uintptr_t)&x[n]; uintptr_t b = a - 16; float* p = (float*)b;",
    "unsigned long long a = (unsigned long long)(const char*)y + (unsigned long long)n * 4; const float* p = (const float*)a;",  # noqa: E501
    "float4* p = (float4*)(((uintptr_t)(x + n) + 15) & -16);",
    "const uintptr_t base = (uintptr_t)y, at = base + 4; const float* p = (const float*)at;",
]
NUMBERS = [
    "float* p = (float*)m;",
    "float* p = (float*)(uintptr_t)m;",
    "float* p = (float*)(m + 16);",
    "uintptr_t a = (uintptr_t)n; float* p = (float*)a;",
    "uintptr_t a = (uintptr_t)x[0]; float* p = (float*)a;",
    "uintptr_t a = (uintptr_t)x; a = m; float* p = (float*)a;",
    "uintptr_t a = (uintptr_t)x * 0 + m; float* p = (float*)a;",
    "uintptr_t a = (uintptr_t)x; float* p = (float*)(a - a + m);",
    "uintptr_t a = (uintptr_t)x ^ m; float* p = (float*)a;",
    "uintptr_t a = (uintptr_t)x; a *= 0; a += m; float* p = (float*)a;",
    "float* p = (float*)0x7f0000000000ull;",
    "uintptr_t a = ((uintptr_t)x & 0) + m; float* p=(float*)a;",
    "uintptr_t a = (uintptr_t)x & m; float* p = (float*)a;",
    "uintptr_t a = (uintptr_t)x; a &= 0; float* p = (float*)(a + m);",
    "float* p = (float*)((uintptr_t)x - (uintptr_t)y + m);",
    "float* p = (float*)((uintptr_t)x + (uintptr_t)y);",
    'uintptr_t a = (uintptr_t)x; asm("mov.u64 %0, %1;" : "=l"(a) : "l"(m)); float* p = (float*)a;',
    "uintptr_t a = (uintptr_t)*x; float* p = (float*)a;",
    "uintptr_t a = (uintptr_t)x >> 1; float*p = (float*)a;",
    "uintptr_t a = (uintptr_t)x / 16 * 32; float* p=(float*)a;",
    "uintptr_t a = m; float* p = reinterpret_cast<float*>((a + 15) & ~15);",
    "uintptr_t a = (uintptr_t)x; unsigned long long* q = &a; *q = m; float* p = (float*)a;",
    "uintptr_t a = 1 ? m : (uintptr_t)x; float* p=(float*)a;",
    "uintptr_t a = ((uintptr_t)x, m); float* p=(float*)a;",
    "uintptr_t a = (uintptr_t)x & ~m; float* p=(float*)a;",
    "uintptr_t a = (uintptr_t)x || m; float* p=(float*)a;",
    "float f = 1; long long q = (long long)f; float* p = (float*)q;",
]


@pytest.mark.parametrize("body", ADDRESSES)
def test_a_pointer_from_an_address_and_an_offset_is_fine(body: str) -> None:
    assert list(int_as_ptr(Source(K % body))) == []


@pytest.mark.parametrize("body", NUMBERS)
def test_a_pointer_from_anything_else_is_refused(body: str) -> None:
    assert list(int_as_ptr(Source(K % body)))
