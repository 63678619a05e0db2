"""`kcurate train` from end to end with a tiny model, the real trainers and the real judge (emulator)."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from kcurate.cli import run
from kcurate.evaluation import completions, taught
from kcurate.train.run_folder import MetricsLog, RunFolder

# The libraries below remark on each other's names and on what will change in them.
pytestmark = pytest.mark.filterwarnings(
    "ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning"
)

SHORT = {
    "tasks.brief": "true",
    "tasks.untimed": "true",
    "tasks.held_out": "0.34",
    "tasks.rollout": "0.5",
    "tasks.split_seed": "1",
    "lora.r": "4",
    "sft.epochs": "6",
    "sft.batch": "2",
    "sft.save_steps": "2",
    "grpo.prompts": "2",
    "grpo.generations": "4",
    "grpo.max_steps": "2",
    "grpo.save_steps": "1",
    "grpo.max_completion_tokens": "90",
    "grpo.temperature": "1.2",
    "measure.batch": "8",
}


def command(model: Path, pairs: Path, out: Path, *more: str, stage: str = "all", **changes: str) -> list[str]:
    given = {**SHORT, **{key.replace("__", "."): value for key, value in changes.items()}}
    sets = [word for key, value in given.items() for word in ("--set", f"{key}={value}")]
    place = ["--model", str(model), "--dataset", str(pairs), "--out", str(out), "--backend", "emulator"]
    return ["train", stage, *place, *sets, *more]


def lines(out: Path, stage: str) -> list[dict[str, Any]]:
    return list(MetricsLog(out / "metrics.jsonl").lines(stage))


@pytest.fixture(scope="module")
def whole(model: Path, pairs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of both stages, with scores."""
    import torch

    out = tmp_path_factory.mktemp("runs") / "whole"
    torch.set_num_threads(1)
    assert run(command(model, pairs, out, "--samples", "4", "--json")) == 0
    return out


def test_both_stages_leave_adapters_metrics_curves_scores_and_card(whole: Path) -> None:
    folder = RunFolder(whole)
    assert folder.done("sft")
    assert folder.done("grpo")
    assert [line["step"] for line in lines(whole, "sft")] == [1, 2, 3, 4, 5, 6]
    assert [line["step"] for line in lines(whole, "grpo")] == [1, 2]
    assert folder.curves.read_bytes().startswith(b"\x89PNG")
    rows = json.loads(folder.measured.read_bytes())["rows"]
    assert [row["name"] for row in rows] == ["base", "SFT", "SFT+GRPO"]
    assert all((row["samples"], row["tasks"], row["timed"]) == (2, 2, False) for row in rows)
    card = folder.card.read_text()
    assert "SFT+GRPO" in card
    assert "learning_rate" in card
    packages = json.loads((whole / "environment.json").read_bytes())["packages"]
    assert packages["trl"]
    assert packages["torch"]


def test_rewards_come_from_the_judge_and_are_logged(whole: Path) -> None:
    judged = list(RunFolder(whole).judged.lines())
    assert len(judged) == 2 * 8
    rewards = {line["outcome"]: line["reward"] for line in judged}
    assert rewards.get("correct") == pytest.approx(0.3), "right, and untimed on the emulator"
    for line in lines(whole, "grpo"):
        own = [one for one in judged if one["step"] == line["step"]]
        assert sum(line["outcomes"].values()) == line["answers"] == 8
        assert line["judged_reward"] == pytest.approx(sum(one["reward"] for one in own) / 8)
        assert line["reward"] == pytest.approx(line["judged_reward"], abs=1e-5), "what TRL was given"
        assert sum(line["components"].values()) == pytest.approx(line["judged_reward"])
        assert line["waited_s"] >= 0
        assert line["judge_s"] >= 0
        assert line["cheats"] == sum(one["outcome"] == "static_reject" for one in own)


