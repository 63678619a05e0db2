"""The meaning of `--model`: `rules`, `claude[-<version>]`, `openai:<model>@<base-url>`, or `FILE.gguf`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kcurate.errors import OptionError
from kcurate.models import prices

Provider = Literal["anthropic", "openai", "local"]
HINT = "rules, claude, claude-<version>, openai:<model>@<base-url>, or FILE.gguf"


@dataclass(frozen=True)
class ModelName:
    """A model and its server; `base_url` None: the default of the client's own environment.

    For a local model, `base_url` is the path of its file.
    """

    provider: Provider
    model: str
    base_url: str | None = None

    @property
    def slug(self) -> str:
        """A file name for the model."""
        return re.sub(r"[^A-Za-z0-9._-]+", "-", self.model).strip("-.") or "model"


def parse_model(text: str) -> ModelName:
    """Parse `--model`.

    Raises:
        InputError: it names no model, or a file that does not exist.
    """
    if text == "claude":
        return ModelName("anthropic", prices.default_model())
    if re.fullmatch(r"claude-[\w.-]+", text):
        return ModelName("anthropic", text)
    if text.startswith("openai:"):
        model, at, base_url = text.removeprefix("openai:").rpartition("@")
        if not at:
            model, base_url = base_url, ""
        if model and (not at or re.match(r"https?://[^\s/]", base_url)):
            return ModelName("openai", model, base_url or None)
    path = Path(text)
    if path.suffix == ".gguf":
        if not path.is_file():
            raise OptionError("no such file", where=text, hint="--model FILE.gguf")
        return ModelName("local", path.stem, text)
    raise OptionError(f"not a model: {text!r}", where="--model", hint=HINT)
