"""A dataset repository on the Hub, through huggingface_hub: what lies there, one commit, a tag, load back.

Contents go up first, by their hashes (what is there already is not sent again, so a cut upload resumes); then
one commit puts all of them in place at once, on top of the commit that was looked at, or changes nothing. Not
covered: what is uploaded (`kcurate.dataset.push`).
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kcurate.errors import InputError, MissingDependencyError, RemoteError

KIND = "dataset"


@dataclass(frozen=True)
class Remote:
    """A repository as it was looked at: head commit, hashes of the files by path, commits of the tags."""

    head: str
    files: Mapping[str, str]
    tags: Mapping[str, str]
    private: bool = False

    def has(self, path: str, content: bytes) -> bool:
        """Whether the file is there with this content."""
        return self.files.get(path) in (git_hash(content), hashlib.sha256(content).hexdigest())


def git_hash(content: bytes) -> str:
    """The hash by which git, and so the Hub's listing, knows a small file."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


class Hub:
    """One repository `user/name`; `endpoint` and `token` None: as huggingface_hub is set up.

    Raises:
        InputError: not the name of a repository. MissingDependencyError: there is no token.
    """

    def __init__(self, repo: str, *, endpoint: str | None = None, token: str | None = None) -> None:
        from huggingface_hub import HfApi, get_token
        from huggingface_hub.errors import HFValidationError
        from huggingface_hub.utils._validators import validate_repo_id

        try:
            validate_repo_id(repo)
        except HFValidationError as error:
            raise InputError(str(error).splitlines()[0], where=repo, hint="such as me/cuda-pairs") from error
        if repo.count("/") != 1:
            raise InputError("not USER/NAME", where=repo, hint="such as me/cuda-pairs")
        self._token = token or get_token()
        if self._token is None:
            raise MissingDependencyError(
                "no Hub token", where=repo, hint="set HF_TOKEN or run `hf auth login`; see --dry-run and --to"
            )
        self.repo = repo
        self._api = HfApi(endpoint=endpoint, token=self._token, library_name="kcurate")

    def look(self) -> Remote | None:
        """What lies there now; None when there is no such repository.

        Raises:
            RemoteError: the Hub refused or cannot be reached.
        """
        from huggingface_hub.errors import RepositoryNotFoundError
        from huggingface_hub.hf_api import RepoFile

        with self._told():
            try:
                info = self._api.repo_info(self.repo, repo_type=KIND)
            except RepositoryNotFoundError:
                return None
            tree = self._api.list_repo_tree(self.repo, recursive=True, revision=info.sha, repo_type=KIND)
            files = [entry for entry in tree if isinstance(entry, RepoFile)]
            refs = self._api.list_repo_refs(self.repo, repo_type=KIND)
        hashes = {one.path: one.lfs.sha256 if one.lfs else one.blob_id for one in files}
        tags = {tag.name: tag.target_commit for tag in refs.tags}
        return Remote(str(info.sha), hashes, tags, bool(info.private))

    def create(self, *, private: bool) -> None:
        """Make the repository; fine when it is there."""
        with self._told():
            self._api.create_repo(self.repo, repo_type=KIND, private=private, exist_ok=True)

    def commit(self, files: Mapping[str, bytes], removed: Sequence[str], *, parent: str, message: str) -> str:
        """Upload contents, then put them in place with one commit on top of `parent`; the new head.

        Raises:
            RemoteError: nothing was changed there (or the answer to the commit was lost: look again).
        """
        from huggingface_hub import CommitOperationAdd, CommitOperationDelete

        operations: list[Any] = [CommitOperationAdd(path, content) for path, content in files.items()]
        with self._told():
            self._api.preupload_lfs_files(self.repo, operations, repo_type=KIND, free_memory=False)
            operations += [CommitOperationDelete(path) for path in removed]
            done = self._api.create_commit(
                self.repo, operations, commit_message=message, repo_type=KIND, parent_commit=parent
            )
        return str(done.oid)

    def tag(self, name: str, commit: str, message: str) -> None:
        """Tag a commit; fine when the tag is there."""
        with self._told():
            self._api.create_tag(
                self.repo, tag=name, revision=commit, tag_message=message, repo_type=KIND, exist_ok=True
            )

    def download(self, commit: str, folder: Path) -> None:
        """Put every file of a commit into a folder."""
        with self._told():
            self._api.snapshot_download(self.repo, repo_type=KIND, revision=commit, local_dir=folder)

    def read(self, path: str, revision: str, folder: Path) -> bytes:
        """One file of a revision, by way of a folder."""
        with self._told():
            found = self._api.hf_hub_download(
                self.repo, path, repo_type=KIND, revision=revision, local_dir=folder
            )
        return Path(found).read_bytes()

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """What the client raises, as one clear line, without its progress bars.

        Raises:
            RemoteError: the Hub refused or cannot be reached.
        """
        with _quiet():
            try:
                yield
            except _failures() as error:
                raise RemoteError(
                    _line(error), where=self.repo, hint="nothing is half published; run the same again"
                ) from error


def download(repo: str, folder: Path, *, revision: str | None = None) -> None:
    """Put a published dataset into a folder; a public one needs no token.

    Raises:
        RemoteError: there is no such dataset, or the Hub cannot be reached.
    """
    from huggingface_hub import snapshot_download

    with _quiet():
        try:
            snapshot_download(repo, repo_type=KIND, revision=revision, local_dir=folder)
        except _failures() as error:
            raise RemoteError(_line(error), where=repo, hint="check the name, or HF_TOKEN") from error


def _failures() -> tuple[type[Exception], ...]:
    """What the client raises: its own errors, those of its transport, and those of its uploading threads."""
    from huggingface_hub.errors import HfHubHTTPError

    kinds: list[type[Exception]] = [HfHubHTTPError, OSError, RuntimeError, ValueError]
    for name in ("httpx2", "httpx"):  # the transport's name changed between releases of the client
        with contextlib.suppress(ImportError):
            kinds.append(importlib.import_module(name).HTTPError)
    return tuple(kinds)


def _line(error: BaseException) -> str:
    """One line: what the error, or what caused it, says, and what the server said of it."""
    from huggingface_hub.errors import HfHubHTTPError

    while error.__cause__ is not None and isinstance(error, RuntimeError):
        error = error.__cause__
    said = error.server_message if isinstance(error, HfHubHTTPError) else None
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return " ".join([first[:200], *(said or "").split()])[:400]


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
