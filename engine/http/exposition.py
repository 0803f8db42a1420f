"""`/metrics`: the agent's own samples and its process, written by prometheus-client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from engine.http.message import Response
from engine.telemetry import METRICS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.http.sources import Sources


class OwnCollector(Collector):
    """Turns `Sources.samples()` into metric families. An empty label value is an absent label."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def collect(self) -> Iterable[Metric]:
        """One family per metric name, in the order of first sight."""
        families: dict[str, Metric] = {}
        for name, labels, kind, value in self._sources.samples():
            # A counter family carries no suffix; prometheus-client writes `_total` itself.
            kind_now = kind if kind != "counter" or name.endswith("_total") else "unknown"
            base = name.removesuffix("_total") if kind_now == "counter" else name
            if name not in families:
                known = METRICS.get(name)
                families[name] = Metric(base, known.text if known else name, kind_now)
            families[name].add_sample(name, {key: own for key, own in labels if own}, value)
        return families.values()


class Exposition:
    """The registry behind `/metrics`; one per server, so that two agents in a test never mix."""

    def __init__(self, sources: Sources) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(OwnCollector(sources))
        ProcessCollector(registry=self._registry)

    def render(self, accept: str) -> Response:
        """Text or OpenMetrics, whichever the client asks for."""
        encoder, content_type = choose_encoder(accept)
        return Response(200, encoder(self._registry), content_type)
