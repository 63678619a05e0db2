"""A repository on the Hub, through huggingface_hub: list, commit, tag, download.

File contents are uploaded first, by hash: what the Hub already has is not sent again, so an interrupted
upload resumes. Then one commit on top of the listed one publishes all of them, or none. Also checks whether a
model exists. Not covered: what is uploaded (`kcurate.dataset.push`).
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, cast

from kcurate.errors import InputError, MissingDependencyError, RemoteError

TIMEOUT_S = 20
# How a file of a dataset on the Hub is named: hf://datasets/USER/NAME@REVISION/PATH.
SCHEME = "hf://datasets/"


def check_name(repo: str) -> None:
    """Refuse a text that cannot name a repository.

    Raises:
        InputError: it is not USER/NAME.
    """
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils._validators import validate_repo_id

    hint = "such as me/cuda-kernels"
    try:
        validate_repo_id(repo)
    except HFValidationError as error:
        raise InputError(str(error).splitlines()[0], hint=hint) from error
    if repo.count("/") != 1:
        raise InputError(f"not USER/NAME: {repo!r}", hint=hint)


@dataclass(frozen=True)
class Remote:
    """A listing of a repository: head commit, file hashes by path, commits by tag."""

    head: str
    files: Mapping[str, str]
    tags: Mapping[str, str]
    private: bool = False

    def has(self, path: str, content: bytes) -> bool:
        """Whether the file exists with this content."""
        return self.files.get(path) in (git_hash(content), hashlib.sha256(content).hexdigest())


def git_hash(content: bytes) -> str:
    """The git blob hash, which the Hub lists for small files."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


class Hub:
    """One repository `user/name`; `endpoint` and `token` None: the defaults of huggingface_hub.

    `writes`: a token is needed; without one, `look` and `read` work on public repositories.

    Raises:
        InputError: not a repository name. MissingDependencyError: no token.
    """

    def __init__(
        self,
        repo: str,
        *,
        kind: Literal["dataset", "model"] = "dataset",
        endpoint: str | None = None,
        token: str | None = None,
        writes: bool = True,
    ) -> None:
        from huggingface_hub import HfApi, get_token

        check_name(repo)
        self.token = token or get_token()
        if self.token is None and writes:
            more = "; see --dry-run and --to" if kind == "dataset" else ""
            hint = f"set HF_TOKEN or run `hf auth login`{more}"
            raise MissingDependencyError("no Hub token", where=repo, hint=hint)
        self.repo = repo
        self._repo: dict[str, Any] = {"repo_id": repo, "repo_type": kind}
        self._api = HfApi(endpoint=endpoint, token=self.token or False, library_name="kcurate")

    def look(self) -> Remote | None:
        """The current listing; None if there is no such repository.

        Raises:
            RemoteError: the Hub refused, or is unreachable.
        """
        from huggingface_hub.errors import RepositoryNotFoundError
        from huggingface_hub.hf_api import RepoFile

        with self._reported():
            try:
                info = self._api.repo_info(**self._repo)
            except RepositoryNotFoundError:
                return None
            tree = self._api.list_repo_tree(**self._repo, recursive=True, revision=info.sha)
            files = [entry for entry in tree if isinstance(entry, RepoFile)]
            refs = self._api.list_repo_refs(**self._repo)
        hashes = {file.path: file.lfs.sha256 if file.lfs else file.blob_id for file in files}
        tags = {tag.name: tag.target_commit for tag in refs.tags}
        return Remote(str(info.sha), hashes, tags, bool(info.private))

    def create(self, *, private: bool) -> None:
        """Create the repository unless it exists."""
        with self._reported():
            self._api.create_repo(**self._repo, private=private, exist_ok=True)

    def commit(
        self,
        files: Mapping[str, bytes | str],
        removed: Sequence[str] = (),
        *,
        parent: str | None = None,
        message: str,
    ) -> str:
        """Upload files, then publish them in one commit on top of `parent`; returns the new head.

        `files`: contents or local paths by name. `parent` None: the current head.

        Raises:
            RemoteError: nothing was published, or the reply to the commit was lost: list again.
        """
        from huggingface_hub import CommitOperationAdd, CommitOperationDelete

        operations: list[Any] = [CommitOperationAdd(path, content) for path, content in files.items()]
        with self._reported():
            self._api.preupload_lfs_files(**self._repo, additions=operations, free_memory=False)
            operations += [CommitOperationDelete(path) for path in removed]
            done = self._api.create_commit(
                **self._repo, operations=operations, commit_message=message, parent_commit=parent
            )
        return str(done.oid)

    def tag(self, name: str, commit: str, message: str) -> None:
        """Tag a commit unless the tag exists."""
        with self._reported():
            self._api.create_tag(**self._repo, tag=name, revision=commit, tag_message=message, exist_ok=True)

    def download(self, commit: str, folder: Path) -> None:
        """Download every file of a commit into a folder."""
        with self._reported():
            self._api.snapshot_download(**self._repo, revision=commit, local_dir=folder)

    def read(self, path: str, revision: str, folder: Path) -> bytes:
        """One file of a revision, downloaded into a folder."""
        with self._reported():
            local = self._api.hf_hub_download(
                **self._repo, filename=path, revision=revision, local_dir=folder
            )
        return Path(local).read_bytes()

    def _reported(self) -> contextlib.AbstractContextManager[None]:
        return _reported(self.repo, "no partial commit was made; run the command again")


