"""The model, its tokenizer, and the text that both see.

A prompt is chat messages where the tokenizer has a chat template. Without one it is plain text in the form
of `PLAIN`: the three parts of the prompt, then a line that opens the answer. A `.gguf` file is loaded as
full weights (`unpacked`). Not covered: what a prompt says (`kcurate.prompts`).
"""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kcurate import prompts
from kcurate.errors import InputError, MissingDependencyError
from kcurate.prompts.replies import END_OF_THOUGHT, THOUGHT
from kcurate.records import Prompt
from kcurate.train.settings import LoraSettings, ModelSettings
from kcurate.train.task import Task

PLAIN = "{system}\n{context}\n{task}\nAnswer:\n\n"
# How an answer goes on from a prompt that opens a thought, without one.
NO_THOUGHT = f"\n{END_OF_THOUGHT}\n\n"
# A template is taken for one that has no system role when it refuses these; then rules join the question.
_PROBE = [{"role": "system", "content": "first-probe"}, {"role": "user", "content": "second-probe"}]
# NAME or USER/NAME; whatever else is a path.
_HUB_NAME = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?", re.ASCII)

Text = str | list[dict[str, str]]


def dtype_of(settings: ModelSettings) -> Any:
    """The torch dtype that weights are loaded in."""
    import torch

    if settings.dtype != "auto":
        return getattr(torch, settings.dtype)
    return torch.bfloat16 if torch.cuda.is_available() else torch.float32


def locate(settings: ModelSettings) -> tuple[str, dict[str, Any]]:
    """What `from_pretrained` takes: a name, and where in it to look.

    Raises:
        InputError: a path where there is no model. MissingDependencyError: no reader of .gguf files.
    """
    path = Path(settings.name)
    extra: dict[str, Any] = {"revision": settings.revision} if settings.revision else {}
    if settings.trust_remote_code:
        extra["trust_remote_code"] = True
    if path.suffix == ".gguf":
        if not path.is_file():
            raise InputError("no such file", where=settings.name, hint="--model")
        if importlib.util.find_spec("gguf") is None:
            raise MissingDependencyError("not installed: gguf", where=settings.name, hint="pip install gguf")
        return str(path.parent), {**extra, "gguf_file": path.name}
    if path.is_file():
        raise InputError("not a folder", where=settings.name, hint="a model is a folder or a .gguf file")
    if not path.exists() and not _HUB_NAME.fullmatch(settings.name):
        raise InputError("no such folder", where=settings.name, hint="--model NAME or FOLDER")
    return settings.name, extra


def load_tokenizer(settings: ModelSettings) -> Any:
    """The tokenizer, with a padding token.

    Raises:
        InputError: there is no such model, or it cannot be read.
    """
    from transformers import AutoTokenizer

    name, extra = locate(settings)
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, **extra)
    except (OSError, ValueError) as error:
        raise _no_model(settings, error) from error
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    if tokenizer.pad_token is None:
        raise InputError("its tokenizer has no end-of-text token", where=settings.name, hint="--model")
    return tokenizer


def load_model(settings: ModelSettings, *, adapter: Path | None = None, trainable: bool = False) -> Any:
    """The model, on the GPU where there is one; with a LoRA adapter on it if one is given.

    Raises:
        InputError: there is no such model or adapter, or it cannot be read.
    """
    import torch
    from transformers import AutoModelForCausalLM

    name, extra = locate(settings)
    try:
        model: Any = AutoModelForCausalLM.from_pretrained(
            name, dtype=dtype_of(settings), attn_implementation=settings.attention, **extra
        )
    except (OSError, ValueError, ImportError) as error:
        raise _no_model(settings, error) from error
    if adapter is not None:
        model = _with_adapter(model, adapter, trainable=trainable)
    if torch.cuda.is_available() and not trainable:
        model = model.to("cuda")
    return model


