"""Tests of the model without a server: PipelineExecutor makes its steps; game and dream are compared frame by frame."""

import copy
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from reactor_runtime import PipelineExecutor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")

from dreamer import BURNING, Dreamer, load_dream  # noqa: E402
from game import CELL, CELLS, FLAME, FLASH, GEMS, HERO, SIDE, TORCHES, WAYS, WISP, Caves  # noqa: E402
from network import Dream, things_of  # noqa: E402
from pipeline import MyModel  # noqa: E402
from train import WEIGHTS, Players, train  # noqa: E402

SMALL = {"width": 2 * SIDE, "height": SIDE}
STAY, UP, DOWN, LEFT, RIGHT = range(len(WAYS))


@pytest.fixture
def ex():
    """Return a session."""
    with PipelineExecutor(MyModel, config=SMALL) as ex:
        ex.connect()
        yield ex


def frame(ex):
    return next(ex).output.main_video.astype(int)


@pytest.fixture(scope="module")
def dream():
    return load_dream(WEIGHTS)


def flash(caves, *, flashes=True):
    caves.step(np.zeros(caves.count, int), np.full(caves.count, flashes), caves.headings())


def walk(caves, *ways):
    for way in ways:
        caves.step(np.full(caves.count, way), np.zeros(caves.count, bool), caves.headings())


def room(hero=(8, 8)):
    """Return a game in a cave without walls inside, torches and gems, with the wisp in a corner."""
    caves = Caves(1, 1)
    caves.walls[:, 1:-1, 1:-1] = caves.torches[:] = caves.gems[:] = False
    caves.hero[0], caves.wisp[0] = hero, CELLS - 2
    return caves


def cell(caves, row, column):
    """Return the pixels of a cell."""
    return caves.draw()[0, row * CELL : (row + 1) * CELL, column * CELL : (column + 1) * CELL].astype(int)


# The game.


def test_the_hero_walks_until_a_wall_stops_it():
    caves = room(hero=(8, 8))
    walk(caves, RIGHT, DOWN, DOWN, LEFT, UP)
    assert caves.hero.tolist() == [[9, 8]]
    walk(caves, *[UP] * CELLS, *[LEFT] * CELLS)
    assert caves.hero.tolist() == [[1, 1]]


def test_a_touched_torch_stays_lit_and_lights_its_surroundings():
    caves = room(hero=(8, 8))
    caves.torches[0, 8, 9] = True
    walk(caves, RIGHT, *[UP] * 7, *[LEFT] * 8, *[STAY] * 100)
    assert np.argwhere(caves.lit[0]).tolist() == [[8, 9]]
    assert cell(caves, 8, 9).mean() > 100
    assert cell(caves, 9, 10).mean() > 3 * cell(caves, 8, 1).mean()


def test_a_touched_gem_is_gone():
    caves = room(hero=(8, 8))
    caves.gems[0, 8, 9] = True
    walk(caves, STAY)
    assert caves.gems.any()
    walk(caves, RIGHT)
    assert not caves.gems.any()


def test_walls_stop_light():
    caves = room(hero=(8, 8))
    caves.walls[0, :, 10], caves.wisp[0] = True, 1
    walk(caves, *[STAY] * 40)
    assert caves.light[0, 8, 6].sum() > 10 * caves.light[0, 8, 12].sum()


def test_a_flash_lights_the_whole_cave_for_a_moment():
    caves = room(hero=(1, 1))
    bright = cell(caves, 14, 1).mean()
    walk(caves, *[STAY] * FLASH)
    assert cell(caves, 14, 1).mean() < bright / 5
    flash(caves)
    assert cell(caves, 14, 1).mean() == pytest.approx(bright, abs=5)


def test_every_place_of_a_cave_can_be_reached():
    caves = Caves(20, 5)
    assert (caves.torches.sum(axis=(1, 2)) == TORCHES).all()
    assert (caves.gems.sum(axis=(1, 2)) == GEMS).all()
    for walls, (y, x) in zip(caves.walls, caves.hero, strict=True):
        reached, new = set(), {(y, x)}
        while new:
            reached |= new
            beside = {(y + down, x + right) for y, x in new for down, right in WAYS}
            new = {place for place in beside - reached if not walls[place]}
        assert len(reached) == (~walls).sum()


