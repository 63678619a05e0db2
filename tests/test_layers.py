"""The house rules on imports: down only, stages apart, one importer for each heavy library."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "kcurate"

# Each line may import only from the lines above it, and never from its own line.
LAYERS = (
    {"errors", "json_text", "records"},
    {"codec", "config", "cuda_source", "hub", "metrics", "mutate", "prompts", "resources", "worker_pool"},
    {"store"},
    {"problem", "published_rows", "workspace"},
    {"backends", "suites"},
    {"judge"},
    {
        "dataset",
        "deopt",
        "doctor",
        "draft",
        "evaluate",
        "extract",
        "gallery",
        "report",
        "show",
        "train",
        "validate",
    },
    {"cli"},
    {"__main__"},
)
ONLY_IMPORTER = {
    "tree_sitter": "cuda_source",
    "tree_sitter_cuda": "cuda_source",
    "cuda": "backends",
    "jsonschema": "store",
    "jsonschema_rs": "store",
    "datasets": ("dataset", "train"),
    "torch": ("backends", "train"),
    "transformers": "train",
    "trl": "train",
    "peft": "train",
    "typer": "cli",
    "rich": ("cli", "show"),
}


def unit_of(path: Path) -> str:
    """The module or folder directly inside the package that a file belongs to."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything that a file imports, at whatever depth."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute here"
            base = node.module or ""
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)


FILES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def layer_of(unit: str) -> int:
    return next(i for i, units in enumerate(LAYERS) if unit in units)


def test_every_module_has_a_layer() -> None:
    known = set().union(*LAYERS)
    assert {unit_of(path) for path in FILES} <= known


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_down_only(path: Path) -> None:
    own = unit_of(path)
    for line, name in imports(path):
        parts = name.split(".")
        if parts[0] == "kcurate" and len(parts) > 1 and parts[1] not in (own, "__version__"):
            assert layer_of(parts[1]) < layer_of(own), f"{path}:{line}: {own} must not import {parts[1]}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_heavy_libraries_have_one_importer(path: Path) -> None:
    for line, name in imports(path):
        allowed = ONLY_IMPORTER.get(name.split(".")[0])
        if allowed is not None:
            assert unit_of(path) in ((allowed,) if isinstance(allowed, str) else allowed), (
                f"{path}:{line}: only {allowed} may import {name}"
            )


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from kcurate.cli import run; code = run(['--help']); "
        "heavy = {'torch', 'datasets', 'cuda', 'trl', 'numpy', 'pyarrow', 'pandas', 'jsonschema', "
        "'jsonschema_rs', 'cattrs', 'tree_sitter', 'anthropic', 'huggingface_hub', 'scipy'} "
        "& set(sys.modules); "
        "print(sorted(heavy), file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0
    assert done.stderr.strip() == "[]"
