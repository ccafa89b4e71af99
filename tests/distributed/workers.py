"""Workers of the tests; the ranks import them from here."""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np

from reactor_runtime.distributed import DistributedWorker


class Echo(DistributedWorker):
    """Return the input, and remember what happened."""

    def load(self, **kwargs: Any) -> None:
        self.kwargs = kwargs
        self.inputs: list[Any] = []

    def generate(self, input: Any) -> Any:
        self.inputs.append(input)
        return list(self.inputs) if isinstance(input, str) and input == "inputs" else input

    def reset(self) -> None:
        self.inputs.clear()


class Plain:
    """A worker without our base class: calls the function that is its input, or returns what it was loaded with."""

    def load(self, **kwargs: Any) -> None:
        self.kwargs = kwargs

    def generate(self, input: Any) -> Any:
        return self.kwargs if input is None else input()

    def reset(self) -> None:
        raise RuntimeError("reset fails")


class FailsToLoad:
    def load(self, ranks: tuple[int, ...], block: bool = False) -> None:
        if int(os.environ["RANK"]) in ranks:
            raise ValueError("no weights")
        if block:
            threading.Event().wait()

    def generate(self, input: Any) -> Any:
        return input


class DiesInLoad:
    def load(self) -> None:
        if os.environ["RANK"] == "1":
            os._exit(3)
        threading.Event().wait()

    def generate(self, input: Any) -> Any:
        return input


class NeedsTwo(Exception):
    def __init__(self, code: int, *, name: str) -> None:
        super().__init__(f"code {code} of {name}")
        self.code = code
        self.name = name


class Unpicklable(Exception):
    def __init__(self) -> None:
        super().__init__("held")
        self.lock = threading.Lock()


class RefusesUnpickling(Exception):
    def __reduce__(self) -> Any:
        return _explode, ()


def _explode() -> None:
    raise OSError("no")


def rank() -> int:
    return int(os.environ["RANK"])


class WithoutText(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


def environment() -> dict[str, str]:
    return dict(os.environ)


def describe() -> tuple[int, bool]:
    """Return what a rank that is of our base class knows of itself."""
    known = DistributedWorker()
    return known.rank, known.is_leader


def raise_value_error() -> None:
    raise ValueError("every rank")


def raise_needs_two() -> None:
    raise NeedsTwo(5, name="x")


def raise_unpicklable() -> None:
    raise Unpicklable


def raise_refusing() -> None:
    raise RefusesUnpickling("why")


def raise_local() -> None:
    class Local(Exception):
        pass

    raise Local("deep")


def raise_cancelled() -> None:
    raise asyncio.CancelledError("stop")


def raise_without_text() -> None:
    raise WithoutText


def raise_unicode_error() -> None:
    b"\xff".decode()


def raise_os_error() -> None:
    Path("/no/such/file").read_bytes()


def raise_in_one() -> str:
    if rank() == 1:
        raise ValueError("only here")
    return "fine"


def raise_different() -> None:
    raise (ValueError if rank() else KeyError)("differs")


def raise_or_block() -> None:
    if rank() == 1:
        raise ValueError("only here")
    threading.Event().wait()


def block_in_one() -> None:
    if rank() == 1:
        wait_here()


def wait_here() -> None:
    threading.Event().wait()


def block() -> None:
    threading.Event().wait()


def exit_in_one() -> None:
    if rank() == 1:
        sys.stdout.write("about to go\n")
        os._exit(7)
    threading.Event().wait()


def kill_one() -> None:
    if rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    threading.Event().wait()


def call_sys_exit() -> None:
    sys.exit(4)


def pid() -> int:
    return os.getpid()


def kill_one_in_collective() -> None:
    import torch
    from torch import distributed

    if rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    distributed.all_reduce(torch.ones(1))


def is_torch_imported() -> bool:
    return "torch" in sys.modules


def start_child() -> int:
    """Start a process that ignores the end of its parent."""
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"]).pid


def touch_at_exit(file: Path) -> None:
    atexit.register(file.touch)


def wait_for_child() -> None:
    """Compute until somebody ends a child."""
    subprocess.run([sys.executable, "-c", "import time; time.sleep(1000)"], check=False)


def signal_parent() -> None:
    os.kill(os.getppid(), signal.SIGUSR1)


def kill_parent() -> None:
    os.kill(os.getppid(), signal.SIGKILL)
    threading.Event().wait()


def lock() -> object:
    return threading.Lock()


def log_and_print() -> None:
    logging.getLogger("weights").warning("half of them n=%d", rank())
    sys.stdout.write(f"printed by {rank()}\n")
    sys.stderr.write("on stderr\n")


def log_exception() -> None:
    try:
        raise ValueError("logged")
    except ValueError:
        logging.getLogger("weights").exception("it failed")


def progress_bar() -> None:
    for percent in (0, 50, 100):
        sys.stderr.write(f"\rloading: {percent:3}%|##| {percent}/100")
        sys.stderr.flush()
    sys.stderr.write("\n")


class Frames(DistributedWorker):
    """Return a dozen frames of 720p, with the input added."""

    def load(self) -> None:
        self.frames = np.zeros((12, 720, 1280, 3), np.uint8)

    def generate(self, input: Any) -> Any:
        self.frames[:, 0, 0, 0] = np.asarray(input).reshape(-1)[0]
        return self.frames


class Sums(DistributedWorker):
    """Add the tensors of all ranks with torch's process group."""

    def generate(self, input: Any) -> Any:
        import torch
        from torch import distributed

        if input == "device":
            return self.device
        total = torch.full((2,), float(input + self.rank))
        distributed.all_reduce(total)
        return total, distributed.get_backend(), distributed.get_world_size()


def own_group() -> int:
    """Make a process group from the environment, as a program does that brings its own."""
    import torch
    from torch import distributed

    distributed.init_process_group("gloo")
    one = torch.ones(1)
    distributed.all_reduce(one)
    return int(one)


def tensors() -> Any:
    import torch

    return {
        "half": torch.ones(3, 4, dtype=torch.bfloat16),
        "empty": torch.empty(0, 2),
        "scalar": torch.tensor(3),
        "large": torch.arange(300_000).reshape(3, -1).T,
        "graph": torch.ones(2, requires_grad=True) * 2,
        "flags": torch.tensor([True, False]),
        "numbers": torch.tensor([1 + 2j]).conj(),
    }
