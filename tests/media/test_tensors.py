from __future__ import annotations

import numpy as np
import pytest

from reactor_runtime.media.tensors import copied, to_host, torch_of
from tests.torched import DEVICES, torch


def test_a_tensor_knows_its_torch_and_nothing_else_does() -> None:
    assert torch_of(torch.zeros(1)) is torch
    assert torch_of(np.zeros(1)) is None
    assert torch_of(None) is None


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["uint8", "int16"])
def test_a_tensor_of_any_strides_comes_to_the_host(dtype: str, device: str) -> None:
    values = np.arange(2 * 4 * 6 * 3).reshape(2, 4, 6, 3).astype(dtype)
    tensor = torch.from_numpy(values.transpose(0, 3, 1, 2).copy()).to(device).permute(0, 2, 3, 1)
    assert np.array_equal(to_host(torch, tensor[:, ::2, 1:].flip(1)), values[:, ::2, 1:][:, ::-1])


@pytest.mark.parametrize("device", DEVICES)
def test_what_the_device_still_computes_is_waited_for(device: str) -> None:
    size = 64 if device == "cpu" else 4096
    matrix = torch.eye(size, device=device)
    for _ in range(50):
        matrix = matrix @ matrix
    assert np.array_equal(to_host(torch, (matrix * 200).to(torch.uint8)), 200 * np.eye(size, dtype=np.uint8))


def test_on_the_cpu_nothing_is_copied() -> None:
    tensor = torch.zeros(2, 3, dtype=torch.uint8)
    assert to_host(torch, tensor).ctypes.data == tensor.data_ptr()


@pytest.mark.parametrize("device", DEVICES)
def test_a_copy_stays_on_its_device_and_as_it_was(device: str) -> None:
    tensor = torch.ones(3, device=device, requires_grad=True) * 2
    twin = copied(tensor)
    tensor.detach().zero_()
    assert isinstance(twin, torch.Tensor)
    assert twin.device == tensor.device
    assert twin.tolist() == [2, 2, 2]


def test_what_is_no_tensor_is_not_copied() -> None:
    value = object()
    assert copied(value) is value


if torch.cuda.is_available():  # not skipped elsewhere but not there: nothing of it can be tested on a CPU

    def test_an_array_stays_as_it_was_while_others_come() -> None:
        tensor = torch.zeros(4, 64, 64, 3, dtype=torch.uint8, device="cuda")
        arrays = []
        for value in range(8):
            tensor.fill_(value)
            arrays.append(to_host(torch, tensor)[1:])
        assert [int(array.min()) for array in arrays] == [int(array.max()) for array in arrays] == list(range(8))

    def test_the_memory_is_pinned_and_used_again() -> None:
        tensor = torch.zeros(64, 64, 3, dtype=torch.uint8, device="cuda")
        array = to_host(torch, tensor)
        address = array.ctypes.data
        assert torch.from_numpy(array).is_pinned()
        del array
        torch.cuda.synchronize()
        assert to_host(torch, tensor).ctypes.data == address

    def test_the_stream_the_author_computes_on_is_waited_for() -> None:
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            tensor = torch.zeros(64, 64, 3, dtype=torch.uint8, device="cuda")
            torch.cuda._sleep(100_000_000)
            tensor.fill_(7)
            assert (to_host(torch, tensor) == 7).all()
