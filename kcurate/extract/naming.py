"""Folder names of kernels and pairs: readable, unique, and independent of what else is extracted."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from kcurate.core import store
from kcurate.suites import Place

_UNSAFE = re.compile(r"[^A-Za-z0-9._+-]")
MAX_PART_LENGTH = 80


def safe_part(name: str) -> str:
    """`name` as one folder name; if characters are replaced, a hash is appended to keep names distinct."""
    safe = _UNSAFE.sub("_", name)
    if safe.startswith((".", "-")):
        safe = "_" + safe
    if safe == name and len(name) <= MAX_PART_LENGTH:
        return name
    return f"{safe[:MAX_PART_LENGTH]}-{store.content_id(os.fsencode(name))[:6]}"


def file_parts(place: Place) -> list[str]:
    """The folder names for a file: the parts of its path, without the suffix `.cu` (other suffixes stay)."""
    path = place.rest.removesuffix(".cu") or place.rest
    return [safe_part(part) for part in path.split("/")]


def kernel_id(suite: str, place: Place, kernel: str) -> str:
    """`<suite>/<benchmark>/[<variant>/]<file>/<kernel>`: the kernel's id and folder."""
    parts = [suite, safe_part(place.benchmark or suite)]
    if place.variant is not None:
        parts.append(safe_part(place.variant))
    return "/".join([*parts, *file_parts(place), safe_part(kernel)])


def unique(names: Iterable[str]) -> list[str]:
    """The names in order; repeated ones get the suffixes `-2`, `-3`, ..."""
    taken: dict[str, int] = {}
    result: list[str] = []
    for name in names:
        candidate, count = name, taken.get(name, 1)
        while candidate in taken:
            count += 1
            candidate = f"{name}-{count}"
        # The next search for this name starts here instead of at 2 (a name may occur thousands of times).
        taken[name] = count
        taken.setdefault(candidate, 1)
        result.append(candidate)
    return result
