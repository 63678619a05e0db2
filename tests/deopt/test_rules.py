"""Each rule on kernels of our own: what it takes out, what it never touches."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcurate.core import resources
from kcurate.deopt.rules import RULES, NotApplicable, Rule
from kcurate.records import Side

by_name = {rule.name: rule for rule in RULES}
KERNEL = b"""\
#define R __restrict__
template <typename T>
__device__ T sum(const T* __restrict__ x, T *__restrict y, const float *R z, int n) {
  // __restrict__ __ldg(x) #pragma unroll
  T s = 0;
  #pragma unroll
  for (int i = 0; i < n; ++i) s += __ldg(&x[i]) + __ldg(x + i) * 2;
#pragma unroll 1
  for (int i = 0; i < n; ++i) y[i] = s;
#  pragma   unroll(4)\r
  for (int i = 0; i < n; ++i) y[i] += 1;
  const char *text = "#pragma unroll __ldg(x)";
  return __ldg(&x[__ldg(&y[0])]);
}
"""


def rewrite(rule: Rule, code: bytes) -> bytes | NotApplicable:
    """The code alone: nothing is known of its launch."""
    made = rule.apply(Side(code.decode("utf-8", "surrogateescape"), ()))
    return made.code.encode("utf-8", "surrogateescape") if isinstance(made, Side) else made


def test_restrict_leaves_comments_and_macros() -> None:
    rewritten = rewrite(by_name["restrict"], KERNEL)
    assert isinstance(rewritten, bytes)
    expected = KERNEL.replace(b"const T* __restrict__ x, T *__restrict y", b"const T* x, T *y")
    assert rewritten == expected


def test_unroll_leaves_what_forbids_unrolling() -> None:
    rewritten = rewrite(by_name["unroll"], KERNEL)
    assert isinstance(rewritten, bytes)
    assert rewritten == KERNEL.replace(b"  #pragma unroll\n", b"").replace(b"#  pragma   unroll(4)\r\n", b"")


def test_a_vector_load_stored_as_it_is_becomes_one_call_in_the_other() -> None:
    rewritten = rewrite(
        by_name["vector-to-scalar"],
        b"__global__ void k(float4 *y, const float *x) {\n"
        b"  y[threadIdx.x] = *reinterpret_cast<const float4 *>(x + 4);\n}\n",
    )
    assert isinstance(rewritten, bytes)
    call = b"write_parts(y + (threadIdx.x), read_parts(reinterpret_cast<const float4 *>(x + 4)));"
    assert call in rewritten


def test_plain_loads_nest_and_keep_precedence() -> None:
    rewritten = rewrite(by_name["read-only-loads"], KERNEL)
    assert isinstance(rewritten, bytes)
    assert b"s += (*(&x[i])) + (*(x + i)) * 2;" in rewritten
    assert b"return (*(&x[(*(&y[0]))]));" in rewritten
    assert rewritten.count(b"__ldg") == 2


@pytest.mark.parametrize("name", ["restrict", "unroll", "read-only-loads"])
def test_a_rule_has_nothing_left_to_do_after_itself(name: str) -> None:
    once = rewrite(by_name[name], KERNEL)
    assert isinstance(once, bytes)
    assert isinstance(rewrite(by_name[name], once), NotApplicable)


def test_techniques_are_in_the_vocabulary() -> None:
    document = json.loads((resources.schemas_dir() / "techniques.json").read_bytes())
    assert {rule.technique for rule in RULES} <= {entry["const"] for entry in document["oneOf"]}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_plain_code_is_not_applicable(rule: Rule) -> None:
    plain = b"__global__ void k(float *x) { x[threadIdx.x] = 0; }\n"
    refusal = rewrite(rule, plain)
    assert isinstance(refusal, NotApplicable)
    assert refusal.reason


PIECES = st.sampled_from(
    [
        b"__restrict__",
        b"__ldg(",
        b")",
        b"#pragma unroll\n",
        b"float *",
        b"x",
        b",",
        b"{",
        b"}",
        b"\n",
        b"/*",
        b"\xff",
    ]
)


@given(st.lists(PIECES, max_size=12).map(b" ".join))
def test_arbitrary_bytes_never_make_a_rule_raise(code: bytes) -> None:
    for rule in RULES:
        assert isinstance(rewrite(rule, code), bytes | NotApplicable)
