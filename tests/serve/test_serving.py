"""A real server process with the emulator: every endpoint, every status, restarts, clients that leave."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import shlex
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from serve.conftest import SECRET, Server
from small import SCALE, SCALE_STRIDED, problem
from train.asked import BROKEN, CHEAT, EMPTY, ENDLESS, PLAN, WRONG, reply

from kcurate.client import Answer, AsyncClient, Client, Given, OwnProblem, Request
from kcurate.core import codec, store
from kcurate.core.workspace import MARKER
from kcurate.errors import InputError, RemoteError
from kcurate.integrations import verl
from kcurate.judge.referees.batch import default_jobs
from kcurate.records import Verdict

TASK = "test/scale"


def asked(text: str) -> Answer:
    return Answer(TASK, text)


def ask(server: Server, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, Any]:
    """A request as another program would send it."""
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=60)
    connection.request(method, path, body, {"Content-Type": "application/json", **headers})
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return answer.status, json.loads(text) if text.startswith((b"{", b"[")) else text.decode()


def until(true: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def connected(port: int) -> bool:
    """Whether somebody has a connection to a port of this machine (Linux: state 1, ports in hexadecimal)."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return any(row[2].endswith(f":{port:04X}") and row[3] == "01" for row in rows)


def test_tasks_are_listed_without_their_answers(server: Server) -> None:
    found = server.client.tasks()
    assert [one.id for one in found.tasks] == ["test/scale", "test/shift"]
    assert SECRET not in repr(found)
    task = found.tasks[0]
    assert task.prompt[0]["role"] == "system" and "int each" in task.prompt[1]["content"]
    assert task.given.plan == PLAN and "y" in task.problem["buffers"]
    assert [one.id for one in server.client.tasks(family="shift").tasks] == ["test/shift"]
    assert server.client.tasks(limit=1, offset=1).tasks[0].id == "test/shift"
    assert server.client.tasks(limit=0).total == 2
    brief = server.client.tasks(brief=True).tasks[0].prompt[0]["content"]
    assert len(brief) < len(task.prompt[0]["content"])


def test_the_examples_of_the_page_run(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "serving.md").read_text(encoding="utf-8")
    page = page.replace("http://127.0.0.1:8077", server.url).replace(
        "deep-learning/softmax-block-online", TASK
    )
    (command,), (program,) = (
        re.findall(rf"```{kind}\n(.*?)```", page, re.DOTALL) for kind in ("sh", "python")
    )
    words = shlex.split(command)
    if shutil.which("curl"):
        job = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)
    else:
        assert words[:2] == ["curl", "-s"] and words[3:6:2] == ["-H", "-d"]
        job = ask(server, "POST", words[2].removeprefix(server.url), words[6].encode())[1]
    assert (job["state"], job["results"][0]["outcome"]) == ("done", "unreadable")
    exec(program, {})
    assert capsys.readouterr().out.startswith("0.0 The answer cannot be used")


def test_splits_share_no_task(server: Server) -> None:
    parts = [server.client.tasks(split=name, held_out=0.5).tasks for name in ("train", "held_out")]
    assert [len(one) for one in parts] == [1, 1] and parts[0][0].id != parts[1][0].id
    assert ask(server, "GET", "/tasks?split=both")[0] == 422
    status, data = ask(server, "GET", "/tasks?splitt=train")
    assert (status, data["detail"]) == (422, "query: unknown parameter 'splitt'")


def test_every_kind_of_answer_earns_what_it_earns_in_training(server: Server) -> None:
    expected = {
        "no kernel here": ("unreadable", 0.0, "cannot be used"),
        reply(SCALE, [{"jump": 1}]): ("malformed", 0.02, "cannot be used"),
        CHEAT: ("static_reject", 0.02, "not allowed"),
        BROKEN: ("compile_error", 0.02, "does not compile"),
        EMPTY: ("mismatch", 0.1, "results are wrong"),
        WRONG: ("mismatch", 0.1, "results are wrong"),
        reply(SCALE_STRIDED, None): ("copied", 0.0, "the code that was given"),
        reply(): ("correct", 0.3, "results are right"),
    }
    job = server.client.judge([asked(text) for text in expected])
    assert job.state == "done"
    for one, (outcome, reward, said) in zip(job.results, expected.values(), strict=True):
        assert (one.outcome, one.reward) == (outcome, pytest.approx(reward))
        assert said in one.feedback
        assert one.speedup is None and one.task == TASK
    assert [one.correct for one in job.results] == [False] * 6 + [True] * 2
    assert [one.cheat for one in job.results].count(True) == 1


