"""Which items are decoded before somebody reads them: those that arrive while a model polls with `try_read`.

Such an item is on hold in the backlog until it is decoded, so that whoever polls never decodes on the model's thread.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from reactor_runtime.authoring.backlog import Backlog, Item

T = TypeVar("T")

_PATIENCE = 8  # items decoded since the last poll, after which whoever polled is taken to have stopped


class Ahead(Generic[T]):
    """Choose one item at a time: the newest arrival, once the one before is done. Those in between are just shown."""

    def __init__(self, backlog: Backlog[T]) -> None:
        self._backlog = backlog
        self._item: Item[T] | None = None
        self._left = 0

    def polled(self) -> None:
        """Note that somebody polls."""
        self._left = _PATIENCE

    def stop(self) -> None:
        """Decode nothing more until somebody polls."""
        self._left = 0

    def forget(self) -> None:
        """Let go of the item that is being decoded, for it has been cleared or shown."""
        self._item = None

    def holds(self, item: Item[T]) -> bool:
        """Tell whether an item that arrives is to be decoded before it is shown."""
        return self._left > 0 and not item.decoded

    def begin(self) -> Item[T] | None:
        """Return the item to decode, unless one is being decoded or none is on hold."""
        if self._item is not None:
            return None
        self._item = self._backlog.held()
        return self._item

    def is_current(self, item: Item[T]) -> bool:
        return self._item is item

    def finish(self, item: Item[T], *, good: bool) -> Item[T] | None:
        """Show a decoded item, or drop a bad one, and return the item to decode next."""
        if good:
            self._backlog.show(item)
        else:
            self._backlog.drop(item)
        self._item = None
        self._left -= 1
        newest = self._backlog.held()
        if newest is not None and not self.holds(newest):
            self._backlog.show(newest)
        return self.begin()
