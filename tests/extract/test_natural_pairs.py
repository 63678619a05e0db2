"""Which files of a naive and an optimised folder belong together."""

from __future__ import annotations

from kcurate.extract.pairs import Match, PairOutcome, SourceFile, match_files
from kcurate.records import CompiledKernel, Kernel, Source, Span
from kcurate.suites import PairRule, Place

BASE = PairRule("cuda_base", "cuda")
FERMI = PairRule("cuda_base", "cuda_fermi", "fermi")


def kernel(name: str, path: str, code: str | None) -> Kernel:
    compiled = CompiledKernel(True, "sm_90", "nvrtc", code_sha256=code) if code else None
    return Kernel(path, Source("s"), "b", "v", name, Span(path, 0, 1, 1, 1), path, (), compiled=compiled)


def file(path: str, *names: str, code: str | None = None) -> SourceFile:
    benchmark, variant, rest = path.split("/", 2)
    kernels = tuple(kernel(name, path, code and f"{code}-{name}") for name in names)
    return SourceFile(path, Place(benchmark, variant, rest), kernels, path.encode() if names else b"")


def table(*matches: Match) -> list[tuple[str, str, str, str | None, str | None]]:
    return [(m.name, m.by, m.outcome.value, m.slow and m.slow.path, m.fast and m.fast.path) for m in matches]


def test_same_named_files_pair_up_and_host_files_are_told_apart() -> None:
    files = [
        file("b/cuda_base/main.cu"),
        file("b/cuda/main.cu"),
        file("b/cuda_base/k.cu", "one", "two"),
        file("b/cuda/k.cu", "one", "other"),
        file("b/cuda/helper.cu"),
    ]
    assert table(*match_files(files, [BASE])) == [
        ("k", "file", "pair", "b/cuda_base/k.cu", "b/cuda/k.cu"),
        ("main", "file", "no_device_code", "b/cuda_base/main.cu", "b/cuda/main.cu"),
    ]


def test_files_with_other_names_pair_up_by_kernel() -> None:
    files = [
        file("b/cuda_base/pre.cu", "energy"),
        file("b/cuda/pre8.cu", "energy"),
        file("c/cuda_base/cut.cu", "lattice"),
        file("c/cuda/cut6.cu", "Lattice6overlap"),
    ]
    assert table(*match_files(files, [BASE])) == [
        ("energy", "kernel", "pair", "b/cuda_base/pre.cu", "b/cuda/pre8.cu"),
        ("lattice", "kernel", "pair", "c/cuda_base/cut.cu", "c/cuda/cut6.cu"),
    ]


def test_one_naive_folder_can_pair_with_two_optimised_ones() -> None:
    files = [file(f"b/{v}/k.cu", "k", code=v) for v in ("cuda_base", "cuda", "cuda_fermi")]
    names = [(m.name, m.outcome) for m in match_files(files, [BASE, FERMI])]
    assert names == [("k", PairOutcome.PAIR), ("k-fermi", PairOutcome.PAIR)]


def test_identical_machine_code_is_not_a_pair() -> None:
    same = [file(f"b/{v}/k.cu", "x", "y", code="h") for v in ("cuda_base", "cuda")]
    assert [m.outcome for m in match_files(same, [BASE])] == [PairOutcome.MACHINE_CODE_IDENTICAL]
    one_differs = [same[0], file("b/cuda/k.cu", "x", "z", code="h")]
    assert [m.outcome for m in match_files(one_differs, [BASE])] == [PairOutcome.PAIR]


def test_nothing_with_kernels_is_ever_dropped() -> None:
    files = [
        file("b/cuda_base/lost.cu", "lost"),
        file("b/cuda/found.cu", "quite_another", "and_one_more"),
        file("b/cuda_base/half.cu", "half"),
        file("b/cuda/half.cu"),
        file("c/cuda/alone.cu", "alone"),
        file("c/cuda_fermi/host.cu"),
    ]
    assert table(*match_files(files, [BASE])) == [
        ("half", "file", "device_code_on_one_side", "b/cuda_base/half.cu", "b/cuda/half.cu"),
        ("found", "none", "unmatched", None, "b/cuda/found.cu"),
        ("half", "none", "unmatched", None, "b/cuda_base/half.cu"),
        ("lost", "none", "unmatched", None, "b/cuda_base/lost.cu"),
        ("alone", "none", "no_other_variant", None, "c/cuda/alone.cu"),
    ]
