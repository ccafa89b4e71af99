"""Messages between processes of a cluster as JSON texts, one object each: `type` names the class. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Generic, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from reactor_runtime.errors import ReactorError

T = TypeVar("T")


class BadMessage(ReactorError):
    """Report a message that can't be decoded, usually because the peer runs another version."""


class MessageCodec(Generic[T]):
    """Encode and decode messages of the given dataclasses."""

    def __init__(self, kinds: Mapping[str, type[Any]]) -> None:
        self._names = {kind: name for name, kind in kinds.items()}
        self._adapters = {name: TypeAdapter(kind) for name, kind in kinds.items()}

    def encode(self, message: T) -> str:
        """Return the text of a message, without a line break."""
        return json.dumps({"type": self._names[type(message)], **asdict(cast("Any", message))}, separators=(",", ":"))

    def decode(self, text: str | bytes) -> T:
        """Return a message. Raises BadMessage."""
        try:
            fields = json.loads(text)
            name = fields.pop("type")
            if name not in self._adapters:
                raise BadMessage(f"unexpected message {name!r}")
            message: T = self._adapters[name].validate_python(fields)
        except ValidationError as error:
            # Its own text has the values, which may be secrets.
            why = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
            raise BadMessage(f"a message can't be decoded: {name}: {why}") from None
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            raise BadMessage(f"a message can't be decoded: {error}") from None
        return message
