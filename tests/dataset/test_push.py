"""Publishing through the real clients to a Hub of our own: whole or not at all, and loaded back equal."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import huggingface_hub.constants
import pytest
from dataset.hub_server import TOKEN, serving
from dataset.hub_state import Hub
from dataset.making import pair, verdict, workspace

from kcurate.core import store
from kcurate.core.workspace import Workspace
from kcurate.dataset import parquet
from kcurate.dataset.push import PushConfig, run
from kcurate.dataset.rows import whole
from kcurate.dataset.stage import BuildConfig
from kcurate.dataset.stage import run as build
from kcurate.errors import InputError, MissingDependencyError, RemoteError
from kcurate.hub.published_rows import read_rows
from kcurate.records import Outcome

REPO = "me/cuda-pairs"
# The client's own upload of large files passes bytes in a way that its transport has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_DISABLE_XET", True)
    with serving() as server:
        yield server


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with a dataset, which no test changes."""
    pairs = [(pair(f"demo/{i}", i), Outcome.CONFIRMED) for i in range(4)]
    made = workspace(tmp_path_factory.mktemp("built"), pairs)
    build(BuildConfig(made.root))
    return made.root


@pytest.fixture
def space(built: Path, tmp_path: Path) -> Workspace:
    return Workspace(Path(shutil.copytree(built, tmp_path / "work")))


def config(space: Workspace, hub: Hub, **changes: object) -> PushConfig:
    given = {"repo": REPO, "endpoint": hub.url, "token": TOKEN, **changes}
    return PushConfig(space.root, **given)  # type: ignore[arg-type]


def local(space: Workspace) -> dict[str, bytes]:
    files = (path for path in space.dataset.rglob("*") if path.is_file())
    return {path.relative_to(space.dataset).as_posix(): path.read_bytes() for path in files}


def remote(hub: Hub, revision: str = "main") -> dict[str, bytes]:
    found = hub.repos[REPO].tree(revision)
    assert found is not None
    return {path: content for path, content in found[1].items() if path != ".gitattributes"}


def test_the_first_push_makes_uploads_tags_and_loads_back(space: Workspace, hub: Hub) -> None:
    said: list[str] = []
    summary = run(config(space, hub, private=True), note=said.append)
    assert summary.items == {"files": {"added": len(local(space))}}
    assert remote(hub) == local(space) == remote(hub, "v1.0.0")
    assert hub.repos[REPO].private and len(hub.repos[REPO].commits) == 2
    assert "downloaded and verified" in said[-1] and hub.uploads


def test_a_second_push_changes_nothing(space: Workspace, hub: Hub) -> None:
    run(config(space, hub))
    before = list(hub.repos[REPO].commits)
    assert run(config(space, hub)).items == {"files": {"unchanged": len(local(space))}}
    assert hub.repos[REPO].commits == before


def test_a_change_is_one_commit_and_a_new_tag(space: Workspace, hub: Hub) -> None:
    run(config(space, hub))
    hub.repos[REPO].commits[-1][1]["notes.md"] = b"somebody else's"
    workspace(space.root, [(pair("demo/9", 9), Outcome.CONFIRMED)])
    old = remote(hub, "v1.0.0")
    build(BuildConfig(space.root))
    run(config(space, hub))
    assert remote(hub) == {**local(space), "notes.md": b"somebody else's"} == remote(hub, "v1.1.0")
    assert remote(hub, "v1.0.0") == old and len(hub.repos[REPO].commits) == 3


def test_files_that_went_away_are_removed(space: Workspace, hub: Hub) -> None:
    run(config(space, hub))
    hub.repos[REPO].commits[-1][1]["sft/test-00001-of-00002.parquet"] = b"old"
    assert run(config(space, hub)).items["files"]["removed"] == 1
    assert remote(hub) == local(space)


@pytest.mark.parametrize(
    ("path", "status"),
    [("/lfs/", 403), ("/preupload/", 403), ("/commit/", 403), ("/commit/", None)],
)
def test_a_refused_or_cut_upload_leaves_the_remote_as_it_was(
    space: Workspace, hub: Hub, path: str, status: int | None
) -> None:
    run(config(space, hub))
    before = (list(hub.repos[REPO].commits), dict(hub.repos[REPO].tags))
    store.append_jsonl(space.verdicts / "device.jsonl", verdict(pair("demo/1", 1), ratio=9.0))
    build(BuildConfig(space.root))
    hub.fail(path, 9, status)
    with pytest.raises(RemoteError, match="run the command again"):
        run(config(space, hub))
    assert (hub.repos[REPO].commits, hub.repos[REPO].tags) == before
    hub.failures.clear()
    run(config(space, hub))
    assert remote(hub) == local(space) == remote(hub, "v1.0.1")


