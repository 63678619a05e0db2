"""GRPO in several turns: the model answers, reads the judge's findings, and answers again.

If the model's chat template has tools, TRL offers it a tool that judges an answer (`environment`). Otherwise
the findings become a user turn after an answer that is not right yet (`PlainTurns`). The last answer earns
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

# No further turn follows an answer with one of these outcomes.
DONE = (Outcome.CONFIRMED, Outcome.CORRECT)
AGAIN = "{findings}\nGive a better answer, whole and in the same form.\n"
_PROBE = [{"role": "user", "content": "probe"}, {"role": "assistant", "content": "said"}]


def has_tools(tokenizer: Any, form: Form) -> bool:
    """Whether tools can be offered: the template renders their calls, and TRL can parse these."""
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
    """The trainer's arguments for several turns; none for a single turn."""
    if turns == 1:
        return {}
    if has_tools(tokenizer, form):
        return {"environment_factory": environment(tasks, pool)}
    return {"rollout_func": PlainTurns(tasks, form, tokenizer, pool, ends, turns)}


def environment(tasks: Mapping[str, Task], pool: Pool) -> Callable[[], Any]:
    """The `environment_factory` of a trainer: an object that judges the answers of one rollout at a time."""

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

    def __call__(self, prompts: list[Any], trainer: Any) -> dict[str, Any]:
        """Token ids of prompts and completions, which of these the model wrote, and the last replies."""
        tasks = [self._tasks[row["task_id"]] for row in trainer.rows]
        prompt_ids, _, _ = trainer._tokenize_prompts(prompts)
        added: list[list[int]] = [[] for _ in prompts]
        mask: list[list[int]] = [[] for _ in prompts]
        replies = [""] * len(prompts)
        context = getattr(trainer.model.config, "max_position_embeddings", None) or 1 << 30
        open_ = list(range(len(prompts)))
        for turn in range(self._turns):
            if not open_:
                break
            sampled = self._sample(trainer, [[*prompt_ids[i], *added[i]] for i in open_])
            for i, ids in zip(open_, sampled, strict=True):
                added[i] += ids
                mask[i] += [1] * len(ids)
                text = self._tokenizer.decode(ids, skip_special_tokens=True)
                replies[i] = self._form.with_thought(text)
            open_ = [i for i in open_ if added[i][-1] in self._ends]
            if turn + 1 == self._turns:
                break
            synchronize()
            judged = asyncio.run(self._pool.score([tasks[i] for i in open_], [replies[i] for i in open_]))
            feedback = {
                i: self.turn(answer)
                for i, answer in zip(open_, judged, strict=True)
                if answer.outcome not in DONE
            }
            longest = trainer.max_completion_length
            length = {i: len(prompt_ids[i]) + len(added[i]) + len(ids) for i, ids in feedback.items()}
            open_ = [i for i in feedback if length[i] + longest <= context]
            for i in open_:
                added[i] += feedback[i]
                mask[i] += [0] * len(feedback[i])
        return {
            "prompt_ids": prompt_ids,
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
        # Some templates render earlier turns differently once another follows: search for the probe instead.
        between = after[len(before) :] if after.startswith(before) else after.rpartition("said")[2]
        return self._ids(between)

    def _shown(self, messages: Any, *, opens: bool) -> str:
        return str(self._tokenizer.apply_chat_template(messages, add_generation_prompt=opens, tokenize=False))

    def _ids(self, text: str) -> list[int]:
        return list(self._tokenizer(text, add_special_tokens=False).input_ids)
