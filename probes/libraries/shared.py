"""The one watch of the agent: probes subscribe to it, and the kernel work is done once.

    libraries = subscribe("libnccl.so", "libcudart*.so*")
    changes = libraries.poll()
    libraries.close()

The first subscriber loads the hook, the last one that closes lets it go. All subscribers live in
one thread, the collector's. Whoever polls first in a round does the work for the others.
"""

from __future__ import annotations

from probes.bpf.errors import UnavailableError
from probes.libraries.hook import LinkerHook
from probes.libraries.limits import Limits
from probes.libraries.subscription import Changes, Subscription
from probes.libraries.watch import LibraryWatch

__all__ = ["Changes", "Subscription", "configure", "current", "subscribe"]


class _Shared(LibraryWatch):
    """Ends with its last subscriber."""

    def unsubscribe(self, subscription: Subscription) -> None:
        super().unsubscribe(subscription)
        if not self.subscribers:
            self.close()
            if _running and _running[0] is self:
                _running.clear()


# At most one of each. Limits can be set before anybody subscribes, and afterwards.
_running: list[_Shared] = []
_limits: list[Limits] = [Limits()]


def subscribe(*names: str) -> Subscription:
    """Follow processes that map files of these names.

    A name is the beginning of a file's own name (`libcudart.so`), or a glob over all of it where it
    has `*`, `?` or `[`. An executable's name will do, too. Never raises for what the machine lacks:
    `hook_error` of the subscription says why libraries are found late.
    """
    if not _running:
        _running.append(_open())
    return _running[0].subscribe(*names)


def configure(limits: Limits) -> None:
    """Set what the watch may spend, from its next poll on."""
    _limits[:] = [limits]
    if _running:
        _running[0].limits = limits


def current() -> LibraryWatch | None:
    """The watch, None while nobody subscribes."""
    return _running[0] if _running else None


def _open() -> _Shared:
    try:
        return _Shared(hook=LinkerHook(), limits=_limits[0])
    except UnavailableError as error:
        return _Shared(hook=None, hook_error=error, limits=_limits[0])
