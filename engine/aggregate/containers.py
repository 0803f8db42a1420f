"""Which container and pod a process runs in: from its cgroup, its environment and its root.

How sure each is: the container's id and the pod's UID come from the cgroup path that the runtime
made, which a process cannot choose without privileges. Pod name and namespace are what the pod
says of itself, and are only taken where the cgroup says that there is a pod.
"""

from __future__ import annotations

import re
import socket
from typing import TYPE_CHECKING

from engine.aggregate.inside import read_inside
from rules.slotted import dataclass

if TYPE_CHECKING:
    from pathlib import Path

    from engine.readings import Pairs

SHOWN_CHARACTERS = 12
NAMESPACE_FILE = "var/run/secrets/kubernetes.io/serviceaccount/namespace"
HOSTNAME_FILE = "etc/hostname"

_ID = r"(?P<id>[0-9a-f]{64})"
_POD = re.compile(
    r"kubepods[^/]*/.*?pod(?P<uid>[0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}"
    r"[-_][0-9a-f]{12}|[0-9a-f]{32})(?P<below>[^\n]*)"
)
# Below a pod's own folder: `/ID` (cgroupfs), `cri-containerd-ID.scope`, `crio-ID.scope` (systemd).
_BELOW_POD = re.compile(rf"[/:-]{_ID}(?:\.scope)?(?:/|$)")
# cgroup shapes of Docker, containerd's CRI plugin and podman; systemd and cgroupfs drivers.
_CONTAINERS = (
    re.compile(rf"/docker-{_ID}\.scope"),
    re.compile(rf"/docker/{_ID}"),
    re.compile(rf"cri-containerd[-:]{_ID}"),
    re.compile(rf"/libpod-{_ID}(?:\.scope)?"),
)
# Names of Kubernetes objects (RFC 1123): a pod's is a subdomain, a namespace a label.
_POD_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?")
_NAMESPACE = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Container:
    """Each "" where it is not known. `container`: the first 12 characters of its id."""

    container: str = ""
    pod_uid: str = ""
    pod: str = ""
    namespace: str = ""

    @property
    def labels(self) -> Pairs:
        """As labels of `stallwatch_task_info`."""
        return (
            ("container", self.container),
            ("namespace", self.namespace),
            ("pod", self.pod),
            ("pod_uid", self.pod_uid),
        )

    @property
    def fields(self) -> Pairs:
        """As fields of an event: those that are known."""
        return tuple((name, value) for name, value in self.labels if value)

    @property
    def task_id(self) -> str:
        """`pod:UID` or `container:ID`, "" outside of both."""
        if self.pod_uid:
            return f"pod:{self.pod_uid}"
        return f"container:{self.container}" if self.container else ""


def container_of(cgroups: tuple[str, ...]) -> Container:
    """Container and pod UID from cgroup paths; only shapes that are known."""
    for path in cgroups:
        pod = _POD.search(path)
        if pod:
            found = _BELOW_POD.search(pod["below"])
            container = found["id"][:SHOWN_CHARACTERS] if found else ""
            return Container(container, pod["uid"].replace("_", "-"))
    for path in cgroups:
        for shape in _CONTAINERS:
            found = shape.search(path)
            if found:
                return Container(found["id"][:SHOWN_CHARACTERS])
    return Container()


def named(container: Container, environ: dict[str, str], root: Path) -> Container:
    """The same with the pod's name and namespace, where it is a pod and says them.

    `root`: /proc/PID/root. The downward API comes first, by the names that its documentation uses;
    then what the kubelet mounts. A hostname that is the node's own is none of a pod (hostNetwork).
    """
    if not container.pod_uid:
        return container
    names = (
        environ.get("POD_NAME", ""),
        read_inside(root, HOSTNAME_FILE),
        environ.get("HOSTNAME", ""),
    )
    own = socket.gethostname()
    pod = next((name for name in names if name != own and _POD_NAME.fullmatch(name)), "")
    spaces = (environ.get("POD_NAMESPACE", ""), read_inside(root, NAMESPACE_FILE))
    namespace = next((name for name in spaces if _NAMESPACE.fullmatch(name)), "")
    return Container(container.container, container.pod_uid, pod, namespace)
