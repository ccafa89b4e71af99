"""torch tensors, without importing torch, which takes seconds: a tensor exists only if the author imported it.

Values of torch are `Any` to type checkers, so that they do not need torch either.
"""

from __future__ import annotations

import sys
from typing import Any

from numpy.typing import NDArray

Torch = Any
Tensor = Any


def torch_of(value: object) -> Torch | None:
    """Return the torch module if the value is a tensor, else None."""
    torch: Torch = sys.modules.get("torch")
    return torch if torch is not None and isinstance(value, torch.Tensor) else None


def synchronize() -> None:
    """Wait for the work that this process has queued on CUDA; do nothing if there is none."""
    torch: Torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.synchronize()


def copied(value: object) -> object:
    """Return a copy of a tensor on its own device; return anything else unchanged."""
    tensor: Tensor = value
    return value if torch_of(value) is None else tensor.detach().clone()


def to_host(torch: Torch, tensor: Tensor) -> NDArray[Any]:
    """Wait for the tensor's device and return its values; on the CPU they are the tensor's own memory.

    From CUDA they are copied once into pinned memory, after the work queued on the current stream; the thread sleeps
    meanwhile. torch reuses that memory when the array and all its views are gone.
    """
    tensor = tensor.detach()
    if tensor.is_cuda:
        host = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu", pin_memory=True)
        host.copy_(tensor, non_blocking=True)
        # Other events spin, on a core that encoding could use.
        done = torch.cuda.Event(blocking=True)
        done.record(torch.cuda.current_stream(tensor.device))
        done.synchronize()
        tensor = host
    array: NDArray[Any] = tensor.cpu().numpy()
    return array
