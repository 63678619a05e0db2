"""When a command that ran to its end has failed: one table in the code, the same one in docs/cli.md."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import small

from kcurate import cli
from kcurate.cli import failing
from kcurate.core import store
from kcurate.errors import FailedError
from kcurate.records import Item, Summary

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")


def summary(stage: str, kind: str, *passed: bool) -> Summary:
    items = tuple(Item(kind, str(at), "ok" if good else "bad", good) for at, good in enumerate(passed))
    counts = {kind: {"ok": sum(passed), "bad": len(passed) - sum(passed)}}
    return Summary(stage, counts, 1.0, None, items)


@pytest.mark.parametrize("stage", failing.FAILS)
def test_a_command_fails_by_its_rule(stage: str) -> None:
    kind, rule = failing.FAILS[stage]
    failing.check(summary(stage, kind, True, True), ())
    failing.check(summary(stage, "others", False), ())
    with pytest.raises(FailedError, match=f"kcurate {stage}: 2 of 2 {kind} did not pass"):
        failing.check(summary(stage, kind, False, False), ())
    if rule == failing.ONE_FAILED:
        with pytest.raises(FailedError, match="1 of 2"):
            failing.check(summary(stage, kind, True, False), ())
    else:
        failing.check(summary(stage, kind, True, False), ())


def test_an_option_takes_the_place_of_the_rule() -> None:
    bad = summary("validate", "candidates", False)
    failing.check(bad, ("none",))
    failing.check(bad, ("mismatch",))
    for name in ("bad", "any"):
        with pytest.raises(FailedError, match="--fail-on: 1 "):
            failing.check(bad, (name,))


def test_the_page_has_the_table_of_the_code() -> None:
    for code, meaning in cli.EXIT_CODES.items():
        assert f"| {code} | {meaning} |" in PAGE
    for stage, (kind, rule) in failing.FAILS.items():
        assert f"| `{stage}` | of its {kind}, {rule} |" in PAGE
    for stage, why in failing.RAISED.items():
        assert f"| `{stage}` | {why} |" in PAGE


def test_a_pair_that_is_wrong_and_a_kernel_without_variant_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    store.write_candidate(
        tmp_path / "pair", small.scaled(fast=small.SCALE.replace("a * x[i]", "a * x[i] + 1"))
    )
    validate = ["validate", "pair", "--backend", "emulator"]
    assert cli.run([*validate, "--json"]) == 1
    done = json.loads(capsys.readouterr().out)
    assert done["counts"] == {"candidates": {"mismatch": 1}}
    assert done["error"]["what"] == "1 of 1 candidates did not pass"
    assert cli.run([*validate, "--fail-on", "compile_error"]) == 0
    store.write_candidate(tmp_path / "typo", small.scaled(fast=small.SCALE.replace("a * x[i]", "LOST")))
    assert cli.run(["validate", "typo", "--backend", "emulator"]) == 1
    said = capsys.readouterr().out
    assert "fast side: does not compile: line 4: " in said and "LOST" in said
    assert cli.run(["show", "typo"]) == 0
    assert "log on " in capsys.readouterr().out
    assert cli.run(["deopt", "pair", "--rules", "unroll"]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == ("error: kcurate deopt: 1 of 1 kernels did not pass")
