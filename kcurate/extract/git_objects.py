"""Reads a git repository that may be hostile: commits, what they change, files at a revision.

Only plumbing commands run, sandboxed, in a separate git folder with its own settings. Of the repository git
sees the objects, and copies of HEAD, refs and `shallow`. So no hook, filter, external diff, alias,
replacement or remote of the repository has any effect, and nothing is fetched. Not covered: what a change
means (`kcurate.extract.commit_changes`).
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from kcurate.core import limited_output, own_files, time_limits
from kcurate.errors import InputError, MissingDependencyError
from kcurate.judge.workers.inside import isolation

# Larger blobs are generated or data, not hand-written kernels.
MAX_BLOB_BYTES = 4 << 20
GIT_MEMORY_BYTES = 8 << 30
# The output of one command: 41 bytes for each commit, or a line for each file of a tree.
MAX_PRINTED_BYTES = 256 << 20
# Refs are copied up to these numbers; a hostile repository may have any.
MAX_REFS, MAX_REF_BYTES, MAX_PACKED_REFS_BYTES = 100_000, 4096, 64 << 20
# Longer names and deeper folders cannot be written on every file system.
MAX_NAME_BYTES, MAX_DEPTH = 200, 40
# Commits that one git process compares: their names fit into a pipe's buffer. If the process fails, they are
# compared one by one.
COMMITS_TOGETHER = 256
_HASH = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?\Z")
_DATE = re.compile(r"\d{4}-\d\d-\d\d\Z")
_CONFIG = """[core]
\trepositoryformatversion = 1
\tbare = true
\tcommitGraph = false
\tmultiPackIndex = false
\tattributesFile = /dev/null
[extensions]
\tobjectFormat = {hash}
[diff]
\trenameLimit = 400
"""


class BrokenObject(Exception):  # noqa: N818 - becomes an outcome of a commit
    """git cannot read an object; the message is git's first line."""


@dataclass(frozen=True)
class FileChange:
    """A file before and after a commit: its paths (None: it does not exist) and its blobs' names."""

    before: str | None
    after: str | None
    blobs: tuple[str, str]


@dataclass(frozen=True)
class Changed:
    """A commit and the files that it changes against its first parent; `broken`: why they are unknown."""

    commit: str
    files: tuple[FileChange, ...] = ()
    broken: str | None = None