def test_a_cut_upload_resumes_without_sending_again(space: Workspace, hub: Hub) -> None:
    hub.fail("/commit/", 1)
    with pytest.raises(RemoteError):
        run(config(space, hub))
    sent = list(hub.uploads)
    assert sent and len(hub.repos[REPO].commits) == 1
    run(config(space, hub))
    assert hub.uploads == sent and remote(hub) == local(space)


def test_a_commit_whose_answer_was_lost_is_found_and_tagged(space: Workspace, hub: Hub) -> None:
    hub.fail("answer to commit")
    with pytest.raises(RemoteError):
        run(config(space, hub))
    assert not hub.repos[REPO].tags and len(hub.repos[REPO].commits) == 2
    run(config(space, hub))
    assert len(hub.repos[REPO].commits) == 2 and remote(hub, "v1.0.0") == local(space)


def test_somebody_elses_commit_in_between_is_not_overwritten(space: Workspace, hub: Hub) -> None:
    def another(path: str) -> None:
        if "/commit/" in path and len(hub.repos[REPO].commits) == 1:
            hub.repos[REPO].add({"notes.md": b"somebody else's"})

    hub.meanwhile = another
    with pytest.raises(RemoteError, match="A commit has happened since"):
        run(config(space, hub))
    assert remote(hub) == {"notes.md": b"somebody else's"} and not hub.repos[REPO].tags
    run(config(space, hub))
    assert remote(hub) == {**local(space), "notes.md": b"somebody else's"}


def test_what_comes_back_otherwise_is_not_tagged(space: Workspace, hub: Hub) -> None:
    hub.corrupt = "CHANGES.md"
    with pytest.raises(RemoteError):
        run(config(space, hub))
    assert not hub.repos[REPO].tags


def test_a_version_is_never_published_twice(space: Workspace, hub: Hub) -> None:
    run(config(space, hub))
    (space.dataset / "versions.json").unlink()
    workspace(space.root, [(pair("demo/9", 9), Outcome.CONFIRMED)])
    build(BuildConfig(space.root))
    with pytest.raises(InputError, match=r"v1\.0\.0 is published with other rows"):
        run(config(space, hub))


def test_private_rows_do_not_go_into_a_public_repository(space: Workspace, hub: Hub) -> None:
    run(config(space, hub))
    with pytest.raises(InputError, match="is public"):
        run(config(space, hub, private=True))


def test_a_dry_run_only_looks(space: Workspace, hub: Hub) -> None:
    assert run(config(space, hub, dry_run=True)).items == {"files": {"added": len(local(space))}}
    assert not hub.repos and not [one for one in hub.requests if not one.startswith(("GET", "HEAD"))]


