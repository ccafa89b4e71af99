"""The entry point of a rank: `python -m reactor_runtime.distributed FD FD FD FD PARENT_PID`.

Only `rank_process.py` starts it. The author's code runs on the main thread.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import logging
import os
import runpy
import select
import signal
import socket
import sys
import threading
import types
from datetime import timedelta
from pathlib import Path
from typing import Any

from reactor_runtime.distributed.errors import SharedSlotAllocationFailed
from reactor_runtime.distributed.exchange import MessageKind, RankMessage, receive_from, send_to
from reactor_runtime.distributed.packing import pack, unpack
from reactor_runtime.distributed.rank_output import RecordFormatter
from reactor_runtime.distributed.remote_error import RemoteError
from reactor_runtime.distributed.shared_slot import SharedSlot
from reactor_runtime.ipc.subreaper import end_with_parent

STORE_TIMEOUT = timedelta(hours=1)


def main() -> None:
    socket_fd, requests_fd, results_fd, store_fd, parent = (int(argument) for argument in sys.argv[1:])
    sys.argv[:] = [sys.argv[0]]
    end_with_parent(parent)
    faulthandler.enable(all_threads=False)
    for fd in (socket_fd, requests_fd, results_fd, store_fd):
        if fd >= 0:
            os.set_inheritable(fd, False)
    # The thread has a descriptor of its own: that of a closed socket would look like a hang-up.
    threading.Thread(target=_watch, args=(os.dup(socket_fd),), name="reactor-parent", daemon=True).start()
    with socket.socket(fileno=socket_fd) as connection:
        rank = Rank(connection, SharedSlot(requests_fd), SharedSlot(results_fd) if results_fd >= 0 else None, store_fd)
        rank.serve()
        rank.close()


class Rank:
    """Answer the requests of the runner, one after the other, with a worker of the author's class.

    `results` is None in all ranks but the first, which do not send their results.
    """

    def __init__(
        self, connection: socket.socket, requests: SharedSlot, results: SharedSlot | None, store_fd: int
    ) -> None:
        self._connection = connection
        self._requests = requests
        self._results = results
        self._store_fd = store_fd
        self._number = int(os.environ["RANK"])
        self._worker: Any = None
        self._project = Path.cwd()

    def serve(self) -> None:
        """Return when the runner is shut down."""
        # The runner may end while a reply is sent.
        with contextlib.suppress(EOFError, BrokenPipeError):
            while True:
                send_to(self._connection, self._reply(receive_from(self._connection)))

    def close(self) -> None:
        """Leave the process group."""
        distributed: Any = sys.modules.get("torch.distributed")
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            distributed.destroy_process_group()

    def _reply(self, request: RankMessage) -> RankMessage:
        try:
            result = self._handle(request)
        # These end the process, as in any program.
        except (SystemExit, KeyboardInterrupt):
            raise
        # Author's code, and native extensions, raise more than Exception.
        except BaseException as error:  # noqa: BLE001
            return self._failure(MessageKind.RAISED, error)
        if self._results is None:
            return RankMessage(MessageKind.RETURNED)
        try:
            packed = pack(result, "the result")
            self._results.write(packed.buffers)
        except (TypeError, SharedSlotAllocationFailed) as error:
            return self._failure(MessageKind.UNSENT, error)
        return RankMessage(MessageKind.RETURNED, packed.body, tuple(packed.sizes))

    def _failure(self, kind: MessageKind, error: BaseException) -> RankMessage:
        return RankMessage(kind, pack(RemoteError.of(error, self._number, self._project), "the exception").body)

    def _handle(self, request: RankMessage) -> object:
        value = unpack(request.body, self._requests.read(request.sizes))
        match request.kind:
            case MessageKind.LOAD:
                self._load(*value)
            case MessageKind.GENERATE:
                return self._worker.generate(value)
            case MessageKind.RESET:
                self._worker.reset()
        return None

    def _load(self, setup: dict[str, Any], body: bytes, buffers: list[bytes]) -> None:
        sys.path[:] = setup["path"]
        _configure_log(setup["log_level"])
        if setup["with_group"]:
            self._join_group()
        if setup["main"] is not None:
            _import_main(*setup["main"])
        worker_class, kwargs = unpack(body, [memoryview(bytearray(each)) for each in buffers])
        self._project = _project_of(worker_class)
        self._worker = worker_class()
        self._worker.load(**kwargs)

    def _join_group(self) -> None:
        """Make torch's default process group of all ranks; rank 0 has the store, on a socket that it inherited."""
        import torch

        # Its types are incomplete.
        distributed: Any = importlib.import_module("torch.distributed")
        with_cuda = torch.cuda.is_available()
        if with_cuda:
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        leads = self._number == 0
        store = distributed.TCPStore(
            os.environ["MASTER_ADDR"],
            int(os.environ["MASTER_PORT"]),
            int(os.environ["WORLD_SIZE"]),
            is_master=leads,
            wait_for_workers=False,
            timeout=STORE_TIMEOUT,
            **({"master_listen_fd": self._store_fd} if leads else {}),
        )
        distributed.init_process_group(
            "nccl" if with_cuda else "gloo",
            store=store,
            rank=self._number,
            world_size=int(os.environ["WORLD_SIZE"]),
        )


def _watch(socket_fd: int) -> None:
    """End this process, and those that it has started, when the process of the runner is gone."""
    poll = select.poll()
    # A hang-up is always reported; data, and the end of the requests, are not.
    poll.register(socket_fd, 0)
    poll.poll()
    os.killpg(0, signal.SIGKILL)


def _configure_log(level: str) -> None:
    """Write log records and prints to stderr, where the runner reads them."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(RecordFormatter())
    logging.basicConfig(level=level, handlers=[handler])


def _import_main(kind: str, name: str) -> None:
    """Import the main module of the runner's program under the name `__mp_main__`, as `multiprocessing` does."""
    run = runpy.run_module if kind == "module" else runpy.run_path
    module = types.ModuleType("__mp_main__")
    vars(module).update(run(name, run_name="__mp_main__"))
    sys.modules["__main__"] = sys.modules["__mp_main__"] = module


def _project_of(worker_class: type) -> Path:
    """Return the folder in which the author's modules are: that of the module of the class, or of its package."""
    name = worker_class.__module__
    file = getattr(sys.modules[name], "__file__", None)
    if file is None:
        return Path.cwd()
    is_package = Path(file).name == "__init__.py"
    return Path(file).resolve().parents[name.count(".") + is_package]


if __name__ == "__main__":
    main()
