"""Which Chromium, and with which flags: a pipe instead of a port, no calls of its own, its own sandbox where it can be.

All of its traffic goes through the gate, loopback included. The profile is fresh, and goes with the worker's folder.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from playwright.async_api import BrowserContext, Playwright

NAMES = (
    *("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"),
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)
ITSELF = {"/usr/bin/chromium": "/usr/lib/chromium/chromium"}
"""Debian's program by its starter, which would let extensions in and bring keys for Google's services."""
VIEWPORT = (1280, 720)
"""BrowserGym's."""
START_TIMEOUT_MS = 25_000
_NEW_USER_NAMESPACE = 0x10000000

FLAGS = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-domain-reliability",
    "--disable-sync",
    "--no-first-run",
    "--no-pings",
    "--disable-quic",  # would pass by the gate
    "--disable-gpu",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--dns-over-https-mode=off",
    "--disk-cache-size=33554432",
    "--gaia-url=http://localhost:9",  # the accounts that a profile without any asks for
    "--google-apis-url=http://localhost:9",
    "--component-updater=url-source=http://localhost:9",
)
WITHOUT_FEATURES = (
    # playwright's own, for the last list wins
    *("AimEnabled", "AvoidCorsURLLoaderRestartOnRedirect", "AvoidUnnecessaryBeforeUnloadCheckSync"),
    *("DestroyProfileOnBrowserClose", "HttpsFirstBalancedModeAutoEnable", "HttpsUpgrades", "LensOverlay"),
    *("MediaRouter", "NetworkTimeServiceQuerying", "OptimizationHints", "PaintHolding", "PreconnectToSearch"),
    "ThirdPartyStoragePartitioning",
    # what calls home, or holds memory in store
    *("AutofillServerCommunication", "CertificateTransparencyComponentUpdater", "DialMediaRouteProvider"),
    *("InterestFeedContentSuggestions", "SpareRendererForSitePerProcess", "Translate", "WebUIOmniboxPopup"),
)
WITHOUT_WEBRTC = "for (const name of ['RTCPeerConnection', 'webkitRTCPeerConnection']) delete globalThis[name];"


class NoChromiumError(Exception):
    """There is no Chromium; the text says what to install."""


def find(playwright: Playwright) -> str:
    """The program. Raises NoChromiumError."""
    for name in NAMES:
        if found := shutil.which(name):
            itself = ITSELF.get(found, found)
            return itself if Path(itself).exists() else found
    bundled = playwright.chromium.executable_path
    if Path(bundled).exists():
        return bundled
    raise NoChromiumError(
        "there is no Chromium here. Install the package `chromium`, or run `python -m playwright install chromium`"
    )


def why_unconfined() -> str:
    """Why Chromium cannot have a sandbox of its own; empty where it can. Forks: for a process without threads."""
    if sys.platform != "linux":
        return ""
    if os.getuid() == 0:
        return "it runs as root"
    child = os.fork()
    if child == 0:
        os._exit(ctypes.CDLL(None).unshare(_NEW_USER_NAMESPACE) & 1)
    return (
        "" if os.waitpid(child, 0)[1] == 0 else "no user namespaces may be made here, for the walls around it forbid it"
    )


async def launch(playwright: Playwright, folder: Path, proxy: str, *, is_confined: bool) -> BrowserContext:
    """Start it with a fresh profile in `folder`. Raises NoChromiumError, and playwright's Error."""
    options: dict[str, Any] = {
        "executable_path": find(playwright),
        "headless": True,
        "args": [*FLAGS, f"--disable-features={','.join(WITHOUT_FEATURES)}"],
        "chromium_sandbox": is_confined,
        "proxy": {"server": proxy, "bypass": "<-loopback>"},
        "viewport": {"width": VIEWPORT[0], "height": VIEWPORT[1]},
        "service_workers": "block",
        "accept_downloads": True,
        "downloads_path": folder / "downloads",
        "timeout": START_TIMEOUT_MS,
        "handle_sigint": False,
        "handle_sigterm": False,
        "handle_sighup": False,
    }
    playwright.selectors.set_test_id_attribute("bid")
    context = await playwright.chromium.launch_persistent_context(folder / "profile", **options)
    await context.add_init_script(WITHOUT_WEBRTC)
    await context.grant_permissions([])
    return context
