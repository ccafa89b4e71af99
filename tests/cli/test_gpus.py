from __future__ import annotations

from pathlib import Path

import pytest

from reactor_cli.gpus import count_sessions, parse_gpus
from reactor_runtime.errors import UsageError
from tests.cli.command import reactor

UUID = "8932f937-d72c-4106-c12f-20bd9faed9f6"


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
def test_gpus_are_named_as_cuda_names_them(given: str, names: tuple[str, ...]) -> None:
    assert parse_gpus(given) == names


@pytest.mark.parametrize(
    "given", ["all", "-1", "0;1", "0,,1", "0,", "cuda:0", "0-3", "GPU-", "MIG-GPU-1", "GPU-x", "٣"]
)
def test_what_names_no_gpu_is_said(given: str) -> None:
    with pytest.raises(UsageError, match="names no GPU"):
        parse_gpus(given)


def test_a_gpu_is_named_once() -> None:
    with pytest.raises(UsageError, match="0 is named twice"):
        parse_gpus("0,1,0")


@pytest.mark.parametrize(
    ("sessions", "gpus", "count"),
    [(None, (), 1), (None, ("0", "1"), 2), (3, (), 3), (2, ("0", "1"), 2), (5, ("0", "1"), 5)],
)
def test_there_is_a_session_for_each_gpu_or_as_many_as_asked_for(
    sessions: int | None, gpus: tuple[str, ...], count: int
) -> None:
    assert count_sessions(sessions, gpus) == count


def test_no_gpu_is_left_without_a_session(tmp_path: Path) -> None:
    (tmp_path / "reactor.yaml").write_text("model: pipeline:MyModel\n")
    outcome = reactor("run", "--sessions", "1", "--gpus", "0,1", cwd=tmp_path)
    assert outcome.code == 2
    assert "--sessions 1 leaves GPUs of --gpus 0,1 without a session" in outcome.err
    assert "hint:" in outcome.err


@pytest.mark.parametrize("given", ["0", "-1", "65", "two"])
def test_a_number_of_sessions_that_makes_no_sense_is_refused(tmp_path: Path, given: str) -> None:
    (tmp_path / "reactor.yaml").write_text("model: pipeline:MyModel\n")
    outcome = reactor("run", "--sessions", given, cwd=tmp_path)
    assert outcome.code == 2
    assert f'"{given}" is not a whole number from 1 to 64' in outcome.err
