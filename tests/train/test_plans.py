"""What a run is to do, and what it does when it is taken up."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcurate.errors import InputError
from kcurate.train import plans
from kcurate.train.plans import ALL, STAGES, Plan
from kcurate.train.run_folder import RunFolder

HERE, THERE = Path("/here"), Path("/there")


def test_a_new_run_does_all_and_one_that_goes_on_what_it_did() -> None:
    assert plans.settle(None, None, Plan()) == Plan(STAGES)
    assert plans.settle(None, None, Plan(("sft",))) == Plan(("sft",))
    assert plans.settle(None, None, Plan(("grpo",), HERE)) == Plan(("grpo",), HERE)
    assert plans.settle(("grpo",), None, Plan(("sft",))) == Plan(("grpo",))
    assert plans.settle((), HERE, Plan(STAGES)) == Plan(()), "measuring changes nothing"
    assert plans.settle(("grpo",), HERE, Plan(("grpo",), HERE), grpo_begun=True) == Plan(("grpo",), HERE)
    assert plans.settle(("grpo",), THERE, Plan(("grpo",), HERE)) == Plan(("grpo",), THERE)


def test_an_adapter_that_would_not_be_used_is_refused() -> None:
    for stages in (None, STAGES):
        with pytest.raises(InputError, match="would ignore the adapter that SFT trains"):
            plans.settle(stages, HERE, Plan())
    with pytest.raises(InputError, match="SFT takes no adapter"):
        plans.settle(("sft",), HERE, Plan())
    assert plans.settle(("rft",), HERE, Plan()) == Plan(("rft",), HERE)
    with pytest.raises(InputError, match="started from /here"):
        plans.settle(("grpo",), THERE, Plan(("grpo",), HERE), grpo_begun=True)
    with pytest.raises(InputError, match="started from its own SFT"):
        plans.settle(("grpo",), THERE, Plan(STAGES), grpo_begun=True)


def test_a_plan_is_read_back(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert plans.read(folder) == Plan()
    plans.write(folder, Plan(), Plan(("sft",)))
    plans.write(folder, plans.read(folder), Plan(("grpo",), HERE))
    plans.write(folder, plans.read(folder), Plan(()))
    assert plans.read(folder) == Plan(STAGES, HERE)
    plans.write(folder, plans.read(folder), Plan(("rft",)))
    assert plans.read(folder) == Plan(ALL, HERE), "in the order in which they start from each other"
    folder.plan.write_text('{"stages": 3}')
    with pytest.raises(InputError, match=r"run\.json: not a plan file"):
        plans.read(folder)
