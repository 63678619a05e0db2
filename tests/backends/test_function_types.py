"""Built-in functions of device code have the overloads on the emulator that they have with NVRTC.

For each function and each list of arguments both compilers say what a call gives (0: no valid call), whether
it is `noexcept`, and whether it is a constant expression. A difference would tell a side where it runs. Not
covered: textures and surfaces, matrix intrinsics, the functions of headers.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from itertools import product

import pytest

from kcurate.backends.base import Compiled, EntryPoint
from kcurate.backends.cuda import nvrtc
from kcurate.backends.emulator import toolchain
from kcurate.backends.emulator.compiler import EmulatorCompiler
from kcurate.backends.emulator.library import Library

INTEGERS = (
    "int", "unsigned", "short", "unsigned short", "char", "signed char", "unsigned char", "long",
    "unsigned long", "long long", "unsigned long long", "bool",
)  # fmt: skip
NUMBERS = (*INTEGERS, "float", "double")
MIXED = ("int", "unsigned", "short", "long", "unsigned long long", "float", "double")
VECTORS = ("char4", "uchar2", "short2", "int2", "uint4", "longlong2", "float2", "float4", "double2")
POINTED = (*NUMBERS, *VECTORS, "unsigned *")
ARGUMENTS: tuple[tuple[str, ...], ...] = (
    (),
    *((t,) for t in NUMBERS),
    *product(MIXED, MIXED),
    *((t, t, t) for t in MIXED),
    *(("unsigned", t, "int") for t in NUMBERS),
    *((f"const {t} *",) for t in (*POINTED, "void")),
    *((f"{t} *", t) for t in POINTED),
    *((f"{t} *", t, t) for t in POINTED),
    ("float *", "int"), ("unsigned *", "float"),
    *((t, f"{t} *", f"{t} *") for t in ("float", "double")),
    *((t, "int *") for t in ("float", "double", "int")),
    *((t, f"{t} *") for t in ("float", "double")),
    *((t, t, "int *") for t in ("float", "double")),
    *(("int", f"const {t} *") for t in ("float", "double")),
    *(("unsigned", t, "int *") for t in ("int", "float", "long long")),
    ("int", "int", "bool *"), ("float", "float", "float", "float"),
    ("double", "double", "double", "double"), ("void *", "const void *", "unsigned long"),
    ("void *", "int", "unsigned long"), ("char4", "char4", "int"), ("ushort2", "uchar4", "unsigned"),
)  # fmt: skip
CONSTANTS = (
    *(("float",) * n for n in (1, 2, 3)),
    *(("double",) * n for n in (1, 2)),
    ("int",),
    ("int", "int"),
)
TYPES = ("void", *NUMBERS, *VECTORS, "uchar4", "ushort2", "float3", "int4", "int3", "uint2")
# Words before a parenthesis in our headers that are no functions; functions whose overloads no call shows.
NO_FUNCTIONS = re.compile(
    r"kcu_\w+|KCU_\w+|__builtin_\w+|__nv_atomic_\w+|__a\w+__|[a-z]*int\d?|if|for|while|switch|return|sizeof"
    r"|decltype|alignof|static_assert|dim3|operator|unsigned|long|short|char|float|double|bool|[A-Z_]+"
)
# Functions in one program: a compiler takes about ten seconds for so many.
BATCH = 100
QUESTIONS = """
template <class T> __device__ T val();
template <class T> struct Id { enum { value = 99 }; };
"""
ASKED = """
template <class... A> __device__ constexpr int type_NAME(int, decltype(NAME(val<A>()...)) * = nullptr)
{ return Id<decltype(NAME(val<A>()...))>::value + 128 * noexcept(NAME(val<A>()...)); }
template <class... A> __device__ constexpr int type_NAME(...) { return 0; }
template <class... A, int = ((void)NAME(A(1)...), 0)> __device__ constexpr int constant_NAME(int)
{ return 1; }
template <class... A> __device__ constexpr int constant_NAME(...) { return 0; }
__device__ unsigned char answers_NAME[] = { TYPES, CONSTANTS, 77 };
"""


def text(names: Sequence[str]) -> str:
    """A program that holds what a compiler answers."""
    lines = [QUESTIONS]
    lines += [f"template <> struct Id<{t}> {{ enum {{ value = {at} }}; }};" for at, t in enumerate(TYPES, 1)]
    for name in names:
        types = ", ".join(f"type_{name}<{', '.join(given)}>(0)" for given in ARGUMENTS)
        constants = ", ".join(f"constant_{name}<{', '.join(given)}>(0)" for given in CONSTANTS)
        asked = ASKED.replace("NAME", name).replace("TYPES", types).replace("CONSTANTS", constants)
        lines.append(asked)
    return "\n".join([*lines, 'extern "C" __global__ void f(int *x) { x[0] = 1; }'])


def of_nvrtc(names: Sequence[str]) -> dict[str, bytes]:
    made = nvrtc.compile_cubin(text(names))
    assert made.cubin is not None, made.log
    listed = re.findall(r"\.b8 answers_(\w+)\[\d+\] = \{([^}]*)\};", made.ptx)
    return {name: bytes(int(byte) & 0xFF for byte in values.split(",")) for name, values in listed}


def of_emulator(names: Sequence[str]) -> dict[str, bytes]:
    made = EmulatorCompiler().compile(text(names), [EntryPoint("f")], [f"answers_{name}" for name in names])
    assert isinstance(made, Compiled), made.log
    library = Library(made)
    places = {name: library.variables[f"answers_{name}"] for name in names}
    answers = {name: ctypes.string_at(one.address, one.size_bytes) for name, one in places.items()}
    library.close()
    return answers


def told(name: str, on_gpu: bytes, here: bytes) -> list[str]:
    """What differs, in words."""
    kinds = ("nothing", *TYPES)

    def word(value: int) -> str:
        return "noexcept " * (value >> 7) + (
            kinds[value & 127] if value & 127 < len(kinds) else "another type"
        )

    asked = [f"{name}({', '.join(given)})" for given in (*ARGUMENTS, *CONSTANTS)]
    pairs = zip(asked, on_gpu[:-1], here[:-1], strict=True)
    return [f"{call}: {word(a)} with NVRTC, {word(b)} here" for call, a, b in pairs if a != b]


CONSTANT = """
template <class T> struct Constant { enum { of_three = 0 }; };
template <> struct Constant<const uint3> { enum { of_three = 1 }; };
template <> struct Constant<const dim3> { enum { of_three = 2 }; };
static_assert(Constant<decltype(threadIdx)>::of_three == 1, "");
static_assert(Constant<decltype(blockIdx)>::of_three == 1, "");
static_assert(Constant<decltype(blockDim)>::of_three == 2, "");
static_assert(Constant<decltype(gridDim)>::of_three == 2, "");
extern "C" __global__ void f(int *x) { x[0] = 1; }
"""


def test_the_variables_of_a_thread_are_constants() -> None:
    assert nvrtc.compile_cubin(CONSTANT).cubin is not None
    assert isinstance(EmulatorCompiler().compile(CONSTANT, [EntryPoint("f")]), Compiled)


@pytest.mark.slow
def test_functions_have_cudas_overloads() -> None:
    names = sorted(name for name in toolchain.builtins() if not NO_FUNCTIONS.fullmatch(name))
    assert {"sqrtf", "__shfl_sync", "atomicAdd", "isnan", "min"} <= {*names}
    differences: list[str] = []
    known = 0
    for first in range(0, len(names), BATCH):
        some = names[first : first + BATCH]
        on_gpu, here = of_nvrtc(some), of_emulator(some)
        known += sum(any(on_gpu[name][:-1]) for name in some)
        for name in some:
            differences += told(name, on_gpu[name], here[name])[:3]
    assert known > len(names) * 0.9
    assert not differences, "\n".join(differences)
