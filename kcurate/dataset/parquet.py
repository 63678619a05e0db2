"""Typed Parquet files of the dataset, compatible with `datasets`; equal rows give equal bytes."""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kcurate.dataset.columns import CONFIGS, SPARSE, Kind
from kcurate.errors import InputError

SPLITS = ("train", "test")
# The settings of `datasets` 5: row groups of 100 MB, and content-defined chunking, so that the Hub stores
# what two versions share only once.
CHUNKS = {"min_chunk_size": 256 * 1024, "max_chunk_size": 1024 * 1024, "norm_level": 0}
GROUP_BYTES = 100_000_000
# Block size of the JSON reader: must exceed any row.
_BLOCK_BYTES = 1 << 26
# The hash is missing from files of older builds.
_DATA_FILE = re.compile(
    rf"(?:{'|'.join(CONFIGS)})/(?:{'|'.join(SPLITS)})-\d{{5}}-of-\d{{5}}(?:-[0-9a-f]{{16}})?\.parquet"
)


@dataclass(frozen=True)
class DataFile:
    """The one file of a split of a config, with `columns`; `table_bytes`: the size of its table in memory.

    Its name has a hash of its content, since `datasets` caches a repository by its file names: after a
    dataset is replaced in place, it would return the old rows.
    """

    config: str
    split: str
    content: bytes
    rows: int
    table_bytes: int
    columns: Mapping[str, Kind]

    @property
    def path(self) -> str:
        """Its path in the dataset folder."""
        digest = hashlib.sha256(self.content).hexdigest()[:16]
        return f"{self.config}/{self.split}-00000-of-00001-{digest}.parquet"


def data_files(config: str, splits: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[DataFile]:
    """The files of a config, one per split (each with at least one row), all with the same columns."""
    filled = {name for rows in splits.values() for row in rows for name in SPARSE if row.get(name)}
    columns = {name: kind for name, kind in CONFIGS[config].items() if name not in SPARSE - filled}
    return [DataFile(config, split, *_written(columns, rows), columns) for split, rows in splits.items()]


def is_data_file(path: str) -> bool:
    """Whether a path in a dataset folder names a data file written by kcurate."""
    return _DATA_FILE.fullmatch(path) is not None


def features(kind: Any) -> Any:
    """A column's type as `datasets` stores it in the file's metadata."""
    if isinstance(kind, list):
        return {"feature": features(kind[0]), "_type": "List"}
    if isinstance(kind, dict):
        return {name: features(inner) for name, inner in kind.items()}
    return {"dtype": kind, "_type": "Value"}


def _arrow(kind: Any) -> Any:
    import pyarrow as pa

    if isinstance(kind, list):
        return pa.list_(_arrow(kind[0]))
    if isinstance(kind, dict):
        return pa.struct({name: _arrow(inner) for name, inner in kind.items()})
    return pa.type_for_alias(kind)


def to_bytes(config: str, rows: Sequence[Mapping[str, Any]]) -> bytes:
    """The rows (at least one) as one Parquet file, equal to the one that `datasets` writes."""
    return _written(CONFIGS[config], rows)[0]


def _written(columns: Mapping[str, Kind], rows: Sequence[Mapping[str, Any]]) -> tuple[bytes, int, int]:
    """A file's content, the number of its rows, and the size of its table.

    Importing `datasets` takes half a second. Rows become a table through JSON, since Arrow imports pandas to
    convert Python objects, which takes another quarter of a second.
    """
    import pyarrow.json
    import pyarrow.parquet

    info = json.dumps({"info": {"features": features(columns)}})
    schema = pyarrow.schema(_arrow(columns)).with_metadata({"huggingface": info})
    lines = "\n".join(json.dumps({name: row[name] for name in columns}, ensure_ascii=False) for row in rows)
    table = pyarrow.json.read_json(
        io.BytesIO(lines.encode()),
        pyarrow.json.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES),
        pyarrow.json.ParseOptions(explicit_schema=schema),
    )
    buffer = io.BytesIO()
    with pyarrow.parquet.ParquetWriter(
        buffer, schema, use_content_defined_chunking=CHUNKS, write_page_index=True
    ) as file:
        file.write_table(table, max(1, len(rows) * GROUP_BYTES // table.nbytes))
        file.add_key_value_metadata({"content_defined_chunking": json.dumps(CHUNKS)})
    return buffer.getvalue(), len(rows), table.nbytes


def load(folder: Path, cache: Path) -> dict[str, dict[str, Any]]:
    """Config to split to `datasets.Dataset`, loaded the way a user loads them; `cache` is for its files.

    Raises:
        InputError: a config or split does not load.
    """
    import datasets

    tables: dict[str, dict[str, Any]] = {}
    quiet = datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        for config in CONFIGS:
            if (folder / config).is_dir():
                tables[config] = dict(datasets.load_dataset(str(folder), config, cache_dir=str(cache)))
    except (datasets.exceptions.DatasetsError, datasets.builder.DatasetGenerationError, ValueError) as error:
        raise InputError(f"does not load: {error}", where=str(folder), hint="build it again") from error
    finally:
        if not quiet:
            datasets.enable_progress_bars()
    return tables
