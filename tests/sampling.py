"""Which built-in pairs and cheats a run with `--sample` takes: those that changed, and one in 32 of all.

Changed: in the last commit or since. The others are drawn by the commit's hash: the same for a commit
wherever it is tested, and another for the next. Where git cannot say what changed (no repository, no earlier
commit), all are taken. Not covered: which tests are about which folder (their marker `sample`).
"""

from __future__ import annotations

import hashlib
import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ONE_IN = 32


@dataclass(frozen=True)
class Sample:
    """`commit` None: all are taken. `changed`: files, as paths from the root of the checkout."""

    commit: str | None = None
    changed: frozenset[str] = frozenset()

    def drawn(self, folder: str, one_in: int = ONE_IN) -> bool:
        """Whether the commit's hash chooses a folder."""
        text = f"{self.commit} {folder}"
        return self.commit is None or int(hashlib.sha256(text.encode()).hexdigest(), 16) % one_in == 0

    def touched(self, folder: str) -> bool:
        """Whether something in a folder, or the file of this name, has changed."""
        return folder in self._with_parents

    @cached_property
    def _with_parents(self) -> frozenset[str]:
        return self.changed.union(*({*map(str, Path(path).parents)} for path in self.changed))

    def takes(self, folders: tuple[str, ...], also: tuple[str, ...] = (), one_in: int = ONE_IN) -> bool:
        """Whether a test of these folders runs; files `also` make it run when they have changed."""
        return any(self.drawn(one, one_in) for one in folders) or any(map(self.touched, (*folders, *also)))


def sample(root: Path = ROOT) -> Sample:
    """What this checkout's commit draws."""
    commit = _git(root, "rev-parse", "HEAD")
    since = _git(root, "diff", "--name-only", "--relative", "HEAD~1")
    new = _git(root, "ls-files", "--others", "--exclude-standard")
    if commit is None or since is None or new is None:
        return Sample()
    return Sample(commit.strip(), frozenset((since + new).splitlines()))


def _git(root: Path, *args: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-c", "core.quotePath=off", *args],
            cwd=root,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    except OSError:
        return None
    return None if done.returncode else done.stdout


def name_of(folder: Path) -> str:
    """A folder as the marker `sample` names it."""
    return folder.relative_to(ROOT).as_posix()


def all_folders() -> list[str]:
    """Every built-in pair and every cheat."""
    found = (*ROOT.glob("pairs/*/*/pair.json"), *ROOT.glob("tests/cheats/*/pair.json"))
    return sorted(name_of(path.parent) for path in found)
