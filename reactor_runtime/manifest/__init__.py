"""reactor.yaml: the class that a project serves, its name, and its config file.

Checks everything that needs no import of the author's code; the engine checks the rest.
"""

from __future__ import annotations

import contextlib
import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from keyword import iskeyword
from pathlib import Path

from reactor_runtime import config as config_file
from reactor_runtime.config import GivenConfig, Override
from reactor_runtime.config.yamlfile import YamlFile, name_of, read
from reactor_runtime.errors import ClassError, ConfigError, Location, ManifestError, ReactorError
from reactor_runtime.manifest.form3 import WEIGHTS_VARIABLE, is_of_3, read_foreign
from reactor_runtime.manifest.page_settings import PAGE_KEYS, PageSettings, page_path, read_page_settings, text_of

FILE_NAME = "reactor.yaml"
KEYS = ("model", "name", "config", "page", "environment", *PAGE_KEYS)
ENVIRONMENT_KEYS = ("message", "reward", "terminated", "truncated")
_NAMES_CLASS = re.compile(r"[A-Za-z_][\w./]*:[A-Za-z_]\w*")
_BASES = "ReactorPipeline|ReactorModel|ReactorApp|VideoModel"
_MODEL_CLASS = re.compile(rf"^class (\w+)\((?:\w+\.)*(?:{_BASES})\)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Manifest:
    """Hold the settings: `model` is `module:Class` as written at `model_at`, `name` is not empty, paths are absolute.

    Without `is_named` the file has no name, and a name that the class declares with `@model` has precedence.
    `is_of_3` is whether the file has the form of 3.x, with the keys `unused` that have no effect. The config file of
    such a project may have any content. `as_environment` names the message, and its fields, with the reward for a
    program that steps the model. The model asks for `gpus` GPUs, and for the variables of `environment` where they are
    not set; `requirements` is the command that installs its packages, or "".
    """

    project: Path
    model: str
    module: str
    class_name: str
    name: str
    config_path: Path | None
    is_named: bool = True
    page: Path | None = None
    model_at: Location | None = field(default=None, compare=False)
    page_settings: PageSettings = field(default_factory=PageSettings)
    as_environment: Mapping[str, str] = field(default_factory=dict)
    is_of_3: bool = False
    unused: tuple[str, ...] = ()
    gpus: int = 0
    environment: Mapping[str, str] = field(default_factory=dict)
    requirements: str = ""

    @property
    def model_ref(self) -> str:
        """Return the class as `module:Class`, for `import_model_class`."""
        return self.model

    def name_with(self, declared: str | None) -> str:
        """Return the model's name, given the one that its class declares or None."""
        return self.name if self.is_named or not declared else declared

    @property
    def notice(self) -> str:
        """Return a line about a project for 3.x, with the keys that have no effect; "" for another project."""
        if not self.is_of_3:
            return ""
        return "a project for 3.x" + (f"; not used here: {', '.join(self.unused)}" if self.unused else "")

    def given_config(
        self,
        overrides: Sequence[Override] = (),
        *,
        warn: Callable[[str], object] | None = None,
    ) -> GivenConfig:
        """Read the config with overrides; a config of 3.x without overrides is left to the model, which may read it.

        See `config.load` for `warn`. Raises ConfigError.
        """
        if self.is_of_3 and self.config_path is not None and not overrides:
            return GivenConfig(None, self.config_path)
        try:
            values = config_file.load(self.config_path, overrides, warn=warn)
        except ConfigError as error:
            # One without a place is about --set itself.
            if self.is_of_3 and error.where is not None:
                error.hint = "--set needs a YAML mapping: change the value in the file, which the model reads itself"
            raise
        if not overrides or self.config_path is None:
            return GivenConfig(values, self.config_path)
        return GivenConfig(values, self.config_path, config_file.merged_path(self.config_path))

    def missing_variables(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return the variables of the manifest that an environment lacks."""
        lacks = {name: value for name, value in self.environment.items() if name not in environment}
        if not environment.get(WEIGHTS_VARIABLE) and WEIGHTS_VARIABLE in self.environment:
            lacks[WEIGHTS_VARIABLE] = self.environment[WEIGHTS_VARIABLE]
        return lacks


@contextlib.contextmanager
def pointing_at(manifest: Manifest) -> Iterator[None]:
    """Add what the manifest knows to an error: the place of its class, and how to install a package that is missing."""
    try:
        yield
    except ReactorError as error:
        if isinstance(error, ClassError):
            error.where = error.where or manifest.model_at
        if manifest.requirements and "ModuleNotFoundError: " in error.message:
            error.hint = f"install what build.python_requirements names: {manifest.requirements}"
        raise


def load(project: Path) -> Manifest:
    """Read and check the manifest in the directory `project`.

    Raises ManifestError, or ConfigError when the config file it names is missing.
    """
    path = _find(project)
    file = read(path, ManifestError)
    if file.values is not None and not isinstance(file.values, dict):
        raise ManifestError(
            f"{FILE_NAME} is {name_of(file.values)}, not a mapping",
            where=file.root,
            hint="write `model: pipeline:MyModel`",
        )
    if is_of_3(file.values or {}):
        return _manifest_of_3(file)
    for key, where in file.keys.items():
        if key not in KEYS:
            raise ManifestError(f'unknown key "{key}"', where=where, hint=_instead_of(key, file))
    if "model" not in file.keys:
        raise ManifestError(
            f'{FILE_NAME} lacks the key "model"',
            where=Location(str(path), 1),
            hint="add `model: pipeline:MyModel`, the module and the class to serve",
        )
    model = text_of(file, "model", "`model: pipeline:MyModel`")
    module, class_name = _split_model(model, file.items["model"])
    name = text_of(file, "name", "`name: my-model`") if "name" in file.keys else kebab_case(class_name)
    is_named = "name" in file.keys
    return Manifest(
        path.parent,
        model,
        module,
        class_name,
        name,
        _config_path(file),
        is_named=is_named,
        page=page_path(file),
        page_settings=read_page_settings(file),
        as_environment=_environment(file),
        model_at=file.items["model"],
    )


def load_config(path: str | Path) -> Manifest:
    """Read the manifest at a path, or in a directory, as tests of programs for 3.x do."""
    given = Path(path)
    return load(given.parent if given.name == FILE_NAME else given)


def import_model_class(ref: str, project: str | Path = ".") -> type:
    """Import a class by its `module:Class` from the directory of the project; raise ClassError if it is no model."""
    # Reading a manifest imports none of this.
    from reactor_runtime.authoring.importing import import_class

    module, class_name = _split_model(ref, Location(FILE_NAME, 1))
    return import_class(Path(project).resolve(), module, class_name)


def _manifest_of_3(file: YamlFile) -> Manifest:
    foreign, project = read_foreign(file), file.path.parent
    module, class_name = _split_model(foreign.model, foreign.model_at, key="import")
    environment = dict(foreign.environment)
    if foreign.weights_path:
        environment[WEIGHTS_VARIABLE] = str(project / Path(foreign.weights_path).expanduser())
    return Manifest(
        project,
        foreign.model,
        module,
        class_name,
        foreign.name or kebab_case(class_name),
        _existing_config(file, foreign.config, foreign.config_at) if foreign.config else None,
        is_named=bool(foreign.name),
        model_at=foreign.model_at,
        page_settings=PageSettings(description=foreign.description),
        is_of_3=True,
        unused=foreign.unused,
        gpus=foreign.gpus,
        environment=environment,
        requirements=foreign.requirements,
    )


def of_class(project: Path, module: str, class_name: str) -> Manifest:
    """Return the manifest of a project for a class of it, which replaces the `model` of the file if there is one.

    Raises ManifestError or ConfigError if the file is wrong.
    """
    model, name = f"{module}:{class_name}", kebab_case(class_name)
    if not (project / FILE_NAME).is_file():
        return Manifest(project, model, module, class_name, name, None, is_named=False)
    read = load(project)
    return replace(
        read,
        model=model,
        module=module,
        class_name=class_name,
        name=read.name if read.is_named else name,
        model_at=None,
    )


def project_config(manifest: Manifest, overrides: Sequence[Override], *, warn: Callable[[str], object]) -> GivenConfig:
    """Return the config for load(); `warn` of a config file that is not used and of keys that look misspelt."""
    given = manifest.given_config(overrides, warn=warn)
    if unread := unread_config(manifest):
        warn(unread)
    return given


def unread_config(manifest: Manifest) -> str:
    """Return a warning if the project has a config file that neither the manifest nor the code names, or ""."""
    if manifest.config_path is not None:
        return ""
    for name in ("config.yml", "config.yaml"):
        if (manifest.project / name).is_file() and not _named_in_code(manifest.project, name):
            key = "runtime.config" if manifest.is_of_3 else "config"
            return f"{name} is not read, load() receives none of it: add `{key}: {name}` to {FILE_NAME}"
    return ""


def _named_in_code(project: Path, name: str) -> bool:
    return any(name.encode() in path.read_bytes() for path in project.glob("*.py"))


def kebab_case(class_name: str) -> str:
    """Convert a class name to the default model name: `MyModel` → `my-model`, `HTTPModel` → `http-model`."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z0-9])(?=[A-Z][a-z])|_+", "-", class_name)
    return words.strip("-").lower() or class_name


def _find(project: Path) -> Path:
    if project.is_file():
        raise ManifestError(f"{project} is a file", hint=f"name the directory that holds {FILE_NAME}: {project.parent}")
    if not project.is_dir():
        raise ManifestError(f"there is no directory {project}", hint=_nearest_project(project))
    path = project.resolve() / FILE_NAME
    if path.is_file():
        return path
    raise ManifestError(f"there is no {FILE_NAME} in {project.resolve()}", hint=_where_else(path.parent))


def _nearest_project(missing: Path) -> str:
    beside = [path.parent.name for path in missing.absolute().parent.glob(f"*/{FILE_NAME}")]
    near = difflib.get_close_matches(missing.name, beside, n=1)
    return f"did you mean {missing.with_name(near[0])}?" if near else "`reactor init NAME` makes a new project"


def _where_else(directory: Path) -> str:
    if (directory / "reactor.yml").exists():
        return f"rename reactor.yml to {FILE_NAME}"
    for parent in directory.parents:
        if (parent / FILE_NAME).is_file():
            return f"there is one in {parent}"
    below = sorted(directory.glob(f"*/{FILE_NAME}"))
    if below:
        return f"there is one in {below[0].parent.name}/"
    for path in sorted(directory.glob("*.py")):
        # An editor's lock of the file may be a link to nothing.
        if path.is_file() and (found := _MODEL_CLASS.search(path.read_text(encoding="utf-8", errors="replace"))):
            return f"write it with the line `model: {path.stem}:{found[1]}`"
    return "`reactor init NAME` makes a new project"


def _instead_of(key: str, file: YamlFile) -> str:
    """Return a hint for an unknown key; other versions of the API name the class under other keys."""
    near = difflib.get_close_matches(key.lower(), KEYS, n=1, cutoff=0.5)
    if near:
        return f'did you mean "{near[0]}"?'
    if "model" not in file.keys and (line := _model_line(file.values)):
        return f"write `{line}`; all keys are {', '.join(KEYS)}"
    return f"the keys are {', '.join(KEYS)}" + ("; leave this line out" if "version" in key.lower() else "")


def _model_line(values: object) -> str | None:
    """Find a value that names a class, as in `entrypoint: pipeline:MyModel`, and return its `model:` line."""
    nested = values.values() if isinstance(values, dict) else ()
    for value in nested:
        if isinstance(value, str) and _NAMES_CLASS.fullmatch(value.strip()):
            return f"model: {_guess(value)}"
        if line := _model_line(value):
            return line
    return None


def _split_model(model: str, where: Location, *, key: str = "model") -> tuple[str, str]:
    module, colon, class_name = model.partition(":")
    wrong = [part for part in (*module.split("."), class_name) if not part.isidentifier() or iskeyword(part)]
    is_file = module.endswith(".py") or "/" in module
    if colon and not wrong and not is_file:
        return module, class_name
    named = [part for part in wrong if part and ":" not in part]
    if colon and named and not is_file:
        raise ManifestError(f'"{named[0]}" in "{model}" isn\'t a Python name', where=where, hint=_suggest(model, key))
    raise ManifestError(f'"{model}" isn\'t of the form module:Class', where=where, hint=_suggest(model, key))


def _suggest(model: str, key: str) -> str:
    """Return a hint for `pipeline.MyModel`, `pipeline.py:MyModel`, `src/pipeline:MyModel` and the like."""
    guess = _guess(model)
    if all(part.isidentifier() and not iskeyword(part) for part in re.split("[.:]", guess)):
        return f"did you mean `{key}: {guess}`?"
    return f"write `{key}: pipeline:MyModel` for the class MyModel in pipeline.py"


def _guess(model: str) -> str:
    module, _, class_name = re.sub(r"\.py\b|[\s:]+", ":", model.strip()).rpartition(":")
    if not module:
        module, _, class_name = model.rpartition(".")
    return f"{re.sub(r'[/.:]+', '.', module).strip('.')}:{class_name}"


def _config_path(file: YamlFile) -> Path | None:
    if "config" not in file.keys:
        return None
    written = text_of(file, "config", "`config: config.yml`, or leave the key out")
    return _existing_config(file, written, file.items["config"])


def _environment(file: YamlFile) -> dict[str, str]:
    if "environment" not in file.keys:
        return {}
    values, where = file.values["environment"], file.items["environment"]
    hint = "write `environment: {message: score, reward: reward, terminated: done}`"
    if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
        raise ManifestError('"environment" is no mapping of names', where=where, hint=hint)
    wrong = [key for key in values if key not in ENVIRONMENT_KEYS]
    if wrong or "message" not in values:
        problem = f'has the unknown key "{wrong[0]}"' if wrong else "lacks the message"
        raise ManifestError(
            f'"environment" {problem}', where=where, hint=f"{hint}; the keys are {', '.join(ENVIRONMENT_KEYS)}"
        )
    return values


def _existing_config(file: YamlFile, written: str, where: Location) -> Path:
    path = file.path.parent / Path(written).expanduser()
    if path.is_file():
        return path
    problem = "is not a file" if path.exists() else "doesn't exist"
    raise ConfigError(
        f"the config file {written} {problem}",
        where=where,
        hint="the path is taken from the directory of reactor.yaml; leave the key out to go without a config",
    )
