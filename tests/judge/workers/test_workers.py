"""Workers are fresh, sandboxed, killed with their children, and replaced. Uses NVRTC, no GPU."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import small

from kcurate.backends.base import Compiled, CompileFailure, EntryPoint
from kcurate.backends.emulator.device import EmulatorDevice
from kcurate.core import codec, time_limits
from kcurate.errors import BackendError
from kcurate.judge.admission import admit_binaries
from kcurate.judge.case import Case, Ruling
from kcurate.judge.workers.compiling import CompileWorkers, compile_case
from kcurate.judge.workers.inside.bench_slots import BenchSlots
from kcurate.judge.workers.inside.side_server import ON_DEVICE, SideServer
from kcurate.judge.workers.messages import OPERATIONS
from kcurate.judge.workers.nursery import InvalidAnswer, Nursery, Role, Worker, WorkerDied, WorkerTimeout
from kcurate.judge.workers.protocol import Channel, pair
from kcurate.judge.workers.requests import AskEnvironment, Compile, Drop, Greeting
from kcurate.records import Environment, Origin

pytest.importorskip("cuda.bindings", reason="NVRTC is not installed")

ROOT = Path(__file__).resolve().parents[3]
GOOD = 'extern "C" __global__ void k(float* p) { p[threadIdx.x] *= 2; }'
BOMB = """
template <int A, int B, int C> struct Bomb {
    enum { v = Bomb<A - 1, B * 3 + 1, C>::v + Bomb<A - 1, B * 3 + 2, C>::v + Bomb<A - 1, B * 3, C>::v };
};
template <int B, int C> struct Bomb<0, B, C> { enum { v = B }; };
__global__ void k(int* p) { *p = Bomb<24, 1, 0>::v; }
"""


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    one = Nursery("cuda")
    yield one
    one.close()


@pytest.fixture
def compilers(nursery: Nursery) -> Iterator[CompileWorkers]:
    workers = CompileWorkers(nursery, Role("compile", "cuda"))
    yield workers
    workers.close()


def request(code: str) -> Compile:
    return Compile(code, (EntryPoint("k"),), ())


def gone(pid: int) -> bool:
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False


def test_two_sides_compile_and_a_failure_has_a_log(compilers: CompileWorkers) -> None:
    good, bad = compilers.compile([request(GOOD), request("__global__ void k() { oops }")])
    assert isinstance(good, Compiled)
    assert good.lowered["k"] == "k"
    assert good.resources[0].registers
    assert isinstance(bad, CompileFailure)
    assert bad.reason == "error"
    assert "oops" in bad.log
    assert "/" not in bad.log.split("error")[0]


def test_what_both_sides_never_read_is_known_where_the_slow_one_was_made(compilers: CompileWorkers) -> None:
    """A rule's side is not charged with shared memory that the side it was made from does not read either."""
    given = small.scaled()
    code = given.fast.code.replace("{", "{ extern __shared__ float unused[]; unused[threadIdx.x] = x[0];", 1)
    wasting = replace(given.fast, code=code, plan=(replace(small.EACH, shared_bytes=1024),))
    slower = replace(wasting, code=code + "\n// slower\n")
    candidate = replace(given, origin=Origin("rule", made="slow"), slow=slower, fast=wasting)
    case = Case(candidate, "key", Environment("cuda", "none"))
    made = compile_case(case, compilers)
    assert made["slow"].unread
    assert made["fast"].unread
    admit_binaries(case, made)
    honest = replace(wasting, code=given.fast.code, plan=given.fast.plan)
    case = Case(replace(candidate, fast=honest), "key", Environment("cuda", "none"))
    with pytest.raises(Ruling, match="never reads 1024 bytes"):
        admit_binaries(case, compile_case(case, compilers))


def test_a_compiler_that_hangs_is_killed_and_replaced(
    compilers: CompileWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time_limits, "COMPILE_SIDE_S", 1.5)
    started = time.perf_counter()
    (made,) = compilers.compile([request(BOMB)])
    assert isinstance(made, CompileFailure)
    assert made.reason in ("timeout", "memory")
    assert time.perf_counter() - started < 10
    monkeypatch.undo()
    assert isinstance(compilers.compile([request(GOOD)])[0], Compiled)


def test_a_killed_worker_raises_and_the_next_one_starts(nursery: Nursery) -> None:
    worker = nursery.fork(Role("compile", "cuda"))
    worker.ready()
    os.kill(worker.pid, 9)
    with pytest.raises(WorkerDied):
        worker.call(request(GOOD), timeout_s=5)
    assert not worker.alive
    second = nursery.fork(Role("compile", "cuda"))
    second.ready()
    second.kill()


def test_timeout_kills_the_worker(nursery: Nursery) -> None:
    worker = nursery.fork(Role("compile", "cuda"))
    worker.ready()
    with pytest.raises(WorkerTimeout):
        worker.call(request(BOMB), timeout_s=0.05)
    assert gone(worker.pid)