def download(repo: str, folder: Path, *, revision: str | None = None) -> None:
    """Download a published dataset into a folder; a public one needs no token.

    Raises:
        RemoteError: no such dataset, or the Hub is unreachable.
    """
    from huggingface_hub import snapshot_download

    with _reported(repo, "check the name, the network, HF_TOKEN"):
        snapshot_download(repo, repo_type="dataset", revision=revision, local_dir=folder)


def dataset_files(repo: str) -> tuple[str, dict[str, int]]:
    """The head commit of a dataset, and the size in bytes of each of its files.

    Raises:
        RemoteError: no such dataset, or the Hub is unreachable.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.hf_api import RepoFile

    api = HfApi(library_name="kcurate")
    with _reported(repo, "check the name, the network, HF_TOKEN"):
        revision = str(api.repo_info(repo, repo_type="dataset", timeout=TIMEOUT_S).sha)
        entries = list(api.list_repo_tree(repo, repo_type="dataset", recursive=True, revision=revision))
    return revision, {entry.path: entry.size for entry in entries if isinstance(entry, RepoFile)}


def open_file(name: str) -> IO[bytes]:
    """Open a file of a dataset (`SCHEME`) for random access; only the parts that are read are downloaded.

    Raises:
        RemoteError: it is not there, or the Hub is unreachable.
    """
    from huggingface_hub import HfFileSystem

    with _reported(name, "check the network, HF_TOKEN"):
        return cast(IO[bytes], HfFileSystem().open(name, "rb"))


def check_model(name: str, revision: str | None) -> None:
    """Check that a model that is not a local folder is in the Hub's cache or on the Hub.

    Raises:
        InputError: it is not. RemoteError: the Hub cannot be asked.
    """
    from huggingface_hub import HfApi, try_to_load_from_cache
    from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError

    if isinstance(try_to_load_from_cache(name, "config.json", revision=revision), str):
        return
    try:
        HfApi(library_name="kcurate").model_info(name, revision=revision, timeout=TIMEOUT_S)
    except (RepositoryNotFoundError, RevisionNotFoundError) as error:
        why = "no such folder here, and no such model on the Hub"
        raise InputError(why, where=name, hint="check the name; a private model needs HF_TOKEN") from error
    except failures() as error:
        why = f"no such folder here, and the Hub cannot be asked: {line(error)}"
        raise RemoteError(why, where=name, hint="--model FOLDER takes a model on this machine") from error


def failures() -> tuple[type[Exception], ...]:
    """The exceptions of the client: its own, those of its HTTP library, and those of its upload threads."""
    from huggingface_hub.errors import HfHubHTTPError

    classes: list[type[Exception]] = [HfHubHTTPError, OSError, RuntimeError, ValueError]
    for name in ("httpx2", "httpx"):  # the HTTP library was renamed between releases of the client
        with contextlib.suppress(ImportError):
            classes.append(importlib.import_module(name).HTTPError)
    return tuple(classes)


def line(error: BaseException) -> str:
    """One line: the message of the error or its cause, and the server's message."""
    from huggingface_hub.errors import HfHubHTTPError

    while error.__cause__ is not None and isinstance(error, RuntimeError):
        error = error.__cause__
    server = error.server_message if isinstance(error, HfHubHTTPError) else None
    first = next((text.strip() for text in str(error).splitlines() if text.strip()), type(error).__name__)
    return " ".join([first.removeprefix("Got: ")[:200], *(server or "").split()])[:400]


@contextlib.contextmanager
def _reported(where: str, hint: str) -> Iterator[None]:
    """Turn the client's exceptions into one line, and hide its progress bars.

    Raises:
        RemoteError: the Hub refused, or is unreachable.
    """
    with _quiet():
        try:
            yield
        except failures() as error:
            raise RemoteError(line(error), where=where, hint=hint) from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    from huggingface_hub.utils.tqdm import (
        are_progress_bars_disabled,
        disable_progress_bars,
        enable_progress_bars,
    )

    before = are_progress_bars_disabled()
    disable_progress_bars()
    try:
        yield
    finally:
        if not before:
            enable_progress_bars()
