"""A run's adapters through the real client to a Hub of our own: one commit, or nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import huggingface_hub.constants
import pytest
from dataset.hub_server import TOKEN, serving
from dataset.hub_state import Hub

from kcurate.errors import InputError, MissingDependencyError, RemoteError
from kcurate.local_models.settings import ModelSettings
from kcurate.train import hub as models_hub
from kcurate.train.config import resolve
from kcurate.train.run_folder import RunFolder, write_environment

REPO = "me/cuda-coder"
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_DISABLE_XET", True)
    with serving() as server:
        yield server


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """A run with two finished stages; weights are any bytes here."""
    folder = RunFolder(tmp_path / "run")
    settings = resolve(options={"model": {"name": "org/base-model"}})
    folder.start(settings)
    for name in ("sft", "grpo"):
        place = folder.adapter(name)  # type: ignore[arg-type]
        place.mkdir(parents=True)
        (place / "adapter_config.json").write_text(json.dumps({"stage": name}))
        (place / "adapter_model.safetensors").write_bytes(name.encode() * 50_000)
    (folder.stage("sft") / "checkpoint-1").mkdir()
    (folder.stage("sft") / "checkpoint-1" / "optimizer.pt").write_bytes(b"not for the Hub")
    models_hub.write_card(folder, settings, {"recipe": "kernelcompare"})
    return folder


def push(run: RunFolder, hub: Hub, **more: object) -> str:
    return models_hub.push(run, REPO, **{"endpoint": hub.url, "token": TOKEN, **more})  # type: ignore[arg-type]


def test_adapters_card_and_settings_go_up_in_one_commit(run: RunFolder, hub: Hub) -> None:
    commit = push(run, hub, private=True)
    repo = hub.repos[REPO]
    assert repo.private
    assert repo.head == commit
    tree = repo.commits[-1][1]
    assert json.loads(tree["adapter_config.json"])["stage"] == "grpo", "the last stage is what loads"
    assert json.loads(tree["sft/adapter_config.json"])["stage"] == "sft"
    assert tree["adapter_model.safetensors"] == b"grpo" * 50_000
    assert b"base_model: org/base-model" in tree["README.md"]
    assert b"learning_rate" in tree["config.toml"]
    assert not [name for name in tree if "checkpoint" in name]


def test_a_model_is_named_without_a_path_of_this_machine(tmp_path: Path) -> None:
    for place, named in (
        ("here/tiny-coder", "tiny-coder"),
        ("here/tiny.Q4_1.gguf", "tiny.Q4_1"),
        ("models--org--base/snapshots/0abc", "org/base"),
    ):
        path = tmp_path / place
        path.mkdir(parents=True)
        assert ModelSettings(str(path)).shown == named
        assert ModelSettings(str(path), base="me/base").shown == "me/base"
        settings = resolve(options={"model": {"name": str(path)}, "tasks": {"dataset": [str(path)]}})
        text = models_hub.card(RunFolder(tmp_path / "run"), settings, {})
        assert str(tmp_path) not in text
        assert (f"base_model: {named}\n" in text) == (named == "org/base")
    assert ModelSettings("org/base").shown == "org/base"


def test_nothing_that_is_pushed_names_a_path_of_this_machine(
    run: RunFolder, hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither what is there, nor what has gone, such as weights that were unpacked for a while."""
    place, gone = tmp_path / "here", str(tmp_path / "gone" / "tiny.gguf")
    place.mkdir()
    sets = [f"sft.trl={{deepspeed='{place}/zero.json', lists=['{place}']}}", f"judge.token_file='{place}'"]
    tasks = {"dataset": [str(place)], "source": f"kernelbench:{place}"}
    settings = resolve(sets=sets, options={"model": {"name": gone}, "tasks": tasks})
    run.start(settings)
    monkeypatch.setattr("sys.argv", ["kcurate", "train", "--out", str(run.root)])
    write_environment(run, 1)
    for name in ("sft", "grpo"):
        config = run.adapter(name) / "adapter_config.json"  # type: ignore[arg-type]
        config.write_text(json.dumps({"base_model_name_or_path": str(run.base), "r": 16}))
    models_hub.write_card(run, settings, {})
    push(run, hub)
    tree = hub.repos[REPO].commits[-1][1]
    assert {"config.toml", "environment.json", "sft/adapter_config.json"} <= set(tree)
    assert not [name for name, data in tree.items() if str(tmp_path).encode() in data]
    assert json.loads(tree["adapter_config.json"]) == {"base_model_name_or_path": "tiny", "r": 16}
    assert b"zero.json" in tree["config.toml"] and b'"kernelbench:here"' in tree["config.toml"]


def test_pushing_again_needs_no_new_repository(run: RunFolder, hub: Hub) -> None:
    push(run, hub)
    push(run, hub)
    assert len(hub.repos) == 1


def test_nothing_is_pushed_before_a_stage_is_done(tmp_path: Path, hub: Hub) -> None:
    with pytest.raises(InputError, match="no adapter"):
        push(RunFolder(tmp_path), hub)
    assert not hub.repos


def test_names_and_tokens_are_checked(run: RunFolder, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError):
        models_hub.push(run, "no name", endpoint=hub.url, token=TOKEN)
    monkeypatch.setattr(huggingface_hub, "get_token", lambda: None)
    with pytest.raises(MissingDependencyError, match="no Hub token"):
        models_hub.push(run, REPO, endpoint=hub.url)


def test_refusal_of_the_hub_is_one_line(run: RunFolder, hub: Hub) -> None:
    with pytest.raises(RemoteError) as caught:
        push(run, hub, token="wrong")
    assert "\n" not in str(caught.value)
    assert not hub.repos
