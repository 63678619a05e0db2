"""Typed Parquet files of the dataset, written and read through `datasets`; equal rows give equal bytes."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kcurate.dataset.rows import COLUMNS, Kind
from kcurate.dataset.tuning import GRPO_COLUMNS, SFT_COLUMNS
from kcurate.errors import InputError

CONFIGS: Mapping[str, Mapping[str, Kind]] = {
    "pairs": COLUMNS,
    "sft": SFT_COLUMNS,
    "grpo": GRPO_COLUMNS,
}
SPLITS = ("train", "test")
_DATA_FILE = re.compile(rf"(?:{'|'.join(CONFIGS)})/(?:{'|'.join(SPLITS)})-\d{{5}}-of-\d{{5}}\.parquet")


def data_file(config: str, split: str) -> str:
    """Where a split of a config lies in the dataset folder."""
    return f"{config}/{split}-00000-of-00001.parquet"


def is_data_file(path: str) -> bool:
    """Whether a path in a dataset folder is one that `kcurate` gives to its own data."""
    return _DATA_FILE.fullmatch(path) is not None


def features(columns: Mapping[str, Kind]) -> Any:
    """The `datasets.Features` of some columns."""
    from datasets import Features, List, Value

    def feature(kind: Any) -> Any:
        if isinstance(kind, list):
            return List(feature(kind[0]))
        if isinstance(kind, dict):
            return {name: feature(inner) for name, inner in kind.items()}
        return Value(kind)

    return Features({name: feature(kind) for name, kind in columns.items()})


def to_bytes(config: str, rows: Sequence[Mapping[str, Any]]) -> bytes:
    """The rows as one Parquet file."""
    import datasets

    buffer = io.BytesIO()
    made = datasets.Dataset.from_list([dict(row) for row in rows], features=features(CONFIGS[config]))
    quiet = datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        made.to_parquet(buffer)
    finally:
        if not quiet:
            datasets.enable_progress_bars()
    return buffer.getvalue()


def load(folder: Path, cache: Path) -> dict[str, dict[str, Any]]:
    """Config to split to `datasets.Dataset`, read as a user reads them; `cache` is where it may put files.

    Raises:
        InputError: a config or split does not load.
    """
    import datasets

    found: dict[str, dict[str, Any]] = {}
    quiet = datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        for config in CONFIGS:
            if (folder / config).is_dir():
                found[config] = dict(datasets.load_dataset(str(folder), config, cache_dir=str(cache)))
    except (datasets.exceptions.DatasetsError, datasets.builder.DatasetGenerationError, ValueError) as error:
        raise InputError(f"does not load: {error}", where=str(folder), hint="build it again") from error
    finally:
        if not quiet:
            datasets.enable_progress_bars()
    return found
