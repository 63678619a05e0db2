"""`extract --history`: which commits give pairs, what pairs say, damaged and hostile repositories."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from kcurate import cli
from kcurate.core import store
from kcurate.draft.stage import DraftConfig, draft
from kcurate.errors import InputError, OptionError
from kcurate.extract import git_objects
from kcurate.extract.commit_changes import claim_in
from kcurate.extract.settings import ExtractConfig
from kcurate.extract.stage import run
from kcurate.records import Candidate, Kernel, Summary

FLOAT = "2.0f * in[i]"
KERNEL = """
__global__ void {name}(const float *in, float *out, int n)
{{
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = {value};
}}
"""
HOST = """
void run_{name}(int n) {{
  float *a, *b;
  cudaMalloc(&a, n * sizeof(float));
  cudaMalloc(&b, n * sizeof(float));
  {name}<<<1, {block}>>>(a, b, n);
}}
"""


def kernel(value: str = FLOAT, name: str = "scale", block: int = 128) -> str:
    return KERNEL.format(name=name, value=value) + HOST.format(name=name, block=block)


class Repository:
    """A repository made for a test; `commit` returns the new commit."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True)
        self.git("init", "-q", "-b", "main")

    def git(self, *words: str, data: bytes | None = None) -> str:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.root),
            "GIT_CONFIG_NOSYSTEM": "1",
            **{f"GIT_{role}_NAME": "A" for role in ("AUTHOR", "COMMITTER")},
            **{f"GIT_{role}_EMAIL": "a@b.c" for role in ("AUTHOR", "COMMITTER")},
        }
        command = ["git", "-c", "protocol.file.allow=always", *words]
        done = subprocess.run(
            command, cwd=self.root, env=environment, input=data, capture_output=True, check=True, timeout=60
        )
        return done.stdout.decode().strip()

    def commit(self, message: str = "change", /, **files: str | None) -> str:
        """Write files (`__` in a name stands for `/`, `_cu` for `.cu`; None removes one) and commit."""
        for name, text in files.items():
            path = self.root / f"{name.replace('__', '/')}.cu"
            path.parent.mkdir(exist_ok=True)
            if text is None:
                path.unlink()
            else:
                path.write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "demo")


def extract(repository: Repository, *more: Path, since: str | None = None) -> tuple[Summary, list[Candidate]]:
    """The summary, and the pairs in the order of their commits' ids."""
    workspace = repository.root.parent / "work"
    config = ExtractConfig((repository.root, *more), workspace, compile=False, history=True, since=since)
    summary = run(config)
    pairs = workspace / "pairs"
    return summary, [
        store.read_candidate(path) for path in store.find_candidates(pairs)
    ] if pairs.exists() else []


def test_a_changed_body_is_a_pair_that_names_its_revisions(repository: Repository, tmp_path: Path) -> None:
    before = repository.commit(src__scale=kernel())
    after = repository.commit("Scale without a product: 1.5x faster", src__scale=kernel("in[i] + in[i]"))
    repository.commit("comments and host code", src__scale=kernel("in[i] + /* twice */ in[i]", block=64))
    repository.git("remote", "add", "origin", "https://name:secret@example.org/team/demo.git")
    summary, (pair,) = extract(repository)
    assert (pair.origin.kind, pair.origin.suite, pair.origin.path) == ("history", "demo", "src/scale.cu")
    assert (pair.origin.base_revision, pair.origin.revision) == (before, after)
    assert (pair.origin.claim, pair.origin.url) == ("1.5x", "https://example.org/team/demo")
    assert "2.0f * in[i]" in pair.slow.code and "in[i] + in[i]" in pair.fast.code
    assert summary.counts["commits"] == {"no_kernel": 2, "read": 1}
    work = tmp_path / "work"
    for id_, revision in zip(pair.origin.kernels, (before, after), strict=True):
        assert store.read_json(work / "kernels" / id_ / "kernel.json", Kernel).source.revision == revision
    draft(DraftConfig(work))
    (folder,) = store.find_candidates(work / "pairs")
    drafted = store.read_candidate(folder)
    assert drafted.problem is not None and drafted.fast.plan
    assert extract(repository)[1] == [drafted]  # and it keeps its problem


def test_renamed_and_moved_kernels_are_followed(repository: Repository) -> None:
    padding = "".join(kernel(f"in[i] + {number}.0f", f"other{number}") for number in range(4))
    repository.commit(a=padding + kernel(), kept=padding + kernel(name="left"))
    repository.commit(a=None, sub__b=padding + kernel("in[i] + in[i]"))  # a file renamed
    repository.commit(sub__b=padding, kept=padding + kernel(name="left") + kernel("ldexpf(in[i], 1)"))
    repository.commit(kept=padding + kernel("in[i] * 2", "right") + kernel("ldexpf(in[i], 1)"))
    _, pairs = extract(repository)
    sides = {(pair.origin.path, pair.fast.code.partition("out[i] = ")[2].partition(";")[0]) for pair in pairs}
    assert sides == {("sub/b.cu", "in[i] + in[i]"), ("kept.cu", "ldexpf(in[i], 1)"), ("kept.cu", "in[i] * 2")}


