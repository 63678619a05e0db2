"""Readers that plugins add: CUDA text out of files of another form, by the ending of their names.

Not covered: finding plugins (`kcurate.core.plugins`), the forms that kcurate reads itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from kcurate.core import plugins
from kcurate.core.plugins import Plugin


@runtime_checkable
class FormReader(Protocol):
    """Takes the CUDA text out of a file of another form.

    `suffixes` are endings of names, with the dot and in lower case; none that kcurate reads itself.
    """

    suffixes: Sequence[str]

    def read(self, path: str, data: bytes) -> bytes:
        """The CUDA text in a file's bytes; empty: there is none.

        The spans of kernels are those of what is returned. They lead back into the file if it is as long as
        `data`, with spaces in place of everything else and its line breaks kept. It runs in a worker process,
        several times for one file, and must not depend on anything but its arguments. Any exception rules
        the file out.
        """
        ...


class ReaderFailed(Exception):  # noqa: N818 - turned into the outcome of a file
    """A reader failed on a file, or returned something else; the message names the plugin."""


def suffixes() -> frozenset[str]:
    """The endings of all readers."""
    return frozenset(_by_suffix())


def refused() -> tuple[str, ...]:
    """One line for each plugin that is not used."""
    return plugins.every(plugins.READERS, _wrong).refused


def text_of(path: Path, data: bytes) -> bytes:
    """The CUDA text of a file: its bytes, unless a plugin reads it.

    Raises:
        ReaderFailed: the plugin's reader failed.
    """
    plugin = _by_suffix().get(path.suffix.lower())
    if plugin is None:
        return data
    try:
        text = plugin.value.read(path.name, data)
    except Exception as error:
        raise ReaderFailed(f"{plugin.label} failed: {plugins.said(error)}") from error
    if not isinstance(text, bytes):
        raise ReaderFailed(f"{plugin.label} returned {type(text).__name__}, not bytes")
    return text


@cache
def _by_suffix() -> dict[str, Plugin]:
    readers = plugins.every(plugins.READERS, _wrong).plugins
    return {suffix: plugin for plugin in reversed(readers) for suffix in plugin.value.suffixes}


def _wrong(value: Any) -> str | None:
    from kcurate.extract.walk import PYTHON_SUFFIX, SOURCE_SUFFIXES

    if isinstance(value, type) or not isinstance(value, FormReader):
        return f"{value!r} is no reader: it has no suffixes and read(path, data)"[: plugins.MAX_SHOWN]
    endings = value.suffixes
    if isinstance(endings, str) or not endings or not all(isinstance(ending, str) for ending in endings):
        return "its suffixes are no list of endings"
    unfit = [ending for ending in endings if not ending.startswith(".") or ending != ending.lower()]
    if unfit:
        return f"{unfit[0]!r} is no ending in lower case with a dot"
    taken = [ending for ending in endings if ending in SOURCE_SUFFIXES | {PYTHON_SUFFIX}]
    return f"kcurate reads {taken[0]} itself" if taken else None
