"""Makes the classes authors declare dataclasses, whether or not they write `@dataclass` themselves.

It has to wait: the decorator runs after `__init_subclass__`, may say `frozen`, `kw_only` or `slots`, and keeps methods
it finds. So a class becomes a dataclass when someone first looks at its fields or makes an instance.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar, Self

_FIELDS = "__dataclass_fields__"


class Record:
    """Give each subclass the fields its body annotates."""

    __slots__ = ()

    if TYPE_CHECKING:
        __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]
    else:

        def __new__(cls, *_args: object, **_named: object) -> Self:
            settle(cls)
            return super().__new__(cls)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if Record not in cls.__bases__ and not is_clone(cls):  # ours are no dataclasses, so authors' may be frozen
            setattr(cls, _FIELDS, _Unsettled())


class _Unsettled:
    """Stand where the fields will be, until someone looks."""

    def __get__(self, instance: object, owner: type) -> dict[str, dataclasses.Field[Any]]:
        settle(owner)
        fields: dict[str, dataclasses.Field[Any]] = vars(owner)[_FIELDS]
        return fields


def settle(cls: type) -> None:
    """Make the class a dataclass unless it is one already."""
    if isinstance(vars(cls).get(_FIELDS), _Unsettled):
        dataclasses.dataclass(cls)


def is_clone(cls: type) -> bool:
    """Tell whether `@dataclass(slots=True)` is defining a finished class a second time, its defaults taken out."""
    return isinstance(vars(cls).get(_FIELDS), dict)


def merged(cls: type, attribute: str) -> dict[str, Any]:
    """Join the dict each class up the MRO keeps under `attribute`, parents first; the nearest class wins."""
    found: dict[str, Any] = {}
    for owner in reversed(cls.__mro__):
        found.update(vars(owner).get(attribute, {}))
    return found