def test_an_error_of_ours_arrives_as_backend_error(nursery: Nursery) -> None:
    worker = nursery.fork(Role("compile", "cuda"))
    with pytest.raises(BackendError, match="a compile worker only compiles"):
        worker.call(Drop(), timeout_s=5)


def test_workers_die_with_the_nursery() -> None:
    one = Nursery("cuda")
    workers: list[Worker] = [one.fork(Role("compile", "cuda")) for _ in range(2)]
    workers[0].ready()
    one.close()
    assert all(gone(worker.pid) for worker in workers)


@pytest.mark.parametrize("answered", [False, True])
def test_closing_a_nursery_while_it_forks_leaves_nothing_behind(
    answered: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    one = Nursery("emulator")
    channel, theirs = pair()
    order = json.dumps(Role("compile", "emulator").body()).encode()
    socket.send_fds(one._control, [order], [theirs.fileno()])
    theirs.close()
    if answered:
        assert select.select([one._control], [], [], 60)[0]
    one._control.close()
    one._process.wait(60)
    left = Path(one._folder).exists()
    one.close()
    channel.close()
    assert (one._process.returncode, left) == (0, False)
    assert capfd.readouterr().err == ""


def test_workers_inherit_no_secrets_and_have_their_own_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "secret")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret")
    with contextlib.closing(Nursery("cuda")) as one:
        worker = one.fork(Role("compile", "cuda"))
        assert worker.ready().isolation["limits"]
        environment = Path(f"/proc/{worker.pid}/environ").read_bytes()
        assert b"TOKEN" not in environment
        assert b"API_KEY" not in environment
        assert b"secret" not in environment
        assert Path(f"/proc/{worker.pid}/cwd").readlink().name.startswith("kcurate-worker-")


def test_a_compile_worker_uses_the_runtime_that_was_built_once() -> None:
    with contextlib.closing(Nursery("emulator")) as one:
        (copied,) = Path(one._folder).rglob("runtime-*.o")
        before = copied.stat().st_ino, copied.stat().st_mtime_ns
        worker = one.fork(Role("compile", "emulator"))
        worker.ready()
        assert list(Path(one._folder).rglob("runtime-*.o")) == [copied], "another was built"
        assert (copied.stat().st_ino, copied.stat().st_mtime_ns) == before


def test_a_worker_answers_every_operation_of_the_table() -> None:
    answered = SideServer(EmulatorDevice()).methods.keys() | ON_DEVICE.keys() | {Compile}
    assert all(hasattr(BenchSlots, name) for name in ON_DEVICE.values())
    assert answered == {request for _, request, _ in OPERATIONS}


def test_an_invalid_answer_kills_the_worker() -> None:
    ours, theirs = pair()
    other = Channel(theirs)
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as process:
        worker = Worker(Role("run", "emulator"), process.pid, ours)
        other.send(codec.to_data(Greeting({})))
        worker.ask(AskEnvironment())
        other.send({"sum": "a lot"})
        with pytest.raises(InvalidAnswer):
            worker.answer(5)
        assert not worker.alive
    other.close()


@pytest.mark.parametrize(("command", "works"), [("while :; do :; done", True), ("exec sleep 60", False)])
def test_the_limit_of_a_run_is_processor_time(command: str, *, works: bool) -> None:
    ours, theirs = pair()
    other = Channel(theirs)
    with subprocess.Popen(["sh", "-c", command], start_new_session=True) as process:
        worker = Worker(Role("run", "emulator"), process.pid, ours)
        assert not worker.works_for(0.2, timeout_s=60.0 if works else 0.4)
        assert (worker.cpu_s >= 0.2) is works
        other.send({})
        assert worker.works_for(60.0, timeout_s=60.0)
        worker.kill()
        assert (worker.cpu_s >= 0.2) is works, "kept when it is killed"
    other.close()


def test_a_run_on_the_emulator_has_its_limit_in_processor_time(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pair()
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as process:
        worker = Worker(Role("run", "emulator"), process.pid, ours)
        Channel(theirs).send(codec.to_data(Greeting({})))
        worker.ask(AskEnvironment())
        asked = []
        monkeypatch.setattr(worker, "works_for", lambda *limits: bool(asked.append(limits)))
        with pytest.raises(WorkerTimeout, match="no answer within 2 s"):
            worker.answer(2.0)
        assert asked == [(2.0, 2.0 * time_limits.STARVED)]
        assert not worker.alive
    theirs.close()


def test_numpy_may_lie_outside_pythons_own_folders(tmp_path: Path) -> None:
    import numpy

    own = Path(numpy.__file__).parent
    for folder in (own, own.with_name("numpy.libs")):
        shutil.copytree(folder, tmp_path / "packages" / folder.name, ignore=shutil.ignore_patterns("tests"))
    paths = [str(tmp_path / "packages"), str(ROOT)]
    done = subprocess.run(
        [sys.executable, "-m", "kcurate", "validate", "--backend", "emulator", "-w", str(tmp_path / "work"),
         "reduction-scan/reduce-sum-shuffle", "--json"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert json.loads(done.stdout)["items"]["candidates"] == {"correct": 1}, done.stdout
