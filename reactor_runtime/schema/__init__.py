"""Documents and typed clients of a model, from its class alone, without `load()`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from reactor_runtime import manifest
from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.importing import import_class
from reactor_runtime.authoring.model_config import model_config
from reactor_runtime.authoring.presets import NO_PRESETS, Presets, check_presets
from reactor_runtime.config import GivenConfig
from reactor_runtime.schema import typed_python, typed_typescript
from reactor_runtime.version import version as own_version
from reactor_runtime.wire import openapi


def contract_of(
    project: Path, module_name: str, class_name: str, presets: Presets = NO_PRESETS, config: GivenConfig | None = None
) -> Contract:
    """Import the class and check it, as the engine does before `load()`.

    Raises ClassError for the class, ManifestError for the presets and ConfigError for a config that can't be read.
    """
    contract = Contract.of(import_class(project, module_name, class_name))
    contract.style.check_finished(contract.model)
    check_presets(contract, presets, project)
    model_config(contract.model, config or GivenConfig({}), project)
    return contract


def document(name: str, contract: Contract) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of a model called `name`, as its server returns it from `/schema`."""
    return openapi.document(name, own_version(), contract.to_json())


class RenderedSchema:
    """Hold the schema of a model for `to_openapi()`, as programs for 3.x render it."""

    def __init__(self, contract: Contract, *, name: str = "", version: str = "") -> None:
        self._contract = contract
        self._name = name or contract.declared_name or manifest.kebab_case(contract.model.__name__)
        self._version = version or own_version()

    def to_openapi(self) -> dict[str, Any]:
        """Return the document of `/schema` with an operation for each event and a webhook for each message."""
        described = self._contract.to_json()
        document = openapi.document(self._name, self._version, described)
        tracks = [{key: track[key] for key in ("name", "kind", "direction")} for track in described["tracks"]]
        return {
            **document,
            "paths": {**document["paths"], **openapi.event_paths(described)},
            "webhooks": openapi.webhooks(described),
            "x-reactor": {**document["x-reactor"], "tracks": tracks},
        }


def render(project: str | Path, *, version: str = "") -> RenderedSchema:
    """Return the schema of the project in a directory; `version` is that of the document.

    Raises ManifestError or ClassError if it can't be served.
    """
    found = manifest.load(Path(project))
    with manifest.pointing_at(found):
        contract = contract_of(found.project, found.module, found.class_name, found.page_settings.presets)
    return RenderedSchema(contract, name=found.name_with(contract.declared_name), version=version)


def written(format: str, name: str, contract: Contract) -> str:
    """Return the document, or a typed client module, as text; `format` is `openapi`, `python` or `typescript`."""
    if format == "openapi":
        return json.dumps(document(name, contract), indent=2) + "\n"
    modules = {"python": typed_python.module, "typescript": typed_typescript.module}
    return modules[format](name, contract.to_json())


def outline(name: str, contract: Contract) -> dict[str, Any]:
    """Describe the model in JSON values; `fps` is None if the rate follows the compute time."""
    described = contract.to_json()
    return {
        "name": name,
        "fps": contract.fps,
        "max_fps": contract.max_fps,
        "buffer_size": contract.buffer_size,
        **({"seats": contract.seats} if contract.seats > 1 else {}),
        "tracks": described["tracks"],
        "events": described["schema"]["events"],
        "messages": described["schema"]["messages"],
        "state": described["schema"].get("state", {}),
    }
