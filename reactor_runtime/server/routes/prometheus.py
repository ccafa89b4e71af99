"""Writes the metrics in the formats of Prometheus, on a thread.

Names follow its conventions: seconds and bytes, `_total` for counters.
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
    """Return a report and the metrics of the process in a format that `accept` allows, and its content type.

    The registry is new each time, so that servers in one process are separate.
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
        yield GaugeMetricFamily("reactor_sessions_active", "Running sessions", report.active)
        about = "Sessions that fit on the loaded models, those that run included, as measured"
        yield GaugeMetricFamily("reactor_sessions_fitting", about, report.fitting)
        yield GaugeMetricFamily("reactor_controllers_waiting", "Controllers in the wait queue", report.waiting)
        yield GaugeMetricFamily("reactor_viewers", "Connected viewers", report.viewers)
        yield _counts("reactor_sessions", "Sessions that have ended, by reason", "reason", metrics.sessions.counts)
        yield _counts("reactor_errors", "Errors sent to clients", "code", metrics.errors.counts)
        about = "Workers of a front that ended or were given up"
        yield CounterMetricFamily("reactor_workers_lost", about, metrics.workers_lost)
        about = "Refused requests and handshakes, by status"
        yield _counts("reactor_refusals", about, "status", metrics.refusals.counts)
        about = "Kinds of resources that grew in three sessions of an engine in a row"
        yield _counts("reactor_leaks", about, "kind", metrics.leaks.counts)
        about = "Frames and pieces of sound of clients that were dropped because the model read in order, too slowly"
        yield _counts("reactor_inputs_lost", about, "kind", metrics.inputs_lost.counts)
        yield from self._frames()
        yield from self._traffic()
        yield _times("reactor_step", "Time of a step of the model", metrics.step_s)
        yield _times("reactor_encode", "Time to encode a frame bundle", metrics.encode_s)
        about = "Time from the arrival of an input until the first frame with its effect was shown"
        yield _times("reactor_input_to_frame", about, metrics.input_s)
        yield _times("reactor_send", "Time until a socket was ready again after a frame or sound", metrics.send_s)

    def _engines(self) -> Iterator[Metric]:
        about = "1 for the state of the engine"
        states = GaugeMetricFamily("reactor_engine_state", about, labels=["engine", "state"])
        restarts = CounterMetricFamily("reactor_engine_restarts", "Crashes of the engine", labels=["engine"])
        for engine in self._report.engines:
            for phase in EnginePhase:
                states.add_metric([str(engine.number), phase.value], int(phase is engine.phase))
            restarts.add_metric([str(engine.number)], engine.losses)
        yield states
        yield restarts

    def _frames(self) -> Iterator[Metric]:
        metrics, frames = self._report.metrics, self._report.metrics.frames
        yield _counts("reactor_frames_emitted", "Frames that the model made", "track", frames.emitted)
        yield _by_rung("reactor_frames_encoded", "Encoded frames, each rung counted", frames.encoded)
        yield _by_rung("reactor_frames_sent", "Sent frames, each client counted", frames.sent)
        about = "Frames that a client was not sent because a newer one replaced them, by what they waited for"
        yield _counts("reactor_frames_skipped", about, "reason", metrics.skipped.counts)
        about = "Frames that no client was sent, by reason"
        yield _counts("reactor_frames_dropped", about, "reason", metrics.dropped.counts)

    def _traffic(self) -> Iterator[Metric]:
        traffic = self._report.metrics.traffic
        yield _counts("reactor_sent_bytes", "Payload sent to clients", "kind", traffic.sent_bytes.counts)
        yield _counts("reactor_received_bytes", "Payload received from clients", "kind", traffic.received_bytes.counts)
        yield CounterMetricFamily("reactor_messages_sent", "Text messages sent to clients", traffic.sent_messages)
        about = "Messages received from clients"
        yield _counts("reactor_messages_received", about, "kind", traffic.received_messages.counts)


def _build(model: str) -> Metric:
    about = "Always 1; the labels are the versions and the model"
    family = GaugeMetricFamily("reactor_build_info", about, labels=["version", "python", "model"])
    family.add_metric([version(), platform.python_version(), model], 1)
    return family


def _counts(name: str, about: str, label: str, counts: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(name, about, labels=[label])
    for value, count in counts.items():
        family.add_metric([value], count)
    return family


def _by_rung(name: str, about: str, counts: Mapping[tuple[str, str, int], int]) -> Metric:
    family = CounterMetricFamily(name, about, labels=["track", "encoding", "rung"])
    for (track, encoding, rung), count in counts.items():
        family.add_metric([track, encoding, str(rung)], count)
    return family


def _times(name: str, about: str, histogram: Histogram) -> Metric:
    return HistogramMetricFamily(f"{name}_seconds", about, histogram.buckets(), histogram.sum, unit="seconds")
