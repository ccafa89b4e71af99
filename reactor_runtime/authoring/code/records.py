"""Makes dataclasses of the classes that authors declare, with or without their own `@dataclass`.

The decorator runs after `__init_subclass__`, and may set `frozen`, `kw_only` or `slots`. So a class becomes a dataclass
only when its fields are first read or an instance is created.
"""

from __future__ import annotations

import dataclasses
from dataclasses import KW_ONLY, MISSING
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self

from reactor_runtime.authoring.code.annotations import own_annotations
from reactor_runtime.authoring.code.source import declared_at

_FIELDS = "__dataclass_fields__"


class Record:
    """Make each subclass a dataclass of the fields its body annotates."""

    __slots__ = ()

    if TYPE_CHECKING:
        __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]
    else:

        def __new__(cls, *_args: object, **_named: object) -> Self:
            make_dataclass(cls)
            return super().__new__(cls)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # Our own classes are not dataclasses, so that authors' classes may be frozen.
        if Record not in cls.__bases__ and not is_clone(cls):
            setattr(cls, _FIELDS, _PendingDataclass())


class _PendingDataclass:
    """Make the class a dataclass when its fields are first read."""

    def __get__(self, instance: object, owner: type) -> dict[str, dataclasses.Field[Any]]:
        make_dataclass(owner)
        fields: dict[str, dataclasses.Field[Any]] = vars(owner)[_FIELDS]
        return fields


def make_dataclass(cls: type) -> None:
    """Make the class a dataclass unless it is one; raise TypeError that names the wrong field."""
    if not isinstance(vars(cls).get(_FIELDS), _PendingDataclass):
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
    """Raise dataclass's error about the order of fields, with the class and the location of the field."""
    with declared_at(cls, _out_of_order(cls)):
        raise TypeError(f"{cls.__name__}: {error}; put it first, or give it a default") from error


def refuse_mutable(cls: type, name: str, default: object) -> None:
    """Raise TypeError for a mutable default, which all instances would share."""
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
    """Return the first field without a default that follows a field with one."""
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
    """Return whether the class is the copy that `@dataclass(slots=True)` defines, without defaults."""
    return isinstance(vars(cls).get(_FIELDS), dict)


def merged_over_mro(cls: type, attribute: str) -> dict[str, Any]:
    """Merge the dicts that the classes of the MRO store as `attribute`, parents first; the nearest class wins."""
    found: dict[str, Any] = {}
    for owner in reversed(cls.__mro__):
        found.update(vars(owner).get(attribute, {}))
    return found