def test_the_wisp_stays_out_of_the_walls():
    caves, seen = Caves(20, 2), set()
    for _ in range(200):
        walk(caves, STAY)
        assert not caves.walls[np.arange(20), *caves.wisp.T].any()
        seen.add(tuple(caves.wisp[0]))
    assert len(seen) > 10


# The dream.


@pytest.fixture(scope="module")
def played(dream):
    """Return dreams and games after 200 frames of random keys."""
    torch.set_num_threads(1)
    dreamer, players = Dreamer(dream, games=12, seed=77), Players(12, 77)
    for _ in range(200):
        dreamer.step(*players.press())
    return dreamer


def heroes(frames, dreamer):
    """Return the pixels of the cells in which the games have their heroes."""
    cells = frames.reshape(-1, CELLS, CELL, CELLS, CELL, 3).transpose(0, 1, 3, 2, 4, 5)
    return cells[np.arange(len(cells)), *dreamer.games.hero.T].astype(int)


def test_most_heroes_of_dreams_are_where_the_games_have_them(played):
    apart = np.abs(heroes(played.frames(), played) - heroes(played.games.draw(), played)).mean(axis=(1, 2, 3))
    assert (apart < 24).sum() > 8


def test_a_dream_has_exactly_one_hero_and_one_wisp(played):
    shares = things_of(played.memory)
    assert ((shares == 0) | (shares == 1)).all()
    assert (shares[:, [HERO, WISP]].sum(dim=(2, 3)) == 1).all()


def test_a_dream_remembers_what_the_dark_hides(played):
    dreamer = copy.deepcopy(played)
    dark = np.abs(dreamer.frames().astype(int)).mean()
    dreamer.step(np.zeros(12, int), np.ones(12, bool))
    frames, real = dreamer.frames().astype(int), dreamer.games.draw().astype(int)
    assert frames.mean() > 2 * dark
    assert np.abs(frames - real).mean() < 0.3 * np.abs(np.roll(frames, 1, axis=0) - real).mean()


def test_the_weights_are_small():
    assert WEIGHTS.stat().st_size < 4_000_000


def test_training_repeats():
    def trained():
        torch.manual_seed(1)
        dream = Dream()
        before = [value.clone() for value in dream.parameters()]
        assert [progress for progress, _ in train(dream, updates=2, minutes=60, seed=1)] == [0.5, 1]
        assert all(not torch.equal(one, other) for one, other in zip(before, dream.parameters(), strict=True))
        return [*dream.parameters()]

    torch.set_num_threads(1)
    assert all(torch.equal(one, other) for one, other in zip(trained(), trained(), strict=True))


def test_training_ends_when_its_time_is_over():
    assert [progress for progress, _ in train(Dream(), updates=5, minutes=1e-9, seed=1)] == [1]


def test_an_interrupted_training_leaves_the_weights_as_they_were(tmp_path):
    weights = tmp_path / "dream.safetensors"
    weights.write_text("of before")
    command = [sys.executable, "-u", Path(train.__code__.co_filename), "--out", weights]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as training:
        # The first line, such as "0%  1 s of 600", has about the ten minutes that a training may take.
        assert int(training.stdout.readline().split()[4]) < 1200
        training.send_signal(signal.SIGINT)
        assert training.stderr.read() == "stopped, nothing is written\n"
    assert weights.read_text() == "of before"


# The session.


def test_every_step_yields_a_frame(ex):
    first = next(ex).output.main_video
    assert (first.shape, first.dtype) == ((SIDE, 2 * SIDE, 3), np.uint8)
    assert first.std() > 10


@pytest.mark.parametrize(("move", "way"), [((0, 1), UP), ((0, -1), DOWN), ((-1, 0), LEFT), ((0.9, 0.2), RIGHT)])
def test_a_held_key_moves_the_hero_in_every_second_frame(ex, move, way):
    games = ex.state._dreamer.games
    games.walls[0, 1:-1, 1:-1] = False
    games.hero[0] = 8
    ex.send_event("set_move", move=move)
    places = []
    for _ in range(4):
        frame(ex)
        places.append((games.hero[0] - 8).tolist())
    once, twice = WAYS[way].tolist(), (2 * WAYS[way]).tolist()
    assert places == [once, once, twice, twice]


