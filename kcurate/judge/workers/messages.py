"""The worker protocol: every request and its answer as JSON, in one table (`OPERATIONS`) that both ends use.

A message is plain JSON data and named byte arrays. A worker's answers are untrusted: each is parsed as the
record that was asked for, or is an error. Not covered: the records (`kcurate.judge.workers.requests`),
framing (`kcurate.judge.workers.protocol`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np

from kcurate.backends.base import Compiled
from kcurate.core import codec
from kcurate.errors import RecordError
from kcurate.judge.workers import requests, timing_requests
from kcurate.judge.workers.protocol import Blob

A = TypeVar("A")

# Operation, request, answer.
OPERATIONS: tuple[tuple[str, type[requests.Request[Any]], type[Any]], ...] = (
    ("compile", requests.Compile, requests.CompileAnswer),
    ("environment", requests.AskEnvironment, requests.DeviceState),
    ("load", requests.Load, requests.Done),
    ("generate", requests.Generate, requests.Done),
    ("run", requests.Run, requests.RunAnswer),
    ("hide", requests.Hide, requests.HideAnswer),
    ("bring", requests.Bring, requests.Done),
    ("fetch", requests.Fetch, requests.Done),
    ("expect", requests.Expect, requests.Done),
    ("compare", requests.Compare, requests.CompareAnswer),
    ("peek", requests.Peek, requests.Done),
    ("read_outputs", requests.ReadOutputs, requests.Done),
    ("forget", requests.Forget, requests.Done),
    ("count", requests.Count, requests.CountsAnswer),
    ("drop", requests.Drop, requests.Done),
    ("helpers", timing_requests.Helpers, requests.Done),
    ("time", timing_requests.Time, timing_requests.TimeAnswer),
    ("block", timing_requests.Block, timing_requests.BlockAnswer),
    ("calibrate", timing_requests.Calibrate, timing_requests.ClockAnswer),
)
_NAMES = {request: name for name, request, _ in OPERATIONS}
_REQUESTS = {name: request for name, request, _ in OPERATIONS}
_ANSWERS = {request: answer for _, request, answer in OPERATIONS}


def pack_request(request: requests.Request[Any]) -> dict[str, Any]:
    """A request as JSON data."""
    return {"op": _NAMES[type(request)], **codec.to_data(request)}


def read_request(body: Mapping[str, Any]) -> requests.Request[Any]:
    """The request in a frame's body.

    Raises:
        KeyError: there is no such operation. RecordError: a field is missing or malformed.
    """
    data = dict(body)
    return codec.from_data(_REQUESTS[data.pop("op")], data)


def read_answer(request: type[requests.Request[A]], body: Mapping[str, Any]) -> A:
    """The answer to a request of this type in a frame's body.

    Raises:
        RecordError: a field is missing or malformed.
    """
    answer: A = codec.from_data(_ANSWERS[request], dict(body))
    return answer


def pack_compiled(compiled: Compiled) -> tuple[requests.Description, dict[str, Blob]]:
    """A binary as its description and the array `binary`."""
    described = {
        member.name: getattr(compiled, member.name) for member in dataclasses.fields(requests.Description)
    }
    return requests.Description(**described), {"binary": np.frombuffer(compiled.binary, np.uint8)}


def unpack_compiled(described: requests.Description, blobs: Mapping[str, Blob]) -> Compiled:
    """The binary in a message.

    Raises:
        RecordError: its bytes are missing.
    """
    if "binary" not in blobs:
        raise RecordError("a binary without its bytes")
    parts = {
        member.name: getattr(described, member.name) for member in dataclasses.fields(requests.Description)
    }
    return Compiled(**parts, binary=blobs["binary"].tobytes())
