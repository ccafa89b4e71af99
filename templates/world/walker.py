"""Move through the land: walk, turn, look and jump, with inertia."""

from dataclasses import dataclass, field, replace
from math import cos, pi, sin

import numpy as np

from landscape import SEA, SIZE, Landscape
from view import Eye

# Cells a second.
WALK, RUN = 40, 90
# The largest pitch of the eye, in radians up or down.
STEEPEST = 0.5


@dataclass
class Walker:
    """The eye, its speeds ahead, aside and around, and the height and speed of a jump."""

    eye: Eye = field(default_factory=lambda: Eye(x=500.0, y=700.0, z=80.0, heading=2.9))
    speed: float = 0.0
    slide: float = 0.0
    spin: float = 0.0
    lift: float = 0.0
    rise: float = 0.0

    def move(
        self, land: Landscape, seconds: float, *, ahead: float, aside: float, turn: float, run: bool, climb: float
    ) -> None:
        """Walk and turn: the speeds approach the requested ones, and the eye leans into curves."""
        eye, fastest = self.eye, RUN if run else WALK
        self.speed += (ahead * fastest - self.speed) * 0.12
        self.slide += (aside * fastest - self.slide) * 0.12
        self.spin += (turn - self.spin) * 0.12
        eye.heading = (eye.heading + 1.2 * self.spin * seconds) % (2 * pi)
        eye.tilt = 0.12 * self.spin + 0.0006 * self.slide
        over, along = cos(eye.heading), sin(eye.heading)
        way = np.array([over * self.speed - along * self.slide, along * self.speed + over * self.slide])
        eye.x, eye.y = (np.array([eye.x, eye.y]) + way * seconds) % SIZE
        # As high as the highest ground of the next second, and not below the sea.
        near = np.linspace(-0.1, 1, 12)
        ground = land.height_at(eye.x + near * way[0], eye.y + near * way[1]).max()
        eye.z += (max(ground, SEA) + 9 + 60 * climb - eye.z) * 0.06
        self.lift = max(self.lift + self.rise * seconds, 0)
        self.rise = self.rise - 60 * seconds if self.lift else 0.0

    def look(self, right: float, down: float) -> None:
        """Turn the eye by angles in radians."""
        self.eye.heading = (self.eye.heading + right) % (2 * pi)
        self.eye.pitch = min(max(self.eye.pitch - down, -STEEPEST), STEEPEST)

    def jump(self) -> None:
        """Jump, from the ground only."""
        if self.lift == 0:
            self.rise = 34.0

    def move_elsewhere(self) -> None:
        """Move to another place, above every mountain, from where the eye descends."""
        eye = self.eye
        eye.x, eye.y, eye.heading = (eye.x + 0.38 * SIZE) % SIZE, (eye.y + 0.27 * SIZE) % SIZE, eye.heading + 2
        eye.z = 200.0

    def lifted_eye(self) -> Eye:
        """Return the eye at the height of the jump."""
        return replace(self.eye, z=self.eye.z + self.lift)