def test_a_change_counts_once_however_it_came(repository: Repository) -> None:
    first = repository.commit(scale=kernel())
    repository.git("checkout", "-q", "-b", "side")
    side = repository.commit(scale=kernel("in[i] + in[i]"))
    repository.git("checkout", "-q", "-b", "rebased", first)
    repository.commit(other="int unused;\n")
    repository.git("cherry-pick", side)
    repository.git("checkout", "-q", "main")
    repository.commit(another="int unused;\n")
    repository.git("merge", "-q", "--no-ff", "-m", "merge", "side")
    repository.git("merge", "-q", "--no-ff", "-m", "merge", "rebased")
    summary, pairs = extract(repository)
    assert len(pairs) == 1
    assert summary.counts["pairs"] == {"pair": 1, "repeated": 1}


def test_other_parameters_launched_in_another_way_are_no_pair(repository: Repository) -> None:
    repository.commit(scale=kernel())
    text = kernel("in[i] + in[i]", block=64).replace("int n)\n", "long m, int n)\n", 1)
    repository.commit(scale=text.replace("(a, b, n);", "(a, b, 0, n);"))
    summary, pairs = extract(repository)
    assert (summary.counts["pairs"], pairs) == ({"interface_changed": 1}, [])


def test_a_finished_commit_is_not_read_again(repository: Repository, tmp_path: Path) -> None:
    repository.commit(scale=kernel())
    repository.commit(scale=kernel("in[i] + in[i]"))
    first, _ = extract(repository)
    (marks,) = (tmp_path / "work" / "history").glob("*.jsonl")
    with marks.open("ab") as file:
        file.write(b'{"commit": "cut in the mid')
    shutil.rmtree(tmp_path / "work" / "pairs")
    repository.commit(scale=kernel("ldexpf(in[i], 1)"))
    second, pairs = extract(repository)
    assert [pair.fast.code.count("ldexpf") for pair in pairs] == [1]
    assert (first.counts["pairs"]["pair"], second.counts["pairs"]["pair"]) == (1, 2)


def test_since_is_a_revision_or_a_date(repository: Repository) -> None:
    repository.commit(scale=kernel())
    repository.commit(scale=kernel("in[i] + in[i]"))
    repository.git("tag", "v1")
    repository.commit(scale=kernel("ldexpf(in[i], 1)"))
    _, pairs = extract(repository, since="v1")
    assert ["ldexpf" in pair.fast.code for pair in pairs] == [True]
    assert len(extract(repository, since="2001-01-01")[1]) == 2
    with pytest.raises(InputError, match=r"unknown revision '--all'.*give a commit"):
        extract(repository, since="--all")
    with pytest.raises(OptionError, match="needs --history"):
        run(ExtractConfig((repository.root,), repository.root / "w", since="v1"))


def test_paths_that_are_no_repository_are_counted_and_the_rest_goes_on(
    repository: Repository, tmp_path: Path
) -> None:
    repository.commit(scale=kernel())
    repository.commit(scale=kernel("in[i] + in[i]"))
    (tmp_path / "empty").mkdir()
    summary, pairs = extract(repository, tmp_path / "empty", tmp_path / "missing")
    assert (len(pairs), summary.counts["repositories"]) == (1, {"read": 1, "refused": 2})
    assert "git clone" in str(next(item.why for item in summary.results if item.kind == "repositories"))


def test_a_shallow_history_says_where_it_ends(repository: Repository, tmp_path: Path) -> None:
    for value in (FLOAT, "in[i] + in[i]", "ldexpf(in[i], 1)"):
        repository.commit(scale=kernel(value))
    repository.git("clone", "-q", "--depth", "2", f"file://{repository.root}", str(tmp_path / "cut"))
    cut = Repository.__new__(Repository)
    cut.root = tmp_path / "cut"
    summary, pairs = extract(cut)
    assert (len(pairs), summary.counts["repositories"]) == (1, {"shallow": 1})


def test_a_broken_object_costs_its_commits_alone(repository: Repository, tmp_path: Path) -> None:
    for value in (FLOAT, "in[i] + in[i]", "ldexpf(in[i], 1)", "in[i] * 2"):
        repository.commit(scale=kernel(value))
    blob = repository.git("rev-parse", "HEAD~2:scale.cu")
    stored = repository.root / ".git" / "objects" / blob[:2] / blob[2:]
    stored.chmod(0o644)
    stored.write_bytes(b"damaged")
    summary, pairs = extract(repository)
    assert summary.counts["commits"] == {"broken_object": 2, "no_kernel": 1, "read": 1}
    assert len(pairs) == 1
    words = ["extract", str(repository.root), "--history", "--no-compile", "-w", str(tmp_path / "work"), "-q"]
    assert cli.run([*words, "--fail-on", "broken_object"]) == 1  # it is tried again, and still broken
    assert cli.run(words) == 0
    assert all("git fetch" in str(item.why) for item in summary.results if item.outcome == "broken_object")