def test_code_and_plan_are_judged_like_the_same_reply(server: Server) -> None:
    code = SCALE.replace("a * x[i]", "x[i] * a")
    (one,) = server.client.judge([Answer(TASK, code=code, plan=PLAN)]).results
    (same,) = server.client.judge([asked(reply(code))]).results
    (malformed,) = server.client.judge([Answer(TASK, code=code, plan=["\ud800", 3])]).results
    assert (one.outcome, one.cached) == ("correct", False)
    assert (same.outcome, same.cached, same.key) == ("correct", True, one.key)
    assert malformed.outcome == "malformed"


def test_the_reward_function_for_verl_needs_no_verl(server: Server) -> None:
    rows = list(verl.rows(server.client, split="train", held_out=0.5))
    assert [(one["data_source"], len(one["prompt"])) for one in rows] == [("kcurate", 2)]
    replies = {reply(): 0.3, reply(SCALE_STRIDED, None): 0.0, WRONG: 0.1, "\ud800": 0.0}

    async def scored() -> list[dict[str, Any]]:
        asked = (verl.compute_score("kcurate", text, TASK, {}, url=server.url) for text in replies)
        return await asyncio.gather(*asked)

    found = asyncio.run(scored())
    assert [one["score"] for one in found] == [pytest.approx(value) for value in replies.values()]
    assert [one["correct"] for one in found] == [1.0, 0.0, 0.0, 0.0]
    assert {one["judged"] for one in found} == {1.0}


def test_the_scheme_is_the_callers_choice(server: Server) -> None:
    answers = [asked(reply()), asked(WRONG)]
    rewards = {
        name: [one.reward for one in server.client.judge(answers, scheme=name).results]
        for name in ("pairs", "staged-tiers")
    }
    assert rewards == {"pairs": [pytest.approx(0.3), pytest.approx(0.1)], "staged-tiers": [100.0, -10.0]}
    with pytest.raises(InputError, match="unknown reward 'none'"):
        server.client.judge(answers, scheme="none")


def test_a_repeated_request_is_the_same_job(server: Server) -> None:
    request = Request([asked(reply(SCALE.replace("a * x[i]", "1.0f * a * x[i]")))], wait=False)
    first, again = server.client.submit(request), server.client.submit(request)
    assert first.id == again.id
    done = server.client.job(first.id, wait=True)
    assert (done.state, done.results[0].outcome, done.results[0].cached) == ("done", "correct", False)
    assert server.client.submit(request) == done


def test_a_verdict_is_found_by_its_key(server: Server) -> None:
    (one,) = server.client.judge([asked(WRONG)]).results
    assert one.key is not None
    (data,) = server.client.verdicts(one.key)
    verdict = codec.from_data(Verdict, data)
    assert (verdict.outcome, verdict.key, verdict.side) == ("mismatch", one.key, "fast")
    assert ask(server, "GET", "/verdicts/nothing") == (404, {"detail": "no final verdict nothing"})


@pytest.mark.slow
def test_eight_clients_beside_a_hanging_and_a_hostile_answer(server: Server) -> None:
    texts = [reply(SCALE.replace("a * x[i]", f"a * x[i] * {n}.0f / {n}.0f")) for n in range(2, 7)]
    expected = ["correct"] * 5 + ["timeout", "static_reject", "mismatch"]
    with ThreadPoolExecutor(8) as clients:
        jobs = list(
            clients.map(lambda text: server.client.judge([asked(text)]), [*texts, ENDLESS, CHEAT, WRONG])
        )
    assert [job.results[0].outcome for job in jobs] == expected
    assert server.client.health().jobs == 0


