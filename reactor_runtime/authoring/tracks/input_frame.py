"""`InputFrame`: what a read of an input track returns, an array with the values that its client sent with it."""

from __future__ import annotations

from typing import Any, SupportsIndex, TypeVar

import numpy as np
from numpy.typing import NDArray

Scalar = TypeVar("Scalar", bound=np.generic)


class _PlainResults(np.ndarray[tuple[Any, ...], np.dtype[Scalar]]):
    """An array whose arithmetic, comparisons and reductions give plain arrays."""

    __slots__ = ()
    # The result of joining several is a plain array too.
    __array_priority__ = -1.0

    def __array_wrap__(self, array: Any, context: object = None, return_scalar: bool = False) -> Any:
        # With `out=`, as for `+=`, the array is this one.
        if array is self:
            return array
        # NumPy 1 passes a scalar as an array without dimensions.
        return array[()] if return_scalar or not array.ndim else array.view(np.ndarray)


class InputFrame(_PlainResults[Scalar]):
    """A frame or a piece of sound of a client: an array, with the values that the client sent with it.

    `pts` is its presentation time, in microseconds since the client's start; `capture_time_us` is when it was captured,
    in microseconds since the epoch by the client's clock; `metadata` are bytes of the client. Each is None if the
    client did not send it. `data` is the plain array. Slices and copies keep the values; results of arithmetic are
    plain arrays.

    `==` compares elements, as with any array. Where Python needs one answer, as in `if`, `in`, `remove()` and for keys
    of a dict, a frame equals only itself.
    """

    __slots__ = ("capture_time_us", "metadata", "pts")

    pts: int | None
    metadata: bytes | None
    capture_time_us: int | None

    def __new__(
        cls,
        data: NDArray[Scalar],
        pts: int | None = None,
        metadata: bytes | None = None,
        capture_time_us: int | None = None,
    ) -> InputFrame[Scalar]:
        frame: InputFrame[Scalar] = np.asarray(data).view(cls)
        frame.pts, frame.metadata, frame.capture_time_us = pts, metadata, capture_time_us
        return frame

    def __array_finalize__(self, other: object) -> None:
        if isinstance(other, InputFrame):
            self.pts, self.metadata, self.capture_time_us = other.pts, other.metadata, other.capture_time_us
        else:
            self.pts = self.metadata = self.capture_time_us = None

    @property
    def data(self) -> NDArray[Scalar]:  # type: ignore[override]  # as any array, it supports the buffer protocol
        """Return the plain array, which shares the memory."""
        return self.view(np.ndarray)

    def __eq__(self, other: object) -> Any:
        return self._compare(other, same=True)

    def __ne__(self, other: object) -> Any:
        return self._compare(other, same=False)

    __hash__ = object.__hash__  # type: ignore[assignment]  # arrays have none

    def _compare(self, other: object, *, same: bool) -> Any:
        if not isinstance(other, InputFrame):
            return self.data == other if same else self.data != other
        answer = (self is other) is same
        try:
            elements = self.data == other.data if same else self.data != other.data
        # The frames differ in size.
        except ValueError:
            return np.bool_(answer)
        comparison = elements.view(_Comparison)
        comparison.answer = answer
        return comparison

    def __reduce_ex__(self, _protocol: SupportsIndex) -> tuple[Any, ...]:
        return InputFrame, (self.data, self.pts, self.metadata, self.capture_time_us)


class _Comparison(_PlainResults[np.bool_]):
    """The comparison of the elements of two frames; as a condition it is whether they are the same frame."""

    __slots__ = ("answer",)

    answer: bool | None

    def __array_finalize__(self, other: object) -> None:
        self.answer = None

    def __bool__(self) -> bool:
        return bool(self.view(np.ndarray)) if self.answer is None else self.answer
