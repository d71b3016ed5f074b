"""A client that is broken or hostile, at the pipes of the real process: clear errors, and nothing lost."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from core.acp.json_rpc import MAX_LINE_BYTES
from tests.acp.editor import Raw, editing, raw
from tests.doubles import FINISH, bash, write_script
from tests.program import Handloom


@pytest.fixture
def handloom(tmp_path: Path) -> Handloom:
    return Handloom(tmp_path, HANDLOOM__SANDBOX__PLUGINS="")


async def opened(client: Raw, handloom: Handloom) -> str:
    """A session of a client that has said hello."""
    await client.request("initialize", protocolVersion=1)
    answer = await client.request("session/new", cwd=str(handloom.workspace), mcpServers=[])
    id = answer["result"]["sessionId"]
    assert isinstance(id, str)
    return id


def text(words: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": words}]


async def test_invalid_message_gets_an_error_and_the_next_one_an_answer(handloom: Handloom, tmp_path: Path) -> None:
    garbage: list[tuple[bytes, int, str]] = [
        (b"\x00\xff\xfe garbage\n", -32700, "not JSON"),
        (b"[" * 100_000 + b"\n", -32700, "not JSON"),
        (b"[1, 2]\n", -32600, "one JSON object"),
        (b'"hello"\n', -32600, "one JSON object"),
        (b"{}\n", -32600, "needs a method"),
        (b'{"id": 5, "method": 7}\n', -32600, "needs a method"),
        (b'{"id": [1], "method": "initialize"}\n', -32600, "number or a string"),
    ]
    async with raw(handloom, write_script(tmp_path, [FINISH])) as client:
        for line, code, words in garbage:
            error = (await client.answer_to(line))["error"]
            assert (error["code"], words in error["message"]) == (code, True), line[:40]
        for line in (b'{"id": {}, "result": 1}\n', b'{"id": 99, "error": "no"}\n', b"\n", b'{"id": 1, "result": []}\n'):
            client.write(line)
        assert (await client.request("initialize", protocolVersion=1))["result"]["protocolVersion"] == 1


async def test_too_long_line_is_skipped_completely(handloom: Handloom) -> None:
    async with raw(handloom) as client:
        piece = b"x" * (1024 * 1024)
        for _ in range(MAX_LINE_BYTES // len(piece) + 2):
            client.write(piece)
            assert client.process.stdin is not None
            await client.process.stdin.drain()
        error = (await client.answer_to(b'"}\n'))["error"]
        assert "64 MB at most" in error["message"]
        assert "result" in await client.request("initialize", protocolVersion=1)


async def test_unknown_methods_and_invalid_parameters_are_reported(handloom: Handloom, tmp_path: Path) -> None:
    async with raw(handloom, write_script(tmp_path, [FINISH])) as client:
        before = await client.request("session/new", cwd=str(handloom.workspace), mcpServers=[])
        assert before["error"] == {"code": -32600, "message": "Send initialize first.", "data": None}
        session = await opened(client, handloom)
        wrong: list[tuple[str, dict[str, Any], int, str]] = [
            ("session/fly", {}, -32601, "'session/fly'"),
            ("a" * 10_000, {}, -32601, "…"),
            ("session/new", {}, -32602, "session/new: cwd: Field required."),
            ("session/prompt", {"sessionId": 5, "prompt": text("x")}, -32602, "sessionId"),
            ("session/prompt", {"sessionId": "nobody", "prompt": text("x")}, -32002, "nobody is not loaded"),
            ("session/prompt", {"sessionId": session, "prompt": []}, -32602, "message is empty"),
            ("session/prompt", {"sessionId": session, "prompt": [{"type": "smell"}]}, -32602, "prompt.0"),
            ("session/load", {"sessionId": "../etc", "cwd": "/", "mcpServers": []}, -32002, "../etc"),
            ("session/list", {"cursor": "-1"}, -32602, "cursor"),
            ("authenticate", {"methodId": "x"}, -32602, "no login"),
        ]
        for method, params, code, words in wrong:
            error = (await client.request(method, **params))["error"]
            assert (error["code"], words in error["message"]) == (code, True), error
            assert len(error["message"]) < 300
        meta = {"sessionId": session, "prompt": text("hello"), "_meta": {"session_id": "nobody", "self": 1}}
        assert (await client.request("session/prompt", **meta))["result"] == {"stopReason": "end_turn"}


async def test_invalid_pictures_and_sounds_are_refused(handloom: Handloom, tmp_path: Path) -> None:
    blocks = {
        "not valid base64": {"type": "image", "mimeType": "image/png", "data": "???"},
        "not a PNG": {"type": "image", "mimeType": "image/png", "data": "aGVsbG8="},
        "Audio": {"type": "audio", "mimeType": "audio/wav", "data": "aGVsbG8="},
    }
    async with raw(handloom, write_script(tmp_path, [FINISH])) as client:
        session = await opened(client, handloom)
        for words, block in blocks.items():
            answer = await client.request("session/prompt", sessionId=session, prompt=[block])
            assert words in answer["error"]["message"]
    assert [e for e in handloom.export(session) if e.get("action") == "message"] == []


async def test_second_prompt_is_refused_and_cancel_without_prompt_does_nothing(
    handloom: Handloom, tmp_path: Path
) -> None:
    model = write_script(tmp_path, [{"text": "", "tool_calls": [bash("echo 1")]}, FINISH])
    async with raw(handloom, model) as client:
        session = await opened(client, handloom)
        for id in (session, "nobody", 7):
            cancel = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": id}}
            client.write(json.dumps(cancel).encode() + b"\n")
        prompt = {"jsonrpc": "2.0", "id": 1, "method": "session/prompt"}
        for words in ("first", "second"):
            message = {**prompt, "params": {"sessionId": session, "prompt": text(words)}}
            client.write(json.dumps(message).encode() + b"\n")
        answers: list[dict[str, Any]] = []
        while len(answers) < 2:
            message = await client.read()
            if message.get("method") == "session/request_permission":
                for _ in range(2):  # one answer too many
                    answer = {"id": message["id"], "result": {"outcome": {"outcome": "selected", "optionId": "allow"}}}
                    client.write(json.dumps(answer).encode() + b"\n")
            elif "method" not in message:
                answers.append(message)
    assert "running a prompt" in answers[0]["error"]["message"]
    assert answers[1]["result"] == {"stopReason": "end_turn"}
    assert [e["args"]["content"] for e in handloom.export(session) if e.get("action") == "message"] == ["first"]


async def test_invalid_unicode_is_stored_as_text(handloom: Handloom, tmp_path: Path) -> None:
    async with raw(handloom, write_script(tmp_path, [FINISH])) as client:
        session = await opened(client, handloom)
        params = (
            f'{{"sessionId": "{session}", "prompt": [{{"type": "text", "text": "a\\ud800b \\ud83d\\ude00 \\u0000"}}]}}'
        )
        line = f'{{"jsonrpc": "2.0", "id": 1, "method": "session/prompt", "params": {params}}}\n'
        assert (await client.answer_to(line.encode()))["result"] == {"stopReason": "end_turn"}
    assert [e["args"]["content"] for e in handloom.export(session) if e.get("action") == "message"] == [
        "a\ufffdb 😀 \0"
    ]


@pytest.mark.parametrize("how", ["input", "output", "terminated", "killed"])
async def test_disconnected_client_loses_nothing(handloom: Handloom, tmp_path: Path, how: str) -> None:
    model = write_script(tmp_path, [{"text": "I wait.", "tool_calls": [bash("echo begun; sleep 600")]}, FINISH])
    async with raw(handloom, model) as client:
        session = await opened(client, handloom)
        await client.request("session/set_mode", sessionId=session, modeId="never")
        prompt = {"id": 1, "method": "session/prompt", "params": {"sessionId": session, "prompt": text("wait")}}
        client.write(json.dumps(prompt).encode() + b"\n")
        while "begun" not in json.dumps(message := await client.read()) or "content" not in message["params"]["update"]:
            pass
        assert client.process.stdin is not None
        match how:
            case "input":
                client.process.stdin.close()
            case "output":
                client.process.stdout._transport.close()  # type: ignore[union-attr]
            case "terminated":
                client.process.send_signal(signal.SIGTERM)
            case "killed":
                client.process.kill()
        async with asyncio.timeout(60):
            status = await client.process.wait()
    assert status == {"input": 0, "output": 0, "terminated": 130, "killed": -signal.SIGKILL}[how]
    async with editing(handloom, model) as editor:
        await editor.connection.load_session(cwd=str(handloom.workspace), session_id=session, mcp_servers=[])
        assert editor.said("user_message_chunk") == "wait"
        (call,) = editor.calls().values()
        assert (call["title"], call["status"]) == ("echo begun; sleep 600", "failed")
        assert await editor.prompt(session, "then be done") == "end_turn"
    assert "All is done." in editor.said()


async def test_standard_output_has_only_messages(handloom: Handloom, tmp_path: Path) -> None:
    site = tmp_path / "noise"
    site.mkdir()
    (site / "core_noise.py").write_text(
        "import os, sys\nprint('printed')\nos.write(1, b'written\\n')\nos.system('echo by a child')\n", "utf-8"
    )
    script = tmp_path / "noisy.py"
    script.write_text(
        "import sys\n"
        f"sys.path.insert(0, {str(site)!r})\n"
        "from tui.acp import server\n"
        "new_session = server.Server.new_session\n"
        "async def noisy(self, request):\n"
        "    import core_noise\n"
        "    return await new_session(self, request)\n"
        "server.Server.new_session = noisy\n"
        "from tui.__main__ import main\n"
        "sys.exit(main(['acp', '--model', sys.argv[1]]))\n",
        "utf-8",
    )
    pipe = asyncio.subprocess.PIPE
    model = write_script(tmp_path, [FINISH])
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(script), model, stdin=pipe, stdout=pipe, stderr=pipe, env=handloom.environ
    )
    client = Raw(process)
    session = await opened(client, handloom)  # every line that is read has to be a message
    assert "result" in await client.request("session/prompt", sessionId=session, prompt=text("hello"))
    assert process.stdin is not None
    process.stdin.close()
    out, err = await process.communicate()
    assert out == b""
    assert [word in err for word in (b"printed", b"written", b"by a child")] == [True] * 3


def test_regular_file_as_input_is_refused(handloom: Handloom, tmp_path: Path) -> None:
    file = tmp_path / "input"
    file.write_text("{}\n", "utf-8")
    with file.open("rb") as stdin:
        process = handloom.start("acp", stdin=stdin)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert b"Configure your editor to start it." in err
