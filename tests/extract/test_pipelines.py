"""Files that make one side only together: their code as one, and one candidate for all of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kcurate.core import resources
from kcurate.extract.candidates import write_candidates
from kcurate.extract.joining import join_codes
from kcurate.extract.pairs import PairOutcome, SourceFile, match_files
from kcurate.records import CompiledKernel, Kernel, Source, Span
from kcurate.suites import Tree, load_manifest

PARTS = ("histo_prescan", "histo_intermediates", "histo_main", "histo_final")


def source_file(tree: Tree, variant: str, stem: str, hash_: str | None = None) -> SourceFile:
    path = f"benchmarks/histo/src/{variant}/{stem}.cu"
    place = tree.locate(path)
    assert place is not None
    compiled = CompiledKernel(True, "sm_90", "nvrtc", code_sha256=hash_ or f"{variant}-{stem}")
    kernel = Kernel(
        f"parboil/histo/{variant}/{stem}/{stem}_kernel",
        Source("parboil", license="NCSA"),
        "histo",
        variant,
        f"{stem}_kernel",
        Span(path, 0, 1, 1, 1),
        path,
        (),
        compiled=compiled,
    )
    code = f"#define SIDE {len(variant)}\n\n__global__ void {stem}_kernel(int n) {{\n\n  use(n, SIDE);\n}}\n"
    return SourceFile(path, place, (kernel,), code.encode())


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path / "tree", load_manifest(resources.sources_dir() / "parboil.toml"), True)


def test_files_of_a_pipeline_become_one_candidate_with_its_problem(tree: Tree, tmp_path: Path) -> None:
    files = [
        source_file(tree, variant, stem) for variant in ("cuda_base", "cuda") for stem in (*PARTS, "extra")
    ]
    matches = match_files(files, tree.manifest.layout.pairs)
    assert len(matches) == 5
    extra, joined = write_candidates(tmp_path / "pairs", tree, matches)
    assert (extra.id, joined.id) == ("parboil/histo/extra", "parboil/histo/pipeline")
    assert extra.problem is None and joined.problem is not None and joined.license == "NCSA"
    assert len(joined.origin.kernels) == 8
    for side in (joined.slow, joined.fast):
        places = [side.code.index(f"{stem}_kernel") for stem in PARTS]
        assert places == sorted(places) and side.plan
    assert (tmp_path / "pairs" / joined.id / "pair.json").is_file()


def test_a_file_equal_on_both_sides_stays_in_the_pipeline(tree: Tree, tmp_path: Path) -> None:
    files = [
        source_file(tree, variant, stem, "same" if stem == "histo_final" else None)
        for variant in ("cuda_base", "cuda")
        for stem in PARTS
    ]
    matches = match_files(files, tree.manifest.layout.pairs)
    assert {match.outcome for match in matches} == {PairOutcome.PAIR, PairOutcome.MACHINE_CODE_IDENTICAL}
    (joined,) = write_candidates(tmp_path / "pairs", tree, matches)
    assert "histo_final_kernel" in joined.slow.code


def test_a_pipeline_needs_all_of_its_files(tree: Tree, tmp_path: Path) -> None:
    files = [source_file(tree, variant, stem) for variant in ("cuda_base", "cuda") for stem in PARTS[:3]]
    written = write_candidates(tmp_path / "pairs", tree, match_files(files, tree.manifest.layout.pairs))
    assert [candidate.id for candidate in written] == [f"parboil/histo/{stem}" for stem in sorted(PARTS[:3])]


def test_a_tree_that_only_looks_like_the_suite_has_no_pipeline(tree: Tree, tmp_path: Path) -> None:
    stranger = replace(tree, facts=False)
    files = [source_file(tree, variant, stem) for variant in ("cuda_base", "cuda") for stem in PARTS]
    written = write_candidates(tmp_path / "pairs", stranger, match_files(files, tree.manifest.layout.pairs))
    assert len(written) == 4 and all(candidate.problem is None for candidate in written)


def test_joined_code_has_each_item_once_and_undefines_changed_macros() -> None:
    first = b"#define N 4\n#define M 1\n\nstruct S {\n  int a;\n\n  int b;\n};\n\nvoid f() { }\n"
    second = b"#define N 5\n#define M 1\n\nstruct S {\n  int a;\n\n  int b;\n};\n\nvoid g() { }\n"
    joined = join_codes([first, second])
    assert joined.count(b"struct S") == 1 and joined.count(b"int b;") == 1
    assert joined.count(b"#undef") == 1 and joined.index(b"#undef N") < joined.index(b"#define N 5")
    assert joined.endswith(b"void g() { }\n")