def test_equal_answers_of_two_clients_are_judged_once(server: Server) -> None:
    answer = asked(reply(SCALE.replace("a * x[i]", "(a * x[i])")))

    async def both() -> list[Any]:
        client = AsyncClient(server.url)
        other = Request([answer, asked("")])
        return await asyncio.gather(client.judge([answer]), client.submit(other))

    jobs = asyncio.run(both())
    assert sorted(job.results[0].cached for job in jobs) == [False, True]


@pytest.mark.slow
def test_a_caller_that_leaves_frees_its_place(server: Server) -> None:
    """Its answers that no referee has begun with are not judged, those behind it come sooner."""
    hung = [reply(SCALE.replace("if (i < n)", f"while (n + {k}) if (i < n)")) for k in range(1, 7)]
    body = {"answers": [{"task": TASK, "reply": text} for text in hung]}
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"))
    connection.request("POST", "/judge", json.dumps(body), {"Content-Type": "application/json"})
    until(lambda: server.client.health().waiting == 6)
    connection.close()
    until(lambda: server.client.health().waiting == 0, 10)
    before = len(verdicts(server))
    text = reply(SCALE.replace("a * x[i]", "(x[i] * a)"))
    assert server.client.judge([asked(text)]).results[0].outcome == "correct"
    assert len(verdicts(server)) - before <= 1 + default_jobs("emulator", 1)
    assert 'kcurate_jobs_total{state="left"} 1' in ask(server, "GET", "/metrics")[1]


def verdicts(server: Server) -> list[Verdict]:
    workspace = Path(server.command[server.command.index("-w") + 1])
    return list(store.read_jsonl(workspace / "serve" / "verdicts.jsonl", Verdict))


GIVEN = Given(SCALE_STRIDED, PLAN)


def own(**changes: Any) -> OwnProblem:
    data = codec.to_data(problem(1 << 12))
    return OwnProblem({**data, **changes}, GIVEN)


def test_a_callers_problem_is_admitted_and_stays_apart(server: Server) -> None:
    before = {one.id for one in server.client.tasks().tasks}
    job = server.client.judge([Answer(reply=reply()), Answer(reply=WRONG)], problem=own())
    assert [one.outcome for one in job.results] == ["correct", "mismatch"]
    assert {one.id for one in server.client.tasks().tasks} == before
    workspace = Path(server.command[server.command.index("-w") + 1])
    assert {path.name for path in workspace.iterdir()} == {"runs", "serve", MARKER}


def test_a_callers_problem_that_proves_nothing_is_refused(server: Server) -> None:
    answers = [Answer(reply=reply())]
    lost = Given(SCALE_STRIDED.replace("a * x[i]", "0.0f * x[i]"), PLAN)
    with pytest.raises(InputError, match="not admitted: malformed"):
        server.client.judge(answers, problem=OwnProblem(own().problem, lost))


