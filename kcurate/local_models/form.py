"""How prompts and answers become tokens, the same way for training and for sampling.

A prompt is chat messages if the tokenizer has a chat template. Otherwise it is plain text in the form of
`PLAIN`: the three parts of the prompt, then a line that opens the answer. Not covered: the wording of prompts
(`kcurate.prompts`), the model (`weights`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kcurate import prompts
from kcurate.errors import InputError
from kcurate.local_models.settings import ModelSettings
from kcurate.prompts.replies import END_OF_THOUGHT, THOUGHT
from kcurate.records import Prompt
from kcurate.reward.task import Task

PLAIN = "{system}\n{context}\n{task}\nAnswer:\n\n"
# Closes the thought that a prompt opens, so that it is empty.
NO_THOUGHT = f"\n{END_OF_THOUGHT}\n\n"
# A template that rejects or drops the first message has no system role; its text goes into the user turn.
_PROBE = [{"role": "system", "content": "first-probe"}, {"role": "user", "content": "second-probe"}]
Text = str | list[dict[str, str]]


class Form:
    """The conversion for one tokenizer."""

    def __init__(self, tokenizer: Any, settings: ModelSettings) -> None:
        self._tokenizer = tokenizer
        self._name = settings.name
        self.chat = settings.chat_template and tokenizer.chat_template is not None
        self.system = self.chat and _takes_system(tokenizer)
        self.thinks = self.chat and _opens_thought(tokenizer)

    def prompt(self, prompt: Prompt) -> Text:
        """Chat messages, or plain text."""
        if not self.chat:
            return PLAIN.format(system=prompt.system, context=prompt.context, task=prompt.task)
        messages = prompts.chat(prompt)
        if self.system:
            return messages
        return [{"role": "user", "content": "\n".join(message["content"] for message in messages)}]

    def reply(self, completion: Any) -> str:
        """The text of a completion, in the form in which the trainer returns it.

        For a conversation with tools: the last answer in it, in a message or in the input of a tool call.
        """
        if isinstance(completion, str):
            return self.with_thought(completion)
        texts = [
            text for message in completion if message["role"] == "assistant" for text in self._texts(message)
        ]
        answers = [
            text for text in texts if not isinstance(prompts.read_reply(text, "text"), prompts.Unreadable)
        ]
        return (answers or texts or [""])[-1]

    def _texts(self, message: Mapping[str, Any]) -> Iterator[str]:
        """The texts of one message that may hold an answer."""
        content = str(message.get("content") or "")
        has_thought_field = "reasoning_content" in message or "thinking" in message
        yield content if has_thought_field else self.with_thought(content)
        for call in message.get("tool_calls") or ():
            arguments = call["function"]["arguments"]
            if isinstance(arguments, Mapping) and isinstance(arguments.get("answer"), str):
                yield arguments["answer"]

    def with_thought(self, text: str) -> str:
        """The sampled text, preceded by the opening mark of a thought if the prompt ends with that mark."""
        return f"{THOUGHT}{text}" if self.thinks else text

    def prompt_ids(self, prompt: Prompt) -> list[int]:
        """The prompt's token ids, exactly those that generation starts from."""
        return self.ids(self.text(prompt))

    def row(self, prompt: Prompt, answer: str, *, thought: str = "empty") -> tuple[list[int], list[int]]:
        """Token ids of the prompt, and of the target completion with its end-of-text token.

        `thought` kept: an empty thought before the answer counts as part of the prompt.

        Raises:
            InputError: the chat template renders a finished turn that does not continue the prompt.
        """
        opened = self.text(prompt)
        completion = self._completion(prompt, opened, answer) if self.chat else answer
        head, mark, tail = completion.partition(END_OF_THOUGHT)
        if thought == "kept" and mark and head.strip() in ("", THOUGHT):
            completion = tail.lstrip("\n")
            opened += head + mark + tail[: len(tail) - len(completion)]
        ids, whole = self.ids(opened), self.ids(opened + completion)
        if whole[: len(ids)] == ids:
            target = whole[len(ids) :]
        else:  # a token spans the border
            target = self._tokenizer(completion, add_special_tokens=False).input_ids
        end = self._tokenizer.eos_token_id
        if end in target:
            target = target[: target.index(end)]
        return ids, [*target, end]

    def text(self, prompt: Prompt, turns: Sequence[Mapping[str, str]] = ()) -> str:
        """The prompt, and the messages that followed it, as the exact text that generation starts from."""
        opened = self.prompt(prompt)
        if not isinstance(opened, str):
            return self._shown([*opened, *turns], opens=True)
        later = (f"{turn['content']}\n{'Answer:' if turn['role'] == 'user' else ''}\n" for turn in turns)
        return "".join([opened, *later])

    def _completion(self, prompt: Prompt, opened: str, answer: str) -> str:
        """The text that a finished turn appends to the prompt; a thought opened by the prompt stays empty."""
        whole = self._shown([*self.prompt(prompt), {"role": "assistant", "content": answer}], opens=False)
        if whole.startswith(opened):
            return whole[len(opened) :]
        thought_at = opened.rfind(THOUGHT)
        if not self.thinks or whole[:thought_at] != opened[:thought_at]:
            raise InputError(
                "its chat template renders a finished answer that does not continue the prompt",
                where=self._name,
                hint="--set model.chat_template=false",
            )
        after = whole[thought_at:]
        if after.startswith(THOUGHT):  # an empty thought with other white space
            after = after.partition(END_OF_THOUGHT)[2]
        return NO_THOUGHT + after.lstrip("\n")

    def _shown(self, messages: Any, *, opens: bool) -> str:
        return str(self._tokenizer.apply_chat_template(messages, add_generation_prompt=opens, tokenize=False))

    def ids(self, text: str) -> list[int]:
        """The token ids of a prompt's text, special tokens included."""
        # A chat template has already written the special tokens; plain text gets them here.
        return list(self._tokenizer(text, add_special_tokens=not self.chat).input_ids)


def fitting(tasks: Sequence[Task], form: Form, max_prompt: int, max_answer: int) -> list[Task]:
    """The tasks whose prompt and known answer (if any) have at most this many tokens."""
    fits = []
    for task in tasks:
        answer: list[int] = []
        if task.answer is None:
            prompt = form.prompt_ids(task.prompt)
        else:
            prompt, answer = form.row(task.prompt, task.answer)
        if len(prompt) <= max_prompt and len(answer) <= max_answer:
            fits.append(task)
    return fits


def _opens_thought(tokenizer: Any) -> bool:
    """Whether prompts end inside a thought, so that completions lack its opening mark."""
    shown = tokenizer.apply_chat_template(_PROBE[1:], add_generation_prompt=True, tokenize=False)
    tail = str(shown).rpartition(_PROBE[1]["content"])[2]
    return tail.rfind(THOUGHT) > tail.rfind(END_OF_THOUGHT)


def _takes_system(tokenizer: Any) -> bool:
    from jinja2 import TemplateError

    try:
        shown = tokenizer.apply_chat_template(_PROBE, add_generation_prompt=True, tokenize=False)
    except TemplateError:
        return False
    return _PROBE[0]["content"] in str(shown)
