"""GRPO in several turns: the model answers, is told what the judge found, and answers again.

If the model's chat template has tools, TRL offers it a tool that judges an answer (`environment`). Otherwise
the findings come as a plain turn after an answer that is not right yet (`PlainTurns`). The last answer earns
the reward; tokens that the model did not write are left out of the loss. Not covered: how an answer is judged
(`reward.pool`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from kcurate.local_models.form import Form
from kcurate.records import Outcome
from kcurate.reward.feedback import feedback_on
from kcurate.reward.task import Judged, Pool, Task
from kcurate.train.trl_reward import synchronize

# After these there is nothing to put right.
DONE = (Outcome.CONFIRMED, Outcome.CORRECT)
AGAIN = "{findings}\nGive a better answer, whole and in the same form.\n"
_PROBE = [{"role": "user", "content": "probe"}, {"role": "assistant", "content": "said"}]


def has_tools(tokenizer: Any, form: Form) -> bool:
    """Whether tools can be offered: the template renders their calls, and TRL knows how to read these."""
    from trl.chat_template_utils import add_response_schema, supports_tool_calling

    if not form.chat or not supports_tool_calling(tokenizer):
        return False
    try:
        add_response_schema(tokenizer)
    except ValueError:
        return getattr(tokenizer, "response_template", None) is not None
    return True


def trainer_arguments(
    turns: int, tasks: Mapping[str, Task], form: Form, tokenizer: Any, pool: Pool, ends: set[int]
) -> dict[str, Any]:
    """What a trainer is given for so many turns; nothing for one."""
    if turns == 1:
        return {}
    if has_tools(tokenizer, form):
        return {"environment_factory": environment(tasks, pool)}
    return {"rollout_func": PlainTurns(tasks, form, tokenizer, pool, ends, turns)}


def environment(tasks: Mapping[str, Task], pool: Pool) -> Callable[[], Any]:
    """The `environment_factory` of a trainer: one object judges the answers of one rollout at a time."""

    class Judge:
        def __init__(self) -> None:
            self._task: Task | None = None

        def reset(self, task_id: str, **_: Any) -> None:
            self._task = tasks[task_id]

        async def judge(self, answer: str) -> str:
            """Compile an answer, compare its results with those of the given code, and time it.

            Args:
                answer: The whole answer, in the form that the final one has.

            Returns:
                What was found.
            """
            assert self._task is not None, "reset comes first"
            synchronize()
            (judged,) = await pool.score([self._task], [answer])
            return feedback_on(judged)

    return Judge


class PlainTurns:
    """The `rollout_func` of a trainer: up to `turns` answers, with the judge's findings between them."""

    def __init__(
        self, tasks: Mapping[str, Task], form: Form, tokenizer: Any, pool: Pool, ends: set[int], turns: int
    ) -> None:
        self._tasks, self._form, self._tokenizer = tasks, form, tokenizer
        self._pool, self._ends, self._turns = pool, ends, turns

    def __call__(self, asked: list[Any], trainer: Any) -> dict[str, Any]:
        """Token ids of prompts and completions, which of these the model wrote, and the last replies."""
        tasks = [self._tasks[row["task_id"]] for row in trainer.rows]
        begun, _, _ = trainer._tokenize_prompts(asked)
        added: list[list[int]] = [[] for _ in asked]
        mask: list[list[int]] = [[] for _ in asked]
        replies = [""] * len(asked)
        room = getattr(trainer.model.config, "max_position_embeddings", None) or 1 << 30
        going = list(range(len(asked)))
        for turn in range(self._turns):
            if not going:
                break
            sampled = self._sample(trainer, [[*begun[i], *added[i]] for i in going])
            for i, ids in zip(going, sampled, strict=True):
                added[i] += ids
                mask[i] += [1] * len(ids)
                text = self._tokenizer.decode(ids, skip_special_tokens=True)
                replies[i] = self._form.with_thought(text)
            going = [i for i in going if added[i][-1] in self._ends]
            if turn + 1 == self._turns:
                break
            synchronize()
            judged = asyncio.run(self._pool.score([tasks[i] for i in going], [replies[i] for i in going]))
            feedback = {
                i: self.turn(answer)
                for i, answer in zip(going, judged, strict=True)
                if answer.outcome not in DONE
            }
            longest = trainer.max_completion_length
            going = [
                i for i in feedback if len(begun[i]) + len(added[i]) + len(feedback[i]) + longest <= room
            ]
            for i in going:
                added[i] += feedback[i]
                mask[i] += [0] * len(feedback[i])
        return {
            "prompt_ids": begun,
            "completion_ids": added,
            "env_mask": mask,
            "logprobs": None,
            "reply": replies,
        }

    def _sample(self, trainer: Any, ids: list[list[int]]) -> list[list[int]]:
        sampled, _ = trainer._generate_single_turn(ids, None, {}, 1)
        return [list(ids) for ids in sampled]

    def turn(self, judged: Judged) -> list[int]:
        """The tokens between two answers, from the end of the first to the start of the next."""
        text = AGAIN.format(findings=feedback_on(judged).rstrip())
        if not self._form.chat:
            return self._ids(f"\n{text}\nAnswer:\n\n")
        before = self._shown(_PROBE, opens=False)
        after = self._shown([*_PROBE, {"role": "user", "content": text}], opens=True)
        # A template that shows earlier turns otherwise once another follows: from the user's turn on.
        rest = after[len(before) :] if after.startswith(before) else after.rpartition("said")[2]
        return self._ids(rest)

    def _shown(self, messages: Any, *, opens: bool) -> str:
        return str(self._tokenizer.apply_chat_template(messages, add_generation_prompt=opens, tokenize=False))

    def _ids(self, text: str) -> list[int]:
        return list(self._tokenizer(text, add_special_tokens=False).input_ids)
