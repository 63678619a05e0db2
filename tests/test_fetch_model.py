"""A file that travels in pieces (`benchmarks/fetch_model.py`)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kcurate.errors import InputError

with pytest.MonkeyPatch.context() as path:
    path.syspath_prepend(Path(__file__).resolve().parent.parent / "benchmarks")
    import fetch_model


@pytest.fixture
def pieces(tmp_path: Path) -> Path:
    whole = tmp_path / "whole"
    whole.write_bytes(bytes(range(256)) * 10)
    assert fetch_model.cut(whole, tmp_path / "pieces", 1000) == 3
    return tmp_path / "pieces"


def carried(pieces: Path, *names: str) -> Path:
    """A folder with the list and some of the pieces, as one call carries it."""
    folder = pieces.with_name("-".join(names))
    folder.mkdir()
    for name in (fetch_model.LIST, *names):
        (folder / name).write_bytes((pieces / name).read_bytes())
    return folder


def test_pieces_come_in_any_order_and_twice(pieces: Path, tmp_path: Path) -> None:
    into = tmp_path / "far" / "whole"
    assert fetch_model.join(carried(pieces, "piece-002.bin"), into) == (1, 3)
    assert not into.exists()
    assert fetch_model.join(carried(pieces, "piece-000.bin", "piece-002.bin"), into) == (2, 3)
    assert fetch_model.join(carried(pieces, "piece-001.bin"), into) == (3, 3)
    assert into.read_bytes() == (tmp_path / "whole").read_bytes()
    assert fetch_model.join(carried(pieces, "piece-001.bin", "piece-000.bin"), into) == (3, 3)
    assert sorted(path.name for path in into.parent.iterdir()) == ["whole"]


def test_a_damaged_piece_is_refused_and_may_come_again(pieces: Path, tmp_path: Path) -> None:
    into = tmp_path / "far" / "whole"
    bad = carried(pieces, "piece-000.bin", "piece-001.bin")
    (bad / "piece-001.bin").write_bytes(b"cut")
    with pytest.raises(InputError, match=r"not piece-001.bin: 3 bytes"):
        fetch_model.join(bad, into)
    assert not into.parent.exists()
    assert fetch_model.join(pieces, into) == (3, 3)


def test_another_file_is_not_overwritten(pieces: Path, tmp_path: Path) -> None:
    into = tmp_path / "whole.gguf"
    into.write_bytes(b"something else")
    with pytest.raises(InputError, match="not whole: 14 bytes"):
        fetch_model.join(pieces, into)
    with pytest.raises(InputError, match=f"not {fetch_model.MODEL.name}"):
        fetch_model.get(into)
    assert into.read_bytes() == b"something else"


def test_pieces_of_two_files_are_not_mixed(pieces: Path, tmp_path: Path) -> None:
    into = tmp_path / "far" / "whole"
    fetch_model.join(carried(pieces, "piece-001.bin"), into)
    listed = json.loads((pieces / fetch_model.LIST).read_text())
    listed["whole"]["size"] += 1
    (pieces / fetch_model.LIST).write_text(json.dumps(listed))
    with pytest.raises(InputError, match="pieces of another file"):
        fetch_model.join(pieces, into)
    (pieces / fetch_model.LIST).unlink()
    with pytest.raises(InputError, match="no list of pieces"):
        fetch_model.join(pieces, into)
