"""A server by hand, with one kind of trouble: `faulty.py MODE`. Without the SDK, which would not let it be so bad.

`fine` has none. Each mode is a name in MODES, with what a caller may expect: whether its tool can be called at all.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

ECHO = {"name": "echo", "description": "Say it again.", "inputSchema": {"type": "object", "properties": {}}}
MODERN = ["2026-07-28"]
"""Versions of a server that speaks no older one, and what its listings have to say of how long they hold."""
CACHED = {"ttlMs": 0, "cacheScope": "private"}
OK = "ok"
"""The tool answers."""
ERROR = "error"
"""Calling it returns an error."""
MODES = {
    **dict.fromkeys(("fine", "banner", "binary", "blank_lines", "nul_lines", "json_numbers", "json_arrays"), OK),
    **dict.fromkeys(("bad_utf8", "deep_json", "unparsable", "half_object", "unknown_notices", "log_flood"), OK),
    **dict.fromkeys(("progress_flood", "escape_in_result", "escape_in_about", "bidi_about"), OK),
    **dict.fromkeys(("duplicate_names", "many_tools", "endless_pages", "large_about", "large_schema"), OK),
    **dict.fromkeys(
        ("deep_schema", "escape_in_name", "long_name", "twice_answered", "asks_sampling", "asks_roots"), OK
    ),
    **dict.fromkeys(("asks_elicitation", "asks_unknown", "request_flood", "null_id_first", "stderr_flood", "slow"), OK),
    **dict.fromkeys(("child_keeps_pipes", "modern", "lingering_child", "huge_number"), OK),
    **dict.fromkeys(("crash_at_start", "crash_at_initialize", "crash_after_initialize", "crash_at_list"), ERROR),
    **dict.fromkeys(("crash_at_call", "hang_at_start", "hang_at_list", "hang_at_call", "unread_input"), ERROR),
    **dict.fromkeys(
        ("gigabyte_line", "two_megabytes", "half_line_and_end", "half_line_and_hang", "no_initialize"), ERROR
    ),
    **dict.fromkeys(
        ("closes_output", "wrong_id", "text_id", "no_id", "wrong_version", "initialize_error", "no_initialize"), ERROR
    ),
    **dict.fromkeys(("no_jsonrpc", "content_is_text", "error_is_text", "result_is_list", "schema_is_list"), ERROR),
    **dict.fromkeys(
        (
            "schema_is_missing",
            "list_changed_flood",
            "lone_surrogates",
            "tools_is_text",
            "no_such_program",
            "not_executable",
            "killed",
        ),
        ERROR,
    ),
}


def main() -> None:
    mode = sys.argv[1]
    out = sys.stdout.buffer

    def raw(data: bytes) -> None:
        out.write(data)
        out.flush()

    def say(message: Any) -> None:
        raw(json.dumps(message).encode() + b"\n")

    def notice(method: str, **params: Any) -> None:
        say({"jsonrpc": "2.0", "method": method, "params": params})

    if mode == "crash_at_start":
        sys.exit("no such configuration \x1b[2J")
    if mode == "hang_at_start":
        time.sleep(3600)
    noise = {
        "banner": b"Welcome to the server!\n\x1b[31mcolours\x1b[0m\n",
        "binary": bytes(range(256)) * 4 + b"\n",
        "blank_lines": b"\n\n  \n" * 50,
        "nul_lines": b"\0\0\0\n" * 50,
        "json_numbers": b"1\n-5\n1e999\n",
        "json_arrays": b"[]\n[[1,2],[3]]\n",
        "bad_utf8": b'{"jsonrpc": "2.0", "method": "\xff\xfe"}\n',
        "deep_json": b"[" * 100_000 + b"\n",
        "unparsable": b'{"jsonrpc": "2.0", \n' * 100,
        "half_object": b'{"jsonrpc": "2.0"}\n{"id": 1}\n',
        "null_id_first": b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "what?"}}\n',
    }
    raw(noise.get(mode, b""))
    if mode == "stderr_flood":
        for _ in range(500):
            sys.stderr.write("x" * 10_000 + "\n")
    if mode == "child_keeps_pipes" and not os.fork():
        time.sleep(3600)
    if mode == "lingering_child" and not os.fork():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.closerange(0, 3)
        time.sleep(3600)
    for line in sys.stdin:
        try:
            order = json.loads(line)
        except ValueError:
            continue
        if "id" in order and "method" in order:
            answer(mode, order, say, raw, notice)
    if mode == "lingering_child":
        os._exit(0)


def answer(mode: str, order: Any, say: Any, raw: Any, notice: Any) -> None:
    """Answer one request, well or badly."""
    id, method = order["id"], order["method"]

    def result(value: Any) -> None:
        say({"jsonrpc": "2.0", "id": id, "result": value})

    match method:
        case "initialize":
            if mode == "crash_at_initialize":
                os._exit(9)
            version = "1999-01-01" if mode == "wrong_version" else order["params"]["protocolVersion"]
            if mode in ("modern", "no_initialize"):
                code = -32022 if mode == "modern" else -32601
                error = {"code": code, "message": "no", "data": {"supported": MODERN, "requested": version}}
                say({"jsonrpc": "2.0", "id": id, "error": error})
                return
            if mode == "initialize_error":
                say({"jsonrpc": "2.0", "id": id, "error": {"code": -32000, "message": "not today \x1b[2J"}})
                return
            said = {"protocolVersion": version, "capabilities": {"tools": {"listChanged": True}}}
            result({**said, "serverInfo": {"name": "faulty", "version": "1"}})
            if mode == "crash_after_initialize":
                os._exit(9)
        case "server/discover" if mode == "modern":
            result({"supportedVersions": MODERN, "capabilities": {"tools": {}}, "resultType": "complete", **CACHED})
        case "ping":
            if mode not in ("wrong_id", "text_id", "no_id"):
                result({})
        case "tools/list":
            tools(mode, order, result, notice)
        case "tools/call":
            called(mode, id, result, say, raw, notice)
        case _:
            say({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "Method not found"}})


def tools(mode: str, order: Any, result: Any, notice: Any) -> None:
    """Answer a listing."""
    listed: dict[str, Any] = {"tools": [ECHO]}
    if mode == "modern":
        listed |= {"resultType": "complete", **CACHED}
    large: dict[str, Any] = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(3_000)}}
    deep: dict[str, Any] = {"type": "object"}
    for _ in range(60):
        deep = {"type": "object", "properties": {"in": deep}}
    more: dict[str, list[Any]] = {
        "duplicate_names": [{**ECHO, "description": "Another."}] * 3,
        "many_tools": [{**ECHO, "name": f"t{n}"} for n in range(5_000)],
        "large_about": [{**ECHO, "name": "large", "description": "x" * 500_000}],
        "large_schema": [{**ECHO, "name": "large", "inputSchema": large}],
        "deep_schema": [{**ECHO, "name": "deep", "inputSchema": deep}],
        "escape_in_name": [{**ECHO, "name": "a\x1b[2Jb"}, {**ECHO, "name": "a\x1b[3Jb"}],
        "long_name": [{**ECHO, "name": "n" * 200}, {**ECHO, "name": "n" * 201}],
        "escape_in_about": [{**ECHO, "name": "e", "description": "\x1b]0;title\x07\x1b[2J\x9b31m"}],
        "bidi_about": [{**ECHO, "name": "b", "description": "safe\u202egnp\U000e0041\u200bignored"}],
        "lone_surrogates": [{**ECHO, "name": "s", "description": "a\ud800b"}],
        "huge_number": [{**ECHO, "name": "h", "inputSchema": {"type": "object", "maxProperties": 10**400}}],
        "schema_is_list": [{**ECHO, "name": "l", "inputSchema": ["object"]}],
        "schema_is_missing": [{"name": "m"}],
    }
    listed["tools"] += more.get(mode, [])
    match mode:
        case "crash_at_list":
            os._exit(9)
        case "hang_at_list":
            time.sleep(3600)
        case "endless_pages":
            page = int(order.get("params", {}).get("cursor", "0"))
            listed = {"tools": [{**ECHO, "name": f"echo{page or ''}"}], "nextCursor": str(page + 1)}
        case "tools_is_text":
            listed = {"tools": "echo"}
    result(listed)
    if mode == "list_changed_flood":
        for _ in range(20_000):
            notice("notifications/tools/list_changed")


def called(mode: str, id: Any, result: Any, say: Any, raw: Any, notice: Any) -> None:
    """Answer a call."""
    content: Any = [{"type": "text", "text": "said \x1b[2Jagain" if mode == "escape_in_result" else "said again"}]
    asks = {"asks_sampling": "sampling/createMessage", "asks_roots": "roots/list", "asks_unknown": "no/such"}
    match mode:
        case "crash_at_call":
            os._exit(9)
        case "killed":
            os.kill(os.getpid(), 9)
        case "hang_at_call" | "unread_input":
            time.sleep(3600)
        case "gigabyte_line":
            for _ in range(1024):
                raw(b"x" * 1024 * 1024)
        case "two_megabytes":
            content = [{"type": "text", "text": "x" * 2_000_000}]
        case "half_line_and_end":
            raw(b'{"jsonrpc": "2.0", "id": ')
            os._exit(0)
        case "half_line_and_hang":
            raw(b'{"jsonrpc": "2.0", "id": ')
            time.sleep(3600)
        case "closes_output":
            os.close(1)
            time.sleep(3600)
        case "wrong_id" | "text_id" | "no_id":
            ids: dict[str, Any] = {"wrong_id": {"id": 999_999}, "text_id": {"id": f"{id}!"}, "no_id": {}}
            say({"jsonrpc": "2.0", **ids[mode], "result": {"content": content}})
            return
        case "no_jsonrpc":
            raw(json.dumps({"id": id, "result": {"content": content}}).encode() + b"\n")
            time.sleep(3600)
        case "content_is_text":
            content = "said again"
        case "error_is_text":
            say({"jsonrpc": "2.0", "id": id, "error": "no"})
            time.sleep(3600)
        case "result_is_list":
            say({"jsonrpc": "2.0", "id": id, "result": [1]})
            time.sleep(3600)
        case "asks_sampling" | "asks_roots" | "asks_unknown":
            params = {"messages": [], "maxTokens": 5} if mode == "asks_sampling" else {}
            say({"jsonrpc": "2.0", "id": "mine", "method": asks[mode], "params": params})
            content[0]["text"] = f"refused: {'error' in json.loads(sys.stdin.readline())}"
        case "asks_elicitation":
            params = {"message": "Your password?", "requestedSchema": {"type": "object", "properties": {}}}
            say({"jsonrpc": "2.0", "id": "mine", "method": "elicitation/create", "params": params})
            content[0]["text"] = f"refused: {'error' in json.loads(sys.stdin.readline())}"
        case "request_flood":
            for n in range(2_000):
                say({"jsonrpc": "2.0", "id": f"q{n}", "method": "roots/list"})
        case "unknown_notices" | "log_flood" | "progress_flood":
            for n in range(2_000):
                if mode == "unknown_notices":
                    notice("notifications/nonsense", n=n)
                elif mode == "log_flood":
                    notice("notifications/message", level="error", data="x" * 100)
                else:
                    notice("notifications/progress", progressToken=n, progress=n)
        case "slow":
            time.sleep(1.0)
    result({"content": content, **({"resultType": "complete"} if mode == "modern" else {})})
    if mode == "twice_answered":
        result({"content": content})


if __name__ == "__main__":
    main()
