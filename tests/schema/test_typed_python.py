from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from reactor_runtime.client import Message, Reply
from reactor_runtime.schema import typed_python
from tests.wire.shapes import CONTRACT, EMPTY, LABELLED

ROOT = Path(__file__).resolve().parents[2]
CALLS = """
from reactor_runtime.client import connect
from model import BlockingMyModel, MyModel, ProgressMessage, Said


async def main() -> None:
    async with connect("http://127.0.0.1:8080") as session:
        model = MyModel(session)
        reply = await model.set_speed(speed=2)
        await model.set_size(size=(1, 2))
        await model.set_image(image=await session.upload("a.png"))
        await model.move(pose={"at": {"x": 1.0}, "path": []}, weights={"a": 1.0})
        await model.move()
        await model.lambda_(data=True, name="x")
        await model.go_now_()
        going = await model.go_now()
        await session.frame(after=going)
        at = going.message.data["at"]
        drawn = (await model._2d()).message
        if isinstance(drawn, ProgressMessage):
            drawn.data["step"].bit_length()
        elif drawn is not None:
            values: list[float] = drawn.data["values"]
        gone: bool = model.notify.set_speed(speed=3)
        speed: float = model.state["speed"]
        async for message in model.messages():
            if message.type == "progress":
                step: int = message.data["step"]
        print(reply.n + step + speed, gone)


with connect("http://127.0.0.1:8080") as blocking:
    BlockingMyModel(blocking).set_level(level=2)
    BlockingMyModel(blocking).notify.set_level(level=1)
"""
WRONG = [
    "model.set_speed()",
    "model.notify.set_speed()",
    'model.set_speed(speed="x")',
    'model.set_mode(mode="d")',
    "model.state['sped']",
    "model.go_now().message.data['stop']",
    "model._2d().message.data",
    "next(model.messages()).data['step']",
]


class Spoken:
    """Answer every event with one message, and say the same and one that the module does not know."""

    def __init__(self, message: Message) -> None:
        self.message = message

    def send(self, _event: str, _data: dict[str, object]) -> Reply:
        return Reply(7, self.message)

    def messages(self) -> Iterator[Message]:
        yield Message("later", {})
        yield self.message


def test_messages_and_replies_are_of_the_classes_of_the_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "spoken_model.py").write_text(typed_python.module("my-model", CONTRACT))
    monkeypatch.syspath_prepend(tmp_path)
    model = importlib.import_module("spoken_model")
    blocking = model.BlockingMyModel(Spoken(Message("progress", {"step": 3, "at": None, "of_later": 1})))
    reply = blocking.go_now()
    assert isinstance(reply, Reply)
    assert reply == model.GoNowReply(7, model.ProgressMessage("progress", {"step": 3, "at": None, "of_later": 1}))
    assert list(blocking.messages()) == [reply.message]
    assert isinstance(blocking.set_speed(speed=2).message, model.ProgressMessage)


def test_the_module_can_be_read_and_has_a_method_for_each_event() -> None:
    tree = ast.parse(typed_python.module("my-model", CONTRACT))
    methods = {
        each.name: [item.name for item in each.body if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)]
        for each in tree.body
        if isinstance(each, ast.ClassDef) and each.name.startswith(("MyModel", "Blocking"))
    }
    own = ["__init__", "state", "messages"]
    events = ["set_speed", "set_mode", "set_level", "set_note", "set_size", "set_image", "set_rate", "move", "lambda_"]
    events += ["go_now", "go_now_", "_2d", "messages_", "state_", "session_"]
    assert methods == {
        "MyModelNotify": ["__init__", *events],
        "MyModel": [*own, *events],
        "BlockingMyModel": [*own, *events],
    }


def test_labels_and_descriptions_of_values_are_in_the_comments() -> None:
    text = typed_python.module("my-model", LABELLED)
    assert "    # Effect strength: How much it changes\n    strength: float\n    noise_level: float\n" in text
    assert '        """\n        How much it changes\n        strength: Effect strength\n        """\n' in text
    assert '"""\n        Move the camera\n        dx: To the right\n        dy: In metres\n        """\n' in text
    assert "noise_level: Noise" not in text


def test_types_are_those_of_the_schema() -> None:
    text = typed_python.module("my-model", CONTRACT)
    for line in (
        'mode: Literal["a \\"b\\"", "c\\\\d"]',
        "level: Literal[1, 2]",
        "note: str | None",
        "size: list[int]",
        "size: tuple[int, int]",
        "rate: Any",
        "y: NotRequired[float]",
        "pose: Pose | None = _UNSET, weights: dict[str, float] = _UNSET, anything: Any = _UNSET",
        "class Pose(TypedDict):\n    at: Point\n    path: list[Point]\n",
        "Said = ProgressMessage | _2dDoneMessage | StateMessage\n",
        'class GoNowReply(Reply):\n    """The reply to go-now."""\n    message: ProgressMessage\n',
        "    message: ProgressMessage | _2dDoneMessage | None\n",
    ):
        assert line in text, line


def test_a_model_with_nothing_has_a_module_too() -> None:
    assert ast.parse(typed_python.module("session", EMPTY))


class Checked(Spoken):
    """Record the types that a client expects."""

    def expect_types(self, types: str) -> None:
        self.expected = types


def test_a_client_expects_the_types_of_its_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contract = {**CONTRACT, "schema": {**CONTRACT["schema"], "types": "5d1c"}}
    (tmp_path / "checked_model.py").write_text(typed_python.module("my-model", contract))
    monkeypatch.syspath_prepend(tmp_path)
    model = importlib.import_module("checked_model")
    for kind in (model.MyModel, model.BlockingMyModel):
        session = Checked(Message("progress", {}))
        kind(session)
        assert session.expected == "5d1c"


def test_the_same_model_gives_the_same_text() -> None:
    assert typed_python.module("my-model", CONTRACT) == typed_python.module("my-model", CONTRACT)


def test_a_type_checker_accepts_it_and_finds_wrong_uses(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    (tmp_path / "model.py").write_text(typed_python.module("my-model", CONTRACT))
    (tmp_path / "empty.py").write_text(typed_python.module("session", EMPTY))
    (tmp_path / "right.py").write_text(CALLS)
    (tmp_path / "wrong.py").write_text(
        "from model import BlockingMyModel\n\n\ndef f(model: BlockingMyModel) -> None:\n"
        + "".join(f"    {line}\n" for line in WRONG)
    )
    cache = ["--cache-dir", str(ROOT / ".mypy_cache" / "typed")]  # with other options than those of the tree
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", *cache, "right.py", "empty.py", "wrong.py"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "MYPYPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    faults = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert [line.split(":")[:2] for line in faults] == [["wrong.py", str(5 + n)] for n in range(len(WRONG))], (
        done.stdout
    )
