"""Who sends: what a message says of its node where the labels of an alert do not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.address import parse_address
from engine.alerts.relabelling import relabel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.alerts.relabelling import RelabelRule
    from engine.config.model import Config
    from engine.labels import Labels


@dataclass(frozen=True, slots=True)
class Origin:
    """The agent behind a message. An alert that is summed over a task has no label `node`.

    `url`: Alertmanager's `externalURL`. `external_labels`: added to the labels of what is sent;
    `relabelling`: what becomes of them then.
    """

    node: str = ""
    cluster: str = ""
    url: str = ""
    external_labels: Mapping[str, str] = field(default_factory=dict)
    relabelling: tuple[RelabelRule, ...] = ()

    @classmethod
    def of(cls, config: Config) -> Origin:
        """The origin of a configuration.

        Without `external_url` the URL is made of the node's name and the port, as Prometheus and
        Alertmanager make theirs of the host's: it names the node, also where it cannot be reached.
        """
        _, port = parse_address(config.listen)
        return cls(
            node=config.node,
            cluster=config.cluster,
            url=config.external_url or f"http://{config.node}:{port}",
            external_labels=config.external_labels,
            relabelling=config.alert_relabel_configs,
        )

    def labelled(self, labels: Labels) -> Labels:
        """With external labels: they fill in, and never take the place of an alert's own.

        Source: `Manager.relabelAlerts` in Prometheus, notifier/manager.go.
        """
        missing = {name: text for name, text in self.external_labels.items() if name not in labels}
        return labels.merged(missing) if missing else labels

    def relabelled(self, labels: Labels) -> Labels | None:
        """Labels as they are sent; None: nobody is told of an alert with these."""
        full = self.labelled(labels)
        return relabel(self.relabelling, full) if self.relabelling else full
