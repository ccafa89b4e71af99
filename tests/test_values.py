"""The ways of a value to a model: a number stays a number and a text a text, on each of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reactor_runtime import config, manifest
from reactor_runtime.cluster.job import WorkerJob
from reactor_runtime.config import Override
from reactor_runtime.config.yamlfile import read
from reactor_runtime.errors import UsageError
from reactor_runtime.ipc.framing import Framing, encode
from reactor_runtime.ipc.messages import Load, ReloadFiles
from reactor_runtime.manifest import Manifest
from reactor_runtime.notebook import options_text
from reactor_runtime.options.run_options import RunOptions
from reactor_runtime.recording.configs import parse_config
from reactor_runtime.server.options import ServeOptions

LOOKALIKES = [
    "1e-5",
    "1e22",
    "012",
    "0o7",
    "0x1",
    "1_0",
    "12:30",
    ".inf",
    "nan",
    "on",
    "no",
    "null",
    "~",
    "",
    "<<",
    "=",
]
MORE = [
    "1",
    "a.b",
    "true",
    "2024-01-02",
    "- a",
    "#",
    "*a",
    "&a",
    "!a",
    "{",
    "a: b",
    "😀",
    "\u2028",
    "\x85",
    "\x7f",
    " ",
]
texts = st.sampled_from(LOOKALIKES + MORE) | st.text()
# A key of YAML has 1,024 characters at most.
keys = texts.filter(lambda text: len(json.dumps(text)) <= 1024)
floats = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([1e-5, 1e22, 1e16, 5e-324, -0.0, 1.0])
scalars = st.none() | st.booleans() | st.integers() | st.integers(10**400, 10**401) | floats | texts
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)
MANIFEST = Manifest(Path("/project"), "pipeline:M", "pipeline", "M", "m", None)


def in_config_yml(value: Any, folder: Path) -> Any:
    path = folder / "config.yml"
    path.write_text(json.dumps({"key": value}))
    return config.load(path)["key"]


def in_set_option(value: Any, _: Path) -> Any:
    return config.load(None, [Override.parse(f"key={json.dumps(value)}")])["key"]


def in_serve(value: Any, _: Path) -> Any:
    return config.load(None, RunOptions.from_keywords({"set": {"key": value}}).overrides or [])["key"]


def in_show(value: Any, _: Path) -> Any:
    options = json.loads(options_text({"set": {"key": value}, "token": "auto"}))
    return config.load(None, RunOptions.from_keywords(options).overrides or [])["key"]


def in_preset(value: Any, folder: Path) -> Any:
    (folder / "reactor.yaml").write_text(json.dumps({"model": "a:B", "presets": {"on": {"no": value}}}))
    return manifest.load(folder).page_settings.presets["on"]["no"]


def in_script(value: Any, folder: Path) -> Any:
    path = folder / "inputs.yaml"
    path.write_text(f"- event: e\n  data: {json.dumps({'on': value})}\n")
    return read(path, UsageError).values[0]["data"]["on"]


def to_engine(value: Any, _: Path) -> Any:
    [(_slot, load)] = Framing().feed(encode(Load("", "", "", {"key": value}, "info", "text")))
    assert isinstance(load, Load)
    [(_slot, reload)] = Framing().feed(encode(ReloadFiles(load.config)))
    assert isinstance(reload, ReloadFiles)
    assert reload.config is not None
    return reload.config["key"]


def in_recording(value: Any, _: Path) -> Any:
    return parse_config(config.to_text({"key": value}))["key"]


def to_worker(value: Any, _: Path) -> Any:
    options = ServeOptions(manifest=MANIFEST, config={"key": value})
    job = WorkerJob.of(options, cluster="test", worker="w-1", secret="5", project="/project")
    return WorkerJob.from_json(job.to_json()).options["config"]["key"]


WAYS = [
    in_config_yml,
    in_set_option,
    in_serve,
    in_show,
    in_preset,
    in_script,
    to_engine,
    in_recording,
    to_worker,
]


def exact(value: Any) -> str:
    """Return a text that differs where types differ too, as those of 1, 1.0 and True."""
    return json.dumps(value)


@pytest.mark.parametrize("way", WAYS)
@given(value=json_values)
@example(value=1e-5)
@example(value="1e-5")
@example(value={"on": [1e22, "1e22", {"1": {"a.b": "012"}}]})
@example(value="😀")
@example(value=[[[]], {}, ""])
def test_any_json_value_comes_as_it_was_given(way: Any, value: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.getbasetemp() / "values"
    folder.mkdir(exist_ok=True)
    assert exact(way(value, folder)) == exact(value)


@pytest.mark.parametrize("way", [in_serve, in_show, to_engine, in_recording, to_worker])
@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
def test_numbers_without_a_value_come_too_where_no_text_is_read(way: Any, value: float, tmp_path: Path) -> None:
    assert exact(way(value, tmp_path)) == exact(value)
