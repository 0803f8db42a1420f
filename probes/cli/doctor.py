"""`stallwatch doctor`: what would run here, and the mend for each "no"."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from engine.config.loader import load_config

if TYPE_CHECKING:
    import argparse

    from probes.diagnosis.finding import Finding

_MARKS = {"ok": "ok", "degraded": "less", "no": "NO"}


class DoctorCommand:
    """Look at this machine before any start; needs no root, no bcc and no tracefs to answer."""

    summary = "tell what this kernel, these capabilities and these libraries allow"
    example = "sudo stallwatch doctor --format json"

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add --config and --format."""
        parser.add_argument("--config", metavar="FILE", help="whose port and state folder to try")
        parser.add_argument("--format", choices=("text", "json"), default="text")

    def run(self, args: argparse.Namespace) -> int:
        """Print the findings; 1 when something cannot run, 0 otherwise."""
        from probes.diagnosis import hooks, kernel, node

        config = load_config(args.config)
        findings = [*kernel.findings(), *hooks.findings(), *node.findings(config)]
        failed = any(finding.state == "no" for finding in findings)
        if args.format == "json":
            rows = [asdict(finding) for finding in findings]
            print(json.dumps({"ok": not failed, "findings": rows}, indent=2))
        else:
            print(render(findings))
            sys.stdout.flush()
        return 1 if failed else 0


def render(findings: list[Finding]) -> str:
    """A table, each mend below its line, and a sentence at the end."""
    width = max(len(finding.subject) for finding in findings)
    lines = []
    for finding in findings:
        mark = _MARKS[finding.state]
        lines.append(f"{mark:<4}  {finding.subject:<{width}}  {finding.detail}")
        if finding.mend and finding.state != "ok":
            lines.append(f"{'':<4}  {'':<{width}}  -> {finding.mend}")
    missing = [finding.subject for finding in findings if finding.state == "no"]
    less = sum(finding.state == "degraded" for finding in findings)
    if missing:
        lines.append(f"\nNot everything can run here: {', '.join(missing)}.")
    elif less:
        lines.append(f"\nEverything can run here, with less in {less} places.")
    else:
        lines.append("\nEverything can run here.")
    return "\n".join(lines)
