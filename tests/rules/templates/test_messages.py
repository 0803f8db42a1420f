"""Templates of messages: Alertmanager's data, its functions and its built-in names."""

from __future__ import annotations

import pytest

from rules.source import Source
from rules.templates.errors import TemplateError
from rules.templates.library import library
from rules.templates.message_values import KV, Alerts
from rules.templates.moments import ZERO_NANOSECONDS, Moment
from rules.templates.values import Struct

BEGAN = Moment(1_700_000_000 * 10**9)


def alert(name: str, status: str = "firing", **labels: str) -> Struct:
    return Struct({
        "Status": status,
        "Labels": KV({"alertname": name, **labels}),
        "Annotations": KV({"summary": f"{name} is <bad>"}),
        "StartsAt": BEGAN,
        "EndsAt": Moment(ZERO_NANOSECONDS),
        "GeneratorURL": "http://node:9466/?a=1&b=2",
        "Fingerprint": "0123456789abcdef",
    })  # fmt: skip


DATA = Struct({
    "Receiver": "ops",
    "Status": "firing",
    "Alerts": Alerts([
        alert("LinkDown", zone="b", rank="0"), alert("GpuIdle", "resolved", zone="b")
    ]),
    "NotificationReason": "new alerts added",
    "GroupLabels": KV({"zone": "b"}),
    "CommonLabels": KV({"zone": "b", "team": "net"}),
    "CommonAnnotations": KV(),
    "RouteLabels": KV(),
    "ExternalURL": "http://node:9466",
})  # fmt: skip


def expanded(text: str, *files: str) -> str:
    sources = [Source(f"{place}.tmpl", one) for place, one in enumerate(files)]
    found, problems = library(sources)
    assert [problem.message for problem in problems] == []
    return found.expand(found.read(text), DATA)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("{{ .Status | toUpper }} {{ len .Alerts }} {{ .Receiver }}", "FIRING 2 ops"),
        ("{{ .Alerts.Firing | len }}/{{ len .Alerts.Resolved }}", "1/1"),
        ("{{ range .Alerts }}{{ .Labels.alertname }} {{ end }}", "LinkDown GpuIdle "),
        ("{{ (index .Alerts 0).Labels.rank }}{{ .CommonLabels.missing }}", "0"),
        ('{{ .CommonLabels.SortedPairs.Values | join ", " }}', "net, b"),
        ("{{ .CommonLabels.Names }}", "[team zone]"),
        ("{{ (.CommonLabels.Remove .GroupLabels.Names).Values }}", "[net]"),
        ('{{ .CommonLabels.Remove (stringSlice "team" "zone") }}', ""),
        ("{{ range .CommonLabels.SortedPairs }}{{ .Name }}={{ .Value }};{{ end }}",
         "team=net;zone=b;"),
        ("{{ (index .Alerts 0).Labels.SortedPairs }}", "alertname=LinkDown, rank=0, zone=b"),
        ("{{ .CommonLabels }} {{ .CommonLabels.SortedPairs }}",
         "team=net, zone=b team=net, zone=b"),
        ('{{ "node one: gpu" | title }} {{ "A LOUD one" | title }}', "Node One: Gpu A Loud One"),
        ('{{ "  x " | trimSpace }}{{ match "^fir" .Status }}', "xtrue"),
        ('{{ reReplaceAll "(.)i" "${1}I" .Status }}', "fIrIng"),
        ('{{ (index .Alerts 0).StartsAt.Format "2006-01-02T15:04:05Z07:00" }}',
         "2023-11-14T22:13:20Z"),
        ('{{ (index .Alerts 0).StartsAt | tz "Asia/Kolkata" | date "15:04 MST Z07:00 -0700" }}',
         "03:43 IST +05:30 +0530"),
        ('{{ (index .Alerts 0).StartsAt | tz "America/New_York" | date "15:04 MST" }}',
         "17:13 EST"),
        ("{{ (index .Alerts 0).EndsAt.IsZero }}", "true"),
        ('{{ with index .Alerts 0 }}{{ (.StartsAt.Add 28800e9).Format "15:04" }}{{ end }}',
         "06:13"),
        ("{{ with index .Alerts 0 }}{{ .EndsAt.Sub .StartsAt }}{{ end }}",
         "-2562047h47m16.854775808s"),
        (('{{ range $i, $one := (.CommonLabels.Remove .GroupLabels.Names).SortedPairs }}'
         '{{ if $i }}, {{ end }}{{ $one.Name }}="{{ $one.Value -}}"{{ end }}'), 'team="net"'),
        ("{{ range $name, $value := .CommonLabels }}{{ $name }}:{{ $value }} {{ end }}",
         "team:net zone:b "),
        ("{{ if gt ((index .Alerts 0).StartsAt | since).Hours 1.0 }}long{{ end }}", "long"),
        ("{{ humanizeDuration 3725 }}", "1h 2m 5s"),
        ("{{ toJson .CommonLabels }}", '{"team":"net","zone":"b"}'),
        ('{{ toJson (stringSlice "<a>") }}', '["\\u003ca\\u003e"]'),
        ('{{ urlUnescape "a%20b+c" }}', "a b c"),
        ('{{ printf "%d %s" (len .Alerts) .Status }}', "2 firing"),
        ('{{ define "own" }}[{{ . }}]{{ end }}{{ template "own" .Status }}', "[firing]"),
        ('{{ template "__subject" . }}', "[FIRING:1] b (net)"),
        ('{{ template "slack.default.title" . }}', "[FIRING:1] b (net)"),
        ('{{ template "slack.default.titlelink" . }}', "http://node:9466/api/v1/alerts"),
    ],
)  # fmt: skip
def test_a_template_says_what_alertmanager_says(text: str, shown: str) -> None:
    assert expanded(text) == shown


