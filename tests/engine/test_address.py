from __future__ import annotations

import pytest

from engine.address import local_url, parse_address


@pytest.mark.parametrize(
    ("listen", "url"),
    [
        ("127.0.0.1:9466", "http://127.0.0.1:9466"),
        ("gpu-17:80", "http://gpu-17:80"),
        ("[fd00::2]:9466", "http://[fd00::2]:9466"),
        (":9466", "http://127.0.0.1:9466"),
        ("0.0.0.0:9466", "http://127.0.0.1:9466"),
        ("[::]:9466", "http://[::1]:9466"),
    ],
)
def test_whoever_listens_everywhere_is_reached_over_loopback(listen: str, url: str) -> None:
    assert local_url(listen) == url


@pytest.mark.parametrize("text", ["", "9466", "host:", "host:port", "host:65536", "::1:80"])
def test_what_is_no_address_is_refused_with_the_mend(text: str) -> None:
    with pytest.raises(ValueError, match=r"write host:port|in brackets: '\["):
        parse_address(text)
