"""Several processes, and which GPU does what: the same run as one process makes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from kcurate import backends, train
from kcurate.errors import InputError, MissingDependencyError
from kcurate.reward import devices
from kcurate.reward.devices import JudgeSettings
from kcurate.train.run_folder import MetricsLog, RunFolder

ACCELERATE = Path(train.__file__).with_name("accelerate")
SHARDED = Path(__file__).with_name("sharded.py")
SETS = ("tasks.brief=true", "tasks.untimed=true", "tasks.held_out=0", "tasks.rollout=0",
        "lora.dropout=0.0", "lora.r=4",
        "sft.batch=2", "sft.epochs=2", "sft.learning_rate=1e-2", "grpo.prompts=2", "grpo.generations=2",
        "grpo.max_steps=1", "grpo.max_completion_tokens=80")  # fmt: skip


def ran(how: str, model: Path, pairs: Path, out: Path, *stage: str) -> str:
    """What a run in one process (`how` ""), or in two, says."""
    words = ["train", *stage, "--model", str(model), "--dataset", str(pairs), "--out", str(out)]
    words += ["--samples", "0", "--backend", "emulator", *(w for one in SETS for w in ("--set", one))]
    start = [sys.executable, "-m", "kcurate"]
    if how:
        start = [sys.executable, "-m", "accelerate.commands.launch"]
        start += ["--config_file", str(ACCELERATE / f"{how}.yaml"), "--mixed_precision", "no"]
        start += ["--num_processes", "2"]
        start += [str(SHARDED)] if how == "fsdp" else ["-m", "kcurate"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1"}
    done = subprocess.run(
        [*start, *words], env=environment, timeout=240, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def steps(out: Path, stage: str) -> list[dict[str, Any]]:
    return list(MetricsLog(out / "metrics.jsonl").lines(stage))


def weights(out: Path) -> dict[str, Any]:
    from safetensors.torch import load_file

    return load_file(RunFolder(out).adapter("sft") / "adapter_model.safetensors")


@pytest.mark.slow
@pytest.mark.parametrize("how", ["ddp", "fsdp"])
def test_two_processes_make_the_loss_curve_of_one(model: Path, pairs: Path, tmp_path: Path, how: str) -> None:
    import torch

    alone, both = tmp_path / "1", tmp_path / "2"
    ran("", model, pairs, alone, "sft")
    said = ran(how, model, pairs, both, "all")
    one, two = steps(alone, "sft"), steps(both, "sft")
    assert len(one) == 6
    assert [line["loss"] for line in two] == pytest.approx([line["loss"] for line in one], rel=1e-3)
    assert [line["grad_norm"] for line in two] == pytest.approx([line["grad_norm"] for line in one], rel=1e-2)
    expected, made = weights(alone), weights(both)
    assert made.keys() == expected.keys(), "whole, however it was sharded"
    assert all(torch.allclose(made[name], expected[name], atol=1e-3) for name in expected)
    rewarded = steps(both, "grpo")
    assert [line["answers"] for line in rewarded] == [4], "those of both processes, in one line"
    assert len(list(RunFolder(both).judged.lines())) == 4
    assert said.count("grpo 1/1") == 1, "one process speaks"


@pytest.mark.slow
def test_a_sharded_run_goes_on_from_its_checkpoint(model: Path, pairs: Path, tmp_path: Path) -> None:
    import torch

    whole, cut = tmp_path / "whole", tmp_path / "cut"
    ran("fsdp", model, pairs, whole, "sft", "--set", "sft.save_steps=3")
    shutil.copytree(whole, cut)
    shutil.rmtree(RunFolder(cut).adapter("sft"))
    shutil.rmtree(RunFolder(cut).stage("sft") / "checkpoint-6")
    said = ran("fsdp", model, pairs, cut, "sft", "--set", "sft.save_steps=3", "--resume")
    assert "resuming from step 3" in said
    assert [line["step"] for line in steps(cut, "sft")] == [1, 2, 3, 4, 5, 6]
    expected, made = weights(whole), weights(cut)
    assert all(torch.allclose(made[name], expected[name], atol=1e-6) for name in expected)


@pytest.mark.parametrize("name", ["ddp.yaml", "fsdp.yaml"])
def test_shipped_launch_files_are_read_by_accelerate(name: str) -> None:
    from accelerate.commands.config.config_args import load_config_from_file

    found = load_config_from_file(str(ACCELERATE / name))
    assert found.num_processes == 2
    assert str(found.distributed_type).endswith({"ddp.yaml": "MULTI_GPU", "fsdp.yaml": "FSDP"}[name])


def test_fsdp_file_names_options_that_accelerate_has() -> None:
    from accelerate import FullyShardedDataParallelPlugin

    given = yaml.safe_load((ACCELERATE / "fsdp.yaml").read_text())["fsdp_config"]
    known = {f"fsdp_{name}" for name in FullyShardedDataParallelPlugin.__dataclass_fields__}
    assert set(given) - known <= {"fsdp_offload_params", "fsdp_version"}, "names of the file alone"


@pytest.fixture
def four(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "gpu_count", lambda: 4)
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    monkeypatch.setenv(devices.VISIBLE, "4,5,6,7")


def test_trainer_comes_first_and_judges_after_it(four: None) -> None:
    place = devices.settle(JudgeSettings(train_gpu=2, gpus=(0, 3)))
    assert os.environ[devices.VISIBLE] == "6,4,7"
    assert (place.backend, place.gpus, place.timed) == ("cuda", (1, 2), True)


def test_one_gpu_trains_and_judges_in_turns(four: None) -> None:
    place = devices.settle(JudgeSettings(train_gpu=1))
    assert os.environ[devices.VISIBLE] == "5"
    assert place.gpus == (0,)


def test_a_gpu_that_is_not_there_is_named(four: None) -> None:
    with pytest.raises(MissingDependencyError, match="no GPU 9"):
        devices.settle(JudgeSettings(gpus=(9,)))


@pytest.mark.parametrize(("rank", "gpus"), [(0, (4, 6)), (1, (5, 7))])
def test_processes_share_the_judges(
    four: None, monkeypatch: pytest.MonkeyPatch, rank: int, gpus: tuple[int, ...]
) -> None:
    monkeypatch.setenv("LOCAL_RANK", str(rank))
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert devices.settle(JudgeSettings(gpus=(4, 5, 6, 7))).gpus == gpus
    assert devices.settle(JudgeSettings()).gpus == (rank,), "its own, in turns"
    with pytest.raises(InputError, match="1 for 2 processes"):
        devices.settle(JudgeSettings(gpus=(4,)))


def test_without_a_gpu_the_emulator_judges_untimed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "gpu_count", lambda: 0)
    place = devices.settle(JudgeSettings())
    assert (place.backend, place.timed) == ("emulator", False)
    with pytest.raises(MissingDependencyError, match="no GPU here"):
        devices.settle(JudgeSettings(backend="cuda"))
    with pytest.raises(MissingDependencyError, match="--train-gpu 3: there is no GPU here"):
        devices.settle(JudgeSettings(train_gpu=3))
    with pytest.raises(InputError, match="--judge-gpus: the emulator uses no GPU"):
        devices.settle(JudgeSettings(gpus=(1,)))