def test_lightning_lights_the_cave_once(ex):
    for _ in range(FLASH + 1):
        dark = frame(ex).mean()
    ex.send_event("lightning")
    assert frame(ex).mean() > 1.5 * dark
    for _ in range(FLASH + 1):
        after = frame(ex).mean()
    assert after < 1.3 * dark


def test_compare_shows_dream_and_game_side_by_side(ex):
    both = frame(ex)
    assert np.array_equal(both[:, :SIDE], ex.state._dreamer.frames()[0])
    assert np.array_equal(both[:, SIDE:], ex.state._dreamer.games.draw()[0])
    ex.send_event("set_compare", compare=False)
    alone, margin = frame(ex), SIDE // 2
    assert not alone[:, :margin].any()
    assert np.array_equal(alone[:, margin:-margin], ex.state._dreamer.frames()[0])


def test_torches_burn_in_the_dream_and_in_the_game_and_stay_lit(ex):
    for _ in range(100):
        frame(ex)
    dreamer = ex.state._dreamer
    dreamed = things_of(dreamer.memory)[:, FLAME].numpy() > 0.5
    # The wisp may be on one of them.
    assert dreamer.games.lit.sum() == BURNING
    assert (dreamed == dreamer.games.lit).sum() >= dreamed.size - 1


def test_frames_are_enlarged_as_far_as_they_fit():
    with PipelineExecutor(MyModel, config={"width": 5 * SIDE, "height": 3 * SIDE}) as ex:
        ex.connect()
        ex.send_event("set_compare", compare=False)
        large = frame(ex)
        small = ex.state._dreamer.frames()[0]
    assert large.shape == (3 * SIDE, 5 * SIDE, 3)
    middle = large[SIDE // 2 : -SIDE // 2, SIDE * 3 // 2 : -SIDE * 3 // 2]
    assert np.array_equal(middle, small.repeat(2, axis=0).repeat(2, axis=1))


def test_frames_are_reduced_where_they_do_not_fit():
    with PipelineExecutor(MyModel, config={"width": SIDE, "height": SIDE}) as ex:
        ex.connect()
        small = frame(ex)
        whole = np.concatenate([ex.state._dreamer.frames()[0], ex.state._dreamer.games.draw()[0]], axis=1)
    assert not small[: SIDE // 4].any()
    assert not small[-SIDE // 4 :].any()
    assert np.array_equal(small[SIDE // 4 : -SIDE // 4], whole[::2, ::2])


def test_restart_dreams_of_another_cave(ex):
    frame(ex)
    before = ex.state._dreamer.games.walls.copy()
    ex.send_event("restart")
    assert not np.array_equal(ex.state._dreamer.games.walls, before)
    assert ex.state._dreamer.games.flash.tolist() == [FLASH]


@pytest.mark.parametrize("temperature", [0.0, 1e-300])
def test_at_temperature_0_two_dreams_of_one_cave_are_the_same(dream, temperature):
    one, other = (Dreamer(dream, games=1, seed=1) for _ in range(2))
    other.chance.manual_seed(2)
    for _ in range(30):
        for dreamer in (one, other):
            dreamer.step(np.zeros(1, int), np.zeros(1, bool), temperature)
    assert np.array_equal(one.frames(), other.frames())


def test_a_higher_temperature_makes_the_wisp_turn_more_often(dream):
    def turns(temperature):
        dreamer, count = Dreamer(dream, games=8, seed=3), 0
        for _ in range(40):
            before = dreamer.games.heading
            dreamer.step(np.zeros(8, int), np.zeros(8, bool), temperature)
            count += (dreamer.games.heading != before).sum()
        return count

    assert turns(0.0) < turns(1.0) < turns(4.0)


def test_every_client_starts_with_the_same_dream(ex):
    first = frame(ex)
    ex.send_event("restart")
    frame(ex)
    ex.disconnect()
    ex.connect()
    assert np.array_equal(frame(ex), first)


def test_without_pytorch_the_error_names_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(RuntimeError, match="torch is not installed; try: pip install -r requirements.txt"):
        MyModel().load(SMALL)


@pytest.mark.parametrize("content", [None, b"", b"no weights"], ids=["missing", "empty", "damaged"])
def test_weights_that_cannot_be_used_are_an_error_that_names_the_training(tmp_path, content):
    path = tmp_path / "dream.safetensors"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(RuntimeError, match="dream.safetensors has no weights for network.py; try: python train.py"):
        load_dream(path)
