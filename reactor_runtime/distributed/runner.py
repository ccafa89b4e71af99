"""`DistributedRunner`: the object in the author's model that stands for all ranks."""

from __future__ import annotations

import logging
import math
import pickle
import sys
import weakref
from collections.abc import Mapping
from numbers import Real
from typing import Any

from reactor_runtime.distributed.exchange import MessageKind
from reactor_runtime.distributed.owner import current_owner
from reactor_runtime.distributed.packing import PackedValue, pack
from reactor_runtime.distributed.rank_group import RankGroup


class DistributedRunner:
    """Run one instance of a worker class in each of `world_size` processes, the ranks, and call them together.

    A worker has `load(**kwargs)`, `generate(input)`, `reset()` and a constructor without arguments; rank 0 gets CUDA
    device 0, and so on. With several ranks, and unless `init_process_group` is False, torch's default process group is
    there before the worker is made: nccl, or gloo without CUDA. A method may take `call_timeout` seconds, the start
    `start_timeout`. Create the runner in `load()` of the model, and start it there. The processes end with the runner,
    with `shutdown()`, and with this process.

    Raises TypeError for a worker class or `load_kwargs` that can't be pickled, ValueError for a `world_size` that is no
    whole number from 1 or above the number of CUDA devices, where there are any.
    """

    def __init__(
        self,
        worker_cls: type,
        *,
        world_size: int = 1,
        load_kwargs: Mapping[str, Any] | None = None,
        call_timeout: float = 30.0,
        start_timeout: float = 3600.0,
        init_process_group: bool = True,
    ) -> None:
        _check_worker(worker_cls)
        _check_world_size(world_size)
        self._call_timeout_s = _seconds(call_timeout, "call_timeout")
        self._start_timeout_s = _seconds(start_timeout, "start_timeout")
        self._world_size = world_size
        with_group = init_process_group and world_size > 1
        self._load = _pack_load(worker_cls, load_kwargs, with_group=with_group)
        self._group = RankGroup(worker_cls, world_size, with_process_group=with_group)
        self._started = self._loaded = False
        weakref.finalize(self, self._group.shutdown_soon).atexit = False

    @property
    def world_size(self) -> int:
        """Return the number of ranks."""
        return self._world_size

    @property
    def healthy(self) -> bool:
        """Return whether all ranks have loaded, and can be called."""
        return self._loaded and self._group.healthy

    def start(self) -> None:
        """Start the ranks, and wait until each has loaded its worker.

        If `load()` of all workers raises the same type of exception, that of rank 0 is raised; the other errors are
        those of `generate`. The ranks have then ended. Raises RuntimeError the second time.
        """
        if self._started or not self._group.healthy:
            raise RuntimeError("the runner was started before, or has been shut down; make another one")
        self._started = True
        self._group.start(
            self._load,
            timeout_s=self._start_timeout_s,
            call_timeout_s=self._call_timeout_s,
            owner=current_owner(),
        )
        self._loaded = True

    def generate(self, input: Any) -> Any:
        """Call `generate(input)` of all workers with a copy of `input`, and return a copy of the result of rank 0.

        Tensors arrive on the CPU, wherever they were, without their gradients. Calls from several threads are made one
        after the other.

        Raises TypeError if `input` or the result can't be pickled, and SharedSlotAllocationFailed without shared
        memory. If all workers raise the same type of exception, that of rank 0 is raised, with the traceback of the
        rank as its cause. The runner can be used again after these. It is unhealthy after WorkerCrashed,
        WorkerTimeout and RankDesync, and raises RuntimeError from then on.
        """
        return self._call(MessageKind.GENERATE, pack(input, "the input"))

    def reset(self) -> None:
        """Call `reset()` of all workers; errors as in `generate`."""
        self._call(MessageKind.RESET, pack(None, "nothing"))

    def shutdown(self) -> None:
        """End the ranks after the call that they compute, and kill those that have not ended after 30 s.

        Any thread, any number of times; a call that waits raises RuntimeError.
        """
        self._group.shutdown()

    def _call(self, kind: MessageKind, value: PackedValue) -> Any:
        if not self._loaded:
            raise RuntimeError("the runner has not started: call start() in load()")
        return self._group.call(kind, value, self._call_timeout_s)


def _check_worker(worker_cls: object) -> None:
    if not isinstance(worker_cls, type):
        raise TypeError(f"worker_cls must be a class, not {worker_cls!r}")
    for method in ("load", "generate"):
        if not callable(getattr(worker_cls, method, None)):
            raise TypeError(f"{worker_cls.__name__} has no method {method}()")
    try:
        pickle.dumps(worker_cls)
    except Exception as error:
        raise TypeError(
            f"{worker_cls.__qualname__} must be defined at the top level of a module that can be imported: {error}"
        ) from error


def _check_world_size(world_size: object) -> None:
    if not isinstance(world_size, int) or isinstance(world_size, bool) or world_size < 1:
        raise ValueError(f"world_size must be a whole number from 1, not {world_size!r}")
    devices = _cuda_devices() if world_size > 1 else 0
    if 0 < devices < world_size:
        raise ValueError(
            f"world_size is {world_size}, and the number of visible CUDA devices is {devices}: give each rank one, "
            "or set CUDA_VISIBLE_DEVICES=-1 to have all ranks on the CPU"
        )


def _cuda_devices() -> int:
    """Return the number of visible CUDA devices; 0 without CUDA or without torch."""
    try:
        import torch
    except ImportError:
        return 0
    return int(torch.cuda.device_count())


def _seconds(value: object, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or math.isnan(value) or value <= 0:
        raise ValueError(f"{name} must be a number of seconds above 0, not {value!r}")
    return float(value)


def _pack_load(worker_cls: type, load_kwargs: Mapping[str, Any] | None, *, with_group: bool) -> PackedValue:
    kwargs = dict(load_kwargs or {})
    if wrong := [key for key in kwargs if not isinstance(key, str)]:
        raise TypeError(f"load_kwargs are keyword arguments of load(), and {wrong[0]!r} is no name")
    worker = pack((worker_cls, kwargs), "load_kwargs")
    setup = {
        "path": list(sys.path),
        "main": _main_of(worker_cls),
        "log_level": logging.getLevelName(logging.getLogger().getEffectiveLevel()),
        "with_group": with_group,
    }
    # The class can be found only after the rank has set its path.
    return pack((setup, worker.body, [bytes(each) for each in worker.buffers]), "load_kwargs")


def _main_of(worker_cls: type) -> tuple[str, str] | None:
    """Return how a rank finds the main module, if the class is defined there: the name of the module, or its file."""
    if worker_cls.__module__ != "__main__":
        return None
    main = sys.modules["__main__"]
    if (spec := main.__spec__) is not None:
        return "module", spec.name
    file = getattr(main, "__file__", None)
    if file is None:
        raise TypeError(f"{worker_cls.__name__} must be defined in a file, because the ranks import it")
    return "file", str(file)
