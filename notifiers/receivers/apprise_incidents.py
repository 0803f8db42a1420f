"""One incident for a group of a node, at the services that keep incidents: it ends with the group.

Without a key of ours each message would open an incident of its own, and none would end: apprise
makes up a key from the title, which says how many alerts there are.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import requests

from notifiers.receivers.http_post import JSON_HEADERS, ask

if TYPE_CHECKING:
    from notifiers.notification import Notification

# The source of an event where a PagerDuty URL names none.
_NAMELESS = "Apprise"
# Where apprise keeps a service's key: for most in `dedup`.
_KEYS = ("dedup", "alias", "external_id")
_OPSGENIE = {
    "us": "https://api.opsgenie.com/v2/alerts",
    "eu": "https://api.eu.opsgenie.com/v2/alerts",
}


def scheme_of(service: Any) -> str:
    """The scheme of an apprise service's URLs, the first where there are several."""
    scheme = service.secure_protocol or service.protocol or ""
    return scheme if isinstance(scheme, str) else str(next(iter(scheme), ""))


def incident_key(notification: Notification) -> str:
    """64 hex digits, the same as long as the group is: of node, receiver and group."""
    place = (notification.origin.node, notification.receiver, notification.group_key)
    return hashlib.sha256("\0".join(place).encode()).hexdigest()


def tie(service: Any, notification: Notification) -> None:
    """Give an incident our key, and let firing open and resolved close it.

    What the URL says about a key or a source goes first.
    """
    key = incident_key(notification)
    if hasattr(service, "action"):
        for name in _KEYS:
            if getattr(service, name, key) in {None, ""}:
                setattr(service, name, key)
        if service.action == "trigger":
            service.action = "map"
    if scheme_of(service) == "splunk" and service.entity_id.startswith(f"{service.app_id}/"):
        service.entity_id = f"{service.entity_id}/{key}"
    if scheme_of(service) == "pagerduty" and service.source == _NAMELESS:
        service.source = notification.origin.node or _NAMELESS


def closes_itself(service: Any, notification: Notification) -> bool:
    """Whether apprise would say nothing of this end, as it only knows what it opened itself."""
    mapped = scheme_of(service) == "opsgenie" and service.action == "map"
    return mapped and notification.status == "resolved"


def close(service: Any, note: str, timeout_seconds: float) -> None:
    """Close an Opsgenie alert by its alias (docs.opsgenie.com, "Close Alert"). Raises SendError."""
    url = f"{_OPSGENIE[service.region_name]}/{quote(service.alias, safe='')}/close"
    body = json.dumps({"source": service.app_desc, "note": note}).encode()
    headers = {**JSON_HEADERS, "Authorization": f"GenieKey {service.apikey}"}
    # Proxies and certificates are the environment's, as they are for what apprise asks itself.
    with requests.Session() as session:
        session.verify = service.verify_certificate
        session.params = {"identifierType": "alias"}
        ask(session, url, timeout_seconds, body=body, headers=headers)
