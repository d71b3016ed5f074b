"""Resolution of paths by their text, one row for each spelling."""

from __future__ import annotations

import pytest

from core.security.paths import Places, Region

APP, HOME = Places("/workspace/app"), Places("/home/ada/app")


@pytest.mark.parametrize(
    ("path", "cwd", "resolved"),
    [
        ("x", "/workspace/app", "/workspace/app/x"),
        ("x", None, None),
        ("/x", None, "/x"),
        ("//x/./y/../z", None, "/x/z"),
        ("../x", "/workspace/app", "/workspace/x"),
        ("~", None, "~"),
        ("~/x", None, "~/x"),
        ("~//x/", None, "~/x"),
        ("~/../x", None, "/home/x"),
        ("~/a/../../x", None, "/home/x"),
        ("~other/x", None, "other/x"),
        ("x", "~", "~/x"),
        ("../x", "~", "/home/x"),
        ("/..", None, "/"),
    ],
)
def test_path_is_resolved_lexically(path: str, cwd: str | None, resolved: str | None) -> None:
    assert APP.resolve(path, cwd) == resolved


def test_home_folder_contains_the_workspace() -> None:
    assert (APP.home, HOME.home) == ("~", "/home/ada")
    assert HOME.resolve("~/x", None) == "/home/ada/x"
    assert HOME.resolve("~", None) == "/home/ada"
    assert HOME.symbolic("/home/ada/.ssh") == "~/.ssh"
    assert HOME.symbolic("/home/adam") == "~"
    assert APP.symbolic("/etc") == "/etc"


@pytest.mark.parametrize(
    ("path", "region"),
    [
        ("/workspace/app", Region.INSIDE),
        ("/workspace/app/x", Region.INSIDE),
        ("/workspace/apple", Region.OUTSIDE),
        ("/workspace", Region.OUTSIDE),
        ("/tmp/x", Region.TEMPORARY),
        ("/tmpx", Region.OUTSIDE),
        ("~/x", Region.HOME),
        ("/root", Region.HOME),
        ("/home/ada/x", Region.HOME),
        ("/dev", Region.DEVICE),
        ("/dev/sda", Region.DEVICE),
        ("/dev/null", Region.INSIDE),
        ("/dev/fd/3", Region.INSIDE),
        ("/", Region.SYSTEM),
        ("/etc/x", Region.SYSTEM),
        ("/usr", Region.SYSTEM),
        ("/data", Region.OUTSIDE),
        ("x", Region.UNKNOWN),
    ],
)
def test_region_of_a_path(path: str, region: Region) -> None:
    assert APP.place(path) is region


def test_path_above_another_is_recognised() -> None:
    assert [APP.is_above(path) for path in ("/", "/workspace", "/workspace/app", "/workspace/app/x", "/w")] == [
        True, True, True, False, False,
    ]  # fmt: skip
    assert APP.is_above("/a", "/a/b")
    assert not APP.is_above("/workspace", "/a/b")


@pytest.mark.parametrize(
    ("path", "secret", "persistence"),
    [
        ("~/.ssh/id_rsa", "secret.read", "persist.ssh"),
        ("/home/ada/.ssh/*", "secret.read", "persist.ssh"),
        ("~/.ss?/id_rsa", "secret.read", ""),
        ("~/.n*", "secret.read", ""),
        ("~/x*", "", ""),
        ("/proc/1/environ", "secret.process", ""),
        ("/workspace/app/.env", "secret.read", ""),
        ("/workspace/app/.env.example", "", ""),
        ("/workspace/app/.envrc", "secret.read", "persist.hook"),
        ("/workspace/app/server.pem", "secret.read", ""),
        ("/workspace/app/.npmrc", "secret.read", ""),
        ("/workspace/app/deploy/kubeconfig.yaml", "secret.read", ""),
        ("/workspace/app/.kube/config", "secret.read", ""),
        ("/workspace/app/infra/prod.tfvars", "secret.read", ""),
        ("/workspace/app/config/prod.env", "secret.read", ""),
        ("/workspace/app/serviceAccountKey.json", "secret.read", ""),
        ("/workspace/app/config/sample.env", "", ""),
        ("~/.bashrc", "", "persist.shell"),
        ("/etc/cron.d/x", "", "persist.cron"),
        ("/workspace/app/.git/config", "", "persist.hook"),
        ("/workspace/app/.github/workflows/a.yml", "", "persist.ci"),
        ("~/.gitconfig", "", "persist.config"),
        ("/workspace/app/x.py", "", ""),
    ],
)
def test_secret_and_persistent_paths(path: str, secret: str, persistence: str) -> None:
    assert (APP.secret(path), APP.persistence(path)) == (secret, persistence)
