"""What all tests share: how Hypothesis runs, and signals that children do not inherit as ignored."""

from __future__ import annotations

import signal

from hypothesis import HealthCheck, settings

# How long an example takes says something about the machine, and nothing about the code.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

# nohup and background jobs of a shell ignore these signals, and children inherit that. A handler they do not inherit.
for _number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, lambda *_: None)