def test_summary_counts_add_up(whole: Path) -> None:
    items = json.loads((whole / "summary.json").read_bytes())["items"]
    assert items["tasks"] == {"taught": 2, "asked": 2, "held_out": 2}
    assert items["steps"] == {"sft": 6, "grpo": 2}
    judged = list(RunFolder(whole).judged.lines())
    truncated = sum(line["truncated"] for line in judged)
    assert items["completions"] == {"ended": 16 - truncated, "truncated": truncated}
    assert truncated == sum(line["truncated"] for line in lines(whole, "grpo"))
    clipped = [line["completions/clipped_ratio"] for line in lines(whole, "grpo")]
    assert truncated == pytest.approx(8 * sum(clipped)), "as TRL counts them"
    assert sum(items["answers"].values()) == 16


def test_grpo_samples_for_other_families_than_sft_is_taught(whole: Path, pairs: Path) -> None:
    from tiny import tasks

    parts = json.loads(RunFolder(whole).tasks.read_bytes())
    known = {one.id: one for one in tasks(pairs)}
    families = [{known[name].family for name in parts[part]} for part in ("sft", "grpo", "held_out")]
    assert len(set().union(*families)) == sum(map(len, families)) == 6
    assert {line["task"] for line in RunFolder(whole).judged.lines()} == set(parts["grpo"])
    adapter = taught.read(RunFolder(whole).adapter("sft"))
    assert adapter is not None
    assert not adapter.among([known[name] for name in parts["grpo"]])
    assert "of families that the adapter was taught" not in (whole / "log").read_text()


def test_the_card_names_the_model_and_what_was_sampled_and_no_path(
    whole: Path, model: Path, pairs: Path
) -> None:
    card = RunFolder(whole).card.read_text()
    assert f"LoRA adapters on `{model.name}`" in card
    sampled = json.loads((whole / "summary.json").read_bytes())["items"]["completions"]
    assert f"- completions that GRPO sampled whole: {sampled['ended']}\n" in card
    for place in (model, pairs, whole):
        assert str(place.parent) not in card
    rows = json.loads(RunFolder(whole).measured.read_bytes())["rows"]
    assert {row["model"] for row in rows} == {model.name}


def test_the_log_has_what_was_said_on_the_way(whole: Path) -> None:
    text = (whole / "log").read_text()
    assert "2 tasks for SFT, 2 for GRPO, 2 held out (2, 2, 2 families)" in text
    assert text.splitlines()[-1].endswith(" finished")


def test_no_half_written_files_are_left(whole: Path) -> None:
    assert not [path for path in whole.rglob("*") if path.name.endswith((".part", ".tmp"))]
    assert not list(whole.rglob("adapter/training_args.bin")), "pickled files do not leave a run"


def test_reference_is_the_supervised_adapter(whole: Path) -> None:
    import torch
    from safetensors.torch import load_file

    sft = load_file(whole / "sft/adapter/adapter_model.safetensors")
    reference = load_file(whole / "grpo/checkpoint-2/ref/adapter_model.safetensors")
    trained = load_file(whole / "grpo/adapter/adapter_model.safetensors")
    assert all(torch.equal(sft[name], reference[name]) for name in sft)
    assert any(not torch.equal(sft[name], trained[name]) for name in sft)


