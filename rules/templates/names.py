"""The names of the functions that a template may call.

Apart from what they do, so that to read a template does not load what only running one needs.
"""

from __future__ import annotations

from typing import Final

# Evaluated by the expander itself: lazily, or with what it was given.
LAZY: Final = frozenset({"and", "or"})
GIVEN: Final = frozenset({"query", "externalURL", "pathPrefix", "now"})
# Those of rules.templates.functions.
_COMPUTED: Final = (
    "not call len index slice print println printf html js urlquery eq ne lt le gt ge humanize"
    " humanize1024 humanizeDuration humanizePercentage humanizeTimestamp toTime toDuration"
    " parseDuration title toUpper toLower match reReplaceAll stripPort stripDomain safeHtml"
    " urlQueryEscape graphLink tableLink args first label value strvalue sortByLabel"
)
NAMES: Final[tuple[str, ...]] = (*_COMPUTED.split(), *sorted(LAZY), *sorted(GIVEN))
