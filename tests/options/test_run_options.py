from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

from reactor_cli.flags import split_options
from reactor_runtime import manifest
from reactor_runtime.cluster.run_options import ClusterRunOptions
from reactor_runtime.config import Override
from reactor_runtime.errors import UsageError
from reactor_runtime.logs.verbosity import FORMATS
from reactor_runtime.manifest import Manifest
from reactor_runtime.options.run_options import (
    CODECS,
    NO_RELOAD,
    RELOADS,
    TOKEN_VARIABLE,
    VIDEO_FORMATS,
    RunKeywords,
    RunOptions,
    count_sessions,
    declarations,
    parse_gpus,
)
from reactor_runtime.server.options import Access, ServeOptions
from tests.cli.command import declared, reactor

UUID = "8932f937-d72c-4106-c12f-20bd9faed9f6"


@pytest.fixture(autouse=True)
def without_token(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (TOKEN_VARIABLE, "HOST", "PORT", "SPACE_ID", "SPACE_HOST"):
        monkeypatch.delenv(name, raising=False)


def access_of(**options: Any) -> Access:
    return RunOptions(**options).access()


def test_without_options_access_is_the_default() -> None:
    assert access_of() == Access()


def test_the_token_comes_from_the_option_or_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, "from-environment")
    assert access_of().token == "from-environment"
    assert access_of(token="from-option").token == "from-option"
    monkeypatch.setenv(TOKEN_VARIABLE, "")
    assert access_of().token is None
    generated = access_of(token="auto").token
    assert generated not in (None, "auto")


def test_in_a_space_no_options_are_needed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPACE_ID", "me/my-space")
    options = RunOptions().serve_options(Manifest(tmp_path, "a:B", "a", "B", "b", None), {})
    assert (options.host, options.port) == ("0.0.0.0", 7860)
    assert options.access.origins == ("https://huggingface.co",)


def test_an_empty_token_option_is_an_error() -> None:
    with pytest.raises(UsageError):
        access_of(token="")


def test_lists_of_hosts_origins_and_proxies_are_parsed() -> None:
    access = access_of(allow_host=["A.example"], allow_origin=["https://A.example/"], proxies="127.0.0.1,10.0.0.0/8")
    assert access.hosts == ("a.example",)
    assert access.origins == ("https://a.example",)
    assert access.proxies == ("127.0.0.1", "10.0.0.0/8")


@pytest.mark.parametrize(("given", "path"), [("/demo", "/demo"), ("/a/b/", "/a/b"), ("/", ""), ("", "")])
def test_a_root_path_is_normalised(given: str, path: str) -> None:
    assert access_of(root_path=given).root_path == path


@pytest.mark.parametrize("given", ["demo", "//demo", "/a b", "/a?b", "http://a/demo", "/caf\xe9"])
def test_a_malformed_root_path_is_a_usage_error(given: str) -> None:
    with pytest.raises(UsageError, match="is not a path"):
        access_of(root_path=given)


def test_a_key_needs_its_certificate() -> None:
    with pytest.raises(UsageError, match="without a certificate"):
        access_of(key=Path("key.pem"))


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("", ()),
        ("0", ("0",)),
        ("0,1", ("0", "1")),
        (" 3 , 12 ", ("3", "12")),
        (f"GPU-{UUID}", (f"GPU-{UUID}",)),
        ("GPU-8932f937", ("GPU-8932f937",)),
        (f"MIG-{UUID},MIG-GPU-{UUID}/1/0", (f"MIG-{UUID}", f"MIG-GPU-{UUID}/1/0")),
    ],
)
def test_gpu_names_are_those_of_cuda(given: str, names: tuple[str, ...]) -> None:
    assert parse_gpus(given) == names


@pytest.mark.parametrize(
    "given", ["all", "-1", "0;1", "0,,1", "0,", "cuda:0", "0-3", "GPU-", "MIG-GPU-1", "GPU-x", "٣"]
)
def test_a_wrong_gpu_name_is_an_error(given: str) -> None:
    with pytest.raises(UsageError, match="is not the name of a GPU"):
        parse_gpus(given)


def test_a_repeated_gpu_is_an_error() -> None:
    with pytest.raises(UsageError, match="0 is named twice"):
        parse_gpus("0,1,0")


@pytest.mark.parametrize(
    ("sessions", "gpus", "count"),
    [(None, (), 1), (None, ("0", "1"), 2), (3, (), 3), (2, ("0", "1"), 2), (5, ("0", "1"), 5)],
)
def test_each_gpu_has_a_session_unless_there_are_more(sessions: int | None, gpus: tuple[str, ...], count: int) -> None:
    assert count_sessions(sessions, gpus) == count


