"""The house rules on imports: down only, stages apart, one importer for each heavy library."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

MAX_MODULE_LINES = 500
MAX_FUNCTION_LINES = 60
# Names that do not say what they hold, of a thousand that are assigned. It only falls.
VAGUE = frozenset({"one", "found", "given", "made", "own", "told"})
MAX_VAGUE_SHARE = 0.0075
PACKAGE = Path(__file__).resolve().parent.parent / "kcurate"

# Each line may import only from the lines above it, and never from its own line.
LAYERS = (
    {"errors", "ptx", "records"},
    {"client", "core"},
    {"cuda_source", "hub", "integrations", "prompts", "triton_source"},
    {"forms", "models", "mutate", "problem"},
    {"backends", "roofline", "suites", "verdicts"},
    {"judge"},
    {"profiling", "reward"},
    {"kernelbench", "local_models"},
    {"evaluation"},
    {
        "answers",
        "capture",
        "dataset",
        "deopt",
        "draft",
        "extract",
        "lookup",
        "mint",
        "report",
        "train",
        "tune",
        "validate",
        "verify_dataset",
    },
    {"own", "serve"},
    {"cli"},
    {"__main__"},
)
ONLY_IMPORTER = {
    "tree_sitter": "cuda_source",
    "tree_sitter_cuda": "cuda_source",
    "clang": "extract",
    "cuda": "backends",
    "jsonschema": "core",
    "licenseclassifier": "core",
    "jsonschema_rs": "core",
    "datasets": ("dataset", "local_models", "train"),
    "torch": ("answers", "backends", "evaluation", "kernelbench", "local_models", "reward", "train"),
    "triton": "backends",
    "transformers": ("evaluation", "local_models", "train"),
    "trl": "train",
    "peft": ("local_models", "train"),
    "fastapi": "serve",
    "uvicorn": "serve",
    "typer": "cli",
    "rich": ("cli", "lookup"),
}


def unit_of(path: Path) -> str:
    """The module or folder directly inside the package that a file belongs to."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


@cache
def imports(path: Path) -> tuple[tuple[int, str], ...]:
    """Line and dotted name of everything that a file imports, at whatever depth."""
    found: list[tuple[int, str]] = []
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            found += ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute here"
            base = node.module or ""
            found += ((node.lineno, f"{base}.{alias.name}") for alias in node.names)
    return tuple(found)


FILES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def layer_of(unit: str) -> int:
    return next(i for i, units in enumerate(LAYERS) if unit in units)


def test_every_module_has_a_layer() -> None:
    known = set().union(*LAYERS)
    assert {unit_of(path) for path in FILES} | {"__main__"} == known


