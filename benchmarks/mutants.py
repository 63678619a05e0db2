"""Do the tests notice a mistake? Mutants of a package of kcurate, each run against the tests of its line.

    pip install -c constraints.txt -e '.[gpu,train,dev,mutation]'
    python benchmarks/mutants.py kcurate/cuda_source

Cosmic Ray's operators make the mutants; a seed draws the places. The whole suite runs once to find out which
test files run which lines; then each mutant meets those that run its line, nearest first and of those the
quickest, up to the first failure. All of this happens in a copy of the tree, and everything that a test
starts imports that copy. Each mutant is a line of `docs/data/mutants/<package>-<seed>.jsonl`. One that has
its line is not run again, so a run can be stopped at any moment.

Not covered: whether the judge notices mistakes in kernels (`benchmarks/mutation.py`).
"""

from __future__ import annotations

import argparse
import ast
import difflib
import hashlib
import itertools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cosmic_ray import plugins
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import MutationVisitor

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "docs" / "data" / "mutants"
SEED, COUNT = 20, 50
# Which test files run which lines, as they were when it was made (`--map` makes it anew).
LINES = ROOT / "build" / "mutants" / "lines.json"
# They take the names of variables.
LEFT_OUT = ("core/VariableInserter", "core/VariableReplacer")
# A mutant may take this many times as long as its tests do without it, and this many seconds more.
SLOWER, LEAST_LIMIT_S = 4.0, 60.0
# What pytest exits with when every test was left out.
NOTHING_RUN = 5
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
# {module: {test file: lines that it runs}}
Lines = Mapping[str, Mapping[str, Sequence[int]]]
# How a place is changed: an operator, and the number of the place among those of the operator in the file.
Way = tuple[str, int]


@dataclass(frozen=True)
class Mutant:
    """One change to one module; `text` is the changed module."""

    id: str
    module: str
    line: int
    operator: str
    diff: str
    text: str


@dataclass(frozen=True)
class Row:
    """What became of a mutant: `killed` by a test, `timeout` (the tests took too long), or `survived`."""

    id: str
    module: str
    line: int
    operator: str
    diff: str
    outcome: str
    test: str | None


def draw(package: Path, leave_out: Sequence[str], seed: int) -> Iterator[Mutant]:
    """One mutant a place, in the order of a hash of seed and place: leaving out a file moves no other."""
    found = []
    for path in sorted(package.rglob("*.py")):
        if path.name in leave_out:
            continue
        lines, seen = path.read_text().splitlines(), Counter[str]()
        for (line, column), ways in sorted(_places(path).items()):
            place = f"{seed} {_name(path)} {column} {lines[line - 1]}"
            seen[place] += 1
            key = hashlib.sha256(f"{place} {seen[place]}".encode()).hexdigest()
            found.append((key, path, line, ways))
    for key, path, line, ways in sorted(found, key=lambda one: one[0]):
        random.Random(key).shuffle(ways)
        mutants = (_mutant(path, line, *way) for way in ways)
        yield from itertools.islice(filter(None, mutants), 1)


def _places(path: Path) -> dict[tuple[int, int], list[Way]]:
    """Where something can be changed (line and column), and how."""
    nodes = list(ast_nodes(get_ast(path.read_text())))
    found: dict[tuple[int, int], list[Way]] = {}
    for operator in sorted(set(plugins.operator_names()) - {*LEFT_OUT}):
        positions = (at for node in nodes for at in plugins.get_operator(operator)().mutation_positions(node))
        for number, (start, _) in enumerate(positions):
            found.setdefault(start, []).append((operator, number))
    return found


def _mutant(path: Path, line: int, operator: str, number: int) -> Mutant | None:
    """None: it does not parse, or differs only in annotations, which nothing evaluates."""
    text = path.read_text()
    changed = MutationVisitor.mutate_code(text, plugins.get_operator(operator)(), number)
    try:
        if changed is None or _effective(changed) == _effective(text):
            return None
    except SyntaxError:
        return None
    wide, narrow = (_diff(text, changed, context) for context in (3, 0))
    made = hashlib.sha256(f"{_name(path)}\n{wide}".encode()).hexdigest()[:16]
    return Mutant(made, _name(path), line, operator.split("/")[1], narrow, changed)