def test_nothing_of_a_hostile_repository_runs_or_leaves_the_workspace(
    repository: Repository, tmp_path: Path
) -> None:
    """Hooks, settings that name programs, a remote to fetch from, replaced objects, paths that lead out."""
    first = repository.commit(scale=kernel())
    repository.commit(scale=kernel("in[i] + in[i]"))
    canary = tmp_path / "canary"
    run_it = f"touch {canary} #"
    (repository.root / ".gitattributes").write_text("*.cu diff=evil filter=evil\n")
    for name in ("core.fsmonitor", "core.pager", "diff.external", "diff.evil.textconv", "filter.evil.smudge",
                 "core.sshCommand", "core.alternateRefsCommand", "uploadpack.packObjectsHook"):  # fmt: skip
        repository.git("config", name, run_it)
    for name in ("post-checkout", "reference-transaction", "post-index-change"):
        hook = repository.root / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch {canary}\n")
        hook.chmod(0o755)
    blob = repository.git("hash-object", "-w", "--stdin", data=b"escaped")
    header = repository.git("hash-object", "-w", "--stdin", data=kernel("in[i] * 2").encode())
    inner = b"100644 out.cu\0" + bytes.fromhex(blob)
    up = repository.git("hash-object", "-t", "tree", "--literally", "-w", "--stdin", data=inner)
    entries = b"40000 ..\0" + bytes.fromhex(up) + b"120000 link.h\0" + bytes.fromhex(blob)
    entries += b"100644 scale.cu\0" + bytes.fromhex(header)
    tree = repository.git("hash-object", "-t", "tree", "--literally", "-w", "--stdin", data=entries)
    head = repository.git("commit-tree", tree, "-p", "HEAD", "-m", "lead out")
    (repository.root / ".git" / "refs" / "heads" / "main").write_text(f"{head}\n")
    for key, value in (
        ("extensions.partialClone", "origin"),
        ("remote.origin.promisor", "true"),
        ("remote.origin.url", f"ext::sh -c touch% {canary}"),
        ("protocol.ext.allow", "always"),
    ):
        repository.git("config", key, value)
    lost = repository.root / ".git" / "objects" / blob[:2] / blob[2:]
    lost.unlink()
    (repository.root / ".git" / "refs" / "replace").mkdir()
    (repository.root / ".git" / "refs" / "replace" / head).write_text(f"{first}\n")
    canary.unlink(missing_ok=True)
    summary, pairs = extract(repository)
    assert not canary.exists()
    assert not list(tmp_path.rglob("out.cu")) and not list((tmp_path / "work").rglob("link.h"))
    assert len(pairs) == 2, summary.results


@pytest.mark.parametrize("part", [".git", ".git/objects", ".git/refs", ".git/packed-refs"])
def test_another_repository_is_not_read_through_links(
    part: str, repository: Repository, tmp_path: Path
) -> None:
    private = Repository(tmp_path / "private")
    private.commit(scale=kernel())
    private.commit(scale=kernel("in[i] + in[i]"))
    private.git("pack-refs", "--all")
    repository.commit(scale=kernel())
    kept = repository.root / part
    if kept.exists():
        kept.rename(tmp_path / "moved")
    kept.symlink_to(private.root / part)
    with pytest.raises(InputError, match="is a link to another place"):
        extract(repository)


def test_a_tree_without_end_costs_its_commit_alone(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five folders deep, ten entries each, all the same: a hundred thousand files in six objects."""
    repository.commit(scale=kernel())
    repository.commit(scale=kernel("in[i] + in[i]"))
    mode, name = "100644", repository.git("rev-parse", "HEAD:scale.cu")
    for _ in range(5):
        entries = b"".join(f"{mode} {digit}.cu\0".encode() + bytes.fromhex(name) for digit in range(10))
        name = repository.git("hash-object", "-t", "tree", "-w", "--stdin", data=entries)
        mode = "40000"
    repository.git("update-ref", "HEAD", repository.git("commit-tree", name, "-p", "HEAD", "-m", "grow"))
    monkeypatch.setattr(git_objects, "MAX_PRINTED_BYTES", 1 << 20)
    summary, pairs = extract(repository)
    assert summary.counts["commits"] == {"broken_object": 1, "no_kernel": 1, "read": 1}
    assert len(pairs) == 1 and "printed over 1 MiB" in str(summary.results)


def test_a_commits_mark_is_one_line(repository: Repository, tmp_path: Path) -> None:
    repository.commit(scale=kernel())
    commit = repository.commit(scale=kernel("in[i] + in[i]"))
    extract(repository)
    (marks,) = (tmp_path / "work" / "history").glob("*.jsonl")
    lines = [json.loads(line) for line in marks.read_text().splitlines()]
    assert [line["commit"] for line in lines] == [commit]


@pytest.mark.parametrize(
    ("message", "claim"),
    [
        ("softmax: 2.5x faster", "2.5x"),
        ("speedup of 3 x on A100", "3x"),
        ("now 20% faster than before", "20%"),
        ("improves performance by ~1.3×", "1.3x"),
        ("use 4x4 tiles", None),
        ("faster", None),
    ],
)
def test_a_claim_is_the_number_of_a_speedup(message: str, claim: str | None) -> None:
    assert claim_in(message) == claim
