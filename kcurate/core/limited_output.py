"""Collects the output of a process that reads untrusted data, up to a limit."""

from __future__ import annotations

import os
import select
import subprocess
import time


class TooLong(Exception):  # noqa: N818 - an event that the caller names
    """A process printed more than the limit."""


def collected(
    process: subprocess.Popen[bytes], limit_s: float, max_bytes: int, *, rest: bool = True
) -> tuple[bytes, bytes]:
    """The first `max_bytes` of each stream (those that are pipes) of a process that ends by itself. `rest`:
    output beyond that is read and dropped.

    Raises:
        subprocess.TimeoutExpired: it did not end within `limit_s` seconds. TooLong: it printed more, and
            `rest` is false. In both cases it still runs.
    """
    deadline_s = time.monotonic() + limit_s
    outputs = [bytearray(), bytearray()]
    pipes = {
        pipe.fileno(): output
        for pipe, output in zip((process.stdout, process.stderr), outputs, strict=True)
        if pipe is not None
    }
    poller = select.poll()
    for handle in pipes:
        poller.register(handle, select.POLLIN)
    while pipes and (left_s := deadline_s - time.monotonic()) > 0:
        for handle, _ in poller.poll(left_s * 1000):
            chunk = os.read(handle, 1 << 16)
            if not chunk:
                poller.unregister(handle)
                del pipes[handle]
                continue
            output = pipes[handle]
            left = max_bytes - len(output)
            if len(chunk) > left and not rest:
                raise TooLong
            output += chunk[:left]
    process.wait(max(0.0, deadline_s - time.monotonic()))
    return bytes(outputs[0]), bytes(outputs[1])
