"""Jobs on disk: JSON lines `serve/jobs.jsonl` in the workspace, each written before a caller hears of it.

A line has a job's `id` and either its `request` (it was accepted, with a `number` and the hash of its
`tasks`), its `job` (it ended), or `left` (its callers left, so the request with that number is void). Other
lines are ignored. Jobs that have ended are not kept in memory.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kcurate.core import store
from kcurate.errors import InputError


class JobLog:
    """The file of one server; `close` it.

    Raises:
        InputError: it cannot be written, or another server of this machine has it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._places: dict[str, tuple[int, int]] = {}
        store.append_line(path, "{}")
        self._handle = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._handle)
            hint = "give each server a workspace of its own"
            raise InputError("another kcurate serve has it", where=str(path), hint=hint) from error

    def open_jobs(self) -> dict[str, tuple[Any, str | None]]:
        """The requests of the jobs that have not ended, and the hash of their tasks, by id."""
        open_: dict[str, dict[str, Any]] = {}
        for place, line in self._lines():
            job_id = line.get("id")
            if not isinstance(job_id, str):
                continue
            if "request" in line:
                open_[job_id] = line
            elif isinstance(job := line.get("job"), dict) and {"id", "state", "results"} <= job.keys():
                open_.pop(job_id, None)
                self._places[job_id] = place
            elif job_id in open_ and open_[job_id].get("number") == line.get("left"):
                del open_[job_id]
        return {job_id: (line["request"], line.get("tasks")) for job_id, line in open_.items()}

    def take(self, job_id: str, request: Any, tasks: str | None = None) -> int:
        """Record that a job was accepted; it is on disk when this returns its number."""
        number = time.time_ns()
        self._append({"id": job_id, "number": number, "tasks": tasks, "request": request})
        return number

    def leave(self, job_id: str, number: int) -> None:
        """Record that the callers of a job have left."""
        self._append({"id": job_id, "left": number})

    def end(self, job_id: str, job: Any) -> None:
        """Record that a job has ended; it is on disk when this returns."""
        self._places[job_id] = self._append({"id": job_id, "job": job})

    def find(self, job_id: str) -> Any:
        """An ended job, or None."""
        if (place := self._places.get(job_id)) is None:
            return None
        return json.loads(os.pread(self._handle, place[1], place[0]))["job"]

    def close(self) -> None:
        """Release the file, so that another server can use it."""
        os.close(self._handle)

    def _append(self, line: Any) -> tuple[int, int]:
        """Append a line; returns its place (offset, length). Other threads may append at the same time."""
        text = json.dumps(line, separators=(",", ":"))
        length = len(text) + 1
        return store.append_line(self._path, text) - length, length

    def _lines(self) -> Iterator[tuple[tuple[int, int], dict[str, Any]]]:
        """Every valid line with its place. A line that a crash cut short was never acknowledged."""
        offset = 0
        with self._path.open("rb") as file:
            for text in file:
                try:
                    line = json.loads(text)
                except (ValueError, RecursionError):
                    line = None
                if isinstance(line, dict):
                    yield (offset, len(text)), line
                offset += len(text)