@pytest.mark.parametrize(
    ("arguments", "full"), [(["--reload"], False), (["--reload=full", "--set", "a=1"], True), ([], None)]
)
def test_reload_takes_a_value_or_none(tmp_path: Path, arguments: list[str], full: bool | None) -> None:
    given = declared()["run"].make_context("run", [*arguments, str(tmp_path)]).params
    options, _ = split_options({name: given[name] for name in given if name not in ("directory", "path")})
    (tmp_path / "reactor.yaml").write_text("model: pipeline:MyModel")
    reload = options.serve_options(manifest.load(tmp_path), {}).reload
    assert (None if reload is None else reload.full) is full
    assert reload is None or reload.overrides == ((Override.parse("a=1"),) if full else ())


def test_without_options_the_server_has_its_defaults() -> None:
    manifest = Manifest(Path("/my-model"), "pipeline:MyModel", "pipeline", "MyModel", "my-model", None)
    assert RunOptions().serve_options(manifest, {}) == ServeOptions(manifest=manifest, config={})


# A value other than the default for each option that the server reads, and what it is given with.
GIVEN: dict[str, dict[str, Any]] = {
    "host": {"host": "0.0.0.0"},
    "port": {"port": 9000},
    "max_waiting": {"max_waiting": 3},
    "max_viewers": {"max_viewers": 3},
    "max_session": {"max_session": 3.0},
    "idle_timeout": {"idle_timeout": 3.0},
    "resume_grace": {"resume_grace": 3.0},
    "token": {"token": "from-option"},
    "share": {"share": True},
    "allow_host": {"allow_host": ["a.example"]},
    "allow_origin": {"allow_origin": ["https://a.example"]},
    "per_address": {"per_address": 3},
    "certificate": {"certificate": Path("cert.pem")},
    "key": {"key": Path("key.pem"), "certificate": Path("cert.pem")},
    "root_path": {"root_path": "/demo"},
    "proxies": {"proxies": "10.0.0.1"},
    "reload": {"reload": "in-place"},
    "overrides": {"overrides": [Override.parse("a=1")], "reload": "full"},
    "dev": {"dev": True},
    "sessions": {"sessions": 3},
    "sessions_per_model": {"sessions_per_model": 3},
    "shared": {"shared": True},
    "codec": {"codec": "never"},
    "gpus": {"gpus": "0"},
    "step_timeout": {"step_timeout": 3.0},
    "load_timeout": {"load_timeout": 3.0},
    "drain_timeout": {"drain_timeout": 3.0},
    "log_level": {"log_level": "debug"},
    "log_format": {"log_format": "json"},
    "trace": {"trace": Path("trace.json")},
    "record": {"record": Path()},
    "record_video": {"record_video": "lossless", "record": Path()},
}
OF_THE_COMMAND = {"open_page", "verbose"}


@pytest.mark.parametrize("name", [each.name for each in fields(RunOptions) if each.name not in OF_THE_COMMAND])
def test_the_server_gets_each_option(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    manifest = Manifest(tmp_path, "pipeline:MyModel", "pipeline", "MyModel", "my-model", None)
    given = GIVEN[name]
    without = {other: value for other, value in given.items() if other != name}
    options = [RunOptions(**each).serve_options(manifest, {}) for each in (given, without)]
    assert options[0] != options[1]


def test_an_address_may_hold_a_connection_for_each_client_and_128_more() -> None:
    assert access_of(max_waiting=1, max_viewers=2).per_address == 131
    assert access_of(max_viewers=2, per_address=7).per_address == 7


def test_a_gpu_without_a_session_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "reactor.yaml").write_text("model: pipeline:MyModel\n")
    outcome = reactor("run", "--sessions", "1", "--gpus", "0,1", cwd=tmp_path)
    assert outcome.code == 2
    assert "--sessions 1 leaves GPUs of --gpus 0,1 without a session" in outcome.err
    assert "hint:" in outcome.err


@pytest.mark.parametrize("given", ["0", "-1", "10001", "two"])
def test_a_wrong_number_of_sessions_is_an_error(tmp_path: Path, given: str) -> None:
    (tmp_path / "reactor.yaml").write_text("model: pipeline:MyModel\n")
    outcome = reactor("run", "--sessions", given, cwd=tmp_path)
    assert outcome.code == 2
    assert f'"{given}" is not a whole number from 1 to 10000' in outcome.err


def test_keywords_have_the_names_and_values_of_the_options() -> None:
    given = {"port": 9000, "open": True, "dev": False, "token": None, "max_session": "5m", "allow_host": ["a", "b"]}
    options = RunOptions(port=9000, open_page=True, max_session=300.0, allow_host=["a", "b"])
    assert RunOptions.from_keywords(given) == options
    assert RunOptions.from_keywords({"gpus": [0, 1], "allow_origin": "http://a"}) == RunOptions(
        gpus="0,1", allow_origin=["http://a"]
    )
    assert RunOptions.from_keywords({"forwarded_allow_ips": ("127.0.0.1", "::1")}).proxies == "127.0.0.1,::1"
    assert RunOptions.from_keywords({"idle_timeout": 0.5, "ssl_certfile": "a.pem"}) == RunOptions(
        idle_timeout=0.5, certificate=Path("a.pem")
    )