def _diff(before: str, after: str, context: int) -> str:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=context)
    return "\n".join(line for line in lines if not line.startswith(("---", "+++", "@@")))


def _effective(text: str) -> str:
    """The syntax tree without annotations."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        elif isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.AnnAssign):
            node.annotation = ast.Constant(None)
    return ast.dump(tree)


def statement_lines(module: str, line: int) -> range:
    """The lines of the innermost statement around a line; of a compound one, its head."""
    found = range(line, line + 1)
    for node in ast.walk(ast.parse((ROOT / module).read_text())):
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0):
            body = getattr(node, "body", None)
            end = max(node.lineno, body[0].lineno - 1) if body else node.end_lineno or line
            if line <= end:
                found = range(node.lineno, end + 1)
    return found


def tests_of(mutant: Mutant, lines: Lines) -> list[list[str]]:
    """Test files in two stages: all in the folder of the module's name, then the others that run the line.

    What a fixture of several files runs is noted for the first of them alone. For a line that no test runs in
    its own process (a constant, code of a worker) the others are those that run anything of the module or
    import it.
    """
    wanted = set(statement_lines(mutant.module, mutant.line))
    of_module = lines.get(mutant.module, {})
    files = {file for file, run in of_module.items() if wanted & set(run)}
    files = files or {*of_module, *_importers(mutant.module)}
    parts = Path(mutant.module).with_suffix("").parts[1:]
    folders = (ROOT.joinpath("tests", *parts[:end]) for end in range(len(parts), 0, -1))
    own = next((folder for folder in folders if folder.is_dir()), None)
    nearest = {_name(path) for path in own.rglob("test_*.py")} if own else set()
    return [sorted(stage) for stage in (nearest, files - nearest) if stage]


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _importers(module: str) -> Iterator[str]:
    """Test files that name the module in an import."""
    dotted = module.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    package, _, name = dotted.rpartition(".")
    direct = rf"^ *(?:from|import) {re.escape(dotted)}\b"
    named = re.compile(rf"{direct}|^ *from {re.escape(package)} import .*\b{name}\b", re.MULTILINE)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        if named.search(path.read_text()):
            yield _name(path)


class Copy:
    """The tree in a folder of its own, in which mutants are written and tests run."""

    def __init__(self, folder: Path) -> None:
        self.root = folder
        listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
        names = subprocess.run(listing, cwd=ROOT, capture_output=True, check=True, text=True).stdout
        for name in filter(None, names.split("\0")):
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name)
        self.environment = os.environ | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
        where = self._python("-c", "import kcurate; print(kcurate.__file__)", limit_s=60, cwd=Path("/"))[1]
        assert Path(where.strip()).is_relative_to(folder), where

    def _python(self, *args: str, limit_s: float, cwd: Path) -> tuple[int | None, str]:
        """Exit code (None: past the limit, and everything it started is ended) and output."""
        process = subprocess.Popen(
            [sys.executable, *args],
            cwd=cwd,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return None, ""
        return process.returncode, output

    def _pytest(self, *args: str, limit_s: float) -> tuple[int | None, str]:
        shutil.rmtree(self.root / ".hypothesis", ignore_errors=True)
        always = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--hypothesis-seed=0")
        return self._python(*always, *args, limit_s=limit_s, cwd=self.root)

    def lines(self, out: Path) -> None:
        """Run all tests once and write which file runs which lines."""
        own = self.root / "build" / "plugins"  # the benchmarks beside the plugin would hide folders of tests
        own.mkdir(parents=True)
        shutil.copy2(Path(__file__).with_name("line_tests.py"), own)
        self.environment["PYTHONPATH"] += f"{os.pathsep}{own}"
        options = ("-p", "line_tests", "--lines-of", str(self.root / "kcurate"), "--lines-to", str(out))
        code, output = self._pytest(*options, limit_s=3 * 3600.0)
        if code not in (0, 1):
            out.unlink(missing_ok=True)
            sys.exit(f"error: the tests do not run without a mutant:\n{output[-3000:]}")

    def judge(self, mutant: Mutant, stages: Sequence[Sequence[str]], noted: Mapping[str, Any]) -> Row:
        """Run the mutant's tests, nearest and quickest first, up to one that fails; `noted` is `LINES`."""
        path = self.root / mutant.module
        anyway = [word for test in noted["failed"] for word in ("--deselect", test)]
        outcome, test = "survived", None
        for files in stages:
            limit_s = LEAST_LIMIT_S + SLOWER * sum(noted["seconds"].get(file, 0.0) for file in files)
            path.write_text(mutant.text)
            try:
                quickest = sorted(files, key=lambda file: float(noted["seconds"].get(file, 0.0)))
                code, output = self._pytest("-x", *anyway, *quickest, limit_s=limit_s)
            finally:
                shutil.copy2(ROOT / mutant.module, path)
            if code is None:
                outcome = "timeout"
            elif code not in (0, NOTHING_RUN):
                outcome = "killed"
                test = found[1] if (found := FAILED.search(output)) else None
            if outcome != "survived":
                break
        return Row(mutant.id, mutant.module, mutant.line, mutant.operator, mutant.diff, outcome, test)


