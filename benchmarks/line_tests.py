"""A pytest plugin for `benchmarks/mutants.py`: which test files run which lines of a package.

Not covered: lines that run in other processes, or when a module is imported.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import coverage
import pytest

COVERAGE = pytest.StashKey[coverage.Coverage]()
SECONDS: Counter[str] = Counter()
FAILED: list[str] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    """The package's folder, and the JSON file to write."""
    parser.addoption("--lines-of", type=Path)
    parser.addoption("--lines-to", type=Path)


def pytest_configure(config: pytest.Config) -> None:
    """Start to trace."""
    traced = coverage.Coverage(data_file=None, source=[str(config.getoption("--lines-of"))])
    config.stash[COVERAGE] = traced
    traced.start()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """What runs from here on counts for this test's file."""
    item.config.stash[COVERAGE].switch_context(item.location[0])
    return (yield)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up how long a file's tests take, and note the tests that fail without a mutant."""
    SECONDS[report.location[0]] += report.duration
    if report.failed:
        FAILED.append(report.nodeid)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Write `lines` ({module: {test file: lines}}), `seconds` ({test file: s}) and `failed` (test ids)."""
    traced = config.stash[COVERAGE]
    traced.stop()
    data = traced.get_data()
    found: dict[str, dict[str, list[int]]] = {}
    for path in sorted(data.measured_files()):
        name = Path(path).relative_to(config.rootpath).as_posix()
        for line, files in sorted(data.contexts_by_lineno(path).items()):
            for file in filter(None, files):
                found.setdefault(name, {}).setdefault(file, []).append(line)
    noted = {"lines": found, "seconds": SECONDS, "failed": FAILED}
    config.getoption("--lines-to").write_text(json.dumps(noted))
