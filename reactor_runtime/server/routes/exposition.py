"""The figures in the words of Prometheus, written off the loop.

Names follow its conventions: seconds and bytes, `_total` for what only grows.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from reactor_runtime.server.routes.report import ServerReport
from reactor_runtime.server.telemetry.metrics import Histogram
from reactor_runtime.server.workers.engine import EnginePhase
from reactor_runtime.version import version


def write(report: ServerReport, accept: str) -> tuple[bytes, str]:
    """Write a report, and what any process has, in the format that `accept` asks for; returns its content type too.

    The registry is made anew: servers in one process know nothing of each other.
    """
    registry = CollectorRegistry()
    registry.register(_Reported(report))
    ProcessCollector(registry=registry)
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


class _Reported(Collector):
    def __init__(self, report: ServerReport) -> None:
        self._report = report

    def collect(self) -> Iterator[Metric]:
        report, metrics = self._report, self._report.metrics
        yield _build(report.model)
        yield from self._engines()
        yield GaugeMetricFamily("reactor_sessions_active", "Sessions that run", report.active)
        yield GaugeMetricFamily("reactor_controllers_waiting", "Controllers that wait in line", report.waiting)
        yield GaugeMetricFamily("reactor_viewers", "Viewers that are connected", report.viewers)
        yield _counts("reactor_sessions", "Sessions that ended, and why", "reason", metrics.sessions.counts)
        yield _counts("reactor_errors", "Errors that clients were told of", "code", metrics.errors.counts)
        about = "Requests and handshakes that were refused, by the status they were answered with"
        yield _counts("reactor_refusals", about, "status", metrics.refusals.counts)
        yield from self._frames()
        yield from self._traffic()
        yield _times("reactor_step", "Time the model took for a step", metrics.step_s)
        yield _times("reactor_encode", "Time it took to encode what is shown at once", metrics.encode_s)
        about = "Time from an input's arrival until the first frame that shows it was shown"
        yield _times("reactor_input_to_picture", about, metrics.input_s)
        yield _times("reactor_send", "Time until a socket was ready again after a frame or sound", metrics.send_s)

    def _engines(self) -> Iterator[Metric]:
        about = "1 for the state the model's process is in"
        states = GaugeMetricFamily("reactor_engine_state", about, labels=["engine", "state"])
        restarts = CounterMetricFamily("reactor_engine_restarts", "Losses of the model's process", labels=["engine"])
        for engine in self._report.engines:
            for phase in EnginePhase:
                states.add_metric([str(engine.number), phase.value], int(phase is engine.phase))
            restarts.add_metric([str(engine.number)], engine.losses)
        yield states
        yield restarts

    def _frames(self) -> Iterator[Metric]:
        metrics, frames = self._report.metrics, self._report.metrics.frames
        yield _counts("reactor_frames_emitted", "Frames the model made", "track", frames.emitted)
        yield _by_rung("reactor_frames_encoded", "Frames encoded, each rung counted", frames.encoded)
        yield _by_rung("reactor_frames_sent", "Frames sent, each client counted", frames.sent)
        about = "Frames a client was spared for a newer one, and what they had waited for"
        yield _counts("reactor_frames_skipped", about, "reason", metrics.skipped.counts)
        yield _counts("reactor_frames_dropped", "Frames shown to nobody, and why", "reason", metrics.dropped.counts)

    def _traffic(self) -> Iterator[Metric]:
        traffic = self._report.metrics.traffic
        yield _counts("reactor_sent_bytes", "Payload sent to clients", "kind", traffic.sent_bytes.counts)
        yield _counts("reactor_received_bytes", "Payload received from clients", "kind", traffic.received_bytes.counts)
        yield CounterMetricFamily("reactor_messages_sent", "Text messages sent to clients", traffic.sent_messages)
        about = "Messages received from clients"
        yield _counts("reactor_messages_received", about, "kind", traffic.received_messages.counts)


def _build(model: str) -> Metric:
    family = GaugeMetricFamily("reactor_build_info", "Always 1: what runs", labels=["version", "python", "model"])
    family.add_metric([version(), platform.python_version(), model], 1)
    return family


def _counts(name: str, about: str, label: str, counts: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(name, about, labels=[label])
    for value, count in counts.items():
        family.add_metric([value], count)
    return family


def _by_rung(name: str, about: str, counts: Mapping[tuple[str, int], int]) -> Metric:
    family = CounterMetricFamily(name, about, labels=["track", "rung"])
    for (track, rung), count in counts.items():
        family.add_metric([track, str(rung)], count)
    return family


def _times(name: str, about: str, histogram: Histogram) -> Metric:
    return HistogramMetricFamily(f"{name}_seconds", about, histogram.buckets(), histogram.sum, unit="seconds")
