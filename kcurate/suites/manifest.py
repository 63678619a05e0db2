"""Suite manifests as records: `sources/<suite>.toml`, or a user's own file of the same form."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from kcurate.core import codec, resources, store
from kcurate.core.config import read_toml
from kcurate.errors import InputError
from kcurate.suites.layout import PLACEHOLDER, Layout

GENERIC = "generic"


@dataclass(frozen=True)
class Benchmark:
    """Facts about a benchmark; its licences (SPDX) only if they differ from the suite's.

    `file_licenses` maps path globs (relative to the suite's root) to licences.
    """

    domain: str
    family: str
    license: str | None = None
    file_licenses: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Manifest:
    """One suite: its URL, licence and layout, and facts about its benchmarks."""

    suite: str
    layout: Layout
    url: str | None = None
    revision: str | None = None
    license: str | None = None
    min_device_fraction: float = 0.0
    benchmarks: Mapping[str, Benchmark] = field(default_factory=dict)

    def license_of(self, benchmark: str, path: str) -> str | None:
        """The licence of a file: its own, else its benchmark's, else the suite's."""
        facts = self.benchmarks.get(benchmark)
        if facts is None:
            return None
        for glob, license_ in facts.file_licenses.items():
            if fnmatchcase(path, glob):
                return license_
        return facts.license or self.license


def load_manifest(path: Path) -> Manifest:
    """Read one manifest.

    Raises:
        InputError: it cannot be read, is not TOML or is invalid. RecordError: it violates `source.json`.
    """
    data = read_toml(path)
    store.check_schema("source", data, where=str(path))
    manifest = codec.from_data(Manifest, data, where=str(path))
    for problem in _problems(manifest):
        raise InputError(problem, where=str(path), hint="see sources/parboil.toml")
    return manifest


def _problems(manifest: Manifest) -> Iterator[str]:
    """Errors in a manifest that the schema cannot express."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]*", manifest.suite):
        yield f"suite = {manifest.suite!r} cannot be used as a folder name"
    if not 0 <= manifest.min_device_fraction <= 1:
        yield "min_device_fraction must be between 0 and 1"
    if not manifest.layout.paths:
        yield "layout.paths must contain a pattern"
    for pattern in manifest.layout.paths:
        parts = PLACEHOLDER.findall(pattern)
        if not pattern.endswith("**") or len(set(parts)) != len(parts):
            yield f"the path pattern {pattern!r} must end with ** and use each placeholder once"
    if not all(manifest.layout.markers):
        yield "a marker must contain at least one glob"


def load_manifests() -> dict[str, Manifest]:
    """Every shipped manifest by suite name, in alphabetical order."""
    manifests = (load_manifest(path) for path in sorted(resources.sources_dir().glob("*.toml")))
    return {manifest.suite: manifest for manifest in manifests}