def test_the_house_is_drawn_with_these_floors() -> None:
    page = (PACKAGE.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    drawing = page.partition("## The house")[2].partition("```text\n")[2].partition("```")[0]
    floors = [set(line.split()) for line in drawing.splitlines()]
    assert floors[::-1] == [set(units) for units in LAYERS[:-1]]


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


@pytest.mark.parametrize("path", sorted((PACKAGE / "integrations").glob("*.py")), ids=lambda path: path.stem)
def test_a_face_imports_its_host_and_the_client_only(path: Path) -> None:
    hosts = {"inspect_task": "inspect_ai"}
    for line, name in imports(path):
        parts = name.split(".")
        fine = parts[0] in sys.stdlib_module_names or parts[0] == hosts.get(path.stem, path.stem)
        fine |= parts[0] == "kcurate" and parts[1] in ("client", "integrations")
        assert fine, f"{path}:{line}: {name}"


@pytest.mark.parametrize("command", ["--help", "validate --help", "doctor"])
def test_help_and_doctor_load_nothing_heavy(command: str) -> None:
    code = (
        f"import sys; from kcurate.cli import run; code = run({command.split()!r}); "
        "heavy = {'torch', 'datasets', 'cuda', 'trl', 'numpy', 'pyarrow', 'pandas', 'jsonschema', "
        "'jsonschema_rs', 'cattrs', 'tree_sitter', 'anthropic', 'huggingface_hub', 'scipy', 'tqdm', "
        "'kcurate.records'} "
        "& set(sys.modules); "
        "print(sorted(heavy), file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize("reader", ["kcurate.lookup.show", "kcurate.report.stage", "kcurate.dataset.stage"])
def test_reading_verdicts_imports_no_judge(reader: str) -> None:
    code = (
        f"import sys, pkgutil, importlib; import {reader}; package = sys.modules[{reader!r}].__package__; "
        "path = getattr(sys.modules[package], '__path__', []) if package != 'kcurate' else []; "
        "[importlib.import_module(f'{package}.{one.name}') for one in pkgutil.iter_modules(path)]; "
        "print(sorted(name for name in sys.modules if name.startswith('kcurate.judge')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_rooms_have_no_circles() -> None:
    """Imports at the top of modules never lead back to where they started."""
    known = {module_of(path): path for path in [*FILES, PACKAGE / "__init__.py"]}
    wanted = {name: list(needed(path, known)) for name, path in known.items()}
    done: set[str] = set()
    for start in wanted:
        visit(start, wanted, done, ())


def visit(name: str, wanted: dict[str, list[str]], done: set[str], trail: tuple[str, ...]) -> None:
    assert name not in trail, " -> ".join((*trail[trail.index(name) :], name))
    if name not in done:
        for one in wanted[name]:
            visit(one, wanted, done, (*trail, name))
        done.add(name)


def module_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def needed(path: Path, known: dict[str, Path]) -> Iterator[str]:
    """Modules of ours that are imported when this one is."""
    for node in ast.parse(path.read_bytes()).body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("kcurate"):
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            found = [name if name in known else node.module for name in inside]
            yield from (name for name in dict.fromkeys(found) if name in known and name != module_of(path))


def test_what_runs_beside_a_candidate_imports_nothing_that_decides() -> None:
    """`judge/workers/inside` is the untrusted side; it knows `workers` and nothing else of the judge."""
    inside = PACKAGE / "judge" / "workers" / "inside"
    for path in sorted(inside.rglob("*.py")):
        for line, name in imports(path):
            if name.startswith("kcurate.judge."):
                assert name.startswith("kcurate.judge.workers."), f"{path}:{line}: {name}"


PACKAGES = sorted(path.parent for path in FILES if path.name == "__init__.py")


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: str(package.relative_to(PACKAGE)))
def test_table_of_a_package_lists_its_modules(package: Path) -> None:
    """The first column of the table in a package's docstring equals its folder: `module`, `package/`."""
    modules = {path.stem for path in package.glob("*.py")} - {"__init__"}
    packages = {f"{path.parent.name}/" for path in package.glob("*/__init__.py")}
    assert listed_in(package) == modules | packages


def listed_in(package: Path) -> set[str]:
    """The names in the first column; of a nested name (`workers/inside/`) only the outer package."""
    text = ast.get_docstring(ast.parse((package / "__init__.py").read_bytes())) or ""
    cells = re.findall(r"^\| (`.+?) \|", text, re.MULTILINE)
    return {re.sub(r"/.+", "/", name) for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_modules_and_functions_stay_short(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= MAX_MODULE_LINES, f"{path} is too long"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0].lineno if takes_options(node) else node.lineno
            lines = (node.end_lineno or 0) - first + 1
            assert lines <= MAX_FUNCTION_LINES, f"{path}:{node.lineno}: {node.name} has {lines} lines"


def takes_options(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """A command: its parameters are declarations of options, which do not count."""
    return any("Annotated" in ast.dump(arg) for arg in node.args.args + node.args.kwonlyargs)


def test_one_module_imports_the_parser() -> None:
    importers = {path for path in FILES for _, name in imports(path) if name.startswith("tree_sitter")}
    assert importers == {PACKAGE / "cuda_source" / "parse" / "syntax_tree.py"}


def test_few_names_do_not_say_what_they_hold() -> None:
    assigned = Counter(
        node.arg if isinstance(node, ast.arg) else node.id
        for path in FILES
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.arg) or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    )
    assert sum(assigned[name] for name in VAGUE) <= MAX_VAGUE_SHARE * assigned.total()