def test_a_run_that_is_there_is_not_overwritten(
    whole: Path, model: Path, pairs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(command(model, pairs, whole)) == 1
    assert "a run is here already" in capsys.readouterr().err


@pytest.mark.slow
def test_resuming_a_finished_run_does_nothing_again(
    whole: Path, model: Path, pairs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (whole / "metrics.jsonl").read_bytes()
    assert run(["train", "--out", str(whole), "--resume", "--backend", "emulator"]) == 0
    assert "already done" in capsys.readouterr().err
    assert (whole / "metrics.jsonl").read_bytes() == before


@pytest.mark.slow
def test_sigterm_saves_and_resume_ends_where_an_uncut_run_does(
    whole: Path, model: Path, pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    from kcurate.train.stopping import Stop

    out = tmp_path / "cut"
    words = command(model, pairs, out, "--samples", "0", stage="sft", sft__save_steps="100")
    agreed, steps = Stop.agreed, []

    def told(stop: Stop, **how: Any) -> tuple[bool, bool]:
        steps.append(len(steps) + 1)
        if steps[-1] == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        return agreed(stop, **how)

    with monkeypatch.context() as changed:
        changed.setattr(Stop, "agreed", told)
        assert run(words) == 143
    assert "stopped and saved at step 2" in capsys.readouterr().err
    checkpoint = RunFolder(out).checkpoint("sft")
    assert checkpoint is not None
    assert checkpoint.name == "checkpoint-2"
    assert not RunFolder(out).done("sft")
    with (out / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"stage": "sft", "step": 3, "loss": 0.0}) + '\n{"stage": "sf')
    assert run(["train", "sft", "--out", str(out), "--resume", "--backend", "emulator"]) == 0
    assert [line["step"] for line in lines(out, "sft")] == [1, 2, 3, 4, 5, 6]
    losses = [[line["loss"] for line in lines(one, "sft")] for one in (out, whole)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4), "as if it had never been cut"


def test_half_a_checkpoint_is_passed_over(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    for step, whole_one in ((2, True), (4, False)):
        path = folder.stage("sft") / f"checkpoint-{step}"
        path.mkdir(parents=True)
        if whole_one:
            (path / "trainer_state.json").write_text(json.dumps({"global_step": step}))
    found = folder.checkpoint("sft")
    assert found is not None
    assert found.name == "checkpoint-2"


@pytest.mark.slow
def test_grpo_alone_from_an_adapter_with_another_recipe(
    whole: Path, model: Path, pairs: Path, tmp_path: Path
) -> None:
    out = tmp_path / "grpo"
    adapter = ("--adapter", str(whole / "sft/adapter"), "--recipe", "staged-tiers", "--samples", "0")
    words = command(model, pairs, out, *adapter, stage="grpo", grpo__max_steps="2", grpo__generate_every="2",
                    grpo__prompts="1")  # fmt: skip
    assert run(words) == 0
    found = lines(out, "grpo")
    assert [bool(line.get("answers")) for line in found] == [True, False], "one draw for two steps"
    assert set(found[0]["components"]) == {"tier", "speed"}
    assert not (out / "sft").exists()


@pytest.mark.slow
def test_sqd_shows_earlier_answers_in_its_next_prompts(
    whole: Path, model: Path, pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kcurate.train.next_prompts import Pool

    choose, shown = Pool.choose, []

    def chosen(pool: Pool, rows: Any) -> Any:
        found = choose(pool, rows)
        shown.append(["was given before" in str(row["prompt"]) for row in found])
        return found

    monkeypatch.setattr(Pool, "choose", chosen)
    out = tmp_path / "run"
    more = ("--adapter", str(whole / "sft/adapter"), "--recipe", "sqd", "--samples", "0")
    assert run(command(model, pairs, out, *more, stage="grpo", grpo__max_steps="6")) == 0
    assert len(shown) == 6 and not any(shown[0]), "nothing is known before the first answers"
    assert any(map(any, shown))
    assert len(list(RunFolder(out).judged.lines())) == 6 * 8
    config = RunFolder(out).settings()
    assert (config.grpo.beta, config.curriculum.pool) == (0.0, True)


@pytest.mark.slow
def test_measure_scores_one_adapter_under_a_name(
    whole: Path, model: Path, pairs: Path, tmp_path: Path
) -> None:
    out = tmp_path / "scores"
    more = ("--samples", "2", "--adapter", str(whole / "grpo/adapter"), "--row", "mine")
    assert run(command(model, pairs, out, *more, stage="measure")) == 0
    rows = json.loads((out / "measured.json").read_bytes())["rows"]
    assert [row["name"] for row in rows] == ["mine"]
    assert sum(rows[0]["outcomes"].values()) == 2
    (kept,) = (out / "completions").iterdir()
    assert len(completions.read(kept, hint="")) == 2


@pytest.mark.parametrize(
    ("changes", "more", "said"),
    [
        ({"sft__epoch": "1"}, (), "unknown key 'sft.epoch' (did you mean sft.epochs?)"),
        ({"sft__max_tokens": "20"}, (), "no rows to train on"),
        ({"sft__trl": "{max_lengh=3}"}, (), "did you mean max_length?"),
        ({"lora__targets": '["query"]'}, (), "the model has no layers query"),
        ({"reward__scheme": "nothing"}, (), "unknown reward 'nothing'"),
        ({}, ("--tasks", "puzzles"), "no tasks 'puzzles'"),
        ({}, ("--recipe", "kernel-compare"), "did you mean kernelcompare?"),
        ({}, ("--model", "/no/such/model"), "/no/such/model: no such folder"),
        ({}, ("--model", "./model"), "./model: no such folder"),
        ({}, ("--model", __file__), "not a folder"),
        ({}, ("--judge-gpus", "x"), "not a list of GPUs: 'x'"),
        ({}, ("--report", "trackio,paper"), "cannot log to 'paper' (one of trackio, wandb, tensorboard)"),
        ({}, ("--model", "/no/such/model.gguf"), "no such file"),
    ],
)
def test_bad_settings_are_one_line(
    model: Path, pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, str],
    more: tuple[str, ...], said: str,
) -> None:  # fmt: skip
    usage = said.startswith(("no tasks", "not a list of GPUs", "did you mean kernelcompare", "cannot log"))
    assert run(command(model, pairs, tmp_path / "run", *more, **changes)) == (2 if usage else 1)
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error:")]
    assert len(errors) == 1
    assert said in errors[0]


def test_missing_model_leaves_no_run_folder(model: Path, pairs: Path, tmp_path: Path) -> None:
    assert run(command(model, pairs, tmp_path / "run", "--model", "/no/such/model")) == 1
    assert not (tmp_path / "run").exists()
    assert run(command(model, pairs, tmp_path / "run", "--model", "/no/such/model.gguf")) == 1
    assert not (tmp_path / "run").exists()


def test_a_model_that_is_nowhere_is_one_line_at_once(
    model: Path, pairs: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    import huggingface_hub.constants
    from dataset.hub_server import serving

    with serving() as server:
        for place, said in (
            (server.url, "no such model on the Hub (check the name"),
            ("http://127.0.0.1:1", "the Hub cannot be asked: "),
        ):
            monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", place)
            assert run(command(model, pairs, tmp_path / "run", "--model", "me/no-such-model")) == 1
            (line,) = capfd.readouterr().err.splitlines()
            assert line.startswith("error: me/no-such-model: no such folder here, and ")
            assert said in line
    assert not (tmp_path / "run").exists()


def test_resuming_without_a_run_and_a_file_in_its_place_are_one_line(
    model: Path, pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(command(model, pairs, tmp_path / "run", "--resume")) == 1
    assert "no run to resume here" in capsys.readouterr().err
    (tmp_path / "file").touch()
    assert run(command(model, pairs, tmp_path / "file")) == 1
    assert "is not a folder" in capsys.readouterr().err
    assert (tmp_path / "file").read_bytes() == b""


def test_empty_dataset_is_one_line(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "none").mkdir()
    assert run(command(model, tmp_path / "none", tmp_path / "run")) == 1
    assert "error: " in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_missing_logger_is_one_line_with_the_command(
    model: Path, pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    from kcurate.local_models import libraries

    monkeypatch.setattr(libraries, "REPORTS", ("no_such_logger",))
    assert run(command(model, pairs, tmp_path / "run", "--report", "no_such_logger")) == 1
    assert "not installed: no_such_logger (pip install no_such_logger)" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_missing_packages_are_one_line_with_the_command(
    model: Path,
    pairs: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from kcurate.local_models import libraries

    monkeypatch.setattr(libraries, "PACKAGES", ("torch", "no_such_package"))
    assert run(command(model, pairs, tmp_path / "run")) == 1
    assert "not installed: no_such_package (pip install 'kcurate[train]')" in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_logs_to_others_and_pushes_its_checkpoints(
    model: Path, pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub.constants
    import transformers.integrations.integration_utils as integrations
    from dataset.hub_server import TOKEN, serving
    from transformers import TrainerCallback

    logged = []

    class Logs(TrainerCallback):  # type: ignore[misc]
        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            logged.append((args.run_name, state.global_step))

    monkeypatch.setattr("kcurate.train.stage.require_reports", lambda names: None)
    monkeypatch.setitem(integrations.INTEGRATION_TO_CALLBACK, "trackio", Logs)
    monkeypatch.setattr("huggingface_hub.get_token", lambda: TOKEN)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_DISABLE_XET", True)
    with serving() as server:
        monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", server.url)
        more = ("--samples", "0", "--report", "trackio", "--push", "me/coder", "--private")
        changes = {"push_checkpoints": "checkpoint", "sft__max_steps": "2"}
        assert run(command(model, pairs, tmp_path / "run", *more, stage="sft", **changes)) == 0
        repo = server.repos["me/coder-sft-checkpoints"]
    assert repo.private
    assert "last-checkpoint/trainer_state.json" in repo.commits[-1][1]
    assert "adapter_model.safetensors" in server.repos["me/coder"].commits[-1][1]
    assert {("run-sft", 1), ("run-sft", 2)} <= set(logged)


def test_out_of_memory_names_the_knob(
    model: Path,
    pairs: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import torch
    from trl import SFTTrainer

    def full(*_: Any, **__: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(SFTTrainer, "training_step", full)
    assert run(command(model, pairs, tmp_path / "run", stage="sft")) == 1
    said = capsys.readouterr().err
    assert "out of GPU memory" in said
    assert "--set sft.micro_batch=1" in said


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "no adapter here"),
        ({"adapter_config.json": "{"}, "not an adapter config"),
        ({"adapter_config.json": '{"peft_type": "LORA"}'}, "a LORA adapter without weights"),
    ],
)
def test_a_folder_that_is_no_adapter_is_one_line_and_leaves_no_run(
    files: dict[str, str],
    said: str,
    model: Path,
    pairs: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = tmp_path / "given"
    given.mkdir()
    for name, text in files.items():
        (given / name).write_text(text)
    assert run(command(model, pairs, tmp_path / "run", "--adapter", str(given), stage="grpo")) == 1
    assert said in one_line(capsys)
    assert not (tmp_path / "run").exists()


def test_an_adapter_of_another_model_is_one_line(
    whole: Path, model: Path, pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from safetensors.torch import load_file, save_file

    given = tmp_path / "given"
    shutil.copytree(whole / "sft/adapter", given)
    weights = load_file(given / "adapter_model.safetensors")
    save_file(
        {name: one[:-1].contiguous() for name, one in weights.items()}, given / "adapter_model.safetensors"
    )
    words = ["--adapter", str(given), "--samples", "0"]
    assert run(command(model, pairs, tmp_path / "run", *words, stage="grpo")) == 1
    assert "given: does not fit the model" in one_line(capsys)
    (given / "adapter_model.safetensors").write_bytes(b"cut")
    assert run(command(model, pairs, tmp_path / "again", *words, stage="grpo")) == 1
    assert "given: does not fit the model" in one_line(capsys)


def test_a_checkpoint_that_is_cut_is_one_line(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    shutil.copytree(whole, out)
    shutil.rmtree(RunFolder(out).adapter("sft"))
    checkpoint = RunFolder(out).checkpoint("sft")
    assert checkpoint is not None
    (checkpoint / "adapter_model.safetensors").write_bytes(b"cut")
    assert (
        run(["train", "sft", "--out", str(out), "--resume", "--samples", "0", "--backend", "emulator"]) == 1
    )
    said = one_line(capsys)
    assert checkpoint.name in said and "the one before" in said


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model__attention": "flash_attention_2"}, "cannot load the model"),
        ({"grpo__vllm": "colocate"}, "grpo.trl: "),
        ({"grpo__loss": "foo"}, "grpo.loss must be one of"),
        ({"grpo__trl": '{eval_strategy="steps",eval_steps=1}'}, "grpo.trl: "),
        ({"grpo__trl": "{run_name=2020-01-01}"}, "grpo.trl must be a table of strings"),
    ],
)
def test_what_a_trainer_refuses_is_one_line(
    changes: dict[str, str],
    said: str,
    model: Path,
    pairs: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = command(model, pairs, tmp_path / "run", "--samples", "0", stage="grpo", **changes)
    assert run(words) == 1
    assert said in one_line(capsys)


def test_a_push_without_a_token_is_refused_before_the_run(
    model: Path,
    pairs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    assert run(command(model, pairs, tmp_path / "run", "--push", "me/mine")) != 0
    assert "no Hub token" in one_line(capsys)
    assert not (tmp_path / "run").exists()


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    """The last line of stderr, which is the error."""
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert last.startswith("error: ")
    return last


def test_nan_gradients_end_in_one_line(
    model: Path, pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changes = {"sft__learning_rate": "1e30", "sft__max_grad_norm": "0", "sft__warmup_steps": "0"}
    assert run(command(model, pairs, tmp_path / "run", stage="sft", sft__epochs="9", **changes)) == 1
    *_, last = capsys.readouterr().err.strip().splitlines()
    assert last.startswith(
        "error: train sft: the gradients of 5 steps in a row are NaN or infinite (lower sft."
    )


def test_grpo_leaves_no_gradients_of_padding_to_cudnn(
    model: Path, pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    found = []

    def drive(*_: Any) -> int:
        found.append(torch.backends.cuda.cudnn_sdp_enabled())
        return 0

    before = torch.backends.cuda.cudnn_sdp_enabled()
    monkeypatch.setattr("kcurate.train.grpo.drive", drive)
    assert run(command(model, pairs, tmp_path / "run", "--samples", "0", stage="grpo")) == 0
    assert found == [False]
    assert torch.backends.cuda.cudnn_sdp_enabled() == before


@pytest.mark.slow
def test_tokenizer_without_chat_template(pairs: Path, tmp_path: Path) -> None:
    from tiny import tasks, write_model

    plain = write_model(tmp_path / "plain", tasks(pairs), template=False)
    out = tmp_path / "run"
    steps = {"sft__epochs": "1", "grpo__max_steps": "1", "grpo__temperature": "0.7"}
    words = command(plain, pairs, out, "--samples", "2", **steps)
    assert run([*words, "--set", "measure.base=false", "--set", "measure.sft=false"]) == 0
    outcomes = [line["outcome"] for line in RunFolder(out).judged.lines()]
    assert "correct" in outcomes, "prompts end alike in training and in generation"


@pytest.mark.slow
def test_a_time_limit_stops_training_gracefully_and_scores_follow(
    model: Path, pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    words = command(model, pairs, out, "--samples", "2", "--max-minutes", "0.0001", stage="sft")
    assert run([*words, "--set", "measure.base=false"]) == 0
    assert len(lines(out, "sft")) == 1
    assert RunFolder(out).done("sft")
    assert "stopped by the time limit at step 1" in capsys.readouterr().err
    assert [row["name"] for row in json.loads((out / "measured.json").read_bytes())["rows"]] == ["SFT"]


@pytest.mark.slow
def test_grpo_goes_on_from_its_checkpoint(
    whole: Path, model: Path, pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kcurate.train.stopping import Stop

    out = tmp_path / "run"
    words = command(
        model, pairs, out, "--samples", "0", "--adapter", str(whole / "sft/adapter"), stage="grpo",
        grpo__prompts="1",
    )  # fmt: skip
    with monkeypatch.context() as told:
        told.setattr(Stop, "agreed", lambda _, **__: (True, False))
        assert run(words) == 143
    assert [line["step"] for line in lines(out, "grpo")] == [1]
    again = ["train", "grpo", "--out", str(out), "--resume", "--adapter", str(whole / "sft/adapter")]
    assert run([*again, "--backend", "emulator"]) == 0
    assert [line["step"] for line in lines(out, "grpo")] == [1, 2]
    assert sorted({line["step"] for line in RunFolder(out).judged.lines()}) == [1, 2]
    assert RunFolder(out).done("grpo")


@pytest.mark.slow
def test_a_run_is_taken_up_as_it_was_begun(
    whole: Path, model: Path, pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch
    from safetensors.torch import load_file

    from kcurate.train.stopping import Stop

    out, start = tmp_path / "run", whole / "sft/adapter"
    words = command(model, pairs, out, "--samples", "0", "--adapter", str(start), stage="grpo")
    with monkeypatch.context() as told:
        told.setattr(Stop, "agreed", lambda _, **__: (True, False))
        assert run(words) == 143
    shutil.rmtree(RunFolder(out).stage("grpo"))  # cut before the first checkpoint
    assert run(["train", "--out", str(out), "--resume", "--backend", "emulator"]) == 0
    assert not RunFolder(out).stage("sft").exists()
    grpo_of = load_file(RunFolder(out).adapter("grpo") / "adapter_model.safetensors")
    begun = load_file(start / "adapter_model.safetensors")
    assert all(torch.allclose(grpo_of[name], begun[name], atol=1e-3) for name in begun)


@pytest.mark.slow
def test_a_last_step_is_not_taken_twice(whole: Path, tmp_path: Path) -> None:
    import torch
    from safetensors.torch import load_file

    out = tmp_path / "run"
    shutil.copytree(whole, out)
    made = load_file(RunFolder(out).adapter("grpo") / "adapter_model.safetensors")
    files = {path.name for path in RunFolder(out).adapter("grpo").iterdir()}
    shutil.rmtree(RunFolder(out).adapter("grpo"))
    before = (out / "judged.jsonl").read_bytes()
    assert run(["train", "--out", str(out), "--resume", "--samples", "0", "--backend", "emulator"]) == 0
    assert [line["step"] for line in lines(out, "grpo")] == [1, 2]
    assert (out / "judged.jsonl").read_bytes() == before
    assert {path.name for path in RunFolder(out).adapter("grpo").iterdir()} == files
    again = load_file(RunFolder(out).adapter("grpo") / "adapter_model.safetensors")
    assert all(torch.equal(again[name], made[name]) for name in made)


@pytest.mark.slow
def test_a_run_that_is_told_to_stop_ends_between_two_draws(
    whole: Path, model: Path, pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kcurate.train.stopping import Stop

    out = tmp_path / "run"
    words = command(
        model, pairs, out, "--samples", "0", "--adapter", str(whole / "sft/adapter"), stage="grpo",
        grpo__prompts="1", grpo__generate_every="2", grpo__max_steps="4",
    )  # fmt: skip
    with monkeypatch.context() as told:
        told.setattr(Stop, "agreed", lambda _, **__: (True, False))
        assert run(words) == 143
    assert [line["step"] for line in lines(out, "grpo")] == [1, 2]
    (checkpoint,) = RunFolder(out).stage("grpo").glob("checkpoint-*")
    assert checkpoint.name == "checkpoint-2", "none within the draw"
    assert run(["train", "--out", str(out), "--resume", "--backend", "emulator"]) == 0
    drawn = [line["step"] for line in lines(out, "grpo") if line.get("answers")]
    assert drawn == [1, 3]


@pytest.mark.slow
def test_rows_at_once_do_not_change_the_steps(model: Path, pairs: Path, tmp_path: Path) -> None:
    found = []
    for at_once in ("1", "2"):
        out = tmp_path / at_once
        changes = {
            "sft__micro_batch": at_once,
            "sft__epochs": "1",
            "tasks__held_out": "0",
            "tasks__rollout": "0",
            "tasks__limit": "5",
            "lora__dropout": "0.0",
        }
        assert run(command(model, pairs, out, "--samples", "0", stage="sft", **changes)) == 0
        found.append([line["loss"] for line in lines(out, "sft")])
    assert len(found[0]) == 2
    assert found[0] == pytest.approx(found[1], rel=1e-4)


@pytest.mark.slow
def test_sigterm_ends_scoring_and_keeps_what_is_done(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from kcurate.evaluation.local_model import LocalModel

    out = tmp_path / "run"
    shutil.copytree(whole, out)
    rows = json.loads((out / "measured.json").read_bytes())
    (out / "measured.json").write_text(json.dumps({**rows, "rows": rows["rows"][:1]}))

    def draw(*_: Any) -> Any:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(30)

    monkeypatch.setattr(LocalModel, "_generated", draw)
    assert run(["train", "--out", str(out), "--resume", "--backend", "emulator"]) == 143
    assert "finished rows are kept" in capsys.readouterr().err
    assert json.loads((out / "measured.json").read_bytes())["rows"] == rows["rows"][:1]
