"""Services that a loopback server plays, and the group that they are told of."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from notifiers.notification import NEW_ALERTS, Notification
from notifiers.origin import Origin
from notifiers.receivers.apprise import AppriseConfig, AppriseReceiver

SLACK = "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/"
URLS = {
    "slack": f"{SLACK}?timestamp=no",
    "slack_bot": "slack://xoxb-1234567890-1234567890-4ddbd1a0c1d6f9e1/%23ops/?timestamp=no",
    "slack_blocks": f"{SLACK}?blocks=yes",
    "discord": "discord://012345678901234567/abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmn/",
    "teams": "workflows://teams.example.com/643e69f83c8944438d68119179a10a64/KODuebWbDGYFr0z0eu/",
    "pagerduty": "pagerduty://0123456789abcdef0123456789abcdef@u+apikey/",
    "dingtalk": "dingtalk://0123456789abcdef/",
    "wecom": "wecombot://693a91f6-7xxx-4bc4-97a0-0ec2sifa5aaa/",
    "feishu": "feishu://01234567-89ab-cdef-0123-456789abcdef/",
}
HOSTS = (
    "hooks.slack.com",
    "slack.com",
    "discord.com",
    "teams.example.com",
    "events.pagerduty.com",
    "oapi.dingtalk.com",
    "qyapi.weixin.qq.com",
    "open.feishu.cn",
    "api.ilert.com",
    "api.squadcast.com",
    "alert.victorops.com",
    "api.opsgenie.com",
)


def group(support: Any) -> Notification:
    """A job that suffers, why, what is over, and a crowd that no chat has room for."""
    spike = replace(
        support.firing(severity="critical", tier="1", region="上海"),
        annotations={
            "summary": 'Many retransmits <b>&amp; "quotes"</b> 重传过多',
            "description": "The path to one peer loses packets.\nLook at the switch.",
            "runbook_url": "https://example.com/tcp",
        },
    )
    suffering = replace(
        support.firing("TaskStalled", severity="critical", tier="2", region="上海"),
        annotations={"summary": "Ranks wait for each other", "owner": "net team"},
        value=0.61,
        evidence=(*spike.evidence, {"rank": "0", "comm_wait_ratio": 0.61}),
    )
    idle = support.firing("GpuIdle", severity="info", region="上海")
    slow = [
        replace(
            support.firing("RankSlow", severity="warning", rank=str(rank), region="上海"),
            annotations={"summary": f"Rank {rank} is slow"},
        )
        for rank in range(60)
    ]
    labels = {"task_id": "torchrun:job42"}
    alerts = (support.resolved(idle), *slow, spike, suffering)
    return Notification(
        "0123456789abcdef0123456789abcdef",
        "oncall",
        "firing",
        labels,
        alerts,
        origin=Origin("gpu-17", "c1", "http://gpu-17:9466"),
        group_key_text='{}/{tier=~".+"}:{task_id="torchrun:job42"}',
        route_labels={"team": "net"},
        reason=NEW_ALERTS,
        possible_repeat=True,
    )


def taken(handler: Any) -> None:
    slack = handler.headers["Host"] == "hooks.slack.com"
    body = b"ok" if slack else b'{"code": 0, "errcode": 0, "ok": true, "requestId": "r"}'
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def send(url: str, notification: Notification) -> None:
    (target,) = AppriseReceiver(AppriseConfig.model_validate({"url": url})).targets()
    target.send(notification, 30)