@pytest.mark.parametrize(("given", "reload"), [(True, "in-place"), ("full", "full"), (False, None), (None, None)])
def test_reload_is_true_or_a_value(given: object, reload: str | None) -> None:
    assert RunOptions.from_keywords({"reload": given}).reload == reload


def test_set_takes_a_mapping_or_texts() -> None:
    assert RunOptions.from_keywords({"set": {"train.lr": 1e-5}}).overrides == [Override.of("train.lr", 1e-5)]
    assert RunOptions.from_keywords({"set": ["a=1e-5", "b=x"]}).overrides == [
        Override.parse("a=1e-5"),
        Override.parse("b=x"),
    ]
    assert RunOptions.from_keywords({"set": "a=1"}).overrides == [Override.parse("a=1")]


@pytest.mark.parametrize(
    ("given", "message", "hint"),
    [
        ({"prot": 9000}, "there is no option prot", "did you mean port?"),
        ({"path": "."}, "there is no option path", ""),
        ({"worker_url": "http://a"}, "there is no option worker_url", "reactor run --on ray"),
        ({"token": True}, "token takes a value, not True", "--token TOKEN"),
        ({"open": "yes"}, "open is True or False, not 'yes'", ""),
        ({"port": 1.5}, 'port: "1.5" is not a whole number', ""),
        ({"log_level": "loud"}, 'log_level: "loud" is not one of', ""),
        ({"set": 3}, "set is 3", "train.lr"),
        ({"set": {"a": {1}}}, "set a is a set", "numbers"),
    ],
)
def test_a_wrong_keyword_is_a_usage_error(given: dict[str, Any], message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        RunOptions.from_keywords(given)
    assert caught.value.message.startswith(message)
    assert hint in caught.value.hint


def test_editors_know_every_keyword() -> None:
    assert list(RunKeywords.__annotations__) == [option.keyword(field) for field, _, option in declarations(RunOptions)]


def literals_of(keyword: str) -> tuple[str, ...]:
    """Return the texts that an editor offers for a keyword."""
    kind = get_type_hints(RunKeywords)[keyword]
    return tuple(text for each in (kind, *get_args(kind)) if get_origin(each) is Literal for text in get_args(each))


def test_editors_offer_every_value() -> None:
    offered = {name: literals_of(name) for name in RunKeywords.__annotations__}
    assert {name: texts for name, texts in offered.items() if texts} == {
        # Keywords have False in place of "off".
        "reload": tuple(each for each in RELOADS if each != NO_RELOAD),
        "codec": CODECS,
        "log_format": FORMATS,
        "record_video": VIDEO_FORMATS,
    }


def test_every_option_but_the_project_is_a_keyword() -> None:
    command = declared()["run"]
    cluster = {field.name for field in fields(ClusterRunOptions)}
    names = [each.opts[0] for each in command.params if each.name not in (*cluster, "directory", "path", "help")]
    assert "--ssl-certfile" in names
    for name in names:
        RunOptions.from_keywords({name.removeprefix("--").replace("-", "_"): None})


def test_the_environment_sets_the_log(tmp_path: Path) -> None:
    level = reactor("run", cwd=tmp_path, REACTOR_LOG_LEVEL="loud")
    format = reactor("run", cwd=tmp_path, REACTOR_LOG_FORMAT="xml")
    assert level.err.startswith('error: REACTOR_LOG_LEVEL: "loud" is not one of debug, info,')
    assert format.err.startswith('error: REACTOR_LOG_FORMAT: "xml" is not one of text, json')


@pytest.mark.parametrize(
    ("arguments", "keyword", "video"),
    [
        (["--record-video"], True, "jpeg"),
        (["--record-video=lossless"], "lossless", "lossless"),
        ([], False, ""),
    ],
)
def test_video_is_recorded_as_jpegs_or_without_loss(
    tmp_path: Path, arguments: list[str], keyword: object, video: str
) -> None:
    (tmp_path / "reactor.yaml").write_text("model: pipeline:MyModel")
    given = declared()["run"].make_context("run", ["--record", str(tmp_path), *arguments, str(tmp_path)]).params
    options, _ = split_options({name: given[name] for name in given if name not in ("directory", "path")})
    as_keywords = RunOptions.from_keywords({"record": tmp_path, "record_video": keyword})
    for each in (options, as_keywords):
        assert each.serve_options(manifest.load(tmp_path), {}).record_video == video
