"""Several processes, and which GPU does what: the same run as one process makes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from accelerate.commands.config.config_args import load_config_from_file

from kcurate import backends
from kcurate.errors import InputError, MissingDependencyError
from kcurate.train import devices
from kcurate.train.metrics_log import MetricsLog
from kcurate.train.settings import JudgeSettings

ACCELERATE = Path(devices.__file__).with_name("accelerate")
SETS = ("tasks.brief=true", "tasks.untimed=true", "tasks.held_out=0", "lora.dropout=0.0", "lora.r=4",
        "sft.batch=2", "sft.epochs=2", "sft.learning_rate=1e-2", "grpo.prompts=2", "grpo.generations=2",
        "grpo.max_steps=1", "grpo.max_completion_tokens=80")  # fmt: skip


def started(launch: int, model: Path, pairs: Path, out: Path, *stage: str) -> subprocess.Popen[str]:
    words = ["train", *stage, "--model", str(model), "--dataset", str(pairs), "--out", str(out)]
    words += ["--samples", "0", "--backend", "emulator", *(w for one in SETS for w in ("--set", one))]
    start = [sys.executable, "-m", "kcurate"]
    if launch > 1:
        how = ["--config_file", str(ACCELERATE / "ddp.yaml"), "--mixed_precision", "no"]
        how += ["--num_processes", str(launch)]
        start = [sys.executable, "-m", "accelerate.commands.launch", *how, "-m", "kcurate"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1"}
    return subprocess.Popen(
        [*start, *words], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def steps(out: Path, stage: str) -> list[dict[str, Any]]:
    return list(MetricsLog(out / "metrics.jsonl").lines(stage))


@pytest.mark.slow
def test_two_processes_make_the_loss_curve_of_one(model: Path, pairs: Path, tmp_path: Path) -> None:
    for count in (1, 2):
        process = started(count, model, pairs, tmp_path / str(count), *(["sft"] if count == 1 else ["all"]))
        said, _ = process.communicate(timeout=240)
        assert process.returncode == 0, said
    one, two = (steps(tmp_path / str(count), "sft") for count in (1, 2))
    assert len(one) == 6
    assert [line["loss"] for line in two] == pytest.approx([line["loss"] for line in one], rel=1e-3)
    assert [line["grad_norm"] for line in two] == pytest.approx([line["grad_norm"] for line in one], rel=1e-2)
    rewarded = steps(tmp_path / "2", "grpo")
    assert [line["answers"] for line in rewarded] == [4], "those of both processes, in one line"
    assert said.count("grpo 1/1") == 1, "one process speaks"


@pytest.mark.parametrize("name", ["ddp.yaml", "fsdp.yaml"])
def test_shipped_launch_files_are_read_by_accelerate(name: str) -> None:
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
