"""Gradients that are no numbers: a step less, and not a model less."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

from kcurate.errors import InputError


class Step:
    """One weight after another takes a gradient; what was said."""

    def __init__(self, *, fp16: bool = False) -> None:
        import torch

        from kcurate.train.callbacks import GradientGuard

        self.weights = [torch.nn.Parameter(torch.ones(3)) for _ in range(2)]
        self.optimizer = torch.optim.AdamW(self.weights, lr=0.1)
        self.said: list[str] = []
        self._guard = GradientGuard("grpo", self.said.append)
        self._args = SimpleNamespace(fp16=fp16)
        self._state = SimpleNamespace(global_step=0)

    def take(self, value: float) -> None:
        import torch

        self.weights[0].grad = torch.ones(3)
        self.weights[1].grad = torch.tensor([0.0, value, 0.0])
        self._guard.on_pre_optimizer_step(self._args, self._state, None, optimizer=self.optimizer)
        self.optimizer.step()
        self._state.global_step += 1


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_such_a_step_is_left_out_and_said(value: float) -> None:
    import torch

    step = Step()
    step.take(value)
    assert all(torch.equal(one, torch.ones(3)) for one in step.weights)
    assert step.said == ["grpo 1: the gradient is NaN or infinite; the step is skipped"]
    step.take(0.5)
    assert all(torch.isfinite(one).all() and not torch.equal(one, torch.ones(3)) for one in step.weights)
    assert len(step.said) == 1


def test_a_run_of_them_ends_in_one_line() -> None:
    from kcurate.train.callbacks import MAX_SKIPPED

    step = Step()
    for _ in range(MAX_SKIPPED - 1):
        step.take(math.nan)
    step.take(1.0)
    for _ in range(MAX_SKIPPED - 1):
        step.take(math.nan)
    with pytest.raises(
        InputError,
        match=r"train grpo: the gradients of 5 steps in a row are NaN or infinite.*grpo\.learning_rate",
    ):
        step.take(math.nan)


def test_half_precision_has_its_own_guard() -> None:
    step = Step(fp16=True)
    step.take(math.inf)
    assert not step.said
