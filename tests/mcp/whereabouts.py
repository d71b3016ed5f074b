"""A server of the standard library alone, which says where it runs. Its tool is `where`."""

from __future__ import annotations

import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

WHERE = {"name": "where", "description": "Say where it runs.", "inputSchema": {"type": "object", "properties": {}}}


def where() -> dict[str, Any]:
    return {
        "host": platform.node(),
        "system": Path("/etc/os-release").read_text(),
        "user": os.getuid(),
        "pid": os.getpid(),
        "parent": os.getppid(),
        "folder": os.getcwd(),
        "files": sorted(os.listdir(".")),
        "environ": dict(os.environ),
    }


def main() -> None:
    for line in sys.stdin:
        order = json.loads(line)
        if "id" not in order:
            continue
        result: dict[str, Any] = {}
        match order["method"]:
            case "initialize":
                info = {"name": "whereabouts", "version": "1"}
                version = order["params"]["protocolVersion"]
                result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
            case "tools/list":
                result = {"tools": [WHERE]}
            case "tools/call":
                result = {"content": [{"type": "text", "text": json.dumps(where())}]}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": order["id"], "result": result}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
