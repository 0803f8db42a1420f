"""/api/v2/silences as Alertmanager's openapi.yaml and api.go have it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

UNKNOWN = "0b0d1f3a-0f62-4a68-8f0f-27c4a44a6a3e"


def test_a_silence_that_was_posted_is_shown(api: Any, support: Any) -> None:
    identity = api.post(support.postable())
    shown = {
        "id": identity,
        "status": {"state": "active"},
        "updatedAt": "2023-11-14T22:13:20.000Z",
        "comment": "host is being repaired",
        "createdBy": "jane",
        "endsAt": "2023-11-14T23:13:20.000Z",
        "matchers": [{"isEqual": True, "isRegex": False, "name": "alertname", "value": "Slow"}],
        "startsAt": "2023-11-14T22:13:20.000Z",
    }
    assert api.get("/api/v2/silences") == [shown]
    assert api.get(f"/api/v2/silence/{identity}") == shown


def test_annotations_and_all_four_kinds_of_matchers_are_kept(api: Any, support: Any) -> None:
    matchers = [
        {"isEqual": equal, "isRegex": regex, "name": "a", "value": "b"}
        for equal in (True, False)
        for regex in (True, False)
    ]
    identity = api.post(support.postable(matchers=matchers, annotations={"ticket": "OPS-7"}))
    shown = api.get(f"/api/v2/silence/{identity}")
    assert shown["matchers"] == matchers
    assert shown["annotations"] == {"ticket": "OPS-7"}


def test_a_post_with_an_id_changes_or_replaces(api: Any, support: Any) -> None:
    identity = api.post(support.postable())
    later = support.postable(id=identity, endsAt="2023-11-15T00:00:00Z")
    assert api.post(later) == identity
    other = [{"name": "a", "value": "b", "isRegex": False}]
    replacing = api.post(support.postable(id=identity, matchers=other))
    assert replacing != identity
    states = {one["id"]: one["status"]["state"] for one in api.get("/api/v2/silences")}
    assert states == {identity: "expired", replacing: "active"}


def test_a_deleted_silence_is_expired_and_stays_to_be_seen(api: Any, support: Any) -> None:
    identity = api.post(support.postable())
    reply = api.ask("DELETE", f"/api/v2/silence/{identity}")
    assert (reply.status, reply.body) == (200, b"")
    assert api.ask("DELETE", f"/api/v2/silence/{identity}").status == 200
    assert api.get(f"/api/v2/silence/{identity}")["status"] == {"state": "expired"}


def test_active_come_before_pending_and_expired_by_what_happens_next(
    api: Any, support: Any
) -> None:
    def add(comment: str, starts: str, ends: str) -> str:
        times = {"startsAt": f"2023-11-14T{starts}Z", "endsAt": f"2023-11-14T{ends}Z"}
        return str(api.post(support.postable(comment=comment, **times)))

    add("active, ends late", "22:13:20", "23:50:00")
    add("pending, starts late", "23:20:00", "23:50:00")
    add("active, ends soon", "22:13:20", "23:40:00")
    add("pending, starts soon", "23:10:00", "23:50:00")
    api.ask("DELETE", f"/api/v2/silence/{add('expired first', '22:13:20', '23:50:00')}")
    api.now_ms += 1000
    api.ask("DELETE", f"/api/v2/silence/{add('expired last', '22:13:20', '23:50:00')}")
    assert [one["comment"] for one in api.get("/api/v2/silences")] == [
        "active, ends soon",
        "active, ends late",
        "pending, starts soon",
        "pending, starts late",
        "expired last",
        "expired first",
    ]


def test_silences_are_found_by_their_matchers_and_creators(api: Any, support: Any) -> None:
    first = api.post(support.postable())
    second = api.post(
        support.postable(
            createdBy="joe", matchers=[{"name": "rank", "value": "1|2", "isRegex": True}]
        )
    )

    def found(**parameters: Any) -> set[str]:
        return {one["id"] for one in api.get("/api/v2/silences", **parameters)}

    assert found() == {first, second}
    assert found(filter='alertname="Slow"') == {first}
    assert found(filter='rank=~"1|2"') == {second}
    assert found(filter=['rank="1|2"']) == set()
    assert found(filter=['alertname="Slow"', 'rank=~"1|2"']) == set()
    assert found(creator="joe") == {second}
    assert found(creator=["joe", "jane"]) == {first, second}


REFUSED: list[tuple[dict[str, Any], int, str]] = [
    ({"matchers": []}, 422, "matchers in body should have at least 1 items"),
    ({"matchers": [{"name": "a"}]}, 422, "matchers.0.value in body is required"),
    ({"startsAt": None}, 422, "startsAt in body: should be a valid string"),
    ({"endsAt": "17"}, 422, 'endsAt in body: must be of type date-time: "17"'),
    ({"endsAt": "tomorrow T"}, 422, 'cannot parse "tomorrow T" to a valid timestamp'),
    ({"endsAt": "2023-11-14T22:13:20Z"}, 400, "start time must be before end time"),
    (
        {"startsAt": "2023-01-01T00:00:00Z", "endsAt": "2023-01-02T00:00:00Z"},
        400,
        "end time can't be in the past",
    ),
    ({"id": UNKNOWN}, 404, "silence not found"),
    (
        {"matchers": [{"name": "a", "value": "", "isRegex": False}]},
        400,
        "at least one matcher must not match the empty string",
    ),
    ({"matchers": [{"name": "a", "value": "(", "isRegex": True}]}, 400, "invalid regular"),
    ({"comment": "x" * 70_000}, 400, "silence exceeded maximum size"),
]


@pytest.mark.parametrize(("changes", "status", "message"), REFUSED)
def test_a_silence_that_cannot_be_is_one_clear_error(
    changes: dict[str, Any], status: int, message: str, api: Any, support: Any
) -> None:
    reply = api.ask("POST", "/api/v2/silences", support.postable(**changes))
    assert reply.status == status
    said = json.loads(reply.body)
    assert message in (said["message"] if status == 422 else said)
    assert api.get("/api/v2/silences") == []


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"{", 400, "parsing the body failed"),
        (b"\xff", 400, "parsing the body failed"),
        (b'"\\ud800"', 400, "parsing the body failed"),
        (b"[" * 100_000, 400, "parsing the body failed"),
        (b"[]", 422, "the JSON in body"),
        (b"", 415, "unsupported media type"),
    ],
)
def test_a_body_that_is_no_silence_is_one_clear_error(
    body: bytes, status: int, message: str, api: Any
) -> None:
    reply = api.ask("POST", "/api/v2/silences", body)
    assert reply.status == status
    assert message in json.loads(reply.body)["message"]


SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
ANY_JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
TIMES = st.datetimes().map(lambda time: f"{time.isoformat()}Z") | st.sampled_from(
    ["0000-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999-99:99"]
)
ANY_MATCHER = st.fixed_dictionaries(
    {"name": st.text(), "value": st.text(), "isRegex": st.booleans(), "isEqual": st.booleans()}
)
CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "id": st.text() | ANY_JSON,
        "matchers": st.lists(ANY_MATCHER, max_size=3) | ANY_JSON,
        "startsAt": TIMES | ANY_JSON,
        "endsAt": TIMES | ANY_JSON,
        "createdBy": ANY_JSON,
        "comment": st.text() | ANY_JSON,
        "annotations": st.dictionaries(st.text(), st.text()) | ANY_JSON,
    },
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(CHANGES)
def test_whatever_is_posted_is_taken_or_refused_for_a_reason_and_shown_again(
    api: Any, support: Any, changes: dict[str, Any]
) -> None:
    reply = api.ask("POST", "/api/v2/silences", support.postable(**changes))
    said = json.loads(reply.body)
    if reply.status == 200:
        shown = api.get(f"/api/v2/silence/{said['silenceID']}")
        wanted = support.postable(**changes)
        assert shown["comment"] == wanted["comment"]
        assert shown["matchers"] == [{"isEqual": True} | one for one in wanted["matchers"]]
        assert api.post(shown) == shown["id"]
    else:
        assert reply.status in {400, 404, 422}
        assert said["message"] if reply.status == 422 else said
    assert api.ask("GET", "/api/v2/silences").status == 200


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_an_unknown_id_is_404_and_what_is_no_id_422(method: str, api: Any) -> None:
    reply = api.ask(method, f"/api/v2/silence/{UNKNOWN}")
    assert (reply.status, reply.body) == (404, b"")
    reply = api.ask(method, "/api/v2/silence/nonsense")
    assert reply.status == 422
    assert json.loads(reply.body) == {
        "code": 601,
        "message": 'silenceID in path must be of type uuid: "nonsense"',
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [("a", "bad matcher 'a'"), ('a="b",c="d"', "expected 1 matcher, found 2"), ("", "found 0")],
)
def test_a_filter_that_is_no_matcher_is_refused(text: str, message: str, api: Any) -> None:
    reply = api.ask("GET", "/api/v2/silences", filter=text)
    assert reply.status == 400
    assert message in json.loads(reply.body)


def test_what_the_disk_refuses_is_an_answer(api: Any, support: Any) -> None:
    api.silences.close()
    reply = api.ask("GET", "/api/v2/silences")
    assert reply.status == 500
    assert "the silences cannot be read or written" in json.loads(reply.body)


def test_paths_and_methods_that_there_are_not_are_refused(api: Any) -> None:
    assert api.ask("GET", "/api/v2/nothing").status == 404
    reply = api.ask("POST", "/api/v2/alerts", [])
    assert (reply.status, dict(reply.headers)["Allow"]) == (405, "GET")
    assert api.ask("HEAD", "/api/v2/silences").status == 200
