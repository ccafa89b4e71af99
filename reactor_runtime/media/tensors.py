"""torch tensors, known to those who imported torch and to nobody else: importing it costs seconds.

What comes out of torch is `Any` to type checkers, so that they need no torch either.
"""

from __future__ import annotations

import sys
from typing import Any

from numpy.typing import NDArray

Torch = Any
Tensor = Any


def torch_of(value: object) -> Torch | None:
    """Return the torch module if the value is a tensor of it; a value can only be one where torch was imported."""
    torch: Torch = sys.modules.get("torch")
    return torch if torch is not None and isinstance(value, torch.Tensor) else None


def copied(value: object) -> object:
    """Return a copy of a tensor, on its own device, and anything else as it is."""
    tensor: Tensor = value
    return value if torch_of(value) is None else tensor.detach().clone()


def to_host(torch: Torch, tensor: Tensor) -> NDArray[Any]:
    """Return what the tensor holds once its device has computed it; on the CPU it is the tensor's own memory.

    From CUDA it is one copy, ordered after what the current stream has been given, into pinned memory. That memory is
    torch's to use again, for the next tensor, when the array and all views of it are gone. The thread sleeps meanwhile.
    """
    tensor = tensor.detach()
    if tensor.is_cuda:
        host = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu", pin_memory=True)
        host.copy_(tensor, non_blocking=True)
        done = torch.cuda.Event(blocking=True)  # the others spin, on a core that encoding could use
        done.record(torch.cuda.current_stream(tensor.device))
        done.synchronize()
        tensor = host
    array: NDArray[Any] = tensor.cpu().numpy()
    return array
