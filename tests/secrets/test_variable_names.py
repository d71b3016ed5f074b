"""Which variables count as secrets: they are redacted, and the sandbox does not get them."""

from __future__ import annotations

import pytest

from core.secrets import from_environment, is_secret_name
from core.secrets.variable_names import without_secret_variables

SECRET = [
    *("DB_PASS", "SSHPASS", "MYSQL_PWD", "PGPASSWORD", "ROOT_PW", "PW", "PASS", "DBPASS", "SMTP_PASS_2", "MYSQLPWD"),
    *("NPM_CONFIG__AUTH", "BASIC_AUTH", "DOCKER_AUTH_CONFIG", "SLACK_WEBHOOK_URL", "TEAMS_WEBHOOK", "db_pass"),
    *("OPENAI_API_KEY", "GH_TOKEN", "AZURE_STORAGE_CONNECTION_STRING", "SECRET_KEY_BASE", "NGROK_AUTHTOKEN"),
    *(
        "TS_AUTHKEY",
        "AWS_SECRETKEY",
        "GOOGLE_APPLICATION_CREDENTIALS_JSON",
        "APP_PRIVATE_KEY_PEM",
        "DEPLOY_PRIVATE_KEY_B64",
    ),
]
ORDINARY = [
    *("PWD", "OLDPWD", "SSH_ASKPASS", "GIT_ASKPASS", "SSH_AUTH_SOCK", "XAUTHORITY", "PATH", "KEYBOARD", "COMPASS"),
    *("GOOGLE_APPLICATION_CREDENTIALS_FILE", "AUTHKEYS_FOLDER", "KEY_BASENAME", "PUBLIC_KEY_PEM_PATH"),
    *("BYPASS", "WEBHOOK_PORT", "AUTHOR", "HTTP_PROXY", "https_proxy", "NO_PROXY", "GIT_AUTHOR_NAME"),
]


@pytest.mark.parametrize("name", SECRET)
def test_variable_with_a_secret_name_is_redacted_and_withheld(name: str) -> None:
    environ = {name: "hunter2-hunter2"}
    assert from_environment(environ) == ["hunter2-hunter2"]
    assert without_secret_variables(environ) == {}


@pytest.mark.parametrize("name", ORDINARY)
def test_variable_with_an_ordinary_name_is_passed(name: str) -> None:
    environ = {name: "/home/me/a-long-enough-value"}
    assert not is_secret_name(name)
    assert from_environment(environ) == []
    assert without_secret_variables(environ) == environ


@pytest.mark.parametrize(
    ("address", "redacted"),
    [
        ("postgres://user:pw-of-the-database@host/db", ["pw-of-the-database"]),
        ("redis://:pw-of-the-cache@host:6379/0", ["pw-of-the-cache"]),
        ("amqp://u:first-password@a,amqp://u:second-password@b", ["first-password", "second-password"]),
        ("mysql://u:p%40ss%2Fword-1@host", ["p%40ss%2Fword-1", "p@ss/word-1"]),
        ("postgres://u:with@sign-inside@host/db", ["with@sign-inside"]),
        ("https://0123456789abcdef0123456789abcdef@github.com/a/b", ["0123456789abcdef0123456789abcdef"]),
        ("postgres://user:short@host", []),
    ],
)
def test_password_in_an_address_is_redacted_and_the_variable_withheld(address: str, redacted: list[str]) -> None:
    environ = {"STORAGE": address, "LANG": "C"}
    assert from_environment(environ) == redacted
    assert without_secret_variables(environ) == {"LANG": "C"}


@pytest.mark.parametrize("name", ["HTTP_PROXY", "https_proxy", "ALL_PROXY"])
def test_proxy_is_passed_and_its_password_redacted(name: str) -> None:
    environ = {name: "http://user:pw-of-the-proxy@proxy:3128"}
    assert without_secret_variables(environ) == environ
    assert from_environment(environ) == ["pw-of-the-proxy"]


@pytest.mark.parametrize("address", ["https://example.org/a@b", "ssh://git@github.com/x", "http://host:8080/x?u=a:b@c"])
def test_address_without_a_password_is_passed(address: str) -> None:
    assert without_secret_variables({"STORAGE": address}) == {"STORAGE": address}
