"""`python -m tests.peers`: what others wrote reads what Handloom writes, or answers beside it.

That is OpenHands' published client, V0's own server, BrowserGym, published MCP servers, SWE-bench, and the agents whose
sessions Handloom reads; with `openhands`, `browsergym`, `mcp`, `swebench` or `agents` only that one, and with the name
of an agent's environment only that agent. The first run installs their packages into separate environments (some
minutes); `--install` does only that, and `--lock` resolves the packages again. Exit status: 0 everything matches, 1
something differs, 2 a peer could not be installed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from functools import partial

from tests.peers import agents_side, browsergym_side, mcp_side, openhands_side, swebench_side
from tests.peers.installing import AGENTS, PEERS, install, lock

SIDES: Mapping[str, Callable[[], int]] = {
    "openhands": openhands_side.main,
    "browsergym": browsergym_side.main,
    "mcp": mcp_side.main,
    "swebench": swebench_side.main,
    "agents": agents_side.main,
}
ONE_AGENT: Mapping[str, Callable[[], int]] = {peer.name: partial(agents_side.main, (peer,)) for peer in AGENTS}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.peers", description=__doc__)
    parser.add_argument("peer", nargs="?", choices=[*SIDES, *ONE_AGENT])
    parser.add_argument("--install", action="store_true", help="make the environments of the peers, and end")
    parser.add_argument("--lock", action="store_true", help="resolve tests/peers/*.in anew into *.lock, and end")
    parser.add_argument("--publish", action="store_true", help="write the times of `openhands` into the manual")
    options = parser.parse_args()
    peers = AGENTS if options.peer == "agents" else [peer for peer in PEERS if options.peer in (None, peer.name)]
    if options.lock:
        return max(lock(peer) for peer in peers)
    if options.install:
        made = [install(peer) for peer in peers]
        return 0 if all(made) else 2
    if options.publish:
        return openhands_side.main(publishes=True)
    sides = SIDES.values() if options.peer is None else [{**SIDES, **ONE_AGENT}[options.peer]]
    return max(side() for side in sides)


if __name__ == "__main__":
    sys.exit(main())