@pytest.mark.parametrize(
    "name",
    [
        "slack.default.text", "email.default.html", "email.default.subject",
        "opsgenie.default.description", "pagerduty.default.description",
        "telegram.default.message", "msteamsv2.default.text", "wechat.default.message",
        "webex.default.message", "discord.default.message", "victorops.default.state_message",
        "pushover.default.message", "sns.default.message", "rocketchat.default.text",
    ],
)  # fmt: skip
def test_the_names_that_configurations_refer_to_are_there(name: str) -> None:
    shown = expanded(f'{{{{ template "{name}" . }}}}')
    assert "LinkDown" in shown or "[FIRING:1]" in shown


def test_a_later_file_replaces_a_template_and_includes_earlier_ones() -> None:
    first = '{{ define "slack.default.title" }}one{{ end }}{{ define "kept" }}kept{{ end }}'
    second = '{{ define "slack.default.title" }}two {{ template "kept" . }}{{ end }}'
    assert expanded('{{ template "slack.default.title" . }}', first, second) == "two kept"
    assert expanded('{{ template "0.tmpl" . }}', "the file of {{ .Receiver }}") == "the file of ops"


@pytest.mark.parametrize(
    ("text", "place", "message", "hint"),
    [
        ('a\n{{ define "x" }}{{ .Status | toUper }}{{ end }}', "0.tmpl:2:30",
         "there is no function 'toUper'", "did you mean 'toUpper'?"),
        ('{{ define "x" }}', "0.tmpl:1:4", "'define' is not closed", ""),
        ('x\n  {{ template "slack.defualt.title" . }}', "0.tmpl:2:6",
         "there is no template 'slack.defualt.title'", "did you mean 'slack.default.title'?"),
        ("{{ $labels.job }}", "0.tmpl:1:4", "there is no variable '$labels'", ""),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_file_is_told_at_its_place(
    text: str, place: str, message: str, hint: str
) -> None:
    (problem,) = library([Source("0.tmpl", text)])[1]
    assert (problem.place, problem.message) == (place, message)
    assert hint in problem.hint


def test_a_failure_in_a_file_names_the_file() -> None:
    found, _ = library([Source("own.tmpl", '\n{{ define "x" }}{{ .Nothing }}{{ end }}')])
    with pytest.raises(TemplateError) as caught:
        found.expand(found.read('{{ template "x" . }}'), DATA)
    assert found.place(caught.value) == "own.tmpl:2:20"
    assert "Nothing" in caught.value.message


@pytest.mark.parametrize(
    "text",
    [
        '{{ define "x" }}{{ template "x" . }}{{ end }}{{ template "x" . }}',
        "{{ range 2000000 }}{{ end }}",
        "{{ range 100000 }}{{ range 100000 }}{{ end }}{{ end }}",
        '{{ range 100000 }}{{ printf "%1000d" 1 }}{{ end }}',
        '{{ tz "Moon/Base" (index .Alerts 0).StartsAt }}',
        '{{ join ", " .Status }}',
        "{{ .CommonLabels.Remove 1 }}",
        "{{ .CommonLabels.Remove }}",
        "{{ (index .Alerts 5).Labels }}",
    ],
)
def test_a_template_that_goes_on_for_ever_or_errs_is_an_error(text: str) -> None:
    found, _ = library()
    with pytest.raises(TemplateError):
        found.expand(found.read(text), DATA)
