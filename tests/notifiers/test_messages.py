"""Messages as people read them, and values that try to be more than values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from engine.labels import Labels
from notifiers import messages
from notifiers.notification import Notification
from notifiers.origin import Origin


def notification(alert: Any, status: str = "firing", **changes: Any) -> Notification:
    labels = alert.labels.to_dict()
    return Notification("the-id", "ops", status, labels, (alert,), **changes)  # type: ignore[arg-type]


def test_the_text_says_what_where_how_much_since_when_and_who(support: Any) -> None:
    entry = support.firing().evidence[0]
    other = {**entry, "rank": "1", "dst": "fd00::2", "retransmits": 3}
    alert = replace(support.firing(tier="1", cluster="c1"), evidence=(entry, other))
    assert messages.text(notification(alert)) == (
        "[FIRING] TcpRetransmitSpike torchrun:job42\n"
        "Many retransmits\n"
        "\n"
        "Task:    torchrun:job42\n"
        "Node:    n1\n"
        "Cluster: c1\n"
        "Ranks:   0, 1\n"
        "Value:   12.5\n"
        "Since:   2023-11-14T22:13:20Z\n"
        "Fired:   2023-11-14T22:14:20Z\n"
        "Runbook: https://example.com/tcp\n"
        "Labels:  tier=1\n"
        "\n"
        "Connections:\n"
        "  rank  process    connection                      retransmits\n"
        "  0     python[7]  10.0.0.1:5000 → 10.0.0.2:6000   12\n"
        "  1     python[7]  10.0.0.1:5000 → [fd00::2]:6000  3\n"
        "\n"
        "stallwatch, message the-id"
    )


def test_an_alert_about_a_whole_task_says_from_which_node_and_cluster_it_comes(
    support: Any,
) -> None:
    alert = replace(support.firing(), labels=Labels({"alertname": "A", "task_id": "slurm:7.0"}))
    text = messages.text(notification(alert, origin=Origin(node="gpu-17", cluster="c1")))
    assert "Node:    gpu-17\nCluster: c1\n" in text
    assert messages.subject(notification(alert, origin=Origin(node="gpu-17"))).endswith("slurm:7.0")


def test_a_resolved_message_says_when_it_ended(support: Any) -> None:
    alert = support.resolved(support.firing())
    text = messages.text(notification(alert, "resolved"))
    assert text.startswith("[RESOLVED] TcpRetransmitSpike torchrun:job42\n")
    assert "Resolved: 2023-11-14T22:15:20Z" in text


def test_evidence_that_is_no_connection_is_a_table_too(support: Any) -> None:
    call = {"rank": "1", "pid": 9, "comm": "python", "call": "cudaMemcpy", "seconds": 0.123456789}
    text = messages.text(notification(replace(support.firing(), evidence=(call,))))
    assert "Evidence:\n  rank  process    call        seconds\n" in text
    assert "  1     python[9]  cudaMemcpy  0.123457\n" in text


EVIL = [
    "a\r\nBcc: everyone@example.com",
    "a\x1b[2J\x07b",
    "a\u202eb\u2028c\u0085d",
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "x" * 100_000,
]


@pytest.mark.parametrize("evil", EVIL)
def test_label_values_stay_values(evil: str, support: Any) -> None:
    alert = support.firing(evil, task_id=evil, extra=evil)
    alert = replace(alert, evidence=({"rank": evil, "comm": evil, "src": evil, "sport": evil},))
    alert = replace(alert, annotations={"summary": evil, "odd\nname": evil})
    message = notification(alert)
    subject = messages.subject(message)
    assert subject.isprintable()
    assert len(subject) <= messages.MAX_SUBJECT_CHARACTERS
    html = messages.html(message)
    assert "<script" not in html
    assert "<img" not in html
    assert len(html) < 20_000
    text = messages.text(message)
    assert all(line.isprintable() for line in text.split("\n"))
    assert not any(line.startswith("Bcc:") for line in text.split("\n")[3:])


def test_only_web_addresses_become_links(support: Any) -> None:
    alert = replace(support.firing(), annotations={"runbook_url": "javascript:alert(1)"})
    assert "href" not in messages.html(notification(alert))
    alert = replace(support.firing(), annotations={"runbook_url": 'https://h/"x'})
    assert '<a href="https://h/&quot;x" rel="noreferrer">' in messages.html(notification(alert))


def test_what_does_not_fit_is_folded_with_a_count(support: Any) -> None:
    entry = support.firing().evidence[0]
    labels = {f"label{number:02}": "x" for number in range(25)}
    alert = replace(support.firing(**labels), evidence=(entry,) * 12)
    text = messages.text(notification(alert))
    assert "label19=x, and 5 more" in text
    assert "  and 2 more\n" in text
    assert "<p>and 2 more</p>" in messages.html(notification(alert))


def test_the_notes_keep_their_own_lines(support: Any) -> None:
    alert = replace(support.firing(), annotations={"summary": "one\ntwo", "description": "three"})
    assert "one\ntwo\nthree\n" in messages.text(notification(alert))
    assert "<p>one<br>two</p><p>three</p>" in messages.html(notification(alert))


def test_an_alert_without_a_task_is_named_by_its_node(support: Any) -> None:
    alert = replace(support.firing(), labels=Labels.of(alertname="ProbeDown", node="n1"))
    assert messages.subject(notification(alert)) == "[FIRING] ProbeDown n1"
    assert messages.subject(notification(alert, test=True)) == "[FIRING] [TEST] ProbeDown n1"