def read(path: Path) -> dict[str, Row]:
    """The last line of each mutant."""
    if not path.is_file():
        return {}
    rows = [Row(**json.loads(line)) for line in path.read_text().splitlines()]
    return {row.id: row for row in rows}


def equivalent() -> dict[str, str]:
    """Mutants that behave as the module does, and why: a person's finding."""
    path = DATA / "equivalent.json"
    return dict(json.loads(path.read_text())) if path.is_file() else {}


def summary(package: str, rows: Sequence[Row]) -> str:
    """Counts that add up, and the share that the tests notice."""
    same = equivalent()
    counted = {"killed": 0, "timeout": 0, "survived": 0, "equivalent": 0}
    for row in rows:
        counted["equivalent" if row.id in same else row.outcome] += 1
    noticed = counted["killed"] + counted["timeout"]
    real = noticed + counted["survived"]
    counts = ", ".join(f"{number} {name}" for name, number in counted.items())
    share = f"{noticed} of {real} noticed ({noticed / max(real, 1):.0%})"
    return f"{package}: {len(rows)} mutants: {counts}; {share}"


def main() -> None:
    """Draw, run what has no line yet, and print the share."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("package", help="a folder, such as kcurate/cuda_source")
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--leave-out", nargs="*", default=[], metavar="FILE", help="names of modules")
    parser.add_argument("--again", action="store_true", help="run survivors again, after a test was added")
    parser.add_argument("--map", action="store_true", help="find anew which tests run which lines")
    parser.add_argument("--list", action="store_true", help="print what is drawn")
    args = parser.parse_args()
    package = (ROOT / args.package).resolve()
    drawn = list(itertools.islice(draw(package, args.leave_out, args.seed), args.count))
    if args.list:
        for mutant in drawn:
            print(f"{mutant.id} {mutant.module}:{mutant.line} {mutant.operator}\n{mutant.diff}")
        return
    name = package.relative_to(ROOT / "kcurate").as_posix().replace("/", "-")
    out = DATA / f"{name}-{args.seed}.jsonl"
    known = read(out)
    waiting = [mutant for mutant in drawn if _waits(known.get(mutant.id), args.again)]
    if waiting:
        run(waiting, out, anew=args.map)
    known = read(out)
    print(summary(args.package, [known[mutant.id] for mutant in drawn]))


def _waits(row: Row | None, again: bool) -> bool:
    return row is None or (again and row.outcome == "survived" and row.id not in equivalent())


def run(waiting: Sequence[Mutant], out: Path, *, anew: bool) -> None:
    """Append a line for each mutant."""
    for folder in (out.parent, LINES.parent):
        folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="kcurate-mutants-") as name:
        copy = Copy(Path(name))
        if anew or not LINES.is_file():
            copy.lines(LINES)
        noted = json.loads(LINES.read_bytes())
        if noted["failed"]:
            print(f"left out, for they fail without a mutant: {', '.join(noted['failed'])}")
        for mutant in waiting:
            row = copy.judge(mutant, tests_of(mutant, noted["lines"]), noted)
            with out.open("a") as file:
                file.write(json.dumps(asdict(row)) + "\n")
            print(f"{row.outcome:9} {row.module}:{row.line} {row.operator} {row.test or ''}", flush=True)


if __name__ == "__main__":
    main()
