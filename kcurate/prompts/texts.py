"""All words that a model is shown, from `texts.toml`, by the module that puts them together."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Any


def of(part: str) -> dict[str, Any]:
    """The texts of one module; a table inside is a mapping of its own."""
    texts: dict[str, Any] = tomllib.loads(files("kcurate.prompts").joinpath("texts.toml").read_text("utf-8"))
    return dict(texts[part])