def test_without_a_token_it_says_so_and_a_dry_run_needs_none(
    space: Workspace, hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(MissingDependencyError, match="set HF_TOKEN or run"):
        run(config(space, hub, token=None))
    assert not hub.requests
    said: list[str] = []
    dry = config(space, hub, token=None, dry_run=True)
    assert set(run(dry, note=said.append).items["files"]) == {"added"}
    assert any("not there, or private" in one for one in said)
    run(config(space, hub))
    said.clear()
    assert set(run(dry, note=said.append).items["files"]) == {"unchanged"}
    assert not any("not there, or private" in one for one in said)


def test_a_wrong_token_and_a_hub_that_is_away_are_one_line(space: Workspace, hub: Hub) -> None:
    with pytest.raises(RemoteError) as refused:
        run(config(space, hub, token="hf_wrong"))
    with pytest.raises(RemoteError) as away:
        run(config(space, hub, endpoint="http://127.0.0.1:9"))
    assert "\n" not in str(refused.value) + str(away.value) and not hub.repos


@pytest.mark.parametrize("repo", ["name-only", "a/b/c", "me/na me", "me/.."])
def test_a_bad_name_is_told(space: Workspace, hub: Hub, repo: str) -> None:
    with pytest.raises(InputError):
        run(config(space, hub, repo=repo))


def test_a_dataset_that_was_changed_by_hand_does_not_leave(space: Workspace, hub: Hub) -> None:
    (path,) = space.dataset.glob("pairs/train-*.parquet")
    rows = read_rows(space.dataset)["train"]
    changed = [{**rows[0], "speedup": 99.0}, *rows[1:]]
    path.write_bytes(parquet.to_bytes("pairs", [whole(row) for row in changed]))
    with pytest.raises(InputError, match="the rows were modified after the build"):
        run(config(space, hub))
    assert not hub.requests


def test_files_of_others_stay_on_the_hub(space: Workspace, hub: Hub) -> None:
    theirs = {"pairs/my-own-results.parquet": b"theirs", "sft/validation-00000-of-00001.parquet": b"theirs"}
    run(config(space, hub))
    hub.repos[REPO].commits[-1][1].update(theirs)
    assert run(config(space, hub)).items == {"files": {"unchanged": len(local(space))}}
    assert remote(hub) == {**local(space), **theirs}


def test_a_folder_takes_the_place_of_the_hub(space: Workspace, tmp_path: Path) -> None:
    to = tmp_path / "published"
    (to / ".git").mkdir(parents=True)
    (to / ".git" / "config").write_text("stays")
    assert run(PushConfig(space.root, to=to, dry_run=True)).items["files"]["added"]
    assert [path.name for path in to.iterdir()] == [".git"]
    run(PushConfig(space.root, to=to))
    theirs = to / "pairs" / "my-own-results.parquet"
    for path in (to / "notes.md", theirs):
        path.write_text("stays")
    old = to / "sft" / "test-00001-of-00002.parquet"
    old.write_text("an older version's")
    assert run(PushConfig(space.root, to=to)).items == {
        "files": {"removed": 1, "unchanged": len(local(space))}
    }
    assert (to / "README.md").read_bytes() == local(space)["README.md"] and not old.exists()
    assert theirs.exists() and (to / "notes.md").exists() and (to / ".git" / "config").exists()


@pytest.mark.parametrize("name", ["README.md", "pairs/my-own-results.parquet", "versions.json"])
@pytest.mark.parametrize("dry_run", [True, False])
def test_a_folder_of_somebody_else_is_refused(
    space: Workspace, tmp_path: Path, name: str, dry_run: bool
) -> None:
    theirs = tmp_path / "theirs" / name
    theirs.parent.mkdir(parents=True)
    theirs.write_text("mine")
    with pytest.raises(InputError, match="is not a dataset of kcurate"):
        run(PushConfig(space.root, to=tmp_path / "theirs", dry_run=dry_run))
    assert [path for path in (tmp_path / "theirs").rglob("*") if path.is_file()] == [theirs]
    assert theirs.read_text() == "mine"


@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize(
    ("in_the_way", "to"), [("to", "to"), ("to", "to/below"), ("to/pairs", "to"), ("to/README.md/x", "to")]
)
def test_a_folder_that_cannot_take_it_is_told_by_a_dry_run_too(
    space: Workspace, tmp_path: Path, dry_run: bool, in_the_way: str, to: str
) -> None:
    (tmp_path / in_the_way).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / in_the_way).write_text("mine")
    with pytest.raises(InputError):
        run(PushConfig(space.root, to=tmp_path / to, dry_run=dry_run))
    assert [path for path in tmp_path.glob("to/**/*") if path.is_file()] in ([], [tmp_path / in_the_way])
    assert (tmp_path / in_the_way).read_text() == "mine"


@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize("made", [True, False])
def test_a_read_only_folder_is_told_by_a_dry_run_too(
    space: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dry_run: bool, made: bool
) -> None:
    to = tmp_path / "published"
    closed = to if made else tmp_path
    if made:
        to.mkdir()
    asked = os.access  # root, who runs many a container, may write everywhere
    monkeypatch.setattr(os, "access", lambda path, mode: path != closed and asked(path, mode))
    with pytest.raises(InputError, match="cannot write: Permission denied"):
        run(PushConfig(space.root, to=to, dry_run=dry_run))
    assert not list(to.glob("*")) if made else not to.exists()


def test_a_version_is_never_published_twice_into_a_folder(space: Workspace, tmp_path: Path) -> None:
    to = tmp_path / "published"
    run(PushConfig(space.root, to=to))
    before = (to / "versions.json").read_bytes()
    (space.dataset / "versions.json").unlink()
    workspace(space.root, [(pair("demo/9", 9), Outcome.CONFIRMED)])
    build(BuildConfig(space.root))
    for dry_run in (True, False):
        with pytest.raises(InputError, match=r"v1\.0\.0 is published with other rows"):
            run(PushConfig(space.root, to=to, dry_run=dry_run))
    build(BuildConfig(space.root, version="1.1.0"))
    assert (to / "versions.json").read_bytes() == before
    run(PushConfig(space.root, to=to))
    assert read_rows(to) == read_rows(space.dataset)


