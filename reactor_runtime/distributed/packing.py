"""Values as bytes: pickle protocol 5, with large buffers of arrays and tensors beside the bytes."""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from reactor_runtime.media.tensors import Tensor, Torch, to_host

# Smaller buffers are as fast in the socket.
LARGE_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class PackedValue:
    """Hold a pickled value, and the large buffers that are not in its bytes."""

    body: bytes
    buffers: Sequence[memoryview] = ()

    @property
    def sizes(self) -> list[int]:
        return [buffer.nbytes for buffer in self.buffers]


def pack(value: object, what: str) -> PackedValue:
    """Pickle a value; raise TypeError, which names it by `what`, if that is not possible."""
    file = io.BytesIO()
    pickler = _Pickler(file)
    try:
        pickler.dump(value)
    # Pickle, and the methods of the author's objects that it calls, raise anything.
    except Exception as error:
        raise TypeError(f"{what} can't be sent to another process: {error}") from error
    return PackedValue(file.getvalue(), pickler.buffers)


def unpack(body: bytes | bytearray, buffers: Sequence[memoryview] = ()) -> Any:
    """Return a copy of the value that was packed; its arrays are its own."""
    return pickle.loads(body, buffers=buffers)


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=5, buffer_callback=self._is_small)
        self.buffers: list[memoryview] = []

    def reducer_override(self, value: Any) -> Any:
        if type(value) is np.ndarray:
            # Pickle would copy the elements of other arrays one by one into its bytes.
            flags = value.flags
            if value.nbytes >= LARGE_BYTES and not (flags.c_contiguous or flags.f_contiguous or value.dtype.hasobject):
                return np.ascontiguousarray(value).__reduce_ex__(5)
            return NotImplemented
        torch: Torch = sys.modules.get("torch")
        if torch is not None and type(value) is torch.Tensor and _is_plain(torch, value):
            return _reduce_tensor(torch, value)
        return NotImplemented

    def _is_small(self, buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < LARGE_BYTES:
            return True
        self.buffers.append(raw)
        return False


def _is_plain(torch: Torch, tensor: Tensor) -> bool:
    """Return whether the values are in memory that can be read; pickle fails or succeeds with other tensors itself."""
    return tensor.layout is torch.strided and not tensor.is_quantized and tensor.device.type != "meta"


def _reduce_tensor(torch: Torch, tensor: Tensor) -> Any:
    """Reduce a tensor to its bytes on the CPU; without this a tensor of a GPU would be made on the reader's GPU."""
    plain = tensor.detach().resolve_conj().resolve_neg().contiguous()
    values = to_host(torch, plain.reshape(-1).view(torch.uint8))
    return _to_tensor, (pickle.PickleBuffer(values.data), str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape))


def _to_tensor(values: Any, dtype: str, shape: tuple[int, ...]) -> Tensor:
    import torch

    kind = getattr(torch, dtype)
    if not len(values):
        return torch.empty(shape, dtype=kind)
    return torch.frombuffer(values, dtype=torch.uint8).view(kind).reshape(shape)
