"""Standard streams that keep their object, on files, pipes that nobody reads, and in programs whose threads print."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from reactor_runtime.logs.streams import StandardStream
from tests.printing import standard_streams
from tests.timeouts import TIMEOUT_S

RACE = """
import sys, threading
from reactor_runtime.logs import streams
from reactor_runtime.engine.progress import watch_output
from reactor_runtime.logs.prints import log_prints

sys.setswitchinterval(1e-6)
streams.install()
ours = streams.installed()
stdout = sys.stdout
over = threading.Event()

def chat():
    while not over.is_set():
        print("a line")

threads = [threading.Thread(target=chat) for _ in range(3)]
for thread in threads:
    thread.start()
for turn in range(200):
    with watch_output(lambda line: None, list(ours.values())):
        print("loading", file=sys.stderr)
    log_prints(ours)()
over.set()
for thread in threads:
    thread.join()
assert sys.stdout is stdout
"""


def test_a_thread_may_print_while_output_is_watched_or_logged_and_no_more() -> None:
    race = subprocess.run(
        [sys.executable, "-c", RACE], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=TIMEOUT_S, check=False
    )
    assert race.returncode == 0, race.stderr[-1000:]


def test_what_goes_to_the_file_alone_is_in_order_with_what_is_printed(tmp_path: Path) -> None:
    seen: list[str] = []
    with standard_streams(tmp_path) as streams:
        streams.stdout.observer = seen.append
        streams.stdout.write("loading … ")
        streams.stdout.direct.write("a line of the log\n")
        streams.stdout.write("done\n")
        assert streams.out == "loading … a line of the log\ndone\n"
    assert seen == ["loading … ", "done\n"]


def test_what_can_t_be_written_is_lost() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as pipe:
        stream = StandardStream(pipe)
        assert stream.write("nobody reads this\n") == 18
        assert stream.fileno() == writer
