"""The served model: the only place where the engine keeps the author's object, its contract and its config."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.styles.model import Model


@dataclass(frozen=True, slots=True, eq=False)
class Version:
    """Hold an instance of the author's class, its contract, and the config that it was loaded with."""

    model: Model
    contract: Contract
    config: dict[str, Any]


class ServedModel:
    """Hold the version of the model that is served; the parts of the engine read it at each use, on any thread.

    `version` is replaced in one assignment, so that no thread sees a model with the contract of another version.
    """

    def __init__(self, version: Version) -> None:
        self.version = version

    @property
    def model(self) -> Model:
        return self.version.model

    @property
    def contract(self) -> Contract:
        return self.version.contract