def test_a_cut_push_into_a_folder_is_seen_and_completed(
    space: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    to = tmp_path / "published"

    def cut(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as during, pytest.raises(KeyboardInterrupt):
        during.setattr(parquet, "load", cut)
        run(PushConfig(space.root, to=to))
    assert not (to / "versions.json").exists() and (to / "README.md").exists()
    assert run(PushConfig(space.root, to=to)).items["files"]["added"] == 1
    assert (to / "versions.json").read_bytes() == local(space)["versions.json"]


def test_datasets_loads_every_config_of_the_repository_by_its_name(
    space: Workspace, hub: Hub, tmp_path: Path
) -> None:
    run(config(space, hub))
    code = """
import sys, datasets
for name in datasets.get_dataset_config_names(sys.argv[1], revision="v1.0.0"):
    found = datasets.load_dataset(sys.argv[1], name, revision="v1.0.0")
    print(name, *sorted(one for split in found.values() for one in split["id"]))
"""
    offline = {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "home"), "HF_HUB_DISABLE_XET": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code, REPO],
        env={**os.environ, **offline},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    loaded = {name: ids for name, *ids in map(str.split, done.stdout.splitlines())}
    configs = {path.parent.name for path in space.dataset.glob("*/*.parquet")}
    assert set(loaded) == configs >= {"pairs", "sft", "explained", "grpo"}, done.stderr
    for name, ids in loaded.items():
        assert ids == sorted(one["id"] for some in read_rows(space.dataset, name).values() for one in some)
    assert loaded["pairs"] == ["demo/0", "demo/1", "demo/2", "demo/3"]


LOADS = """
import os, sys, datasets
for streaming in (False, True):
    rows = datasets.load_dataset(sys.argv[1], "sft", split="train", streaming=streaming)
    print(*sorted(row["content"] for row in rows))
if len(sys.argv) > 2:
    datasets.load_dataset(sys.argv[1], "sft", download_mode="force_redownload", cache_dir=sys.argv[2])
# A stream's reading threads of pyarrow may still run when the interpreter ends, and then they abort it.
sys.stdout.flush()
os._exit(0)
"""


def loaded(home: Path, hub: Hub, *words: str) -> list[list[str]]:
    """The contents of the rows as `datasets` gives them, from its cache in `home` and as a stream."""
    variables = {"HF_ENDPOINT": hub.url, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1"}
    done = subprocess.run(
        [sys.executable, "-c", LOADS, *words],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [line.split() for line in done.stdout.splitlines()]


def contents(space: Workspace) -> list[str]:
    return sorted(row["content"] for row in read_rows(space.dataset, "sft")["train"])


@pytest.mark.parametrize("place", [pytest.param("local", marks=pytest.mark.slow), "hub"])
def test_a_dataset_replaced_in_place_is_never_served_from_a_cache(
    space: Workspace, hub: Hub, tmp_path: Path, place: str
) -> None:
    """As rows, as a stream, and as rows loaded anew into the old cache; there are as many rows as before."""
    where = str(space.dataset) if place == "local" else REPO
    before: list[str] = []
    for factor in (1, 9):
        workspace(space.root, [(pair("demo/1", factor), Outcome.CONFIRMED)])
        build(BuildConfig(space.root))
        run(config(space, hub))
        now = contents(space)
        assert now != before and len(now) == (len(before) or len(now))
        assert loaded(tmp_path / "home", hub, where, str(tmp_path / "c")) == [now, now]
        before = now


@pytest.mark.parametrize("hashed", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_the_hash_in_a_name_is_all_that_a_cache_sees(
    space: Workspace, hub: Hub, tmp_path: Path, hashed: bool
) -> None:
    """Without it, and without the sizes that the card has, the rows before are served again."""
    first: list[str] = []
    for factor in (1, 9):
        workspace(space.root, [(pair("demo/1", factor), Outcome.CONFIRMED)])
        build(BuildConfig(space.root))
        card = space.dataset / "README.md"
        text = re.sub(r"^dataset_info:\n(?:(?:- |  ).*\n)*", "", card.read_text(), flags=re.MULTILINE)
        if not hashed:
            text = re.sub(r"-[0-9a-f]{16}\.parquet", ".parquet", text)
            for path in space.dataset.glob("*/*.parquet"):
                path.rename(path.with_name(re.sub(r"-[0-9a-f]{16}\.", ".", path.name)))
        assert "dataset_info" not in text
        card.write_text(text)
        now, first = contents(space), first or contents(space)
        assert loaded(tmp_path / "home", hub, str(space.dataset)) == [now if hashed else first, now]
    assert now != first


@pytest.mark.slow
def test_the_built_in_pairs_go_there_and_back(hub: Hub, tmp_path: Path) -> None:
    space = Workspace(tmp_path / "work")
    counted = build(BuildConfig(space.root, built_in=True)).items["pairs"]
    run(config(space, hub))
    assert remote(hub, "v1.0.0") == local(space)
    loaded = parquet.load(space.dataset, tmp_path / "cache")
    assert sum(len(split) for split in loaded["pairs"].values()) == counted["confirmed"] >= 100
    families = {name: {*split["family"]} for name, split in loaded["pairs"].items()}
    assert not families["train"] & families["test"]
    assert run(config(space, hub)).items == {"files": {"unchanged": len(local(space))}}


def test_the_command_without_a_token_is_one_line(space: Workspace, tmp_path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGING"))}
    done = subprocess.run(
        [sys.executable, "-m", "kcurate", "push", "--repo", REPO, "--workspace", str(space.root)],
        env={**kept, "HF_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 1 and "set HF_TOKEN" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
