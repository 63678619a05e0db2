"""The meaning of `--model`: `rules`, `claude`, `claude-<version>`, or `openai:<model>@<base-url>`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from kcurate.errors import OptionError
from kcurate.models import prices

Provider = Literal["anthropic", "openai"]
HINT = "rules, claude, claude-<version>, or openai:<model>@<base-url>"


@dataclass(frozen=True)
class ModelName:
    """A model and its server; `base_url` None: the default of the client's own environment."""

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
        InputError: it names no model.
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
    raise OptionError(f"not a model: {text!r}", where="--model", hint=HINT)