@pytest.mark.slow
def test_a_callers_problem_that_hangs_is_refused(server: Server) -> None:
    endless = Given(SCALE_STRIDED.replace("++i)", "i += 0)"), PLAN)
    with pytest.raises(InputError, match="not admitted: timeout"):
        server.client.judge([Answer(reply=reply())], problem=OwnProblem(own().problem, endless))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"sizes": {"test": [{"n": 8}], "bench": {"n": 8}}}, "fewer than 2 different size settings"),
        ({"sizes": {"test": [{"n": 8}, {"n": 1 << 40}], "bench": {"n": 8}}}, "more than 4194304"),
        ({"sizes": {"test": [{"n": i} for i in range(1, 99)], "bench": {"n": 8}}}, "more than 16 size"),
        ({"buffers": {}}, "has the role out"),
        ({"colour": 1}, "'colour' was unexpected"),
    ],
)
def test_a_malformed_problem_is_refused_at_once(server: Server, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        server.client.submit(Request([Answer(reply=reply())], own(**changes)))


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"answers": [{"task": "no/such", "reply": ""}]}, 404, "answers[0]: unknown task 'no/such'"),
        ({"answers": [{"task": TASK}]}, 422, "give either reply or code"),
        ({"answers": [{"task": TASK, "reply": "", "code": ""}]}, 422, "give either reply or code"),
        ({"answers": [{"task": TASK, "reply": "", "plan": []}]}, 422, "plan and buffers belong to code"),
        ({"answers": [{"reply": ""}]}, 422, "neither a task nor a problem"),
        ({"answers": []}, 422, "0 answers"),
        ({"answers": [{"task": TASK, "reply": ""}] * 257}, 422, "257 answers"),
        ({"answers": [{"task": TASK, "reply": "", "language": "triton"}]}, 422, "Input should be 'cuda'"),
        ({"answers": [{"task": TASK, "reply": 3}]}, 422, "body.answers.0.reply"),
        ({"answers": [], "colour": 1}, 422, "body.colour"),
        ({"answers": [{"task": TASK, "reply": "x" * 200000}]}, 413, "more than 200000 bytes"),
    ],
)
def test_what_cannot_be_judged_has_a_status(server: Server, body: Any, status: int, said: str) -> None:
    found, data = ask(server, "POST", "/judge", json.dumps(body).encode())
    assert found == status and said in data["detail"]


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"{", {}),
        (b"\xff\xfe", {}),
        (b"[" * 100_000, {}),
        (b'{"answers": [{"reply": "\\ud800", "task": 1}]}', {}),
        (b'{"answers": ' + b"[" * 900 + b"]" * 900 + b"}", {}),
        (json.dumps({"answers": []}).encode(), {"Content-Type": "text/plain"}),
    ],
)
def test_a_body_that_is_no_request_gets_one_line(
    server: Server, body: bytes, headers: dict[str, str]
) -> None:
    status, data = ask(server, "POST", "/judge", body, **headers)
    assert status in (400, 422) and len(data["detail"]) < 300
    if body in (b"{", b"\xff\xfe"):
        assert status == 400


def test_a_chunked_body_is_limited_too(server: Server) -> None:
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"))
    chunks = (b"x" * 10_000 for _ in range(30))
    connection.request("POST", "/judge", chunks, {"Content-Type": "application/json"}, encode_chunked=True)
    assert connection.getresponse().status == 413


def test_a_caller_learns_that_its_body_is_too_large(server: Server) -> None:
    with pytest.raises(InputError, match="answers 413: the body has more than 200000 bytes"):
        server.client.judge([asked("x" * (8 << 20))])


def test_a_page_with_a_name_of_its_own_is_refused(server: Server) -> None:
    assert ask(server, "GET", "/health", Host="rebound.example:8077")[0] == 400
    for host in ("[::1]:8077", "127.0.0.2:8077", "LocalHost", "[0:0:0:0:0:0:0:1]"):
        assert ask(server, "GET", "/health", Host=host)[0] == 200
    for host in ("", "localhost.evil.example", "127.0.0.1.evil.example", "0.0.0.0", "127.1"):
        assert ask(server, "GET", "/health", Host=host)[0] == 400


def test_health_and_metrics_tell_what_was_judged(server: Server) -> None:
    server.client.judge([asked(WRONG)])
    health = server.client.health()
    assert (health.backend, health.timed, health.tasks, health.waiting) == ("emulator", False, 2, 0)
    text = ask(server, "GET", "/metrics")[1]
    assert 'kcurate_answers_total{outcome="mismatch"}' in text and "kcurate_open_jobs 0" in text


@pytest.mark.slow
def test_no_acknowledged_job_is_lost_when_the_server_is_killed(dataset: Path, tmp_path: Path) -> None:
    server = Server(dataset, tmp_path)
    texts = [reply(SCALE.replace("a * x[i]", f"a * x[i] + {n}.0f")) for n in range(3)]
    quick = server.client.judge([asked("no kernel")])
    jobs = [server.client.submit(Request([asked(text)], wait=False)) for text in texts]
    server.kill()
    (log,) = tmp_path.glob("serve/jobs.jsonl")
    log.write_bytes(log.read_bytes() + b'{"id": "cut sho')
    server.start()
    try:
        done = [server.client.job(job.id, wait=True) for job in jobs]
        assert [job.results[0].outcome for job in done] == ["correct"] + ["mismatch"] * 2
        assert server.client.job(quick.id) == quick
        assert server.client.submit(Request([asked(texts[1])])) == done[1]
    finally:
        assert server.stop() == 0
    told: list[str] = []
    with pytest.raises(RemoteError, match="is kcurate serve running"):
        Client(server.url, retry_s=0.5, note=told.append).health()
    assert "trying again in 0.25 s" in told[0]


