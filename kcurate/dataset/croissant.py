"""The dataset's Croissant description (JSON-LD): each file with its hash, each column with its type.

Format: https://docs.mlcommons.org/croissant/docs/croissant-spec.html (1.0). Not covered: the card (`card`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from kcurate.core import store
from kcurate.dataset import parquet
from kcurate.dataset.columns import WORDS, Kind

FILE = "croissant.json"
_TYPES = {"string": "sc:Text", "bool": "sc:Boolean", "int64": "sc:Integer", "float64": "sc:Float"}
_CONTEXT = json.loads(files("kcurate.dataset").joinpath("croissant_context.json").read_bytes())


def describe(name: str, description: str, version: str, files: Sequence[parquet.DataFile]) -> bytes:
    """The description of these files."""
    data = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": name,
        "description": description,
        "version": version,
        "url": "https://huggingface.co/datasets",
        "license": "ATTRIBUTION.md",
        "distribution": [_file(file) for file in files],
        "recordSet": [_records(file) for file in files],
    }
    return store.pretty_json(data)


def _file(file: parquet.DataFile) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject",
        "@id": file.path,
        "name": file.path,
        "contentUrl": file.path,
        "contentSize": f"{len(file.content)} B",
        "encodingFormat": "application/x-parquet",
        "sha256": hashlib.sha256(file.content).hexdigest(),
    }


def _records(file: parquet.DataFile) -> dict[str, Any]:
    name = f"{file.config}-{file.split}"
    fields = [_field(name, file.path, column, kind) for column, kind in file.columns.items()]
    words = f"The split {file.split} of the config {file.config}: {file.rows} rows."
    return {"@type": "cr:RecordSet", "@id": name, "name": name, "description": words, "field": fields}


def _field(records: str, path: str, column: str, kind: Kind) -> dict[str, Any]:
    """A column as a field; of lists of structs the members are fields below it."""
    entry = _typed(f"{records}/{column}", path, column, kind)
    return {**entry, "description": WORDS[column]}


def _typed(name: str, path: str, column: str, kind: Any, *members: str) -> dict[str, Any]:
    """A field without its description; `members`: its path in the structs of its column."""
    source: dict[str, Any] = {"fileObject": {"@id": path}, "extract": {"column": column}}
    if members:
        source["transform"] = {"jsonPath": ".".join(members)}
    entry: dict[str, Any] = {"@type": "cr:Field", "@id": name, "name": (column, *members)[-1]}
    entry["source"] = source
    while isinstance(kind, list):
        entry["repeated"] = True
        kind = kind[0]
    if not isinstance(kind, Mapping):
        return {**entry, "dataType": _TYPES[kind]}
    return {
        **entry,
        "subField": [
            _typed(f"{name}/{member}", path, column, inner, *members, member)
            for member, inner in kind.items()
        ],
    }
