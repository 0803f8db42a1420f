"""Messages as people read them, and values that try to be more than values."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.alerts.alert import Alert, AlertState
from engine.labels import Labels
from notifiers.messages.composition import compose
from notifiers.messages.folding import cut
from notifiers.messages.hypertext import MAX_HTML_BYTES, html
from notifiers.messages.order import MAX_SUBJECT_CHARACTERS, subject, worst_first
from notifiers.messages.plain import text
from notifiers.notification import Notification
from notifiers.origin import Origin


def notification(alert: Any, status: str = "firing", **changes: Any) -> Notification:
    labels = alert.labels.to_dict()
    return Notification("the-id", "ops", status, labels, (alert,), **changes)  # type: ignore[arg-type]


def test_the_text_says_what_where_how_much_since_when_and_who(support: Any) -> None:
    entry = support.firing().evidence[0]
    other = {**entry, "rank": "1", "dst": "fd00::2", "retransmits": 3}
    alert = replace(support.firing(tier="1", cluster="c1"), evidence=(entry, other))
    assert text(notification(alert)) == (
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
        'To silence: stallwatch silence add alertname="TcpRetransmitSpike" cluster="c1" node="n1" '
        'task_id="torchrun:job42" tier="1" --comment \'message the-id\'\n'
        "stallwatch, message the-id"
    )


def test_that_an_alert_flaps_and_what_was_held_back_have_lines_of_their_own(support: Any) -> None:
    alert = support.firing()
    said = {
        **alert.annotations,
        "flapping": "changed 14 times in 28m, firing now",
        "held_back": "1 message since then",
        "stallwatch_resolve_expr": "x > 1",
    }
    shown = text(notification(replace(alert, annotations=said)))
    assert "\nFlapping:  changed 14 times in 28m, firing now\n" in shown
    assert "\nHeld back: 1 message since then\n" in shown
    # A setting of the rule is nobody's news.
    assert "x > 1" not in shown
    quiet = replace(support.firing(node="n2"), annotations={**said, "flapping": "changed 9 times"})
    both = Notification("the-id", "ops", "firing", {}, (replace(alert, annotations=said), quiet))
    shown = text(both)
    assert shown.count("Held back: 1 message since then") == 1
    assert shown.count("Flapping:") == 2


def test_an_alert_about_a_whole_task_says_from_which_node_and_cluster_it_comes(
    support: Any,
) -> None:
    alert = replace(support.firing(), labels=Labels({"alertname": "A", "task_id": "slurm:7.0"}))
    shown = text(notification(alert, origin=Origin(node="gpu-17", cluster="c1")))
    assert "Node:    gpu-17\nCluster: c1\n" in shown
    assert subject(notification(alert, origin=Origin(node="gpu-17"))).endswith("slurm:7.0")


def test_a_resolved_message_says_when_it_ended(support: Any) -> None:
    alert = support.resolved(support.firing())
    shown = text(notification(alert, "resolved"))
    assert shown.startswith("[RESOLVED] TcpRetransmitSpike torchrun:job42\n")
    assert "Resolved: 2023-11-14T22:15:20Z" in shown


def test_evidence_that_is_no_connection_is_a_table_too(support: Any) -> None:
    call = {"rank": "1", "pid": 9, "comm": "python", "call": "cudaMemcpy", "seconds": 0.123456789}
    shown = text(notification(replace(support.firing(), evidence=(call,))))
    assert "Evidence:\n  rank  process    call        seconds\n" in shown
    assert "  1     python[9]  cudaMemcpy  0.123457\n" in shown


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
    title = subject(message)
    assert title.isprintable()
    assert len(title) <= MAX_SUBJECT_CHARACTERS
    shown = html(message)
    assert "<script" not in shown
    assert "<img" not in shown
    assert len(shown) < 20_000
    lines = text(message).split("\n")
    assert all(line.isprintable() for line in lines)
    assert not any(line.startswith("Bcc:") for line in lines[3:])


def test_only_web_addresses_become_links(support: Any) -> None:
    alert = replace(support.firing(), annotations={"runbook_url": "javascript:alert(1)"})
    assert "href" not in html(notification(alert))
    alert = replace(support.firing(), annotations={"runbook_url": 'https://h/"x'})
    assert '<a href="https://h/&quot;x" rel="noreferrer">' in html(notification(alert))


def test_what_does_not_fit_is_folded_with_a_count(support: Any) -> None:
    entry = support.firing().evidence[0]
    labels = {f"label{number:02}": "x" for number in range(25)}
    alert = replace(support.firing(**labels), evidence=(entry,) * 12)
    shown = text(notification(alert))
    assert "label19=x, and 5 more" in shown
    assert "  and 2 more\n" in shown
    assert "<p>and 2 more</p>" in html(notification(alert))


def test_the_notes_keep_their_own_lines(support: Any) -> None:
    alert = replace(support.firing(), annotations={"summary": "one\ntwo", "description": "three"})
    assert "one\ntwo\nthree\n" in text(notification(alert))
    assert "<p>one<br>two</p><p>three</p>" in html(notification(alert))


def test_an_alert_without_a_task_is_named_by_its_node(support: Any) -> None:
    alert = replace(support.firing(), labels=Labels.of(alertname="ProbeDown", node="n1"))
    assert subject(notification(alert)) == "[FIRING] ProbeDown n1"
    assert subject(notification(alert, test=True)) == "[FIRING] [TEST] ProbeDown n1"


def group(*alerts: Any, **changes: Any) -> Notification:
    labels = {"task_id": "torchrun:job42"}
    return Notification("the-id", "ops", "firing", labels, alerts, **changes)


def test_a_group_says_once_what_holds_for_all_and_the_rest_once_per_alert(support: Any) -> None:
    alerts = (
        support.resolved(support.firing("GpuIdle", severity="info")),
        support.firing(severity="critical", rank="1"),
        replace(support.firing(severity="critical", rank="0"), evidence=()),
    )
    assert text(group(*alerts, origin=Origin("n1", "c1"))) == (
        "[FIRING:2, RESOLVED:1] TcpRetransmitSpike and 1 other alert torchrun:job42\n"
        "Many retransmits\n"
        "\n"
        "Task:    torchrun:job42\n"
        "Node:    n1\n"
        "Cluster: c1\n"
        "Runbook: https://example.com/tcp\n"
        "\n"
        "Firing (2):\n"
        "\n"
        "1. TcpRetransmitSpike rank 0\n"
        "   Ranks:  0\n"
        "   Value:  12.5\n"
        "   Since:  2023-11-14T22:13:20Z\n"
        "   Fired:  2023-11-14T22:14:20Z\n"
        "   Labels: severity=critical\n"
        "\n"
        "2. TcpRetransmitSpike rank 1\n"
        "   Ranks:  0, 1\n"
        "   Value:  12.5\n"
        "   Since:  2023-11-14T22:13:20Z\n"
        "   Fired:  2023-11-14T22:14:20Z\n"
        "   Labels: severity=critical\n"
        "\n"
        "   Connections:\n"
        "     rank  process    connection                     retransmits\n"
        "     0     python[7]  10.0.0.1:5000 → 10.0.0.2:6000  12\n"
        "\n"
        "Resolved (1):\n"
        "\n"
        "3. GpuIdle\n"
        "   Ranks:    0\n"
        "   Value:    12.5\n"
        "   Since:    2023-11-14T22:13:20Z\n"
        "   Fired:    2023-11-14T22:14:20Z\n"
        "   Resolved: 2023-11-14T22:15:20Z\n"
        "   Labels:   severity=info\n"
        "\n"
        "   Connections:\n"
        "     rank  process    connection                     retransmits\n"
        "     0     python[7]  10.0.0.1:5000 → 10.0.0.2:6000  12\n"
        "\n"
        "To silence: stallwatch silence add task_id=\"torchrun:job42\" --comment 'message the-id'\n"
        "stallwatch, message the-id"
    )


def test_the_worst_comes_first(support: Any) -> None:
    names = [
        alert.labels.get("alertname")
        for alert in worst_first(
            [
                support.resolved(support.firing("Over", severity="critical")),
                support.firing("Info", severity="info"),
                support.firing("Warning", severity="warning", tier="1"),
                support.firing("Suffering", severity="warning", tier="2"),
                support.firing("Unheard", severity="purple"),
                support.firing("Critical", severity="Critical"),
            ]
        )
    ]
    assert names == ["Critical", "Suffering", "Warning", "Unheard", "Info", "Over"]


def test_a_subject_counts_and_names_what_the_alerts_share(support: Any) -> None:
    one, two = support.firing(rank="0"), support.firing(rank="1")
    assert subject(group(one, two)) == "[FIRING:2] TcpRetransmitSpike torchrun:job42"
    ended = support.resolved(two)
    assert subject(group(one, ended)).startswith("[FIRING:1, RESOLVED:1] ")
    over = replace(group(support.resolved(one), ended), status="resolved")
    assert subject(over) == "[RESOLVED:2] TcpRetransmitSpike torchrun:job42"
    other = support.firing(task_id="slurm:7.0")
    assert subject(group(one, other)) == "[FIRING:2] TcpRetransmitSpike 2 tasks"


def test_a_possible_repeat_says_so_and_which(support: Any) -> None:
    told = notification(support.firing(), possible_repeat=True)
    notice = "This may be a repeat: then you have message the-id already."
    assert text(told).split("\n")[1] == notice
    assert notice in html(told)


def crowd(support: Any, count: int = 1000) -> Notification:
    spikes = [support.firing(severity="critical", rank=str(rank)) for rank in range(count - 40)]
    idle = [support.firing("GpuIdle", severity="info", rank=str(rank)) for rank in range(40)]
    return group(*idle, *spikes[: count - 43], *map(support.resolved, spikes[count - 43 :]))


def test_a_crowd_is_folded_and_counted(support: Any) -> None:
    told = crowd(support)
    shown = text(told)
    assert shown.startswith("[FIRING:997, RESOLVED:3] TcpRetransmitSpike and 1 other alert")
    assert "\nand 950 more: 910 TcpRetransmitSpike, 40 GpuIdle (3 of them resolved)\n" in shown
    assert "<p>and 950 more: 910 TcpRetransmitSpike, 40 GpuIdle" in html(told)
    assert shown.count("Connections:") == 10
    assert len(html(told).encode()) <= MAX_HTML_BYTES


@pytest.mark.parametrize("limit", [20, 160, 300, 1000, 2048, 4096, 9900, 100_000])
@pytest.mark.parametrize("count", [1, 41, 43, 47, 1000])
def test_a_limit_is_kept_and_every_alert_is_shown_or_counted(
    support: Any, limit: int, count: int
) -> None:
    told = notification(support.firing("Ünïcödé → 警报")) if count == 1 else crowd(support, count)
    shown = text(told, limit)
    assert len(shown.encode()) <= limit
    if limit >= 300 and count > 1:
        folded = re.search(r"^and (\d+) more", shown, re.MULTILINE)
        named = len(re.findall(r"^\d+\. ", shown, re.MULTILINE))
        assert named + int(folded.group(1) if folded else 0) == count


def test_the_worst_alert_is_told_in_full_before_others_are_named(support: Any) -> None:
    shown = text(crowd(support), 1500)
    assert "1. TcpRetransmitSpike rank 0\n   Ranks:" in shown
    assert "     0     python[7]  10.0.0.1:5000" in shown


def test_a_cut_never_splits_a_character() -> None:
    for limit in range(30):
        shown = cut("a→警b😀c" * 3, limit)
        assert len(shown.encode()) <= limit
        assert "\ufffd" not in shown


def test_tier_two_names_what_tier_one_saw(support: Any) -> None:
    connection = support.firing().evidence[0]
    evidence = (
        {"rank": "1", "pid": 9, "comm": "python", "event": "process_killed", "signal": 9},
        connection,
        {**connection, "dst": "10.0.0.3", "retransmits": 30},
        {"rank": "0", "pid": 7, "comm": "python", "call": "cudaMemcpy", "calls": 3, "seconds": 1.5},
        {"rank": "0", "comm_wait_ratio": 0.4},
    )
    suffering = replace(support.firing("TaskStalled", tier="2"), evidence=evidence)
    assert (
        "Tier 1:  process_killed python[9]; 42 retransmits on 2 connections, most "
        "10.0.0.1:5000 → 10.0.0.3:6000; slow cudaMemcpy python[7]: 1.5 s\n"
    ) in text(notification(suffering))
    assert "Tier 1:" not in text(notification(replace(suffering, labels=Labels.of(tier="1"))))


TEXTS = st.text("aé警😀<&_*\n", max_size=200)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("ABC"), TEXTS, st.booleans()), min_size=1, max_size=70),
    st.integers(250, 6000),
)
def test_whatever_the_alerts_say_all_are_shown_or_counted(
    told: list[tuple[str, str, bool]], limit: int
) -> None:
    alerts = tuple(
        Alert(
            Labels.of(alertname=name, rank=str(rank)),
            {"summary": said, "description": said},
            AlertState.RESOLVED if over else AlertState.FIRING,
            float(rank),
            rank,
            rank,
            rank + 1 if over else None,
        )
        for rank, (name, said, over) in enumerate(told)
    )
    shown = text(Notification("i", "ops", "firing", {}, alerts), limit)
    assert len(shown.encode()) <= limit
    if len(alerts) > 1:
        folded = re.search(r"^and (\d+) more: ", shown, re.MULTILINE)
        named = len(re.findall(r"^\d+\. [ABC]", shown, re.MULTILINE))
        assert named + int(folded.group(1) if folded else 0) == len(alerts)


def test_parts_are_only_what_is_their_own(support: Any) -> None:
    message = compose(group(support.firing(rank="0"), support.firing(rank="1")))
    assert [part.heading for part in message.parts] == [
        "TcpRetransmitSpike rank 0",
        "TcpRetransmitSpike rank 1",
    ]
    assert all(part.notes == () for part in message.parts)
