from __future__ import annotations

from pathlib import Path

import pytest

from reactor_runtime.errors import ClassError, LoadError, ManifestError, UsageError
from reactor_runtime.manifest import Manifest, load, pointing_at, unread_config

WHOLE = """\
$schema: https://example.org/model.json
apiVersion: v1
kind: Model
model:
  name: dreamer
  version: 1.2.0
  description: |
    Dreams of *streets*.
  public: true
  resources: {gpu: 2, memory: 40Gi}
runtime:
  import: nets.app:Dreamer
  config: conf/dreamer.json5
  weights_path: weights
  recording: {enabled: true}
  step_results: true
recording: {enabled: true}
deployment: {region: eu}
build:
  python_version: "3.12"
  python_requirements: requirements.txt
  runtime_env: {STEPS: 4, LAZY: true, EMPTY: , LEVEL: high}
extra: 1
"""


def project(tmp_path: Path, text: str) -> Path:
    (tmp_path / "reactor.yaml").write_text(text, encoding="utf-8")
    return tmp_path


def whole(tmp_path: Path) -> Manifest:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "dreamer.json5").write_text("{not: [yaml")
    return load(project(tmp_path, WHOLE))


def failure(tmp_path: Path, text: str) -> UsageError:
    with pytest.raises(UsageError) as caught:
        load(project(tmp_path, text))
    return caught.value


def test_a_manifest_of_3_names_class_model_and_config(tmp_path: Path) -> None:
    manifest = whole(tmp_path)
    assert (manifest.model, manifest.module, manifest.class_name) == ("nets.app:Dreamer", "nets.app", "Dreamer")
    assert (manifest.name, manifest.is_named) == ("dreamer", True)
    assert manifest.page_settings.description == "Dreams of *streets*."
    # A config may have any content: it is for the model to read.
    assert manifest.config_path == tmp_path / "conf" / "dreamer.json5"
    assert manifest.gpus == 2


def test_the_keys_without_an_effect_are_in_one_line(tmp_path: Path) -> None:
    assert whole(tmp_path).notice == (
        "a project for 3.x; not used here: model.version, model.public, runtime.recording, "
        "runtime.step_results, recording, deployment, build.python_version, extra"
    )


def test_our_own_form_has_no_such_line(tmp_path: Path) -> None:
    assert load(project(tmp_path, "model: a:B\n")).notice == ""


def test_a_manifest_of_2_10_has_the_same_form(tmp_path: Path) -> None:
    manifest = load(project(tmp_path, "apiVersion: v2\nkind: Model\nruntime: {import: pipeline:MyModel}\n"))
    assert (manifest.model, manifest.name, manifest.config_path) == ("pipeline:MyModel", "my-model", None)
    assert manifest.notice == "a project for 3.x"


def test_a_misspelt_key_without_an_effect_is_named_with_the_one_that_is_meant(tmp_path: Path) -> None:
    text = "runtime: {import: a:B, confg: c.yml, weights_pth: w}\nbuilds: {}\nmodel: {nmae: x, zzz: 1}\n"
    assert load(project(tmp_path, text)).unused == (
        "runtime.confg (did you mean config?)",
        "runtime.weights_pth (did you mean weights_path?)",
        "builds (did you mean build?)",
        "model.nmae (did you mean name?)",
        "model.zzz",
    )


def test_variables_are_for_an_environment_that_lacks_them(tmp_path: Path) -> None:
    manifest = whole(tmp_path)
    missing = manifest.missing_variables({"LEVEL": "", "REACTOR_WEIGHTS_PATH": ""})
    # An empty path names no weights; an empty variable of another name is one.
    assert missing == {"STEPS": "4", "LAZY": "true", "EMPTY": "", "REACTOR_WEIGHTS_PATH": str(tmp_path / "weights")}
    assert "REACTOR_WEIGHTS_PATH" not in manifest.missing_variables({"REACTOR_WEIGHTS_PATH": "/w"})


def test_the_weights_of_a_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    manifest = load(project(tmp_path, "runtime: {import: a:B, weights_path: ~/w}\n"))
    assert manifest.environment == {"REACTOR_WEIGHTS_PATH": "/home/ada/w"}


