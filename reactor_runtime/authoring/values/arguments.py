"""Validates the data of an event: its arguments by name, with all errors at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic_core import ErrorDetails, SchemaValidator, ValidationError, core_schema

from reactor_runtime.authoring.values.bindings import Source
from reactor_runtime.authoring.values.fields import FieldSpec
from reactor_runtime.authoring.values.phrases import phrase, unknown
from reactor_runtime.authoring.values.upload import NO_UPLOADS, UploadedFile
from reactor_runtime.errors import FieldError, InvalidEvent
from reactor_runtime.errors.codes import ErrorCode

_MOST_ERRORS = 100
_LONGEST_NAME = 60


class EventArguments:
    """Validate and describe the arguments of one event. Immutable, so any thread may use it."""

    def __init__(self, event: str, fields: Iterable[FieldSpec], *, all_required: bool = False) -> None:
        self._event = event
        self._fields = tuple(fields)
        self.moderated = tuple(field.name for field in self._fields if field.info.moderate)
        self._required = [field.name for field in self._fields if all_required or field.required]
        members = {field.name: self._member(field) for field in self._fields}
        self._validator = SchemaValidator(
            core_schema.typed_dict_schema(members, extra_behavior="forbid", strict=True),
        )

    def _member(self, field: FieldSpec) -> core_schema.TypedDictField:
        if field.name in self._required:
            return core_schema.typed_dict_field(field.type.core, required=True)
        filled = core_schema.with_default_schema(field.type.core, default=field.default)
        return core_schema.typed_dict_field(filled, required=False)

    @property
    def fields(self) -> tuple[FieldSpec, ...]:
        return self._fields

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(field.name for field in self._fields)

    @property
    def sources(self) -> tuple[Source, ...]:
        """Return the bindings of the arguments."""
        return tuple(source for field in self._fields for source in field.sources)

    @property
    def prominent(self) -> tuple[str, ...]:
        """Return the names of the arguments that are declared prominent."""
        return tuple(field.name for field in self._fields if field.presentation.prominent)

    def completed_by(self, field: FieldSpec) -> EventArguments:
        """Return these arguments; if there is only one, it gets the options of the control of `field`.

        An argument of the same name is moderated if `field` is.
        """
        if len(self._fields) != 1:
            same = [each.moderated_as(field) if each.name == field.name else each for each in self._fields]
            return EventArguments(self._event, same)
        return EventArguments(self._event, [each.completed_by(field) for each in self._fields])

    def validate(self, data_json: str, uploads: Mapping[str, UploadedFile] = NO_UPLOADS) -> dict[str, object]:
        """Convert a JSON object to keyword arguments with defaults; raise InvalidEvent that lists every wrong value."""
        try:
            data = data_json.encode()
        except UnicodeEncodeError as error:
            half = FieldError(self._event, "can't be read as JSON: half a surrogate pair")
            raise InvalidEvent([half]) from error
        try:
            values: dict[str, object] = self._validator.validate_json(data, context=uploads)
        except ValidationError as error:
            raise InvalidEvent(self._field_errors(error), code=_code(error)) from error
        return values

    def _field_errors(self, error: ValidationError) -> list[FieldError]:
        details = error.errors(include_url=False)
        found = [self._field_error(detail) for detail in details[:_MOST_ERRORS]]
        if len(details) > _MOST_ERRORS:
            found.append(FieldError(self._event, f"and {len(details) - _MOST_ERRORS} more errors"))
        return found

    def _field_error(self, detail: ErrorDetails) -> FieldError:
        names = [_shortened(str(part)) for part in detail["loc"]]
        path = ".".join([self._event, *names])
        if detail["type"] == "extra_forbidden" and len(names) == 1:
            return FieldError(path, unknown(names[0], self.names))
        return FieldError(path, phrase(detail))

    def to_json(self) -> dict[str, Any]:
        """Return the JSON Schema of the data object."""
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {field.name: field.to_json() for field in self._fields},
        }
        if self._required:
            schema["required"] = list(self._required)
        return {**schema, "additionalProperties": False}


def _code(error: ValidationError) -> ErrorCode:
    """Return UNRESOLVED_UPLOAD if missing files are the only errors, else INVALID_EVENT."""
    kinds = {detail["type"] for detail in error.errors(include_url=False, include_input=False)}
    return ErrorCode.UNRESOLVED_UPLOAD if kinds == {ErrorCode.UNRESOLVED_UPLOAD} else ErrorCode.INVALID_EVENT


def _shortened(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}…"
