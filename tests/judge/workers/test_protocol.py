"""Frames arrive as sent, and reject whatever else a worker may send."""

from __future__ import annotations

import socket
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcurate.judge.workers.protocol import HEADER, MAGIC, Channel, ChannelClosed, ChannelTimeout, pair


def test_body_and_blobs_arrive_as_sent() -> None:
    ours, theirs = pair()
    other = Channel(theirs)
    big = np.random.default_rng(0).integers(0, 256, 9_000_000, np.uint8)
    sender = threading.Thread(
        target=other.send, args=({"n": [1, 2.5, None, "é"]}, {"big": big, "none": big[:0]})
    )
    sender.start()
    frame = ours.receive(10)
    sender.join()
    assert frame.body == {"n": [1, 2.5, None, "é"]}
    assert np.array_equal(frame.blobs["big"], big)
    assert frame.blobs["none"].size == 0
    ours.close()
    other.close()


def test_silence_times_out_and_a_closed_end_is_closed() -> None:
    ours, theirs = pair()
    with pytest.raises(ChannelTimeout):
        ours.receive(0.05)
    theirs.close()
    with pytest.raises(ChannelClosed):
        ours.receive(5)
    ours.close()


@given(st.binary(max_size=200))
def test_garbage_is_an_invalid_frame(garbage: bytes) -> None:
    ours, theirs = pair()
    theirs.sendall(garbage)
    theirs.close()
    with pytest.raises(ChannelClosed):
        ours.receive(5)
    ours.close()


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b"{}",
        b'{"body": 1, "blobs": []}',
        b'{"body": {}, "blobs": [["a", -4], ["b", 4]]}',
        b'{"body": {}, "blobs": [["a", 1e99]]}',
        b"[" * 100_000,
    ],
)
def test_inconsistent_frames_are_refused(body: bytes) -> None:
    ours, theirs = pair()
    threading.Thread(target=send_and_close, args=(theirs, HEADER.pack(MAGIC, len(body), 0) + body)).start()
    with pytest.raises(ChannelClosed):
        ours.receive(5)
    ours.close()


def test_a_length_past_the_limit_allocates_nothing() -> None:
    ours, theirs = pair()
    theirs.sendall(HEADER.pack(MAGIC, 2, 1 << 60))
    with pytest.raises(ChannelClosed):
        ours.receive(5, max_blob_bytes=1 << 20)
    ours.close()
    theirs.close()


def send_and_close(end: socket.socket, data: bytes) -> None:
    end.sendall(data)
    end.close()