@pytest.mark.parametrize(
    ("text", "message", "hint", "place"),
    [
        (
            "model: {name: x}\nruntime:\n  imports: a:B\n",
            '"runtime" lacks the key "import", which names the class of a project for 3.x',
            '"imports": did you mean "import"?',
            (3, 3),
        ),
        (
            "runtime: {config: c.yml}\n",
            '"runtime" lacks the key "import", which names the class of a project for 3.x',
            "add `import: pipeline:MyModel`, the module and the class to serve",
            (1, 1),
        ),
        (
            "apiVersion: v1\nkind: Model\n",
            'reactor.yaml lacks "runtime", which names the class of a project for 3.x',
            "add `runtime:` and `import: pipeline:MyModel`, the module and the class to serve",
            (1, 0),
        ),
        (
            "runtime:\n  import: pipeline.MyModel\n",
            '"pipeline.MyModel" isn\'t of the form module:Class',
            "did you mean `import: pipeline:MyModel`?",
            (2, 11),
        ),
        (
            "runtime:\n  import: [a]\n",
            '"runtime.import" is a list, not text',
            "write `import: pipeline:MyModel`",
            (2, 11),
        ),
        (
            "runtime: {import: a:B}\nmodel: dreamer\n",
            '"model" is text, not a mapping, as in a project for 3.x',
            'the class is in "runtime.import"',
            (2, 8),
        ),
        ("apiVersion: v1\nruntime: a:B\n", '"runtime" is text, not a mapping', "write its keys below it", (2, 10)),
        (
            "runtime: {import: a:B}\nmodel: {name: 3}\n",
            '"model.name" is a number, not text',
            "write `name: my-model`",
            (2, 15),
        ),
        (
            "runtime:\n  import: a:B\n  livekit: {url: wss://example.org}\n",
            '"runtime.livekit" asks for LiveKit, a transport that is not here',
            "leave the key out",
            (3, 3),
        ),
        (
            "runtime:\n  import: a:B\n  config: gone.yml\n",
            "the config file gone.yml doesn't exist",
            "the path is taken from the directory of reactor.yaml",
            (3, 11),
        ),
        (
            "runtime: {import: a:B}\nbuild:\n  runtime_env: [A]\n",
            '"build.runtime_env" is a list, not a mapping of names to values',
            "write `runtime_env:",
            (3, 16),
        ),
        (
            "runtime: {import: a:B}\nbuild:\n  runtime_env:\n    A: {b: 1}\n",
            'the variable "A" is a mapping, not text',
            "write `A: value`",
            (4, 5),
        ),
    ],
    ids=lambda value: value.split("\n")[0][:40] if isinstance(value, str) else "",
)
def test_a_value_that_is_needed_and_wrong(
    tmp_path: Path, text: str, message: str, hint: str, place: tuple[int, int]
) -> None:
    error = failure(tmp_path, text)
    assert error.message.startswith(message)
    assert error.hint.startswith(hint)
    assert error.where is not None
    assert (error.where.line, error.where.column) == place


def test_a_transport_that_is_switched_off_is_no_fault(tmp_path: Path) -> None:
    assert load(project(tmp_path, "runtime: {import: a:B, livekit: false}\n")).unused == ("runtime.livekit",)


@pytest.mark.parametrize(
    ("resources", "gpus"),
    [
        ("{gpu: 1}", 1),
        ("{gpus: 4, cpu: 2}", 4),
        ("{gpu: {count: 2, type: h100}}", 2),
        ("{gpu: {type: h100}}", 1),
        ("{gpus: [a, b, c]}", 3),
        ("{gpu: h100}", 0),
        ("{cpu: 3}", 0),
        ("big", 0),
    ],
)
def test_the_gpus_that_a_model_asks_for(tmp_path: Path, resources: str, gpus: int) -> None:
    text = f"runtime: {{import: a:B}}\nmodel: {{resources: {resources}}}\n"
    assert load(project(tmp_path, text)).gpus == gpus


def test_an_unread_config_is_mentioned_with_the_key_of_this_form(tmp_path: Path) -> None:
    (tmp_path / "config.yml").write_text("a: 1\n")
    assert "`runtime.config: config.yml`" in unread_config(load(project(tmp_path, "runtime: {import: a:B}\n")))


@pytest.mark.parametrize(
    ("requirements", "command"), [("reqs.txt", "pip install -r reqs.txt"), ("[torch, av]", "pip install torch av")]
)
@pytest.mark.parametrize("kind", [ClassError, LoadError])
def test_the_packages_of_the_project_are_in_the_hint_of_a_failed_import(
    tmp_path: Path, requirements: str, command: str, kind: type[ClassError | LoadError]
) -> None:
    text = f"runtime: {{import: a:B}}\nbuild: {{python_requirements: {requirements}}}\n"
    manifest = load(project(tmp_path, text))
    with pytest.raises(kind) as caught, pointing_at(manifest):
        raise kind("importing a failed: ModuleNotFoundError: No module named 'torch'", hint="pip install torch")
    assert caught.value.hint == f"install what build.python_requirements names: {command}"
    with pytest.raises(kind) as caught, pointing_at(manifest):
        raise kind("load() failed: KeyError: 'x'", hint="did you mean y?")
    assert caught.value.hint == "did you mean y?"


def test_values_of_our_own_form_stay_errors(tmp_path: Path) -> None:
    error = failure(tmp_path, "model: a:B\nruntime: 3\n")
    assert isinstance(error, ManifestError)
    assert error.message == 'unknown key "runtime"'
