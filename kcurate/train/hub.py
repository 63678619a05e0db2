"""Pushes a run's card, curves and adapters to a model repository on the Hub, in one commit.

Paths of this machine (in settings, arguments, the name of an adapter's base model) are removed first. Not
covered: datasets (`kcurate.dataset.push`), the content of the card (`model_card`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from kcurate.core import store
from kcurate.core.notes import Note, silent
from kcurate.errors import InputError, MissingDependencyError
from kcurate.hub.repository import Hub
from kcurate.train import model_card
from kcurate.train.config import to_toml
from kcurate.train.plans import ALL
from kcurate.train.run_folder import RunFolder

_FILES = ("README.md", "curves.png", "config.toml", "environment.json", "metrics.jsonl", "measured.json")


def push(
    run: RunFolder,
    repo: str,
    *,
    private: bool = False,
    endpoint: str | None = None,
    token: str | None = None,
    note: Note = silent,
) -> str:
    """Create the repository if it is missing, commit the run's files, and return the commit.

    Raises:
        InputError: not a repository name, or nothing to push. MissingDependencyError: no token.
        RemoteError: the Hub refused, or cannot be reached.
    """
    token = token or token_for(repo)
    files = {name: _public(run, path) for name, path in _files(run)}
    if not any(name.endswith("adapter_config.json") for name in files):
        raise InputError("no stage is done, so there is no adapter to push", where=str(run.root))
    hub = Hub(repo, kind="model", endpoint=endpoint, token=token)
    hub.create(private=private)
    commit = hub.commit(files, message="Adapters made by kcurate train")
    note(f"{repo}: {len(files)} files in commit {commit[:10]}")
    return commit


def token_for(repo: str) -> str:
    """This machine's token; checked before a run that ends with a push.

    Raises:
        MissingDependencyError: there is none.
    """
    from huggingface_hub import get_token

    token = get_token()
    if token is None:
        raise MissingDependencyError("no Hub token", where=repo, hint="set HF_TOKEN or run `hf auth login`")
    return str(token)


def _public(run: RunFolder, path: Path) -> str | bytes:
    """The file to push: its path, or its text if paths of this machine had to be removed."""
    if path == run.config:
        return to_toml(model_card.public(run.settings())).encode()
    if path.name == "environment.json":
        return store.pretty_json({**json.loads(path.read_bytes()), "argv": None})
    if path.name == "adapter_config.json":
        base = run.settings().model.shown
        return store.pretty_json({**json.loads(path.read_bytes()), "base_model_name_or_path": base})
    return str(path)


def _files(run: RunFolder) -> Iterator[tuple[str, Path]]:
    """(name in the repository, file); the adapter of the last stage is at the top level, ready to load."""
    for name in _FILES:
        if (run.root / name).is_file():
            yield name, run.root / name
    for path in sorted((run.root / "completions").glob("*.parquet")):
        yield f"completions/{path.name}", path
    done = [name for name in ALL if run.done(name)]
    for name in done:
        for path in sorted(run.adapter(name).rglob("*")):
            if path.is_file():
                relative = path.relative_to(run.adapter(name)).as_posix()
                yield (relative if name == done[-1] else f"{name}/{relative}"), path
