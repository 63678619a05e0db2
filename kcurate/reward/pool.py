"""Rewards for a batch of completions, judged concurrently in other processes.

Equal completions are judged once, within a batch, across concurrent batches and steps, and (with a file)
across runs. A completion that hangs only costs its own time limit. A suspiciously large speedup is audited:
judged a second time, with new inputs in new processes. Not covered: what an outcome earns (`reward.schemes`),
how a verdict is made (`kcurate.judge`).
"""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path

import kcurate.judge as judge
from kcurate import backends
from kcurate.core import time_limits
from kcurate.errors import BackendError, KcurateError
from kcurate.judge import JudgeConfig
from kcurate.judge.referees.local import JudgeExecutor, Referees
from kcurate.prompts import Answer
from kcurate.records import Candidate, Environment, Verdict
from kcurate.reward import schemes
from kcurate.reward.answers import Readable, Refused, read
from kcurate.reward.schemes import UNKNOWN, Earned, Scheme
from kcurate.reward.settled import Settled, needs_audit, settle
from kcurate.reward.task import Judged, Task
from kcurate.reward.verdict_cache import VerdictCache, answer_key

_Verdicts = Future[tuple[Verdict, ...]]


@dataclass(frozen=True)
class PoolConfig:
    """Where completions are judged. `backend` auto: the GPU if there is one.

    `jobs` 0: chosen from the machine's cores. `limit_s`: time limit per completion, None for the backend's
    default. `cache_file`: JSON lines of verdicts. `torch`: the given side of a task may be in PyTorch, which
    is trusted code. `ray`: the address of a cluster that judges instead of this machine; `gpus` is then
    ignored, and `jobs` 0 means one per GPU.
    """

    backend: str = "auto"
    gpus: tuple[int, ...] = (0,)
    jobs: int = 0
    timed: bool = True
    limit_s: float | None = None
    cache_size: int = 50_000
    cache_file: Path | None = None
    torch: bool = False
    ray: str | None = None


@dataclass
class _Entry:
    """One completion of a batch: refused at once, or waiting for verdicts."""

    task: Task
    read: Readable | Refused
    key: str = ""
    future: _Verdicts | None = None
    cached: bool = False

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The verdicts (waits for them); none if it was refused."""
        return self.future.result() if self.future else ()


@dataclass
class _UnderWay:
    """A judgement in flight: the future that its waiters share, their number, and the judge's own future."""

    future: _Verdicts
    waiters: int = 1
    verdict: Future[Verdict] | None = None


