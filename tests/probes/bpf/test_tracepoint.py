from __future__ import annotations

import pytest

from probes.bpf.errors import UnavailableError
from probes.bpf.tracepoint import Field, parse_format

COMMON = """\
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

"""
OF_5_10 = f"""name: tcp_retransmit_skb
ID: 1402
format:
{COMMON}\tfield:const void * skbaddr;\toffset:8;\tsize:8;\tsigned:0;
\tfield:const void * skaddr;\toffset:16;\tsize:8;\tsigned:0;
\tfield:int state;\toffset:24;\tsize:4;\tsigned:1;
\tfield:__u16 sport;\toffset:28;\tsize:2;\tsigned:0;
\tfield:__u16 dport;\toffset:30;\tsize:2;\tsigned:0;
\tfield:__u8 saddr[4];\toffset:32;\tsize:4;\tsigned:0;
\tfield:__u8 daddr[4];\toffset:36;\tsize:4;\tsigned:0;
\tfield:__u8 saddr_v6[16];\toffset:40;\tsize:16;\tsigned:0;
\tfield:__u8 daddr_v6[16];\toffset:56;\tsize:16;\tsigned:0;

print fmt: "sport=%hu", REC->sport
"""
OF_6_18 = f"""name: tcp_retransmit_skb
ID: 2281
format:
{COMMON}\tfield:const void * skaddr;\toffset:16;\tsize:8;\tsigned:0;
\tfield:__u16 family;\toffset:32;\tsize:2;\tsigned:0;
\tfield:__u8 saddr[4];\toffset:34;\tsize:4;\tsigned:0;
\tfield:int err;\toffset:76;\tsize:4;\tsigned:1;

print fmt: "err=%d", REC->err
"""


def test_offsets_come_from_the_format_file_of_the_kernel_at_hand() -> None:
    old, new = parse_format("e", OF_5_10), parse_format("e", OF_6_18)
    assert old.id == 1402
    assert old.fields["saddr"] == Field(32, 4, signed=False)
    assert new.fields["saddr"] == Field(34, 4, signed=False)
    assert new.fields["err"] == Field(76, 4, signed=True)


def test_a_define_exists_only_for_a_field_that_exists() -> None:
    names = ("skaddr", "family", "err")
    assert parse_format("e", OF_5_10).defines("SKB", names) == {
        "SKB_SKADDR_OFFSET": 16,
        "SKB_SKADDR_SIZE": 8,
    }
    assert parse_format("e", OF_6_18).defines("SKB", names)["SKB_ERR_OFFSET"] == 76


def test_a_required_field_that_is_missing_is_named() -> None:
    with pytest.raises(UnavailableError, match="no field family, err") as caught:
        parse_format("tcp:tcp_retransmit_skb", OF_5_10).require("skaddr", "family", "err")
    assert caught.value.reason == "no_tracepoint"


def test_a_dynamic_field_is_known_by_its_name() -> None:
    text = "ID: 5\n\tfield:__data_loc char[] filename;\toffset:8;\tsize:4;\tsigned:0;\n"
    assert parse_format("e", text).fields["filename"].offset == 8


def test_a_text_without_an_id_is_no_format_file() -> None:
    with pytest.raises(ValueError, match="no ID"):
        parse_format("e", "nothing")
