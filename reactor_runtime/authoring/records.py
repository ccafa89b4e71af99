"""Makes the classes authors declare dataclasses, whether or not they write `@dataclass` themselves.

It has to wait: the decorator runs after `__init_subclass__`, may say `frozen`, `kw_only` or `slots`, and keeps methods
it finds. So a class becomes a dataclass when someone first looks at its fields or makes an instance.
"""

from __future__ import annotations

import dataclasses
from dataclasses import KW_ONLY, MISSING
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self

from reactor_runtime.authoring.annotations import own_annotations
from reactor_runtime.authoring.source import declared_at

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
    """Make the class a dataclass unless it is one already; TypeError naming the field that stands in the way."""
    if not isinstance(vars(cls).get(_FIELDS), _Unsettled):
        return
    try:
        dataclasses.dataclass(cls)
    except ValueError:
        for name in own_annotations(cls):
            refuse_mutable(cls, name, vars(cls).get(name))
        raise
    except TypeError as error:
        refuse_order(cls, error)


def refuse_order(cls: type, error: TypeError) -> NoReturn:
    """Raise what dataclass says of fields in the wrong order, with the class and at the field it is about."""
    with declared_at(cls, _out_of_order(cls)):
        raise TypeError(f"{cls.__name__}: {error}; put it first, or give it a default") from error


def refuse_mutable(cls: type, name: str, default: object) -> None:
    """Raise TypeError for a default that all instances would share and one could change."""
    if type(default).__hash__ is None and not isinstance(default, dataclasses.Field):
        with declared_at(cls, name):
            raise TypeError(
                f"{cls.__name__}.{name}: the default {default!r} is mutable and would be shared; "
                f"use dataclasses.field(default_factory={_maker(default)})"
            )


def _maker(default: object) -> str:
    empty = isinstance(default, list | dict | set) and not default
    return type(default).__name__ if empty else f"lambda: {default!r}"


def _out_of_order(cls: type) -> str:
    """Name the first field without a default after one that has one."""
    optional = any(field.default is not MISSING for field in _inherited(cls))
    for name, annotation in own_annotations(cls).items():
        if annotation is KW_ONLY or annotation == "KW_ONLY":
            break
        if name in vars(cls):
            optional = True
        elif optional:
            return name
    return ""


def _inherited(cls: type) -> list[dataclasses.Field[Any]]:
    return [
        field for parent in cls.__bases__ if dataclasses.is_dataclass(parent) for field in dataclasses.fields(parent)
    ]


def is_clone(cls: type) -> bool:
    """Tell whether `@dataclass(slots=True)` is defining a finished class a second time, its defaults taken out."""
    return isinstance(vars(cls).get(_FIELDS), dict)


def merged(cls: type, attribute: str) -> dict[str, Any]:
    """Join the dict each class up the MRO keeps under `attribute`, parents first; the nearest class wins."""
    found: dict[str, Any] = {}
    for owner in reversed(cls.__mro__):
        found.update(vars(owner).get(attribute, {}))
    return found
