import numpy as np
import pytest
from reactor_runtime.testing import Studio

from pipeline import MyModel


@pytest.fixture
def studio():
    with Studio(MyModel) as studio:
        studio.connect()
        yield studio


def test_w_walks_until_there_is_a_wall(studio):
    studio.model.state._place = 1.5 + 8.5j
    studio.send_event("look", dx=np.pi / 2, dy=0)
    studio.send_event("set_move", move=(0, 1))
    studio.run(2)
    assert studio.model.state._place == pytest.approx(1.5 + 9.8j, abs=0.1)


def test_a_gem_is_found_once(studio):
    studio.model.state._place = 3.1 + 8.5j
    studio.run(0.1)
    assert [message.data for message in studio.messages] == [{"gems": 1}]


def test_each_player_begins_at_the_start(studio):
    studio.send_event("set_move", move=(1, 0))
    studio.run(0.5)
    assert studio.model.state._place != 1.5 + 1.5j
    studio.disconnect()
    studio.connect()
    studio.run(0.1)
    assert studio.model.state._place == 1.5 + 1.5j
