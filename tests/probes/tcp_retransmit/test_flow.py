from __future__ import annotations

import socket
import struct

import pytest

from probes.tcp_retransmit.flow import (
    FLOW_BYTES,
    RECORD_BYTES,
    Connection,
    Flow,
    Kind,
    Record,
    User,
    address_text,
    decode_flow,
    decode_record,
)

MAPPED = bytes(10) + b"\xff\xff"
RAW = struct.pack(
    "=QQ16s16sIHH",
    0xFFFF888012345678,
    99_000,
    MAPPED + socket.inet_aton("10.0.0.1"),
    MAPPED + socket.inet_aton("10.0.0.2"),
    4321,
    40000,
    29500,
)
FLOW = Flow(
    0xFFFF888012345678, User(4321, 99_000), Connection("10.0.0.1", 40000, "10.0.0.2", 29500)
)


def test_a_flow_is_decoded_field_by_field() -> None:
    assert len(RAW) == FLOW_BYTES
    assert decode_flow(RAW) == FLOW


def test_a_record_is_a_head_and_a_flow_and_the_padding_of_a_perf_buffer_is_ignored() -> None:
    raw = struct.pack("=QII", 123_456, 2, 32) + RAW
    assert len(raw) == RECORD_BYTES
    expected = Record(123_456, Kind.CONNECT_FAILED, 32, FLOW)
    assert decode_record(raw) == decode_record(raw + bytes(4)) == expected


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (MAPPED + bytes([192, 168, 1, 2]), "192.168.1.2"),
        (socket.inet_pton(socket.AF_INET6, "fd98::1"), "fd98::1"),
        (bytes(16), "::"),
    ],
)
def test_addresses_are_written_as_people_write_them(raw: bytes, text: str) -> None:
    assert address_text(raw) == text
