"""Makes dataclasses of the classes that authors declare, with or without their own `@dataclass`.

The decorator runs after `__init_subclass__`, and may set `frozen`, `kw_only` or `slots`. So a class becomes a dataclass
only when its fields are first read or an instance is created.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import KW_ONLY, MISSING
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self

from reactor_runtime.authoring.code.annotations import own_annotations
from reactor_runtime.authoring.code.source import declared_at

_FIELDS = "__dataclass_fields__"


class Record:
    """Make each subclass a dataclass of the fields its body annotates."""

    __slots__ = ()

    # The tracks of an Input or Output.
    __tracks__: ClassVar[Mapping[str, Any]] = MappingProxyType({})

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


def put_required_first(cls: type) -> None:
    """Move the fields of a class body that have no default before those that have one, as dataclasses require.

    If a parent has fields with defaults, they become keyword-only. Call it in `__init_subclass__`: the author's own
    `@dataclass` comes later.
    """
    annotations = own_annotations(cls)
    if any(annotation in (KW_ONLY, "KW_ONLY") for annotation in annotations.values()):
        return
    required = [name for name in annotations if _lacks_default(getattr(cls, name, MISSING))]
    ordered = {name: annotations[name] for name in (*required, *annotations)}
    if list(ordered) != list(annotations):
        cls.__annotations__ = ordered
    if all(_lacks_default(field) for field in _inherited(cls)):
        return
    for name in required:
        if "ClassVar" not in str(annotations[name]):
            setattr(cls, name, dataclasses.field(kw_only=True))


def _lacks_default(value: object) -> bool:
    if isinstance(value, dataclasses.Field):
        return value.default is MISSING and value.default_factory is MISSING
    return value is MISSING


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
