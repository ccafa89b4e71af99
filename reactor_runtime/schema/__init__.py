"""What can be said of a model from its class alone, without `load()`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from reactor_runtime.authoring.block import starting_config
from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.importing import import_class
from reactor_runtime.schema import typed_python, typed_typescript
from reactor_runtime.version import version
from reactor_runtime.wire import openapi


def contract_of(project: Path, module_name: str, class_name: str) -> Contract:
    """Import the class and check all of it, as the engine does before `load()`.

    ClassError says what is wrong, ConfigError what is with the config that `@model` names.
    """
    contract = Contract.of(import_class(project, module_name, class_name))
    contract.style.check_finished(contract.model)
    starting_config(contract.model, project)
    return contract


def document(name: str, contract: Contract) -> dict[str, Any]:
    """Write the OpenAPI 3.1 document of a model called `name`, the same that its server gives at `/schema`."""
    return openapi.document(name, version(), contract.to_json())


def written(format: str, name: str, contract: Contract) -> str:
    """Write the document, or a module for a typed client: `openapi`, `python` or `typescript`."""
    if format == "openapi":
        return json.dumps(document(name, contract), indent=2) + "\n"
    modules = {"python": typed_python.module, "typescript": typed_typescript.module}
    return modules[format](name, contract.to_json())


def outline(name: str, contract: Contract) -> dict[str, Any]:
    """Say in JSON values what the model is; `fps` is None where the rate follows the compute time."""
    said = contract.to_json()
    return {
        "name": name,
        "fps": contract.fps,
        "max_fps": contract.max_fps,
        "buffer_size": contract.buffer_size,
        "tracks": said["tracks"],
        **said["schema"],
    }
