"""Which tests a run takes: the markers `gpu`, `slow` and `sample`, the options `--quick` and `--no-skips`.

Each choice is made in one place. Not covered: what is quick (`reach`), what is drawn (`sampling`).
"""

from __future__ import annotations

import shutil
import subprocess
import textwrap
from collections import Counter
from collections.abc import Callable, Generator
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pytest
import reach
import sampling
from hypothesis import HealthCheck, settings

GUARD = pytest.StashKey[reach.Guard]()
SAMPLE = pytest.StashKey[sampling.Sample]()
Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)

# The same examples in every run, however busy the machine is.
settings.register_profile(
    "steady", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.load_profile("steady")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--run-slow", action="store_true", help="also run tests marked slow (over 10 s each)")
    parser.addoption(
        "--quick", action="store_true", help="only tests that start no judge or compiler and import no torch"
    )
    parser.addoption(
        "--sample",
        action="store_true",
        help="of the built-in pairs and cheats: what changed, and one in 32",
    )
    parser.addoption(
        "--no-skips", action="store_true", help="a test that is skipped fails, unless a GPU is all it lacks"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--quick"):
        config.stash[GUARD] = reach.Guard()
    config.stash[SAMPLE] = sampling.sample() if config.getoption("--sample") else sampling.Sample()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    quick = config.getoption("--quick") and collection_path.match("test_*.py")
    return True if quick and reach.torch_import(collection_path) else None


def pytest_report_header(config: pytest.Config) -> str | None:
    return f"sample: {_sampled(config)[0]}" if config.getoption("--sample") else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.getoption("--sample"):
        terminalreporter.section("built-in pairs and cheats of this run")
        for line in _sampled(config):
            terminalreporter.write_line(textwrap.fill(line, 110, break_on_hyphens=False))


def _sampled(config: pytest.Config) -> list[str]:
    """How many folders were chosen and how to run all, then their names."""
    sample, folders = config.stash[SAMPLE], sampling.all_folders()
    if sample.commit is None:
        return [f"all {len(folders)} built-in pairs and cheats; git does not say what changed"]
    changed, drawn = ([name for name in folders if one(name)] for one in (sample.touched, sample.drawn))
    return [
        f"{len(changed)} changed and {len(drawn)} drawn by commit {sample.commit[:10]}, of {len(folders)} "
        "built-in pairs and cheats; all: make test-all, or pytest without --sample",
        *(f"{kind}: {', '.join(names)}" for kind, names in (("changed", changed), ("drawn", drawn)) if names),
    ]


@pytest.fixture(autouse=True, scope="session")
def one_reader() -> Generator[None]:
    """`extract` does not ask libclang too, which takes a second a file; tests about that undo this."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("kcurate.extract.second_reader.PACKAGE", "none")
        yield


@pytest.fixture(scope="session")
def sample(pytestconfig: pytest.Config) -> sampling.Sample:
    """Which folders this run takes; all without `--sample`."""
    return pytestconfig.stash[SAMPLE]


@cache
def _missing_gpu() -> str | None:
    if shutil.which("nvidia-smi") is None:
        return "no NVIDIA GPU on this machine (nvidia-smi not found)"
    if subprocess.run(["nvidia-smi", "-L"], capture_output=True, check=False).returncode:
        return "no NVIDIA GPU on this machine (nvidia-smi fails)"
    return None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if any(item.get_closest_marker("gpu") for item in items) and (reason := _missing_gpu()):
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason=reason))
    if not config.getoption("--run-slow"):
        for item in items:
            if item.get_closest_marker("slow"):
                item.add_marker(pytest.mark.skip(reason="slow; run with --run-slow"))
    _keep(config, items, [item for item in items if _in_sample(item)])
    items.sort(key=_longest_first(items))
    if config.getoption("--quick"):
        _keep(config, items, [item for item in items if not any(map(reach.heavy, _functions(item)))])
        if noted := config.stash[GUARD].take():
            raise pytest.UsageError(f"--quick: collecting tests {noted[0]}; see tests/reach.py")


def _longest_first(items: list[pytest.Item]) -> Callable[[pytest.Item], tuple[float, int]]:
    """A key by which files that take long come first, so that no worker ends alone.

    First those that have a test with a long limit of its own, then those with most tests.
    """
    limits: dict[Path, float] = {}
    for item in items:
        for mark in item.iter_markers("timeout"):
            limits[item.path] = max(limits.get(item.path, 0.0), mark.args[0])
    tests_in = Counter(item.path for item in items)
    return lambda item: (-limits.get(item.path, 0.0), -tests_in[item.path])


def _keep(config: pytest.Config, items: list[pytest.Item], kept: list[pytest.Item]) -> None:
    names = {item.nodeid for item in kept}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in names])
    items[:] = kept


def _in_sample(item: pytest.Item) -> bool:
    marks = list(item.iter_markers("sample"))
    return all(item.config.stash[SAMPLE].takes(mark.args, **mark.kwargs) for mark in marks)


def _functions(item: pytest.Item) -> list[Any]:
    """The test's function, those of its fixtures, and those among its parameters."""
    assert isinstance(item, pytest.Function)
    fixtures = [one.func for found in item._fixtureinfo.name2fixturedefs.values() for one in found]
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return [item.obj, *fixtures, *filter(callable, parameters)]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    yield
    _fail_unless_quick(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    yield
    _fail_unless_quick(item)


def _fail_unless_quick(item: pytest.Item) -> None:
    guard = item.config.stash.get(GUARD, None)
    if guard and (noted := guard.take()):
        pytest.fail(f"--quick: this test {noted[0]}, and tests/reach.py does not see how", pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    lacks_gpu = item.get_closest_marker("gpu") and _missing_gpu()
    return report if lacks_gpu else _refused(item.config, report)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    return _refused(collector.config, (yield))


def _refused(config: pytest.Config, report: Report) -> Report:
    """With `--no-skips`, a skip as a failure that says its reason."""
    if report.skipped and config.getoption("--no-skips") and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome, report.longrepr = "failed", f"--no-skips: {reason}"
    return report