class RewardPool:
    """Judges, started at the first batch and kept running, and the cache of their verdicts.

    Life cycle of a completion:
    1. `_entered` makes an entry of the reply: refused at once, or a candidate with a key.
    2. `_ask` answers from the cache, joins a judgement in flight, or starts one (`_submit`).
    3. `_submit` queues it at the judges, a second time if the verdict needs an audit; `_resolve` ends it.
    4. `_scored` groups completions by task and applies the scheme, once all verdicts of a batch are known.
    5. If its batch is cancelled, `_cancel_unwanted` drops it, unless another batch waits for it.

    Thread-safe; `close` it. `executor`: judges to use instead of those in `config`.
    """

    def __init__(
        self, scheme: Scheme, config: PoolConfig | None = None, *, executor: JudgeExecutor | None = None
    ) -> None:
        self.config = config or PoolConfig()
        self._scheme = scheme
        self._opened = executor
        self._cache = VerdictCache(self.config.cache_size, self.config.cache_file)
        self._under_way: dict[str, _UnderWay] = {}
        self._lock = threading.RLock()

    @property
    def _executor(self) -> JudgeExecutor:
        with self._lock:
            if self._opened is None:
                self._opened = open_referees(self.config)
            return self._opened

    @property
    def timed(self) -> bool:
        """Whether completions are timed; if not, `faster` earns nothing.

        Raises:
            KcurateError: this machine cannot judge.
        """
        return self.config.timed and self._executor.environment().backend == "cuda"

    def environment(self) -> Environment:
        """The environment of the verdicts; waits for the first judge.

        Raises:
            KcurateError: this machine cannot judge.
        """
        environment = self._executor.environment()
        with self._lock:
            self._cache.open(environment)
        return environment

    async def score(
        self, tasks: Sequence[Task], replies: Sequence[str | Answer], *, scheme: Scheme | None = None
    ) -> list[Judged]:
        """What each completion earned, in order. The completions of one task in one call are a group.

        `scheme`: overrides the pool's scheme. If the call is cancelled, completions that no other call awaits
        leave the judges' queue; those that are being judged are finished.

        Raises:
            KcurateError: this machine cannot judge.
        """
        beginning = asyncio.ensure_future(asyncio.to_thread(self._begin, tasks, replies))
        return self._scored(await self._all_of(beginning), scheme)

    async def judge(self, task: Task) -> Verdict:
        """The verdict on a task's template itself; cached like the verdicts of completions.

        Raises:
            KcurateError: this machine cannot judge.
        """
        template = Readable(task.template)
        beginning = asyncio.ensure_future(asyncio.to_thread(self._entered, [task], [template]))
        (entry,) = await self._all_of(beginning)
        return entry.verdicts[-1]

    async def _all_of(self, beginning: asyncio.Task[list[_Entry]]) -> list[_Entry]:
        """The entries, once all their verdicts are known."""
        try:
            entries = await asyncio.shield(beginning)
            futures = [entry.future for entry in entries if entry.future is not None]
            await asyncio.gather(*map(asyncio.wrap_future, futures))
        except asyncio.CancelledError:
            beginning.add_done_callback(self._cancel_unwanted)
            raise
        return entries

    def find(self, key: str) -> tuple[Verdict, ...]:
        """The final verdicts under a `Judged.key`: none, one, or two with an audit."""
        return self._cache.find(key)

    def score_now(self, tasks: Sequence[Task], replies: Sequence[str]) -> list[Judged]:
        """`score`, for callers that have no event loop."""
        return self._scored(self._begin(tasks, replies))

    def close(self) -> None:
        """Stop the judges and flush the cache file."""
        if self._opened is not None:
            self._opened.close()
        self._cache.close()

    def _begin(self, tasks: Sequence[Task], replies: Sequence[str | Answer]) -> list[_Entry]:
        if len(tasks) != len(replies):
            raise ValueError(f"{len(tasks)} tasks and {len(replies)} replies")
        return self._entered(tasks, (read(*completion) for completion in zip(tasks, replies, strict=True)))

    def _entered(self, tasks: Sequence[Task], reads: Iterable[Readable | Refused]) -> list[_Entry]:
        """An entry for each completion; those that can be judged are handed to the judges."""
        device = self.environment().device
        entries = [_Entry(*pair) for pair in zip(tasks, reads, strict=True)]
        for entry in (entries[index] for index in _round_robin(tasks)):
            if isinstance(entry.read, Readable):
                entry.key = answer_key(entry.read.candidate, device, timed=self.config.timed)
                entry.future, entry.cached = self._ask(entry.key, entry.read.candidate)
        return entries

    def _cancel_unwanted(self, beginning: asyncio.Task[list[_Entry]]) -> None:
        """Drop these entries; cancel judgements that no other batch awaits."""
        if beginning.cancelled() or beginning.exception() is not None:
            return
        for entry in beginning.result():
            with self._lock:
                judgement = self._under_way.get(entry.key)
                if judgement is not None and judgement.future is entry.future:
                    judgement.waiters -= 1
                    if judgement.waiters == 0 and judgement.verdict is not None:
                        judgement.verdict.cancel()  # a judgement already running is not interrupted

    def _ask(self, key: str, candidate: Candidate) -> tuple[_Verdicts, bool]:
        """The future verdicts, and whether they are cached or already in flight."""
        with self._lock:
            if (judgement := self._under_way.get(key)) is not None:
                judgement.waiters += 1
                return judgement.future, True
            future: _Verdicts = Future()
            future.set_running_or_notify_cancel()  # others may wait for it, so it must not be cancelled
            cached = self._cache.find(key)
            if cached and not needs_audit(cached):
                future.set_result(cached)
                return future, True
            self._under_way[key] = _UnderWay(future)
        self._submit(key, candidate, future, cached)
        return future, False

    def _submit(self, key: str, candidate: Candidate, future: _Verdicts, so_far: tuple[Verdict, ...]) -> None:
        def done(judgement: Future[Verdict]) -> None:
            try:
                verdict = judgement.result()
                self._cache.add(key, verdict)
            except CancelledError:
                return self._resolve(key, future, BackendError("the judges were closed, or nobody waited"))
            except KcurateError as error:
                return self._resolve(key, future, error)
            verdicts = (*so_far, verdict)
            if needs_audit(verdicts):
                return self._submit(key, candidate, future, verdicts)
            return self._resolve(key, future, verdicts)

        submitted = self._executor.submit(candidate)
        with self._lock:
            if (judgement := self._under_way.get(key)) is not None:
                judgement.verdict = submitted
        submitted.add_done_callback(done)

    def _resolve(self, key: str, future: _Verdicts, verdicts: tuple[Verdict, ...] | KcurateError) -> None:
        with self._lock:
            self._under_way.pop(key, None)
        if isinstance(verdicts, KcurateError):
            future.set_exception(verdicts)
        else:
            future.set_result(verdicts)

    def _scored(self, entries: Sequence[_Entry], scheme: Scheme | None = None) -> list[Judged]:
        """Wait for all verdicts and compute rewards, group by group."""
        settled = [settle(entry.read, entry.verdicts) for entry in entries]
        groups: dict[str, list[int]] = defaultdict(list)
        for index, entry in enumerate(entries):
            groups[entry.task.id].append(index)
        judged: dict[int, Judged] = {}
        for members in groups.values():
            group = [_earned(settled[i], entries[i]) for i in members]
            terms = schemes.terms_of(scheme or self._scheme, group)
            for i, earned in zip(members, terms, strict=True):
                judged[i] = _judged(entries[i], settled[i], earned)
        return [judged[index] for index in range(len(entries))]


