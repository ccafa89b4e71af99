"""Sessions with several seats, on the engine that serves them."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.presets import check_presets
from reactor_runtime.authoring.styles.seat import seats_of
from reactor_runtime.engine.dispatch import CheckedEvent, check_event
from reactor_runtime.engine.first_step import output_warnings
from reactor_runtime.engine.output.unpack import UnpackedBundle
from reactor_runtime.errors import ManifestError
from reactor_runtime.interface import (
    ClientInfo,
    CommandError,
    InputField,
    Output,
    PipelineExecutor,
    ReactorModel,
    ReactorPipeline,
    UploadedFile,
    Video,
    VideoModel,
    connected,
    disconnected,
    file_uploaded,
    get_ctx,
    joined,
    session_started,
)
from reactor_runtime.ipc.messages import ClientEvent, ClientJoined, ClientLeft
from reactor_runtime.recording.file import read_recording
from reactor_runtime.testing import SeatedClient, Studio, replay
from tests.testing.models import Level, frame
from tests.testing.recorded import recorded
from tests.testing.seats_game import SEATS, Game, Moved, Player, View, World


def places(executor: PipelineExecutor[Any]) -> list[int | None]:
    """Make a step, and return where each player is in it, None for a seat without a frame."""
    views = next(executor).output
    return [None if view is None else int(view.main_video[0, 0, 0]) - 100 for view in views]


@pytest.fixture
def executor() -> Iterator[PipelineExecutor[Game]]:
    with PipelineExecutor(Game) as executor:
        executor.connect()
        yield executor


def test_each_seat_has_a_state_that_its_client_sets(executor: PipelineExecutor[Game]) -> None:
    second = executor.join()
    executor.send_event("set_move", move="right")
    second.send_event("set_move", move="left")
    assert [seat.state.move for seat in executor.model.seats] == ["right", "left", "none", "none"]
    assert places(executor) == [1, -1, 0, 0]
    assert places(executor) == [2, -2, None, None]


def test_a_handler_gets_the_seat_of_its_client(executor: PipelineExecutor[Game]) -> None:
    third = executor.join(2)
    next(executor)
    assert third.send_event("jump", far=2) == Moved(seat=2, x=20)
    assert executor.send_event("jump") == Moved(seat=0, x=10)


def test_a_seat_is_taken_from_its_joined_to_its_left(executor: PipelineExecutor[Game]) -> None:
    model = executor.model
    second = executor.join()
    second.send_event("set_move", move="left")
    assert [seat.taken for seat in model.seats] == [True, True, False, False]
    assert model.seats[1].client.id == second.id
    second.leave()
    assert [seat.taken for seat in model.seats] == [True, False, False, False]
    assert model.seats[1].state.move == "none"
    executor.disconnect()
    assert model.log == [("joined", 0), ("joined", 1), ("left at left", 1), ("left at none", 0)]


def test_the_state_that_a_model_gave_a_free_seat_ends_when_it_is_taken(executor: PipelineExecutor[Game]) -> None:
    executor.model.seats[3].state.move = "right"
    next(executor)
    executor.join(3)
    assert executor.model.seats[3].state.move == "none"


def test_only_the_host_sets_a_field_that_is_not_shared(executor: PipelineExecutor[Game]) -> None:
    second = executor.join()
    with pytest.raises(ValueError, match="only the host, the client in seat 0, may send set_speed"):
        second.send_event("set_speed", speed=5)
    second.send_event("set_note", note="hello")
    executor.send_event("set_speed", speed=3)
    assert (executor.state.speed, executor.state.note) == (3, "hello")


def test_a_seat_that_is_taken_can_not_be_joined(executor: PipelineExecutor[Game]) -> None:
    with pytest.raises(RuntimeError, match=r"seat 0 is not free: the session has 4, and free are \[1, 2, 3\]"):
        executor.join(0)
    for _ in range(3):
        executor.join()
    with pytest.raises(RuntimeError, match="no seat free: the session has 4, and free are none"):
        executor.join()


def test_frames_name_their_seat_and_count_its_events(executor: PipelineExecutor[Game]) -> None:
    second = executor.join()
    for speed in range(1, 4):
        executor.send_event("set_speed", speed=speed)
    second.send_event("set_move", move="left")
    next(executor)
    assert [(frame.seat, frame.applied) for frame in executor.frames] == [(0, 3), (1, 1), (2, 0), (3, 0)]
    assert {frame.seq for frame in executor.frames} == {0}


class Same(ReactorPipeline):
    """Yield one output for all, or one for each seat."""

    state: Level
    seats: Any = 2
    output: View

    def inference(self) -> Iterator[Any]:
        yield View(main_video=frame(1))
        yield [None, View(main_video=frame(2))]
        yield [None, None]
        yield [View(main_video=np.stack([frame(3), frame(4)])), View(main_video=frame(5))]
        yield [View(main_video=frame(6))]


def test_an_output_is_for_all_seats_or_a_list_with_one_for_each() -> None:
    with PipelineExecutor(Same) as executor:
        executor.connect()
        shown = []
        for _ in range(4):
            next(executor)
            shown.append([(each.seat, each.seq, int(each.array[0, 0, 0])) for each in executor.frames])
        # The number of a frame for all is that of the first seat.
        assert shown == [[(None, 0, 1)], [(1, 1, 2)], [], [(0, 1, 3), (1, 2, 5), (0, 2, 4), (1, 3, 5)]]
        with pytest.raises(ValueError, match="a list of 1 outputs, and the session has 2 seats: give one for each"):
            next(executor)


class Played(ReactorPipeline):
    """Have values of the seats alone."""

    seat_state: Player
    seats: Any = 2

    def inference(self) -> Iterator[Any]:
        while True:
            yield [View(main_video=frame(10 if each.state.move == "left" else 0)) for each in self.seats]


def test_a_model_may_have_values_of_its_seats_alone() -> None:
    with PipelineExecutor(Played) as executor:
        executor.connect()
        second = executor.join()
        second.send_event("set_move", move="left")
        next(executor)
        assert [int(each.array[0, 0, 0]) for each in executor.frames] == [0, 10]
        assert executor.model.seats[1].state.move == "left"


def test_steps_are_made_on_request_with_the_values_of_each_seat() -> None:
    with PipelineExecutor(Played) as executor:
        executor.connect(stepped=True)
        executor.join().send_event("set_move", move="left")
        made = executor.step(n=2)
        assert [(each.seat, int(each.array[0, 0, 0])) for each in made.frames] == [(0, 0), (1, 10)] * 2
        made = executor.step(state={"move": "left"})
        assert [int(each.array[0, 0, 0]) for each in made.frames] == [10, 10]


class Configured(Same):
    seats: Any = 1

    def load(self, config: dict[str, Any]) -> None:
        self.seats = config["players"]


def test_load_sets_the_number_of_seats() -> None:
    with PipelineExecutor(Configured, {"players": 2}) as executor:
        executor.connect()
        assert executor.join().seat == 1
        assert len(executor.model.seats) == 2
        next(executor)
        next(executor)
        assert executor.frames[0].seat == 1
    with pytest.raises(Exception, match=r"Configured.seats after load\(\) must be from 1 to 64, not 0"):
        PipelineExecutor(Configured, {"players": 0})


def test_a_model_without_seats_keeps_the_attribute_for_its_author() -> None:
    class Cinema(Same):
        seats = ("a1", "a2")

        def inference(self) -> Iterator[Any]:
            yield View(main_video=frame(len(self.seats)))

    with PipelineExecutor(Cinema) as executor:
        executor.connect()
        assert next(executor).output.main_video[0, 0, 0] == 2
        assert executor.model.seats == ("a1", "a2")
        with pytest.raises(RuntimeError, match="no seat free"):
            executor.join()


class Looping(ReactorModel):
    seats: Any = 2
    output: View
    fps = 10

    def load(self, config: dict[str, Any]) -> None:
        self.joined: list[int] = config.get("joined", [])

    @joined
    def on_joined(self, seat: int) -> None:
        self.joined.append(seat)

    async def run(self) -> None:
        while True:
            await self.emit([View(main_video=frame(10 + len(self.joined))), View(main_video=frame(20))])


class Blocks(VideoModel):
    seats: Any = 2
    output: View

    def __init__(self, config: dict[str, Any]) -> None: ...

    def start_session(self) -> None:
        while not get_ctx().should_stop():
            taken = sum(seat.taken for seat in self.seats)
            get_ctx().emit_block([View(main_video=frame(10 + taken)), View(main_video=frame(20))])


@pytest.mark.parametrize("model", [Looping, Blocks])
def test_all_styles_have_seats(model: Any) -> None:
    with Studio(model) as studio:
        studio.connect()
        second = studio.join()
        studio.clear()
        studio.run(0.5)
        newest = {frame.seat: int(frame.array[0, 0, 0]) for frame in studio.frames}
        assert newest == {0: 12, 1: 20}
        second.leave()
        studio.disconnect()


def play(studio: Studio[Any]) -> None:
    """Play a game of four, of which two leave and one joins again."""
    others: list[SeatedClient] = [studio.join() for _ in range(SEATS - 1)]
    studio.send_event("set_move", move="right")
    for each in others:
        each.send_event("set_move", move="left" if each.seat % 2 else "right")
        studio.run(0.23)
    others[0].send_event("jump", far=2)
    others[0].leave()
    studio.run(0.4)
    with pytest.raises(ValueError, match="only the host"):
        others[1].send_event("set_speed", speed=2)
    studio.send_event("set_speed", speed=3)
    again = studio.join()
    again.send_event("set_note", note="back")
    again.send_event("jump")
    others[2].leave()
    studio.run(0.5)
    assert again.seat == 1


def test_a_game_with_joins_and_leaves_is_replayed_bit_for_bit(tmp_path: Path) -> None:
    with recorded(Game, tmp_path) as studio:
        play(studio)
    (file,) = tmp_path.glob("*.mcap")
    result = replay(file, Game)
    assert (result.total, result.frames) == (0, result.frames)
    assert result.frames > 100


class Other(Game):
    """Give the last two seats the events of each other."""

    def inference(self) -> Iterator[list[View | None]]:
        for views in super().inference():
            yield [views[0], views[1], views[3], views[2]]


def test_a_replay_compares_the_frames_of_each_seat(tmp_path: Path) -> None:
    with recorded(Game, tmp_path) as studio:
        play(studio)
    (file,) = tmp_path.glob("*.mcap")
    differences = replay(file, Other).differences
    assert {each.track for each in differences} == {"main_video@2", "main_video@3"}


def test_a_command_error_reaches_the_client_of_the_seat() -> None:
    class Strict(Game):
        def jump(self, client: Any, far: int = 1) -> Any:
            raise CommandError("no", f"seat {client.seat} by {far}")

    with PipelineExecutor(Strict) as strict:
        strict.connect()
        with pytest.raises(CommandError, match="seat 3 by 1"):
            strict.join(3).send_event("jump")


def test_a_state_of_seats_has_no_field_of_the_state_for_all() -> None:
    class Twice(World):
        move: str = ""

    class Mixed(Game):
        state: Twice

    with pytest.raises(Exception, match=r"Player.move is a field of Twice too"):
        Contract.of(Mixed)


class Scored(Player):
    score: int = InputField(default=0, read_only=True)


class Match(Game):
    seat_state: Scored


def test_clients_know_the_fields_of_a_seat_that_the_model_alone_sets() -> None:
    contract = Contract.of(Match)
    schema = contract.to_json()["schema"]
    assert list(schema["state"]) == ["score"]
    assert "set_score" not in schema["events"]
    with pytest.raises(ManifestError, match='sets "score", which is read_only'):
        check_presets(contract, {"Ahead": {"score": 9}}, Path())


def test_both_states_can_not_have_a_field_that_the_model_alone_sets() -> None:
    class Ranked(World):
        score: int = InputField(default=0, read_only=True)

    class Mixed(Match):
        state: Ranked

    with pytest.raises(Exception, match=r"Scored.score is a field of Ranked too"):
        Contract.of(Mixed)


def test_new_code_keeps_the_seats_and_their_values() -> None:
    class Faster(Game):
        def _paint(self, seat: int, noise: int) -> Any:
            return 255 - super()._paint(seat, noise)

    with PipelineExecutor(Game) as executor:
        executor.connect()
        second = executor.join()
        second.send_event("set_move", move="left")
        next(executor)
        executor.reload(Faster)
        view = next(executor).output[1]
        assert view.main_video[0, 0, 0] == 255 - 100 + 1
        assert [seat.taken for seat in executor.model.seats] == [True, True, False, False]
        assert second.send_event("jump") == Moved(seat=1, x=9)
        second.leave()
        assert executor.model.log[-1] == ("left at left", 1)


def test_code_with_another_number_of_seats_starts_the_engine_again() -> None:
    class Fewer(Game):
        seats: Any = 2

    with PipelineExecutor(Game) as executor:
        executor.connect()
        with pytest.raises(RuntimeError, match="a session has 2 seats now"):
            executor.reload(Fewer)
        assert len(next(executor).output) == SEATS


def test_a_copy_of_a_loaded_model_has_as_many_seats() -> None:
    with PipelineExecutor(Configured, {"players": 2}) as executor:
        assert seats_of(copy.copy(executor.model)) == 2
        executor.model.seats = []
        executor.connect()
        assert [seat.taken for seat in executor.model.seats] == [True, False]


class Made(Game):
    """Make the track of its views in `load()`."""

    def load(self, config: dict[str, Any]) -> None:
        super().load(config)
        self.views = Output.make(extra=Video)

    def inference(self) -> Iterator[Any]:
        for views in super().inference():
            yield [view and self.views(extra=view.main_video) for view in views]


def test_new_code_keeps_the_seats_of_a_model_that_makes_its_tracks() -> None:
    class Faster(Made):
        def _paint(self, seat: int, noise: int) -> Any:
            return 255 - super()._paint(seat, noise)

    with PipelineExecutor(Made) as executor:
        executor.connect()
        second = executor.join()
        second.send_event("set_move", move="left")
        next(executor)
        executor.reload(Faster)
        assert next(executor).output[1].extra[0, 0, 0] == 255 - 100 + 1
        assert [seat.taken for seat in executor.model.seats] == [True, True, False, False]
        assert {frame.track for frame in executor.frames} == {"extra"}


class Following(Game):
    """Know the viewers too, as a model of 3.x does."""

    @connected
    def on_connected(self, client: ClientInfo) -> None:
        self.log.append((f"{client.id} connected", -1))

    @disconnected
    def on_disconnected(self, client: ClientInfo) -> None:
        self.log.append((f"{client.id} disconnected", -1))

    @session_started
    def on_session_started(self) -> None: ...


def watch_and_play(studio: Studio[Any]) -> None:
    """Have a viewer take the second seat, and leave."""
    host, session = studio._host, studio._session
    host.receive_message(ClientJoined(session, "guest", "viewer", 0.0, None))
    studio.run(0.2)
    host.receive_message(ClientJoined(session, "guest", "controller", 0.0, 1))
    studio.run(0.2)
    studio.send_event_of("guest", 1, "set_move", {"move": "left"})
    studio.run(0.2)
    host.receive_message(ClientLeft(session, "guest"))
    studio.run(0.2)


def test_a_viewer_that_the_model_knows_can_take_a_seat(tmp_path: Path) -> None:
    with recorded(Following, tmp_path) as studio:
        watch_and_play(studio)
        log = list(cast("Following", studio.model).log)
    assert log[2:] == [("guest connected", -1), ("joined", 1), ("left at left", 1), ("guest disconnected", -1)]
    (file,) = tmp_path.glob("*.mcap")
    assert replay(file, Following).total == 0


def test_a_viewer_that_the_model_does_not_know_yet_can_take_a_seat(tmp_path: Path) -> None:
    with recorded(Following, tmp_path) as studio:
        host, session = studio._host, studio._session
        for viewer in ("first", "guest"):
            host.receive_message(ClientJoined(session, viewer, "viewer", 0.0, None))
        host.receive_message(ClientJoined(session, "guest", "controller", 0.0, 1))
        studio.run(0.2)
        log = list(cast("Following", studio.model).log)
        assert studio.model.seats[1].taken
    assert log[2:] == [("first connected", -1), ("guest connected", -1), ("joined", 1)]
    (file,) = tmp_path.glob("*.mcap")
    assert [event.data_json.count('"guest"') for event in read_recording(file).events] == [0, 1]
    assert replay(file, Following).total == 0


def test_a_viewer_that_leaves_a_seat_before_the_model_knows_it_is_no_viewer_again(tmp_path: Path) -> None:
    with recorded(Following, tmp_path) as studio:
        host, session = studio._host, studio._session
        for viewer in ("first", "second", "guest"):
            host.receive_message(ClientJoined(session, viewer, "viewer", 0.0, None))
        host.receive_message(ClientJoined(session, "guest", "controller", 0.0, 1))
        host.receive_message(ClientLeft(session, "guest"))
        studio.run(0.2)
    (file,) = tmp_path.glob("*.mcap")
    (events,) = [[event.name for event in read_recording(file).events if '"guest"' in event.data_json]]
    assert events == ["reactor.joined", "reactor.left"]
    assert replay(file, Following).total == 0


def test_a_viewer_that_leaves_as_it_takes_a_seat_is_disconnected() -> None:
    with PipelineExecutor(Following) as executor:
        executor.connect()
        host, session = executor._host, executor._session
        host.receive_message(ClientJoined(session, "guest", "viewer", 0.0, None))
        next(executor)
        host.receive_message(ClientJoined(session, "guest", "controller", 0.0, 1))
        host.receive_message(ClientLeft(session, "guest"))
        next(executor)
        next(executor)
        assert executor.model.log[-1] == ("guest disconnected", -1)
        assert not executor.model.seats[1].taken


class SlowToConnect(Game):
    """Have a client come, play and leave during `@connected`, and another one take its seat."""

    meanwhile = staticmethod(lambda: None)

    @connected
    def on_connected(self) -> None:
        self.meanwhile()


def test_a_seat_that_two_clients_take_during_connected_is_that_of_the_second() -> None:
    with Studio(SlowToConnect) as studio:
        host = studio._host

        def come_and_go() -> None:
            session = studio._session
            sent = ClientEvent(session, "first", None, "set_move", '{"move": "left"}', seat=1)
            checked = check_event(host.served.contract.events, sent)
            assert isinstance(checked, CheckedEvent)
            host.receive_message(ClientJoined(session, "first", "controller", 0.0, 1))
            host.receive_message(checked)
            host.receive_message(ClientLeft(session, "first"))
            host.receive_message(ClientJoined(session, "second", "controller", 0.0, 1))

        studio.model.meanwhile = come_and_go
        studio.connect()
        studio.run(0.2)
        seat = studio.model.seats[1]
        assert (seat.client.id, seat.state.move) == ("second", "none")
        assert studio.model.log == [("joined", 0), ("joined", 1), ("left at left", 1), ("joined", 1)]


class Painted(Game):
    @file_uploaded
    def on_file(self, file: UploadedFile, client: ClientInfo) -> None:
        assert client.seat is not None
        self.places[client.seat] += len(file.read())


def test_a_file_is_of_the_seat_of_its_client() -> None:
    with Studio(Painted) as studio:
        studio.connect()
        second = studio.join()
        studio.run(0.2)
        studio._slot.uploads.add(UploadedFile(b"ten bytes."), second.id)
        studio.run(2.5)
        newest = {frame.seat: (int(frame.array[0, 0, 0]) - 100, frame.applied) for frame in studio.frames}
        assert newest[0] == (0, 0)
        assert newest[1] == (10, 1)


class Prepared(Game):
    warmup = 2


def test_a_warm_up_is_a_session_with_as_many_seats() -> None:
    with PipelineExecutor(Prepared) as executor:
        executor.warm_up()
        executor.connect()
        assert places(executor) == [0, 0, 0, 0]


class Flat(Game):
    def inference(self) -> Iterator[list[View | None]]:
        yield [View(main_video=frame(1)), None, View(main_video=frame(1)[..., 0]), None]


def test_an_error_names_the_track_with_its_seat() -> None:
    with PipelineExecutor(Flat) as executor:
        executor.connect()
        with pytest.raises(ValueError, match=r"^main_video@2: "):
            next(executor)


def test_a_track_that_is_black_for_all_seats_is_said_once() -> None:
    tracks = [replace(track, seat=seat) for track in Contract.of(Game).tracks for seat in range(SEATS)]
    ((message, _),) = output_warnings([UnpackedBundle(dict.fromkeys(tracks, frame(0)))], None)
    assert message == "main_video@0 is black in the first step: every value is 0"
