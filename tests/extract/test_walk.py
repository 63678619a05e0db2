"""The walk: each file once, each with one outcome, whatever the tree holds."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kcurate import cli
from kcurate.core.workspace import Workspace
from kcurate.extract.walk import MAX_FILE_BYTES, FileOutcome, Filter, Found, Walker, read_source
from kcurate.suites import find_tree, generic_tree, load_manifests

TREES = Path(__file__).parent.parent / "suites"


def walk(path: Path, **filters: tuple[str, ...]) -> list[Found]:
    manifests = load_manifests()
    tree = find_tree(path, manifests) or generic_tree(path, manifests["generic"])
    return list(Walker(manifests, Filter(**filters)).walk(path, tree))


def outcomes(found: list[Found]) -> dict[str, FileOutcome | None]:
    return {file.path: file.outcome for file in found}


def test_a_suite_tree_is_sorted_into_what_is_read_and_what_is_not() -> None:
    found = outcomes(walk(TREES / "rodinia"))
    assert found["cuda/path/path.cu"] is None
    assert found["cuda/group/fold.cu.old"] is FileOutcome.STALE_COPY
    assert found["cuda/group/fold_kernel.c.copy"] is FileOutcome.STALE_COPY
    assert found["openmp/path/path.cu"] is FileOutcome.OUTSIDE_LAYOUT
    assert found["common/make.config"] is FileOutcome.NOT_SOURCE
    assert len(found) == sum(path.is_file() for path in (TREES / "rodinia").rglob("*"))


def test_several_suites_below_one_path_are_told_apart() -> None:
    suites = Counter(file.tree.suite for file in walk(TREES))
    assert suites["parboil"] > 10 and suites["rodinia"] > 5 and suites["suites"] >= 3


def test_version_control_folders_are_skipped(tmp_path: Path) -> None:
    for name in (".git", ".hg/store", ".svn"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "kernel.cu").write_text("__global__ void k() {}")
    (tmp_path / "a.cu").write_text("__global__ void k() {}")
    assert outcomes(walk(tmp_path)) == {"a.cu": None}


def test_a_workspace_is_no_source_tree(tmp_path: Path) -> None:
    """What the first extraction wrote is not read by the second; a workspace given as the path is."""
    (tmp_path / "a.cu").write_text("__global__ void k() {}\n")
    workspace = Workspace(tmp_path / "work")
    workspace.mark()
    workspace.mark()
    (workspace.root / "b.cu").write_text("__global__ void k() {}\n")
    assert list(outcomes(walk(tmp_path))) == ["a.cu"]
    assert "b.cu" in outcomes(walk(workspace.root))
    assert (workspace.root / ".gitignore").read_text() == "*\n"


def test_a_tree_that_is_the_workspace_too_is_extracted_again_as_the_first_time(tmp_path: Path) -> None:
    """`extract . -w .`: its kernels lie in the tree, beside the user's own folder of that name."""
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "mine.cu").write_text("__global__ void k(int *x) { *x = 1; }\n")
    args = ["extract", str(tmp_path), "--no-compile", "-w", str(tmp_path)]
    for _ in range(3):
        assert cli.run(args) == 0
        assert [path.parent.name for path in tmp_path.rglob("kernel.json")] == ["k"]


def test_symbolic_links_never_loop_and_never_count_a_file_twice(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "real.cu").write_text("x")
    (tmp_path / "b" / "up").symlink_to(tmp_path)
    (tmp_path / "a_link.cu").symlink_to(tmp_path / "b" / "real.cu")
    (tmp_path / "self").symlink_to(tmp_path / "self")
    (tmp_path / "gone.cu").symlink_to(tmp_path / "nowhere.cu")
    assert outcomes(walk(tmp_path)) == {
        "b/real.cu": None,
        "b/up": FileOutcome.SEEN,
        "a_link.cu": FileOutcome.SEEN,
        "self": FileOutcome.BROKEN_LINK,
        "gone.cu": FileOutcome.BROKEN_LINK,
    }


def test_a_link_to_a_folder_elsewhere_is_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "k.cu").write_text("x")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "linked").symlink_to(tmp_path / "elsewhere")
    assert outcomes(walk(tmp_path / "tree")) == {"linked/k.cu": None}


def test_special_files_are_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.cu")  # opening it would wait for ever
    assert outcomes(walk(tmp_path)) == {"pipe.cu": FileOutcome.NOT_A_FILE}


def test_a_huge_file_is_reported_and_not_read(tmp_path: Path) -> None:
    with (tmp_path / "huge.cu").open("wb") as file:
        file.truncate(100 * 1024 * 1024)
    assert outcomes(walk(tmp_path)) == {"huge.cu": FileOutcome.TOO_LARGE}
    assert read_source(tmp_path / "huge.cu") is FileOutcome.TOO_LARGE
    assert MAX_FILE_BYTES < 100 * 1024 * 1024


def test_binary_files_are_distinguished_from_odd_text(tmp_path: Path) -> None:
    (tmp_path / "garbage.cu").write_bytes(bytes(range(256)) * 10)
    (tmp_path / "latin1.cu").write_bytes("// Grüße\r\n__global__ void k() {}\r\n".encode("latin-1"))
    assert read_source(tmp_path / "garbage.cu") is FileOutcome.BINARY
    assert isinstance(read_source(tmp_path / "latin1.cu"), bytes)
    assert read_source(tmp_path / "missing.cu") is FileOutcome.UNREADABLE


@contextmanager
def ordinary_user() -> Iterator[None]:
    """Root may read everything; nobody may not."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(before)


def test_unreadable_folders_have_an_outcome() -> None:
    manifests = load_manifests()
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        (Path(name) / "locked").mkdir(mode=0)
        tree = generic_tree(Path(name), manifests["generic"])
        with ordinary_user():
            found = list(Walker(manifests, Filter()).walk(Path(name), tree))
    assert outcomes(found) == {"locked": FileOutcome.UNREADABLE_FOLDER}


def test_globs_choose_by_path_or_by_name(tmp_path: Path) -> None:
    for name in ("a/keep.cu", "a/test_x.cu", "b/keep.cu"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    found = outcomes(walk(tmp_path, include=("a/*",), exclude=("test_*",)))
    assert found == {
        "a/keep.cu": None,
        "a/test_x.cu": FileOutcome.EXCLUDED,
        "b/keep.cu": FileOutcome.EXCLUDED,
    }


def test_file_names_that_are_not_utf8_are_walked(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"k\xff.cu")).write_text("x")
    assert [os.fsencode(file.path) for file in walk(tmp_path)] == [b"k\xff.cu"]
