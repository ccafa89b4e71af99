"""reactor.yaml in the form of 3.x, which names its class in `runtime.import`: the values that have a meaning here.

`reactor_runtime.manifest` makes a `Manifest` of them. Keys without a meaning are collected, so that such a project runs
unchanged.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from reactor_runtime.config.yamlfile import YamlFile, name_of
from reactor_runtime.errors import Location, ManifestError

WEIGHTS_VARIABLE = "REACTOR_WEIGHTS_PATH"
# The keys that have an effect; the keys in `_SILENT` have none, and are not reported.
_USED = {
    "model": ("name", "description"),
    "runtime": ("import", "config", "weights_path"),
    "build": ("runtime_env", "python_requirements"),
}
_SILENT = ("$schema", "apiVersion", "kind")
# Known keys without an effect: none of them is a misspelt one.
_KNOWN = {
    "model": ("version", "public", "resources"),
    "runtime": ("recording", "step_results", "livekit"),
    "build": (),
}
_GPU_KEYS = ("gpu", "gpus", "gpu_count", "num_gpus")
_COUNT_KEYS = ("count", "number", "num")
_EXAMPLE = "`import: pipeline:MyModel`, the module and the class to serve"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignManifest:
    """Hold the values of a manifest of 3.x: `model` is `runtime.import`, which stands at `model_at`.

    `name`, `config` and `weights_path` are "" if the file does not have them. `gpus` is how many GPUs the model asks
    for, 0 if it does not say. `requirements` is the command that installs the packages of the project, "" if it names
    none. `unused` are the keys without an effect.
    """

    model: str
    model_at: Location
    name: str = ""
    description: str = ""
    config: str = ""
    config_at: Location
    weights_path: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    requirements: str = ""
    gpus: int = 0
    unused: tuple[str, ...] = ()


def is_of_3(values: Mapping[str, Any]) -> bool:
    """Return whether the values of a reactor.yaml have the form of 3.x, or are meant to have it."""
    runtime = values.get("runtime")
    if isinstance(runtime, dict) and "import" in runtime:
        return True
    return not isinstance(values.get("model"), str) and ("runtime" in values or "apiVersion" in values)


def read_foreign(file: YamlFile) -> ForeignManifest:
    """Return the values of a manifest of 3.x. Raises ManifestError for a value that can't be used."""
    _refuse_other_sections(file)
    runtime = _section(file, "runtime")
    if "import" not in runtime:
        _raise_no_import(file, runtime)
    if runtime.get("livekit"):
        raise ManifestError(
            '"runtime.livekit" asks for LiveKit, a transport that is not here',
            where=file.key_place("runtime", "livekit"),
            hint="leave the key out: clients connect to the WebSocket /ws of this server",
        )
    model, build = _section(file, "model"), _section(file, "build")
    description = model.get("description")
    return ForeignManifest(
        model=_text(file, "runtime", "import", _EXAMPLE),
        model_at=file.place("runtime", "import"),
        name=_text(file, "model", "name", "`name: my-model`") if model.get("name") is not None else "",
        description=description.strip() if isinstance(description, str) else "",
        config=_path(file, "config", "`config: config.yml`"),
        config_at=file.place("runtime", "config"),
        weights_path=_path(file, "weights_path", "`weights_path: ~/weights`"),
        environment=dict(_environment(file, build.get("runtime_env"))),
        requirements=_requirements(build.get("python_requirements")),
        gpus=_gpus(model.get("resources")),
        unused=tuple(_unused(file)),
    )


def _refuse_other_sections(file: YamlFile) -> None:
    for name in _USED:
        value = file.values.get(name)
        if value is not None and not isinstance(value, dict):
            hint = "write its keys below it, indented"
            if name == "model":
                hint = (
                    'the class is in "runtime.import": write `model:`, and `name: my-model` below it, or leave it out'
                )
            raise ManifestError(
                f'"{name}" is {name_of(value)}, not a mapping, as in a project for 3.x',
                where=file.items[name],
                hint=hint,
            )