def check_adapter(adapter: Path) -> None:
    """Look whether a folder holds an adapter, before anything is loaded.

    Raises:
        InputError: it does not.
    """
    try:
        base = json.loads((adapter / "adapter_config.json").read_bytes())["peft_type"]
    except OSError as error:
        raise InputError("no adapter here", where=str(adapter), hint="run kcurate train sft first") from error
    except (ValueError, KeyError, TypeError) as error:
        raise InputError("not an adapter's settings", where=f"{adapter}/adapter_config.json") from error
    if not any((adapter / f"adapter_model.{kind}").is_file() for kind in ("safetensors", "bin")):
        raise InputError(f"a {base} adapter without weights", where=str(adapter))


def _with_adapter(model: Any, adapter: Path, *, trainable: bool) -> Any:
    import torch
    from peft import PeftModel
    from safetensors import SafetensorError

    check_adapter(adapter)
    try:
        return PeftModel.from_pretrained(model, str(adapter), is_trainable=trainable)
    except torch.OutOfMemoryError:
        raise
    except (OSError, ValueError, RuntimeError, KeyError, SafetensorError) as error:
        said = " ".join(str(error).split())[:200]
        raise InputError(f"does not fit the model: {said}", where=str(adapter)) from error


def unpacked(settings: ModelSettings, folder: Path) -> ModelSettings:
    """A `.gguf` model as a folder of plain weights, made once; other models as they are.

    Reading such a file takes long (135M parameters: half a minute), and a run reads its model several times.

    Raises:
        InputError: there is no such file, or it cannot be read.
    """
    if Path(settings.name).suffix != ".gguf":
        return settings
    if not (folder / "config.json").is_file():
        made = folder.with_name(f"{folder.name}.part")
        shutil.rmtree(made, ignore_errors=True)
        model = load_model(settings, trainable=True)
        for mark in ("hf_quantizer", "is_quantized", "quantization_method"):  # the weights are plain by now
            vars(model).pop(mark, None)
        vars(model.config).pop("quantization_config", None)
        model.save_pretrained(made)
        tokenizer = load_tokenizer(settings)
        _end_as(model.config.eos_token_id, tokenizer)
        tokenizer.save_pretrained(made)
        made.replace(folder)
    return replace(settings, name=str(folder))


def _end_as(token: Any, tokenizer: Any) -> None:
    """Let the tokenizer end texts as the model does: some releases read another token from these files."""
    if isinstance(token, int) and token != tokenizer.eos_token_id:
        padded_alike = tokenizer.pad_token_id == tokenizer.eos_token_id
        tokenizer.eos_token = tokenizer.convert_ids_to_tokens(token)
        if padded_alike:
            tokenizer.pad_token = tokenizer.eos_token


def _no_model(settings: ModelSettings, error: Exception) -> InputError:
    said = " ".join(str(error).split())[:200] or type(error).__name__
    return InputError(f"cannot load the model: {said}", where=settings.name, hint="--model NAME or FOLDER")


def lora(settings: LoraSettings, model: Any) -> Any:
    """The `peft.LoraConfig`; refuses names of layers that this model does not have.

    Raises:
        InputError: a layer named in `lora.targets` is not in the model.
    """
    import torch
    from peft import LoraConfig

    layers = [(name.rpartition(".")[2], layer) for name, layer in model.named_modules()]
    if absent := sorted(set(settings.targets) - {name for name, _ in layers}):
        linear = sorted({name for name, layer in layers if isinstance(layer, torch.nn.Linear)})
        raise InputError(
            f"the model has no layers {', '.join(absent)}",
            where="lora.targets",
            hint=f"its linear layers: {', '.join(linear)}",
        )
    return LoraConfig(
        r=settings.r,
        lora_alpha=settings.alpha,
        lora_dropout=settings.dropout,
        target_modules=list(settings.targets),
        task_type="CAUSAL_LM",
        bias="none",
    )


