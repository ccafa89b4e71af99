"""The floor of a stream: two processes that copy frames into shared memory, encode and send them, and no more."""

from __future__ import annotations

import contextlib
import mmap
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np
import simplejpeg
from numpy.typing import NDArray

from benchmarks.serving import photo_like
from reactor_runtime.wire.containers import attach
from reactor_runtime.wire.media_header import MediaHeader

FRAMES = 4
SLOTS = 4
# The number, the time of the hand-over and the place of a frame.
MESSAGE = struct.Struct(">IQQ")


@contextlib.contextmanager
def piping(width: int, height: int, fps: int) -> Iterator[tuple[int, int]]:
    """Run the two processes; yield the port, and the id of the process that encodes, the parent of the other."""
    command = [sys.executable, "-m", __name__, str(width), str(height), str(fps)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None, "stdout is a pipe"
    try:
        yield int(process.stdout.readline()), process.pid
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def _run(width: int, height: int, fps: int) -> None:
    """Start the process that makes frames; encode them for one client after the other."""
    images = photo_like(width, height, FRAMES)
    memory = np.frombuffer(mmap.mmap(-1, SLOTS * images[0].nbytes), np.uint8).reshape(SLOTS, height, width, 3)
    encoding, producing = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if not os.fork():
        encoding.close()
        # The process that encodes has ended.
        with contextlib.suppress(ConnectionError):
            _produce(producing, memory, images, fps)
        os._exit(0)
    producing.close()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        # The parent process reads the port.
        print(listening.getsockname()[1], flush=True)  # noqa: T201
        while True:
            client, _ = listening.accept()
            with client, contextlib.suppress(ConnectionError):
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                client.recv(65536)
                client.sendall(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")
                _serve(client, encoding, memory)


def _serve(client: socket.socket, encoding: socket.socket, memory: NDArray[np.uint8]) -> None:
    with contextlib.suppress(BlockingIOError):
        # Frames from before the client came.
        while encoding.recv(MESSAGE.size, socket.MSG_DONTWAIT):
            pass
    while True:
        seq, wall_us, slot = MESSAGE.unpack(encoding.recv(MESSAGE.size))
        jpeg = simplejpeg.encode_jpeg(memory[slot], 85, "RGB", "420")
        file = attach(MediaHeader("main_video", seq, 0, wall_us), jpeg)
        client.sendall(b"\x82\x7f" + len(file).to_bytes(8, "big") + file)
        with contextlib.suppress(BlockingIOError):
            # Acknowledgements.
            client.recv(65536, socket.MSG_DONTWAIT)


def _produce(producing: socket.socket, memory: NDArray[np.uint8], images: NDArray[np.uint8], fps: int) -> None:
    """Hand over frames at a fixed rate; the socket is full while there is no client."""
    due, seq = time.monotonic(), 0
    while True:
        due, seq = max(due + 1 / fps, time.monotonic()), seq + 1
        time.sleep(max(0.0, due - time.monotonic()))
        wall_us = time.time_ns() // 1000
        memory[seq % SLOTS] = images[seq % FRAMES]
        producing.send(MESSAGE.pack(seq, wall_us, seq % SLOTS))


if __name__ == "__main__":
    _run(*map(int, sys.argv[1:]))
