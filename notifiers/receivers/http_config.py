"""Alertmanager's `http_config`: who we are to an HTTP server, and whom we trust."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import requests
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationInfo,
    field_validator,
    model_validator,
)

from notifiers.receivers.urllib3_log import silence_urllib3

if TYPE_CHECKING:
    from requests import PreparedRequest
    from typing_extensions import Self


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


def _is_one_line(secret: SecretStr) -> SecretStr:
    if not secret.get_secret_value().isprintable():
        raise ValueError("holds a line break or another character that no header may have")
    return secret


HeaderSecret = Annotated[SecretStr, AfterValidator(_is_one_line)]


class Authorization(_Section):
    """The `Authorization` header: `type credentials`."""

    type: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+$")] = "Bearer"
    credentials: HeaderSecret


class BasicAuth(_Section):
    """User name and password."""

    username: str
    password: SecretStr = SecretStr("")


class TlsConfig(_Section):
    """Certificates, as paths of PEM files, relative ones from the configuration's folder.

    Verification stays on unless it is switched off.
    """

    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    insecure_skip_verify: bool = False

    @field_validator("ca_file", "cert_file", "key_file")
    @classmethod
    def _exists(cls, path: str, info: ValidationInfo) -> str:
        if not path:
            return path
        whole = Path((info.context or {}).get("folder", "")) / path
        if not whole.is_file():
            raise ValueError(f"there is no file '{path}'")
        return str(whole)


class HttpConfig(_Section):
    """Alertmanager's names. Redirects are never followed: they would carry the credentials."""

    authorization: Authorization | None = None
    basic_auth: BasicAuth | None = None
    bearer_token: HeaderSecret | None = None
    tls_config: TlsConfig = TlsConfig()
    proxy_url: SecretStr | None = None

    @model_validator(mode="after")
    def _one_identity(self) -> Self:
        given = [self.authorization, self.basic_auth, self.bearer_token]
        if sum(one is not None for one in given) > 1:
            raise ValueError("give at most one of authorization, basic_auth and bearer_token")
        return self


class Identity(requests.auth.AuthBase):
    """Sends one `Authorization` header, and none when it is empty."""

    # As an auth object, so that requests does not look for another identity in ~/.netrc.
    def __init__(self, header: str) -> None:
        self._header = header

    def __call__(self, request: PreparedRequest) -> PreparedRequest:
        """See AuthBase."""
        if self._header:
            # As bytes: http.client would refuse text beyond Latin-1.
            request.headers["Authorization"] = self._header.encode()  # type: ignore[assignment]
        return request


def open_session(config: HttpConfig) -> requests.Session:
    """A session that does what the configuration says and nothing that the environment says."""
    silence_urllib3()
    session = requests.Session()
    session.trust_env = False
    if config.basic_auth is not None:
        name, password = config.basic_auth.username, config.basic_auth.password
        pair = f"{name}:{password.get_secret_value()}".encode()
        session.auth = Identity(f"Basic {base64.b64encode(pair).decode()}")
    elif config.authorization is not None:
        scheme, secret = config.authorization.type, config.authorization.credentials
        session.auth = Identity(f"{scheme} {secret.get_secret_value()}")
    elif config.bearer_token is not None:
        session.auth = Identity(f"Bearer {config.bearer_token.get_secret_value()}")
    tls = config.tls_config
    session.verify = False if tls.insecure_skip_verify else (tls.ca_file or True)
    if tls.cert_file:
        session.cert = (tls.cert_file, tls.key_file) if tls.key_file else tls.cert_file
    if config.proxy_url is not None:
        proxy = config.proxy_url.get_secret_value()
        session.proxies = {"http": proxy, "https": proxy}
    return session
