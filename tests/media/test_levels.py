"""The two ways to levels, which have to lead to the same ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from reactor_runtime.media.levels import levels, levels_on_device
from tests.torched import DEVICES, FLOATS, torch

RANGES = [(-1.0, 1.0), (0.0, 1.0), (0.0, 255.0), (-0.3, 7.7)]
ODD = [np.nan, np.inf, -np.inf, -0.0, 1e-40, 3e38, -3e38]


@given(data=st.data(), value_range=st.sampled_from(RANGES), dtype=st.sampled_from(FLOATS))
@pytest.mark.parametrize("device", DEVICES)
def test_a_device_makes_the_levels_numpy_makes(
    device: str, data: Any, value_range: tuple[float, float], dtype: str
) -> None:
    shape = data.draw(arrays.array_shapes(min_dims=2, max_dims=3, max_side=4))
    values = data.draw(arrays.arrays(np.float64, (*shape, 3), elements=elements()))
    tensor = torch.from_numpy(values).to(getattr(torch, dtype))
    made = levels_on_device(torch, tensor.to(device), *value_range)
    assert np.array_equal(made.cpu().numpy(), levels(tensor.double().numpy(), *value_range))


def elements() -> st.SearchStrategy[float]:
    return st.floats(-2, 9) | st.floats(-300, 300) | st.sampled_from(ODD)


@pytest.mark.parametrize("device", DEVICES)
def test_half_way_goes_to_the_even_level(device: str) -> None:
    values = np.array([0.5, 1.5, 2.5, 127.5, 253.5, 254.5]).reshape(2, 1, 3)
    expected = np.array([0, 2, 2, 128, 254, 254]).reshape(2, 1, 3)
    assert np.array_equal(levels(values, 0, 255), expected)
    assert np.array_equal(levels_on_device(torch, torch.from_numpy(values).to(device), 0, 255).cpu(), expected)


@pytest.mark.parametrize("device", DEVICES)
def test_what_is_no_number_in_the_range_becomes_an_end(device: str) -> None:
    values = np.array([np.nan, -np.inf, np.inf, -2, 2, 1e30]).reshape(1, 2, 3)
    expected = np.array([0, 0, 255, 0, 255, 255]).reshape(1, 2, 3)
    assert np.array_equal(levels(values, -1, 1), expected)
    assert np.array_equal(levels_on_device(torch, torch.from_numpy(values).to(device), -1, 1).cpu(), expected)


@pytest.mark.parametrize("device", DEVICES)
def test_gray_and_uint8_are_shown_as_they_are(device: str) -> None:
    gray = np.arange(24, dtype=np.uint8).reshape(2, 3, 4, 1)
    expected = np.repeat(gray, 3, axis=-1)
    assert np.array_equal(levels(gray, -1, 1), expected)
    made = levels_on_device(torch, torch.from_numpy(gray).to(device), -1, 1)
    assert np.array_equal(made.cpu().numpy(), expected)
    assert made.is_contiguous()


def test_the_bits_of_a_bfloat16_are_its_value() -> None:
    tensor = torch.linspace(-2, 2, 300).bfloat16().reshape(10, 10, 3)
    bits = tensor.view(torch.uint16).numpy()
    assert np.array_equal(levels(bits, -1, 1), levels(tensor.float().numpy(), -1, 1))
