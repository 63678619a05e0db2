"""Requests through Claude's Batch API: many are submitted together at half the price; results arrive later.

A batch outlives this process: the job is saved before it is submitted, so a later run finds the batch again
(by id, or by time and size if the id was lost), waits for it and collects it. Requests that return without
an answer (overload, expiry) go into the next batch. Not covered: searches.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from kcurate.core import store
from kcurate.core.notes import Note, silent
from kcurate.errors import RemoteError
from kcurate.models import claude
from kcurate.models.asking import Asking
from kcurate.models.claude import ClaudeClient
from kcurate.models.client import Request, with_patience
from kcurate.models.prices import BudgetSpentError
from kcurate.models.streamed import Reading
from kcurate.models.transcripts import utc_now
from kcurate.records import BatchJob, BatchRequest, Exchange, ReplyStatus

# The API accepts 100,000 requests or 256 MB per batch; smaller batches finish sooner.
MAX_REQUESTS = 5000
POLL_S = 30.0
# A request that returns unanswered this many times counts as rejected.
MAX_RETURNS = 3
# Clocks differ, so a batch may appear to have been created before it was submitted.
CLOCK_SLACK = timedelta(minutes=5)


class Batches:
    """Batches of one model, saved in `batches/<model>.jsonl`. Not thread-safe."""

    def __init__(
        self, client: ClaudeClient, asking: Asking, path: Path, *, poll_s: float = POLL_S, note: Note = silent
    ) -> None:
        self.client = client
        self.asking = asking
        self.path = path
        self.poll_s = poll_s
        self.note = note
        self._api = client.api.messages.batches
        self._returned: Counter[str] = Counter()
        self._rejected: dict[str, Exchange] = {}
        self._jobs: dict[str, BatchJob] = {}
        for line in store.read_jsonl(path, BatchJob):
            first = self._jobs.get(line.intent, line)
            self._jobs[line.intent] = replace(line, requests=line.requests or first.requests)

    def collect_open(self) -> None:
        """Wait for the batches of earlier runs and save their results."""
        for job in [job for job in self._jobs.values() if not job.collected]:
            current = job if job.id else self._adopt(job)
            if current is None:
                self._note_job(replace(job, collected=True))  # it never reached the server
            else:
                self._collect(current)

    def answer_all(self, requests: Sequence[Request]) -> dict[str, Exchange]:
        """Answers to the requests by key, in as many batches as necessary.

        Raises:
            BudgetSpentError: the budget does not allow a single further request; earlier answers are saved.
            RemoteError: the server refuses, or cannot be reached.
        """
        answers: dict[str, Exchange] = {}
        while waiting := [request for request in requests if request.key not in answers]:
            for request in waiting:
                exchange = self.asking.transcripts.find(request.key) or self._rejected.get(request.key)
                if exchange is None and self._returned[request.key] >= MAX_RETURNS:
                    exchange = Exchange(ReplyStatus.REJECTED, detail="returned unanswered in every batch")
                if exchange is not None:
                    answers[request.key] = exchange
            unanswered = [request for request in waiting if request.key not in answers]
            if unanswered:
                self._submit_and_collect(unanswered[:MAX_REQUESTS])
        return answers

    def _submit_and_collect(self, requests: Sequence[Request]) -> None:
        requests, reserved_usd = self._within_budget(requests)
        try:
            lines = tuple(
                BatchRequest(r.key, r.prompt, r.sample, r.max_tokens, r.after, r.turn) for r in requests
            )
            job = BatchJob(uuid.uuid4().hex[:16], self.client.model, utc_now(), lines)
            self._note_job(job)
            job = self._create(job, requests)
            self.note(f"batch {job.id}: {len(requests)} requests submitted; it continues if this is stopped")
            self._collect(job)
        finally:
            self.asking.budget.settle(reserved_usd, 0.0)

    def _within_budget(self, requests: Sequence[Request]) -> tuple[Sequence[Request], float]:
        """As many of the requests as the budget allows (at least one), and the amount reserved for them."""
        budget = self.asking.budget
        affordable: list[Request] = []
        reserved_usd = 0.0
        for request in requests:
            most = self.asking.most_usd(request, batch=True)
            try:
                budget.hold(most, wait=not affordable)
            except BudgetSpentError:
                if not affordable:
                    raise
                break
            affordable.append(request)
            reserved_usd += most
        return affordable, reserved_usd

    def _create(self, job: BatchJob, requests: Sequence[Request]) -> BatchJob:
        entries = [
            {"custom_id": r.key, "params": claude.body(self.client.model, r, batch=True)} for r in requests
        ]
        tries = 0

        def one_try() -> str:
            nonlocal tries
            tries += 1
            if tries > 1 and (adopted := self._adopt(job)) is not None and adopted.id:
                return adopted.id  # the previous try did reach the server
            return str(self._call(lambda: self._api.create(requests=entries)).id)

        submitted = replace(job, id=self._patiently(one_try))
        self._note_job(submitted)
        return submitted

    def _adopt(self, job: BatchJob) -> BatchJob | None:
        """Find the batch of a job whose id was lost: same size, created since, belonging to no other job."""
        earliest = datetime.fromisoformat(job.created) - CLOCK_SLACK
        ids_in_use = {other.id for other in self._jobs.values()}

        def one_try() -> str | None:
            for batch in self._api.list(limit=100):
                if batch.created_at < earliest:
                    return None
                counts = batch.request_counts
                total = sum(
                    (counts.processing, counts.succeeded, counts.errored, counts.canceled, counts.expired)
                )
                if total == len(job.requests) and batch.id not in ids_in_use:
                    return str(batch.id)
            return None

        batch_id = self._patiently(lambda: self._call(one_try))
        if batch_id is None:
            return None
        adopted = replace(job, id=batch_id)
        self._note_job(adopted)
        return adopted

    def _collect(self, job: BatchJob) -> None:
        """Wait until a batch has ended and save every result."""
        while True:
            state = self._patiently(lambda: self._call(lambda: self._api.retrieve(job.id)))
            if state.processing_status == "ended":
                break
            counts = state.request_counts
            self.note(f"batch {job.id}: {counts.processing} of {len(job.requests)} still running")
            if self.asking.stop.wait(self.poll_s):
                raise RemoteError("stopped", where=self.client.where)
        read_keys: set[str] = set()
        self._patiently(lambda: self._results(job, read_keys))
        for request in job.requests:
            if self.asking.transcripts.find(request.key) is None:
                self._returned[request.key] += 1
        self._note_job(replace(job, collected=True))

    def _results(self, job: BatchJob, read_keys: set[str]) -> None:
        """Read the results; those in `read_keys` were already read by an earlier try."""
        by_key = {request.key: request for request in job.requests}
        for entry in self._call(lambda: list(self._api.results(job.id))):
            line = by_key.get(entry.custom_id)
            if line is None or line.key in read_keys or self.asking.transcripts.find(line.key) is not None:
                continue
            exchange = self._exchange(entry.result, str(job.id))
            if exchange is not None:
                saved = self.asking.keep(self._request(line), exchange, batch=True)
                self.asking.budget.settle(0.0, saved.cost_usd or 0.0)
                self.asking.count_batched(1)
                if not saved.status.final:
                    self._rejected[line.key] = saved
            read_keys.add(line.key)

    def _request(self, line: BatchRequest) -> Request:
        """A request rebuilt from its line, with what its transcript needs."""
        last = self.asking.transcripts.find(line.after) if line.after is not None else None
        history = ((last, line.turn),) if last is not None else ()
        return Request(line.key, line.prompt, line.sample, line.max_tokens, history=history, after=line.after)

    def _exchange(self, result: Any, batch_id: str) -> Exchange | None:
        """One result as an exchange; None if the server did not process the request or failed on it."""
        if result.type == "succeeded":
            return replace(claude.exchange_of(result.message), request_id=result.message.id, batch=batch_id)
        if result.type == "errored":
            error = result.error.error
            if error.type == "invalid_request_error":
                return Exchange(ReplyStatus.REJECTED, batch=batch_id, detail=str(error.message)[:300])
        return None

    def _note_job(self, job: BatchJob) -> None:
        is_noted = self._jobs.get(job.intent)
        self._jobs[job.intent] = job
        store.append_jsonl(self.path, replace(job, requests=()) if is_noted else job)

    def _patiently(self, one_try: Callable[[], Any]) -> Any:
        asking = self.asking
        return with_patience(
            one_try, asking.patience, where=self.client.where, stop=asking.stop, note=asking.note
        )

    def _call(self, call: Callable[[], Any]) -> Any:
        """Call the API and classify what it raises.

        Raises:
            TryAgain: it may work later. RemoteError: it never will.
        """
        try:
            with self.client.sorted_failures(Reading()):
                return call()
        except self.client.sdk.APIStatusError as error:
            what = f"the server rejects the batch: {self.client.refused(error).detail}"
            raise RemoteError(what, where=self.client.where) from error
