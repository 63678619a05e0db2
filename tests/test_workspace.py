"""The workspace: paths."""

from __future__ import annotations

from pathlib import Path

from kcurate.core.workspace import Workspace


def test_naming_a_workspace_touches_nothing(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "work")
    assert workspace.kernels == tmp_path / "work" / "kernels"
    assert not workspace.root.exists()
