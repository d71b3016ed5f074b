"""Find and launch Chromium: over a pipe instead of a port, without background requests, sandboxed if possible.

All of its traffic goes through the network filter, including loopback. The profile is new and is removed with the
worker's folder.
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
"""Debian's binary by its wrapper script, which would load extensions and set API keys for Google's services."""
VIEWPORT = (1280, 720)
"""BrowserGym's viewport in pixels."""
START_TIMEOUT_MS = 25_000
_NEW_USER_NAMESPACE = 0x10000000

FLAGS = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-domain-reliability",
    "--disable-sync",
    "--no-first-run",
    "--no-pings",
    "--disable-quic",  # would bypass the network filter
    "--disable-gpu",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--dns-over-https-mode=off",
    "--disk-cache-size=33554432",
    "--gaia-url=http://localhost:9",  # requested even by a profile without accounts
    "--google-apis-url=http://localhost:9",
    "--component-updater=url-source=http://localhost:9",
)
WITHOUT_FEATURES = (
    # playwright's own list, because the last --disable-features wins
    *("AimEnabled", "AvoidCorsURLLoaderRestartOnRedirect", "AvoidUnnecessaryBeforeUnloadCheckSync"),
    *("DestroyProfileOnBrowserClose", "HttpsFirstBalancedModeAutoEnable", "HttpsUpgrades", "LensOverlay"),
    *("MediaRouter", "NetworkTimeServiceQuerying", "OptimizationHints", "PaintHolding", "PreconnectToSearch"),
    "ThirdPartyStoragePartitioning",
    # features that send requests or reserve memory
    *("AutofillServerCommunication", "CertificateTransparencyComponentUpdater", "DialMediaRouteProvider"),
    *("InterestFeedContentSuggestions", "SpareRendererForSitePerProcess", "Translate", "WebUIOmniboxPopup"),
)
WITHOUT_WEBRTC = "for (const name of ['RTCPeerConnection', 'webkitRTCPeerConnection']) delete globalThis[name];"


class NoChromiumError(Exception):
    """Chromium is not installed; the text says what to install."""


def find(playwright: Playwright) -> str:
    """Return the path of the program. Raises NoChromiumError."""
    for name in NAMES:
        if found := shutil.which(name):
            itself = ITSELF.get(found, found)
            return itself if Path(itself).exists() else found
    bundled = playwright.chromium.executable_path
    if Path(bundled).exists():
        return bundled
    raise NoChromiumError(
        "Chromium is not installed. Install the package `chromium`, or run `python -m playwright install chromium`"
    )


def why_unconfined() -> str:
    """Return why Chromium cannot use its own sandbox, or an empty string. Forks, so only call it without threads."""
    if sys.platform != "linux":
        return ""
    if os.getuid() == 0:
        return "it runs as root"
    child = os.fork()
    if child == 0:
        os._exit(ctypes.CDLL(None).unshare(_NEW_USER_NAMESPACE) & 1)
    return "" if os.waitpid(child, 0)[1] == 0 else "the surrounding sandbox does not allow user namespaces"


async def launch(playwright: Playwright, folder: Path, proxy: str, *, is_confined: bool) -> BrowserContext:
    """Start Chromium with a new profile in `folder`. Raises NoChromiumError, and playwright's Error."""
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
