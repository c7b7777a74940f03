import pytest

from arriero.bench.client_options import parse_url
from arriero.core.errors import ConfigError


@pytest.mark.parametrize(
    ("url", "base", "authority"),
    [
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080", "127.0.0.1:8080"),
        ("http://host:8080/v1/", "http://host:8080", "host:8080"),
        ("https://host/api/v1", "https://host:443/api", "host:443"),
        ("http://[::1]:80/", "http://[::1]:80", "[::1]:80"),
    ],
)
def test_a_base_url_may_end_in_v1_or_not(url: str, base: str, authority: str) -> None:
    address = parse_url(url)
    assert (address.url, address.authority) == (base, authority)
    assert address.is_tls is base.startswith("https")


@pytest.mark.parametrize(
    "url", ["", "host:80", "ftp://host", "http://", "http://h:99999", "http://h/?a=1", "http://me@h", "http://[::1"]
)
def test_anything_else_is_refused_in_one_line(url: str) -> None:
    with pytest.raises(ConfigError, match="http://") as caught:
        parse_url(url)
    assert "\n" not in str(caught.value)