def _section(file: YamlFile, name: str) -> dict[str, Any]:
    return file.values.get(name) or {}


def _raise_no_import(file: YamlFile, runtime: Mapping[str, Any]) -> NoReturn:
    near = difflib.get_close_matches("import", [key.lower() for key in runtime], n=1)
    found = next((key for key in runtime if near and key.lower() == near[0]), None)
    where = Location(str(file.path), 1)
    if found is not None:
        where = file.key_place("runtime", found)
    elif "runtime" in file.keys:
        where = file.keys["runtime"]
    message = '"runtime" lacks the key "import"' if "runtime" in file.keys else f'{file.path.name} lacks "runtime"'
    raise ManifestError(
        f"{message}, which names the class of a project for 3.x",
        where=where,
        hint=f'"{found}": did you mean "import"?' if found else f"add {'' if runtime else '`runtime:` and '}{_EXAMPLE}",
    )


def _text(file: YamlFile, section: str, key: str, example: str) -> str:
    value = file.values[section][key]
    if isinstance(value, str) and value.strip() and value.isprintable():
        return value.strip()
    kind = "empty" if value == "" else name_of(value)
    problem = "must be one line of text" if isinstance(value, str) and value.strip() else f"is {kind}, not text"
    raise ManifestError(f'"{section}.{key}" {problem}', where=file.place(section, key), hint=f"write {example}")


def _path(file: YamlFile, key: str, example: str) -> str:
    if _section(file, "runtime").get(key) is None:
        return ""
    return _text(file, "runtime", key, f"{example}, or leave the key out")


def _environment(file: YamlFile, values: object) -> Iterator[tuple[str, str]]:
    if values is None:
        return
    if not isinstance(values, dict):
        raise ManifestError(
            f'"build.runtime_env" is {name_of(values)}, not a mapping of names to values',
            where=file.place("build", "runtime_env"),
            hint="write `runtime_env: {MY_VARIABLE: value}`",
        )
    for name, value in values.items():
        where = file.key_place("build", "runtime_env", name)
        if not name or "=" in name or "\0" in name:
            raise ManifestError(f'"build.runtime_env" has "{name}", which names no variable', where=where)
        if isinstance(value, dict | list) or "\0" in str(value):
            raise ManifestError(
                f'the variable "{name}" is {name_of(value)}, not text', where=where, hint=f"write `{name}: value`"
            )
        yield name, "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _requirements(value: object) -> str:
    """Return the command that installs what `build.python_requirements` names: a file, or packages."""
    if isinstance(value, str) and value.strip():
        return f"pip install -r {value.strip()}"
    if isinstance(value, list) and all(isinstance(each, str) for each in value) and value:
        return f"pip install {' '.join(value)}"
    return ""


def _gpus(resources: object) -> int:
    """Return the number of GPUs in `model.resources`: `gpu: 2`, `gpus: [a, b]` or `gpu: {count: 2}`; 0 without one."""
    if not isinstance(resources, dict):
        return 0
    for key in _GPU_KEYS:
        wanted = resources.get(key)
        if isinstance(wanted, dict):
            wanted = next((wanted[each] for each in _COUNT_KEYS if each in wanted), 1)
        if isinstance(wanted, list):
            return len(wanted)
        if isinstance(wanted, int):
            return int(wanted)
    return 0


def _unused(file: YamlFile) -> Iterator[str]:
    """Yield the keys without an effect, with the key that a misspelt one is probably meant to be."""
    asks_for_gpus = _gpus(_section(file, "model").get("resources")) > 0
    for key in file.values:
        if key in _USED:
            for inner in _section(file, key):
                # A warning names the GPUs that are missing.
                if inner not in _USED[key] and not (asks_for_gpus and (key, inner) == ("model", "resources")):
                    yield f"{key}.{inner}" + ("" if inner in _KNOWN[key] else _meant(inner, _USED[key]))
        elif key not in _SILENT:
            yield key + _meant(key, tuple(_USED))


def _meant(key: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.75)
    return f" (did you mean {near[0]}?)" if near else ""