@dataclass
class Repository:
    """A repository's objects, read through the separate git folder `folder`. A context manager.

    `name` is that of the repository's folder, `url` its `origin` without credentials. `shallow`: its history
    was cut off. `hash_length` is the length of object names in hex digits.
    """

    name: str
    objects: Path
    folder: Path
    url: str | None = None
    shallow: bool = False
    hash_length: int = 40
    _reader: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @classmethod
    def open(cls, path: Path, folder: Path) -> Repository:
        """Open a repository: a work tree, a linked one, or a bare one.

        `folder` (empty) becomes the separate git folder that it is read through.

        Raises:
            InputError: it is no repository, or contains symbolic links.
            MissingDependencyError: git is not installed.
        """
        if shutil.which("git") is None:
            raise MissingDependencyError("git is not installed", hint="install it: apt-get install git")
        git_folder, shared_folder = _git_folders(path)
        head = _small(git_folder / "HEAD")
        if head is None or not (shared_folder / "objects").is_dir():
            raise InputError(
                "is not a git repository", where=str(path), hint="give the folder that git clone made"
            )
        parts = (path / ".git", *(shared_folder / name for name in ("objects", "refs", "packed-refs")))
        if (link := next((part for part in parts if part.is_symlink()), None)) is not None:
            # Otherwise an archive could make kcurate read a private repository that its links point to.
            why = f"its {link.name} is a link to another place"
            raise InputError(why, where=str(path), hint="git clone makes a copy without links")
        (folder / "objects").mkdir(parents=True)
        _copy_refs(shared_folder, folder)
        (folder / "HEAD").write_bytes(head)
        if (shallow := _small(shared_folder / "shallow", MAX_PACKED_REFS_BYTES)) is not None:
            (folder / "shallow").write_bytes(shallow)
        # All object names of a repository have one length; HEAD is a name, or the name of a file with one.
        sample = head + b" " + b" ".join(_small(file) or b"" for file in sorted(folder.glob("refs/heads/*")))
        sample += (_small(folder / "packed-refs", MAX_PACKED_REFS_BYTES) or b"")[:4096]
        long = re.search(rb"\b[0-9a-f]{64}\b", sample) is not None
        (folder / "config").write_text(_CONFIG.format(hash="sha256" if long else "sha1"))
        work = path.resolve().parent if path.name == ".git" else path.resolve()
        name = re.sub(r"[^A-Za-z0-9._+-]+", "_", work.name.removesuffix(".git")).strip("._-")
        objects = (shared_folder / "objects").resolve()
        cut_off, length = shallow is not None, 64 if long else 40
        return cls(name or "repository", objects, folder, _origin(shared_folder), cut_off, length)

    def __enter__(self) -> Repository:
        return self

    def __exit__(self, *_: object) -> None:
        if self._reader is not None:
            self._reader.kill()
            self._reader.communicate()
            self._reader = None

    def commits(self, since: str | None = None) -> tuple[list[str], str | None]:
        """The commits of HEAD without merges, oldest first; and an error message if some cannot be read.

        `since`: a revision, or a date. The history ends at a commit that cannot be read.

        Raises:
            InputError: `since` is unknown, or HEAD refers to no commit.
        """
        if self._named("HEAD") is None:
            hint = "check out a branch with commits; if there are some: git fsck"
            raise InputError("HEAD leads to no commit", where=self.name, hint=hint)
        limits = []
        if since is not None and _DATE.match(since):
            limits = [f"--since={since}T00:00:00Z"]
        elif since is not None:
            known = self._named(since)
            if known is None:
                deeper = "; its history is shallow: git fetch --unshallow" if self.shallow else ""
                hint = f"give a commit, tag or branch of it, or a date such as 2025-01-31{deeper}"
                raise InputError(f"unknown revision {since!r}", where=self.name, hint=hint)
            limits = [f"^{known}"]
        try:
            done = self._run(["rev-list", "--no-merges", *limits, "HEAD"])
        except BrokenObject as error:
            return [], str(error)
        listed = [line for line in done.stdout.decode("ascii", "replace").split() if _HASH.match(line)]
        return listed[::-1], _last_line(done) if done.returncode else None

    def changes(self, commits: Sequence[str]) -> Iterator[Changed]:
        """The files that each commit changes, renames followed; commits that change none are left out.

        Files whose paths could not be written below a folder safely are left out.
        """
        for at in range(0, len(commits), COMMITS_TOGETHER):
            chunk = commits[at : at + COMMITS_TOGETHER]
            try:
                yield from self._compared(chunk)
            except BrokenObject:
                for commit in chunk:
                    yield from self._alone(commit)

    def _alone(self, commit: str) -> Iterator[Changed]:
        """The changes of one commit; without following renames if the content of a file is missing."""
        try:
            yield from self._compared((commit,))
        except BrokenObject:
            try:
                yield from self._compared((commit,), renames=False)
            except BrokenObject as error:
                yield Changed(commit, broken=str(error))

    def _compared(self, commits: Sequence[str], *, renames: bool = True) -> list[Changed]:
        options = ("-M",) if renames else ("--no-renames",)
        fields = self._git(
            "diff-tree", "--stdin", "-r", "-z", "--raw", "--no-ext-diff", "--no-textconv", *options,
            input="".join(f"{commit}\n" for commit in commits).encode(),
        ).split(b"\0")  # fmt: skip
        changed: dict[str, list[FileChange]] = {}
        commit = ""
        for word in (words := iter(fields)):
            if not word.startswith(b":"):
                commit = word.strip().decode()
                continue
            modes, kind = word.decode().split(), word.decode().split()[-1][:1]
            before = after = os.fsdecode(next(words))
            if kind in "RC":
                after = os.fsdecode(next(words))
            # 120000 is a symbolic link, 160000 a submodule.
            is_plain_file = [mode.lstrip(":") in ("100644", "100755", "000000") for mode in modes[:2]]
            if all(is_plain_file) and _safe(before) and _safe(after):
                pair = None if kind == "A" else before, None if kind == "D" else after
                changed.setdefault(commit, []).append(FileChange(*pair, (modes[2], modes[3])))
        return [Changed(name, tuple(files)) for name, files in changed.items()]

    def files(self, commit: str) -> dict[str, str]:
        """The blob of every file at a commit, by path; links, submodules and unsafe paths are left out.

        Raises:
            BrokenObject: a folder cannot be read.
        """
        entries = self._git("ls-tree", "-r", "-z", "--full-tree", commit).split(b"\0")
        heads = (entry.partition(b"\t") for entry in entries if entry.startswith(b"100"))
        listed = ((os.fsdecode(name), head[-self.hash_length :].decode()) for head, _, name in heads)
        return {path: blob for path, blob in listed if _safe(path)}

    def read(self, name: str) -> bytes | None:
        """The content of an object; None if it is larger than `MAX_BLOB_BYTES`.

        Raises:
            BrokenObject: it is missing or damaged.
        """
        if self._reader is None:
            self._reader = self._start(["cat-file", "--batch"], stdin=subprocess.PIPE)
        reader = self._reader
        assert reader.stdin is not None and reader.stdout is not None
        try:
            reader.stdin.write(name.encode() + b"\n")
            reader.stdin.flush()
            words = reader.stdout.readline().split()
            if len(words) != 3:
                if not words:
                    raise EOFError
                raise BrokenObject(f"{name} is missing")
            remaining = size = int(words[2])
            content = bytearray()
            while remaining:
                chunk = reader.stdout.read(min(remaining, 1 << 20))
                if not chunk:
                    raise EOFError
                remaining -= len(chunk)
                if size <= MAX_BLOB_BYTES:
                    content += chunk
            reader.stdout.read(1)
        except (EOFError, OSError, ValueError) as error:
            self.__exit__()
            raise BrokenObject(f"{name} is damaged") from error
        return bytes(content) if size <= MAX_BLOB_BYTES else None

    def _named(self, revision: str) -> str | None:
        """The commit that a revision refers to; None: there is none."""
        try:
            words = ["--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"]
            done = self._run(["rev-parse", *words])
        except BrokenObject:
            return None
        text = done.stdout.decode("ascii", "replace").strip()
        return text if done.returncode == 0 and _HASH.match(text) else None

    def _git(self, *words: str, input: bytes = b"") -> bytes:
        done = self._run(list(words), input)
        if done.returncode:
            raise BrokenObject(_last_line(done))
        return done.stdout

    def _run(self, words: list[str], input: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        with self._start(words, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            try:
                assert process.stdin is not None
                with contextlib.suppress(BrokenPipeError), process.stdin as pipe:
                    pipe.write(input)
                out, err = limited_output.collected(process, time_limits.GIT_S, MAX_PRINTED_BYTES, rest=False)
            except subprocess.TimeoutExpired as error:
                process.kill()
                raise BrokenObject(f"git {words[0]} took over {time_limits.GIT_S:.0f} s") from error
            except limited_output.TooLong as error:
                process.kill()
                raise BrokenObject(f"git {words[0]} printed over {MAX_PRINTED_BYTES >> 20} MiB") from error
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def _start(
        self, words: list[str], *, stdin: int, stderr: int = subprocess.DEVNULL
    ) -> subprocess.Popen[bytes]:
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "LC_ALL": "C",
            "HOME": str(self.folder),
            "GIT_DIR": str(self.folder),
            "GIT_OBJECT_DIRECTORY": str(self.objects),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_ALLOW_PROTOCOL": "",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_OPTIONAL_LOCKS": "0",
        }
        return subprocess.Popen(
            ["git", *words],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=environment,
            cwd=self.folder,
            preexec_fn=partial(_confine, self.folder, self.objects),
        )


def _safe(path: str) -> bool:
    """Whether a file with this path may be written below a folder."""
    parts = path.split("/")
    fits = max(len(os.fsencode(part)) for part in parts) <= MAX_NAME_BYTES and len(parts) <= MAX_DEPTH
    return fits and ".git" not in parts and not own_files.not_below(path)


def _last_line(done: subprocess.CompletedProcess[bytes]) -> str:
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else f"git {done.args[0]} ended with {done.returncode}"


def _confine(folder: Path, objects: Path) -> None:
    """Sandbox git: it reads the objects and its own folder, and has bounded memory and time."""
    isolation.enter_folder(folder, [objects])
    resource.setrlimit(resource.RLIMIT_AS, (GIT_MEMORY_BYTES, GIT_MEMORY_BYTES))


def _git_folders(path: Path) -> tuple[Path, Path]:
    """The git folder of a path, and the one that has its objects (another one for a linked work tree)."""
    git_folder = path / ".git" if (path / ".git").exists() else path
    if git_folder.is_file():
        link = (_small(git_folder) or b"").decode("utf-8", "replace").strip()
        git_folder = path / link.removeprefix("gitdir:").strip()
    shared = (_small(git_folder / "commondir") or b".").decode("utf-8", "replace").strip()
    return git_folder, git_folder / shared


def _small(path: Path, limit: int = MAX_REF_BYTES) -> bytes | None:
    """The content of a file; None: it cannot be read or is larger than `limit`."""
    try:
        own_files.check_size(path, limit)
        return path.read_bytes()
    except (OSError, InputError):
        return None


def _copy_refs(shared_folder: Path, folder: Path) -> None:
    """Copy the refs, at most `MAX_REFS`, without following links."""
    if (packed := _small(shared_folder / "packed-refs", MAX_PACKED_REFS_BYTES)) is not None:
        (folder / "packed-refs").write_bytes(packed)
    remaining = MAX_REFS
    (folder / "refs").mkdir()
    for parent, _, names in os.walk(shared_folder / "refs"):
        for name in names[:remaining]:
            ref = Path(parent) / name
            data = None if ref.is_symlink() else _small(ref)
            if data is not None:
                copy = folder / ref.relative_to(shared_folder)
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes(data)
        remaining -= len(names[:remaining])


def _origin(common: Path) -> str | None:
    """The address of the remote `origin` without credentials; None: there is none on the web."""
    text = (_small(common / "config", 1 << 20) or b"").decode("utf-8", "replace")
    section = re.search(r'^\[remote "origin"\]$(.*?)(?=^\[|\Z)', text, re.MULTILINE | re.DOTALL)
    match = re.search(r"^\s*url\s*=\s*(\S+)\s*$", section[1], re.MULTILINE) if section else None
    if match is None:
        return None
    address = re.sub(r"\A[\w.-]+@([\w.-]+):(?!//)", r"ssh://\1/", match[1])
    try:
        parts = urlsplit(address)
    except ValueError:
        return None
    if parts.scheme not in ("http", "https", "ssh", "git") or not parts.hostname:
        return None
    return f"https://{parts.hostname}{parts.path.removesuffix('.git')}"