def _round_robin(tasks: Sequence[Task]) -> Iterator[int]:
    """The indices of the tasks, one of each group in turn, so that referees start on different references."""
    groups: dict[str, list[int]] = defaultdict(list)
    for index, task in enumerate(tasks):
        groups[task.id].append(index)
    for row in zip_longest(*groups.values()):
        yield from (index for index in row if index is not None)


def _earned(settled: Settled, entry: _Entry) -> Earned:
    """What was earned, with the best known speedup: the task's, else the bound from memory traffic."""
    known = entry.task.known or (settled.headroom and min(settled.headroom, UNKNOWN))
    code = entry.read.candidate.fast.code if isinstance(entry.read, Readable) else ""
    return replace(settled.earned, known=known, task=entry.task.id, code=code)


def _judged(entry: _Entry, settled: Settled, terms: schemes.Terms) -> Judged:
    return Judged(
        task_id=entry.task.id,
        outcome=settled.earned.outcome,
        reward=sum(terms.values()),
        components=terms,
        speedup=settled.speedup,
        detail=settled.detail,
        audit=settled.audit,
        cheat=settled.cheat,
        cached=entry.cached,
        judge_s=0.0 if entry.cached else settled.judge_s,
        key=entry.key,
        verdict=entry.verdicts[-1] if entry.verdicts else None,
    )


def open_referees(config: PoolConfig) -> Referees:
    """The referees of a pool; they start in the background.

    Raises:
        InputError: no such backend, or no such cluster. MissingDependencyError: Ray is not installed.
    """
    backend = config.backend if config.ray is not None else backends.resolve(config.backend)
    judging = JudgeConfig(backend=backend, timed=config.timed, torch=config.torch)
    limit_s = time_limits.REWARD_S.get(backend, max(time_limits.REWARD_S.values()))
    return judge.open_referees(
        judging,
        gpus=config.gpus,
        jobs=config.jobs,
        limit_s=limit_s if config.limit_s is None else config.limit_s,
        ray=config.ray,
    )