class Form:
    """How prompts and answers become what a tokenizer takes; the same for training and for asking."""

    def __init__(self, tokenizer: Any, settings: ModelSettings) -> None:
        self._tokenizer = tokenizer
        self._name = settings.name
        self.chat = settings.chat_template and tokenizer.chat_template is not None
        self.system = self.chat and _takes_system(tokenizer)
        self.thinks = self.chat and _opens_thought(tokenizer)

    def prompt(self, prompt: Prompt) -> Text:
        """Messages, or plain text."""
        if not self.chat:
            return PLAIN.format(system=prompt.system, context=prompt.context, task=prompt.task)
        messages = prompts.chat(prompt)
        if self.system:
            return messages
        return [{"role": "user", "content": "\n".join(one["content"] for one in messages)}]

    def reply(self, completion: Any) -> str:
        """The text of a completion as the trainer gives it back."""
        if not isinstance(completion, str):
            completion = "".join(str(one.get("content") or "") for one in completion)
        return self.said(completion)

    def said(self, text: str) -> str:
        """What was drawn, with the mark of a thought that its prompt had opened already."""
        return f"{THOUGHT}{text}" if self.thinks else text

    def prompt_ids(self, prompt: Prompt) -> list[int]:
        """A prompt as the tokens that generation starts from."""
        return self._ids(self.text(prompt))

    def row(self, prompt: Prompt, answer: str) -> tuple[list[int], list[int]]:
        """The tokens that generation starts from, and those that it should give: up to the end of text.

        Raises:
            InputError: a chat template whose finished turns do not go on from how it opens them.
        """
        opened, rest = self.text(prompt), answer
        if self.chat:
            rest = self._rest(prompt, opened, answer)
        ids, whole = self._ids(opened), self._ids(opened + rest)
        joined = whole[: len(ids)] == ids
        given = whole[len(ids) :] if joined else self._tokenizer(rest, add_special_tokens=False).input_ids
        end = self._tokenizer.eos_token_id
        if end in given:
            given = given[: given.index(end)]
        return ids, [*given, end]

    def text(self, prompt: Prompt) -> str:
        """A prompt as the very text that generation starts from."""
        given = self.prompt(prompt)
        return given if isinstance(given, str) else self._shown(given, opens=True)

    def _rest(self, prompt: Prompt, opened: str, answer: str) -> str:
        """What a finished turn has after the text that opens it; an open thought is closed, and empty."""
        whole = self._shown([*self.prompt(prompt), {"role": "assistant", "content": answer}], opens=False)
        if whole.startswith(opened):
            return whole[len(opened) :]
        at = opened.rfind(THOUGHT)
        if not self.thinks or whole[:at] != opened[:at]:
            raise InputError(
                "its chat template opens an answer in another way than a finished one begins",
                where=self._name,
                hint="--set model.chat_template=false",
            )
        after = whole[at:]
        if after.startswith(THOUGHT):  # an empty one, laid out otherwise
            after = after.partition(END_OF_THOUGHT)[2]
        return NO_THOUGHT + after.lstrip("\n")

    def _shown(self, messages: Any, *, opens: bool) -> str:
        return str(self._tokenizer.apply_chat_template(messages, add_generation_prompt=opens, tokenize=False))

    def _ids(self, text: str) -> list[int]:
        # A template has written its special tokens into the text; plain text gets them here.
        return list(self._tokenizer(text, add_special_tokens=not self.chat).input_ids)


def fitting(tasks: Sequence[Task], form: Form, most_prompt: int, most_answer: int) -> list[Task]:
    """The tasks whose prompt, and whose known answer if there is one, are within these numbers of tokens."""
    found = []
    for task in tasks:
        answer: list[int] = []
        if task.answer is None:
            prompt = form.prompt_ids(task.prompt)
        else:
            prompt, answer = form.row(task.prompt, task.answer)
        if len(prompt) <= most_prompt and len(answer) <= most_answer:
            found.append(task)
    return found


def _opens_thought(tokenizer: Any) -> bool:
    """Whether a prompt ends inside a thought, so that a reply has no mark of its beginning."""
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