@pytest.mark.slow
def test_a_client_that_waits_goes_on_after_a_planned_restart(dataset: Path, tmp_path: Path) -> None:
    server = Server(dataset, tmp_path, "--jobs", "1")
    server.command[server.command.index("--port") + 1] = server.url.rpartition(":")[2]
    told: list[str] = []
    client = Client(server.url, retry_s=60, note=told.append)
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(client.judge, [asked(ENDLESS)])
        until(lambda: server.client.health().jobs == 1)
        assert server.stop() == 0
        server.start()
        try:
            assert coming.result().results[0].outcome == "timeout"
        finally:
            server.kill()
    assert "the server is stopping" in told[0] or "refused" in told[0]


@pytest.mark.slow
def test_a_client_goes_on_after_a_restart(dataset: Path, tmp_path: Path) -> None:
    server = Server(dataset, tmp_path)
    port = server.url.rpartition(":")[2]
    told: list[str] = []
    client = Client(server.url, retry_s=60, note=told.append)
    server.process.send_signal(signal.SIGSTOP)
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(client.judge, [asked(WRONG)])
        until(lambda: connected(int(port)))  # it waits for an answer now
        server.kill()
        server.command[server.command.index("--port") + 1] = port
        until(lambda: bool(told))
        server.start()
        try:
            assert coming.result().results[0].outcome == "mismatch"
        finally:
            server.kill()
    assert "trying again in 0.25 s" in told[0]


@pytest.mark.slow
def test_a_full_queue_and_a_token(dataset: Path, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret\n")
    options = ("--queue", "2", "--token-file", str(tmp_path / "token"), "--host", "0.0.0.0")
    server = Server(dataset, tmp_path / "work", *options, token="s3cret")
    server.url = server.url.replace("0.0.0.0", "127.0.0.1")
    try:
        wrong = Client(server.url, token="other", retry_s=5)
        with pytest.raises(InputError, match="answers 401: missing or wrong token"):
            wrong.health()
        assert ask(server, "POST", "/judge", b"x" * 100)[0] == 401
        right = {"Authorization": "Bearer s3cret"}
        body = json.dumps({"answers": [{"task": TASK, "reply": ""}] * 3}).encode()
        status, data = ask(server, "POST", "/judge", body, **right)
        assert (status, data["detail"]) == (429, "0 answers are waiting, of at most 2 (try again later)")
        assert Client(server.url, token="s3cret").judge([asked("")]).results[0].outcome == "unreadable"
    finally:
        server.kill()


def test_a_server_that_goes_away_during_a_long_wait_is_waited_for() -> None:
    """The wait for an answer is not part of the time that the server may be away."""
    health = b'{"version":"0","backend":"emulator","device":"","gpus":[],"timed":false,"tasks":1,"jobs":0,'
    health += b'"waiting":0,"queue":1}'

    def serve(at: socket.socket) -> None:
        for said in (b"", b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + health):
            caller, _ = at.accept()
            with caller:
                caller.recv(4096)
                time.sleep(0 if said else 1.5)
                caller.sendall(said)

    with socket.create_server(("127.0.0.1", 0)) as at, ThreadPoolExecutor(1) as thread:
        done = thread.submit(serve, at)
        assert Client(f"http://127.0.0.1:{at.getsockname()[1]}", retry_s=1).health().tasks == 1
        done.result()


def test_both_clients_have_the_same_methods(server: Server) -> None:
    public = [
        {name for name, one in vars(kind).items() if callable(one) and name[0] != "_"}
        for kind in (Client, AsyncClient)
    ]
    assert public[0] == public[1]

    async def listed() -> list[str]:
        return [one.id async for one in AsyncClient(server.url).every_task()]

    assert asyncio.run(listed()) == ["test/scale", "test/shift"]


def test_verdicts_stay_apart_from_those_of_pairs(server: Server) -> None:
    server.client.judge([asked(WRONG)])
    workspace = Path(server.command[server.command.index("-w") + 1])
    assert verdicts(server) and not (workspace / "verdicts").exists()
