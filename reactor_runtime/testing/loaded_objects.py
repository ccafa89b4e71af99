"""The objects that `load()` has made, and which a session has changed: sessions of one loaded model share them."""

from __future__ import annotations

import inspect
import random
import sys
import zlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from reactor_runtime.authoring.code.source import location_of
from reactor_runtime.authoring.contract import Contract
from reactor_runtime.errors import ReactorError

MOST_OBJECTS = 100_000
# Of arrays; those beyond are compared by their references alone.
MOST_BYTES = 1 << 30
MOST_REPORTED = 5
HINT = "make it in @connected or at the start of the session, or assign a new object to the attribute of self"
# Their values are compared, not their identity.
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


@dataclass(frozen=True, slots=True)
class _Found:
    path: str
    value: Any
    mark: object


class LoadedObjects:
    """Keep what can be reached from the attributes of a loaded model, and in which state each object was."""

    def __init__(self, model: object) -> None:
        self._bytes_left = MOST_BYTES
        self._found: list[_Found] = []
        seen: set[int] = set()
        waiting = deque(
            (f"self.{name}", value) for name, value in vars(model).items() if not name.startswith("_reactor_")
        )
        while waiting and len(self._found) < MOST_OBJECTS:
            path, value = waiting.popleft()
            if id(value) in seen or value is model or isinstance(value, _PLAIN):
                continue
            seen.add(id(value))
            mark, children = self._read(value)
            if mark is not None:
                self._found.append(_Found(path, value, mark))
                waiting.extend((path + suffix, child) for suffix, child in children)

    def changed(self) -> list[tuple[str, object]]:
        """Return the paths of the objects that are not as they were, and the objects."""
        self._bytes_left = MOST_BYTES
        return [(each.path, each.value) for each in self._found if self._read(each.value)[0] != each.mark]

    def _read(self, value: Any) -> tuple[object, Iterator[tuple[str, Any]]]:
        """Return what tells whether an object has changed, None if it can't, and the objects in it."""
        match value:
            case list() | tuple() | deque():
                return _marks(value), ((f"[{index}]", each) for index, each in enumerate(value))
            case dict():
                return _marks([*value, *value.values()]), ((f"[{key!r:.30}]", each) for key, each in value.items())
            case set() | frozenset():
                return frozenset(map(_mark, value)), iter(())
            case bytearray():
                return bytes(value), iter(())
            case np.ndarray():
                return self._array(value), iter(())
            case np.random.Generator():
                return repr(value.bit_generator.state), iter(())
            case np.random.RandomState():
                return repr(value.get_state()), iter(())
            case random.Random():
                return value.getstate(), iter(())
        kind = type(value)
        if kind.__module__.partition(".")[0] == "torch" and hasattr(value, "data_ptr"):
            return (_version(value), self._content(value)), iter(())
        attributes = getattr(value, "__dict__", None)
        # Ours are those of each session, as `self.input`, or may be shared, as a runner.
        is_ours = kind.__module__.partition(".")[0] == "reactor_runtime"
        if (
            is_ours
            or isinstance(value, type | ModuleType)
            or inspect.isroutine(value)
            or not isinstance(attributes, dict)
        ):
            return None, iter(())
        return _marks([*attributes, *attributes.values()]), ((f".{name}", each) for name, each in attributes.items())

    def _array(self, array: Any) -> object:
        if not array.flags.writeable or array.dtype.hasobject or array.nbytes > self._bytes_left:
            return array.shape
        self._bytes_left -= array.nbytes
        return array.shape, zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)

    def _content(self, tensor: Any) -> int:
        """Return a checksum of a tensor on the CPU: some operations, as that of BatchNorm, are not counted."""
        if tensor.device.type != "cpu" or tensor.layout != sys.modules["torch"].strided or tensor.is_quantized:
            return 0
        size = tensor.numel() * tensor.element_size()
        if size > self._bytes_left:
            return 0
        self._bytes_left -= size
        values = tensor.detach().contiguous().reshape(-1).view(sys.modules["torch"].uint8)
        return zlib.crc32(values.numpy())


def shared_writes(loaded: LoadedObjects, contract: Contract) -> list[ReactorError]:
    """Return a warning for each object of `load()` that a session has changed, at most five."""
    where = location_of(contract.model, contract.style.frames_method)
    return [
        ReactorError(
            f"{path}: a session has changed this {type(value).__name__} of load(), which all sessions share",
            hint=HINT,
            where=where,
        )
        for path, value in loaded.changed()[:MOST_REPORTED]
    ]


def _mark(value: object) -> object:
    return value if isinstance(value, _PLAIN) else id(value)


def _marks(values: Any) -> tuple[object, ...]:
    # The type too: 1 and True are equal.
    return tuple((type(value), _mark(value)) for value in values)


def _version(tensor: Any) -> object:
    """Return the number of times that a tensor was changed in place, as torch counts them."""
    try:
        return tensor._version
    # Torch counts none for a tensor of `inference_mode`.
    except RuntimeError:
        return tensor.data_ptr()
