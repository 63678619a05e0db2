"""Inspect: the tasks of a server, and a scorer that asks it.

    inspect eval kcurate/integrations/inspect_task.py --model openai/NAME -T url=URL --epochs 8

Standard errors are clustered by family. The metrics are those of `kcurate eval` (docs/evaluation.md); its
intervals are not computed here.
"""

from __future__ import annotations

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessageSystem, ChatMessageUser
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import TaskState, generate

from kcurate.client import DEFAULT_URL, Client
from kcurate.integrations import FAILED, judged_beside, numbers


@scorer(metrics={"*": [mean(), stderr(cluster="family")]})
def judge(url: str = DEFAULT_URL, token: str | None = None, scheme: str = "pairs") -> Scorer:
    """A scorer: the reward of a reply, and whether it is correct, faster, or a copy."""
    client = Client(url, token=token)

    async def score(state: TaskState, target: Target) -> Score:
        result = await judged_beside(client, str(state.sample_id), state.output.completion, scheme)
        metadata = {"outcome": result.outcome, "key": result.key}
        if result.outcome == FAILED:
            return Score.unscored(reason=FAILED, explanation=result.detail, metadata=metadata)
        values = numbers(result)
        del values["judged"]
        return Score(
            value=values, answer=state.output.completion, explanation=result.feedback, metadata=metadata
        )

    return score


@task
def kernels(
    url: str = DEFAULT_URL,
    token: str | None = None,
    scheme: str = "pairs",
    split: str = "held_out",
    brief: bool = False,
) -> Task:
    """The tasks of a split, without those whose known answer is mostly the given code."""
    message_class = {"system": ChatMessageSystem, "user": ChatMessageUser}
    tasks = Client(url, token=token).every_task(split=split, brief=brief)
    samples = [
        Sample(
            id=task.id,
            input=[message_class[message["role"]](content=message["content"]) for message in task.prompt],
            metadata={"family": task.family},
        )
        for task in tasks
        if not task.local_edit
    ]
    return Task(dataset=MemoryDataset(samples), solver=generate(), scorer=judge(url, token, scheme))
