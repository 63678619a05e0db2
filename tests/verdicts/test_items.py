"""What commands say of a pair besides its verdict: the same words, whichever command says them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from dataset.making import pair, workspace

from kcurate import cli
from kcurate.core import store
from kcurate.core.workspace import Workspace
from kcurate.records import Candidate, Origin, Outcome
from kcurate.verdicts.items import EARLIER_CODE, OUTDATED, has_earlier_code


def extracted(space: Workspace, candidate: Candidate, slow: str, fast: str) -> None:
    """Kernels of this code, under the names of the pair's origin."""
    for name, code in zip(candidate.origin.kernels, (slow, fast), strict=False):
        store.write_bytes(space.kernels / name / "kernel.cu", code.encode())


@pytest.mark.parametrize(
    "words",
    ["validate --backend emulator --fail-on none", "list pairs", "show own/a", "report", "build"],
)
def test_every_command_says_that_a_pair_is_of_earlier_code(
    tmp_path: Path, words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    origin = Origin("natural", "own", kernels=("f/slow", "f/fast"))
    candidate = pair("own/a", origin=origin, problem=None)
    space = workspace(tmp_path, [(candidate, None)])
    monkeypatch.setenv("COLUMNS", "300")
    command = [*words.split(), "-w", str(tmp_path)]
    extracted(space, candidate, candidate.slow.code, candidate.fast.code)
    cli.run(command)
    assert EARLIER_CODE not in "".join(capsys.readouterr())
    extracted(space, candidate, candidate.slow.code, candidate.fast.code + "// edited")
    cli.run(command)
    assert EARLIER_CODE in "".join(capsys.readouterr())


@pytest.mark.parametrize("words", ["list pairs", "show own/a", "report --json", "build --json"])
def test_every_command_says_that_the_verdicts_are_on_other_content(
    tmp_path: Path, words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    space = workspace(tmp_path, [(pair("own/a"), Outcome.CONFIRMED)])
    store.write_candidate(space.pairs / "own/a", pair("own/a", 2))
    cli.run([*words.split(), "-w", str(tmp_path)])
    assert OUTDATED in "".join(capsys.readouterr())


def test_only_a_side_that_is_one_kernel_is_compared(tmp_path: Path) -> None:
    space = Workspace(tmp_path)
    natural = pair("own/a", origin=Origin("natural", "own", kernels=("f/slow", "f/fast")))
    rule = pair("own/b", origin=Origin("rule", "own", kernels=("f/fast",), made="slow"))
    history = pair("own/c", origin=Origin("history", "own", kernels=("f/slow", "f/slow")))
    several = pair("own/d", origin=Origin("natural", "own", kernels=("f/slow", "f/fast", "f/other")))
    assert not has_earlier_code(natural, space)  # its kernels are not here
    extracted(space, natural, "other", rule.fast.code)
    assert has_earlier_code(natural, space)
    assert not any(has_earlier_code(each, space) for each in (rule, history, several))
    both = replace(rule, origin=replace(rule.origin, kernels=("f/slow", "f/fast")))
    assert not has_earlier_code(both, space)
    assert has_earlier_code(replace(both, origin=replace(both.origin, made="fast")), space)
