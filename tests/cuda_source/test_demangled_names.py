"""Demangled kernel names, taken apart."""

from __future__ import annotations

import pytest

from kcurate.capture.raw import demangled
from kcurate.cuda_source.text.demangled_names import Demangled


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("scale", Demangled("scale")),
        ("scale(void)", Demangled("scale", (), ())),
        ("scale(float*, int)", Demangled("scale", (), ("float*", "int"))),
        (
            "void a::b::scale<float, (int)4>(T1*, int) [clone .part]",
            Demangled("a::b::scale", ("float", "(int)4"), ("T1*", "int")),
        ),
        (
            "void scale<Pair<int, 2>, (bool)1>(T1*)",
            Demangled("scale", ("Pair<int, 2>", "(bool)1"), ("T1*",)),
        ),
        (
            "void (anonymous namespace)::scale<unsigned int>(T1)",
            Demangled("scale", ("unsigned int",), ("T1",)),
        ),
        ("Grid<unsigned int>::scale(float*)", Demangled("Grid<unsigned int>::scale", (), ("float*",))),
        (
            "void apply<int>(void (*)(int, float), int)",
            Demangled("apply", ("int",), ("void (*)(int, float)", "int")),
        ),
    ],
)
def test_names_are_taken_apart(text: str, wanted: Demangled) -> None:
    assert Demangled.of(text) == wanted
    assert Demangled.of(text).base in ("scale", "apply")


@pytest.mark.parametrize(
    ("mangled", "base", "params"),
    [
        ("_Z5scaleIfEvPT_PKS0_S0_i", "scale", ("float*", "float const*", "float", "int")),
        ("_ZN12_GLOBAL__N_13fooEPfSt4pairIiiE", "foo", ("float*", "std::pair<int, int>")),
        ("_ZN2ns1kILi3EEEvv", "k", ()),
        ("plain", "plain", None),
    ],
)
def test_mangled_names(mangled: str, base: str, params: tuple[str, ...] | None) -> None:
    name = Demangled.of(demangled(mangled))
    assert (name.base, name.params) == (base, params)
