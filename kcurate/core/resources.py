"""Finds the shipped data folders, in a checkout and in an installed wheel.

A wheel has `schemas/`, `sources/` and `pairs/` inside the package, in `_data/`; in a checkout (also with an
editable install) they are next to the package.
"""

from __future__ import annotations

import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

from kcurate.errors import MissingDependencyError


def _folder(name: str) -> Path:
    package = Path(str(files("kcurate")))
    for folder in (package / "_data" / name, package.parent / name):
        if folder.is_dir():
            return folder
    raise MissingDependencyError(
        f"the shipped folder {name}/ is missing",
        where=str(package),
        hint="reinstall kcurate; the wheel carries it",
    )


def table(package: str, name: str) -> dict[str, Any]:
    """A TOML file beside a package's modules."""
    return tomllib.loads(files(package).joinpath(name).read_text("utf-8"))


def schemas_dir() -> Path:
    """The JSON Schemas, one file per record type."""
    return _folder("schemas")


def sources_dir() -> Path:
    """The suite manifests, one TOML file per suite."""
    return _folder("sources")


def pairs_dir() -> Path:
    """The built-in pairs, `<domain>/<name>/`."""
    return _folder("pairs")
