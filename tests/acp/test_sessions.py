"""A whole task in an editor: the real process, real bash, a scripted model, the client of the official library."""

from __future__ import annotations

import asyncio
import base64
import os
from pathlib import Path

import acp
import pytest
from acp.exceptions import RequestError
from acp.schema import McpServerStdio

from tests.acp.editor import editing, text_of
from tests.acp.test_other_agent import written
from tests.doubles import FINISH, bash, call, write_script
from tests.program import Handloom

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture
def handloom(tmp_path: Path) -> Handloom:
    return Handloom(tmp_path, HANDLOOM__SANDBOX__PLUGINS="")


def edit(path: Path, **arguments: str) -> dict[str, object]:
    return call("str_replace_editor", path=str(path), security_risk="LOW", **arguments)


def states(handloom: Handloom, conversation: str) -> list[str]:
    events = handloom.export(conversation)
    return [e["extras"]["agent_state"] for e in events if e.get("observation") == "agent_state_changed"]


class TestATask:
    async def test_task_asks_about_and_reports_every_action(self, handloom: Handloom, tmp_path: Path) -> None:
        file = handloom.workspace / "a.txt"
        turns = [
            {"text": "I look.", "tool_calls": [bash("echo first; seq 1 3")]},
            {"text": "I write.", "tool_calls": [edit(file, command="create", file_text="one\n")]},
            {"text": "I change.", "tool_calls": [edit(file, command="str_replace", old_str="one", new_str="two")]},
            FINISH,
        ]
        async with editing(handloom, write_script(tmp_path, turns)) as editor:
            session = await editor.open(handloom)
            assert await editor.prompt(session, "do it") == "end_turn"
            calls = list(editor.calls().values())
        assert [(c["kind"], c["status"]) for c in calls] == [
            ("execute", "completed"),
            ("edit", "completed"),
            ("edit", "completed"),
        ]
        assert calls[0]["title"] == "echo first; seq 1 3"
        assert text_of(calls[0]) == "```\nfirst\n1\n2\n3\n```"
        (created,), (changed,) = calls[1]["content"], calls[2]["content"]
        assert (created["path"], created.get("oldText"), created["newText"]) == (str(file), None, "one\n")
        assert (changed["oldText"], changed["newText"]) == ("one\n", "two\n")
        assert calls[2]["locations"][0]["path"] == str(file)
        assert [asked["title"] for asked in editor.asked] == [call["title"] for call in calls]
        assert [option["kind"] for option in editor.asked[0]["options"]][:2] == ["allow_once", "allow_always"]
        said = editor.said()
        assert [said.count(text) for text in ("I look.", "I write.", "I change.", "Ready.", "All is done.")] == [1] * 5
        assert file.read_text("utf-8") == "two\n"
        assert states(handloom, session)[-1] == "finished"

    async def test_thought_is_not_a_tool_call(self, handloom: Handloom, tmp_path: Path) -> None:
        turns = [{"text": "", "tool_calls": [call("think", thought="It is simple.")]}, FINISH]
        async with editing(handloom, write_script(tmp_path, turns)) as editor:
            assert await editor.prompt(await editor.open(handloom), "think") == "end_turn"
        assert "It is simple." in editor.said("agent_thought_chunk")
        assert editor.calls() == {}
        assert editor.asked == []

    async def test_command_output_is_shown_while_it_runs(self, handloom: Handloom, tmp_path: Path) -> None:
        turns = [{"text": "", "tool_calls": [bash("echo begun; read -r line < go; echo over")]}, FINISH]
        async with editing(handloom, write_script(tmp_path, turns)) as editor:
            session = await editor.open(handloom)
            go = handloom.workspace / "go"
            os.mkfifo(go)
            prompt = asyncio.create_task(editor.prompt(session, "wait"))
            await editor.until(lambda: any("begun" in text_of(call) for call in editor.calls().values()))
            (call,) = editor.calls().values()
            assert call["status"] == "in_progress"
            await asyncio.to_thread(go.write_text, "go\n", "utf-8")
            assert await prompt == "end_turn"
        (call,) = editor.calls().values()
        assert (call["status"], text_of(call)) == ("completed", "```\nbegun\nover\n```")

    async def test_links_embedded_texts_and_pictures_reach_the_agent(self, handloom: Handloom, tmp_path: Path) -> None:
        file = handloom.workspace / "src" / "a b.py"
        picture = base64.b64encode(PIXEL).decode()
        async with editing(handloom, write_script(tmp_path, [FINISH])) as editor:
            session = await editor.open(handloom)
            await editor.prompt(
                session,
                "Look at",
                acp.resource_link_block("a b.py", file.as_uri()),
                "and",
                acp.resource_block(acp.embedded_text_resource(f"{file.as_uri()}#L3", "x = 1\n")),
                acp.image_block(picture, "image/png"),
            )
        message = next(e for e in handloom.export(session) if e.get("action") == "message")["args"]
        assert message["content"] == "Look at @src/a b.py and @src/a b.py:3"
        (url,) = message["image_urls"]
        assert url.startswith(f"blob:image/png;1x1;{len(PIXEL)};")
        assert message["context"].endswith("@src/a b.py:3:\nx = 1\n")


class TestQuestions:
    async def test_rejected_command_is_not_run(self, handloom: Handloom, tmp_path: Path) -> None:
        model = write_script(tmp_path, [{"text": "", "tool_calls": [bash("touch made")]}, FINISH])
        async with editing(handloom, model, lambda asked: "reject") as editor:
            session = await editor.open(handloom)
            assert await editor.prompt(session, "make it") == "end_turn"
            (call,) = editor.calls().values()
            assert call["status"] == "failed"
            assert await editor.prompt(session, "then be done") == "end_turn"
        assert "All is done." in editor.said()
        assert not (handloom.workspace / "made").exists()

    async def test_rejection_lets_the_agent_continue(self, handloom: Handloom, tmp_path: Path) -> None:
        turns = [{"text": "", "tool_calls": [bash("touch made")]}, {"expect": "does not want this", **FINISH}]
        async with editing(handloom, write_script(tmp_path, turns), lambda asked: "reject_and_go_on") as editor:
            assert await editor.prompt(await editor.open(handloom), "make it") == "end_turn"
        assert "All is done." in editor.said()
        assert not (handloom.workspace / "made").exists()

    @pytest.mark.parametrize("scope", ["conversation", "project", "everywhere"])
    async def test_permission_has_the_scope_of_its_option(self, handloom: Handloom, tmp_path: Path, scope: str) -> None:
        turns = [{"text": "", "tool_calls": [bash("git show 1"), bash("git show 2")]},
                 {"text": "", "tool_calls": [bash("git show 3")]}, FINISH]  # fmt: skip
        model = write_script(tmp_path, turns)
        option = {"conversation": "allow_here"}.get(scope, f"allow_{scope}")
        async with editing(handloom, model, lambda asked: option) as editor:
            assert await editor.prompt(await editor.open(handloom), "test") == "end_turn"
            assert len(editor.asked) == 1
            assert [call["status"] for call in editor.calls().values()] == ["failed"] * 3, "there is no repository"
            offered = {one["optionId"]: (one["kind"], one["name"]) for one in editor.asked[0]["options"]}
            assert offered["allow_here"] == ("allow_always", "Allow in this conversation: bash(git show *)")
            assert offered["never"] == ("reject_always", "Never in this project: bash(git show *)")
            assert "Reason: mode “ask before everything”" in text_of(editor.asked[0])
            assert await editor.prompt(await editor.open(handloom), "test again") == "end_turn"
            assert len(editor.asked) == (2 if scope == "conversation" else 1)
        listed = handloom("permissions", "list").out
        assert ("bash(git show *)" in listed) == (scope != "conversation")

    async def test_never_option_denies_similar_actions(self, handloom: Handloom, tmp_path: Path) -> None:
        turns = [{"text": "", "tool_calls": [bash("git show a")]},
                 {"expect": "does not want this", "text": "", "tool_calls": [bash("git show a")]}, FINISH]  # fmt: skip
        async with editing(handloom, write_script(tmp_path, turns), lambda asked: "never") as editor:
            session = await editor.open(handloom)
            assert await editor.prompt(session, "run it") == "end_turn"
            assert len(editor.asked) == 1
            assert [call["status"] for call in editor.calls().values()] == ["failed", "failed"]
        assert "deny" in handloom("permissions", "list").out

    async def test_ask_rule_offers_and_accepts_no_permission(self, handloom: Handloom, tmp_path: Path) -> None:
        handloom.home.mkdir(parents=True)
        (handloom.home / "policy.toml").write_text('ask = ["bash(touch *)"]\n')
        answers = iter(["allow_everywhere", "allow"])
        model = write_script(tmp_path, [{"text": "", "tool_calls": [bash("touch made")]}, FINISH])
        async with editing(handloom, model, lambda asked: next(answers)) as editor:
            session = await editor.open(handloom)
            assert await editor.prompt(session, "make it") == "end_turn"
            assert not (handloom.workspace / "made").exists()
            kinds = [option["kind"] for option in editor.asked[0]["options"]]
            assert "allow_always" not in kinds
            assert "policy.toml:1 ask bash(touch *)" in text_of(editor.asked[0])
            assert await editor.prompt(session, "well?") == "end_turn"
        assert (handloom.workspace / "made").exists()

    async def test_full_auto_mode_asks_nothing(self, handloom: Handloom, tmp_path: Path) -> None:
        model = write_script(tmp_path, [{"text": "", "tool_calls": [bash("echo 1")]}, FINISH])
        async with editing(handloom, model) as editor:
            session = await editor.open(handloom)
            await editor.connection.set_session_mode(session_id=session, mode_id="never")
            assert await editor.prompt(session, "count") == "end_turn"
            with pytest.raises(RequestError, match="Choose one of: always, risky, auto-edit, plan, never"):
                await editor.connection.set_session_mode(session_id=session, mode_id="sometimes")
        assert editor.asked == []

    async def test_invalid_answer_runs_nothing_and_asks_again(self, handloom: Handloom, tmp_path: Path) -> None:
        answers = iter(["yes, of course", "allow"])
        model = write_script(tmp_path, [{"text": "", "tool_calls": [bash("touch made")]}, FINISH])
        async with editing(handloom, model, lambda asked: next(answers)) as editor:
            session = await editor.open(handloom)
            assert await editor.prompt(session, "make it") == "end_turn"
            assert "it is waiting for your answer" in editor.said()
            assert not (handloom.workspace / "made").exists()
            assert await editor.prompt(session, "well?") == "end_turn"
        assert (handloom.workspace / "made").exists()

    async def test_question_waits_for_the_next_editor(self, handloom: Handloom, tmp_path: Path) -> None:
        model = write_script(tmp_path, [{"text": "", "tool_calls": [bash("touch made")]}, FINISH])
        async with editing(handloom, model, lambda asked: None) as editor:
            session = await editor.open(handloom)
            prompt = asyncio.create_task(editor.prompt(session, "make it"))
            await editor.until(lambda: bool(editor.asked))
        with pytest.raises(ConnectionError):
            await prompt
        assert editor.process.returncode == 0
        assert states(handloom, session)[-1] == "awaiting_user_confirmation"
        async with editing(handloom, model) as editor:
            await editor.connection.load_session(cwd=str(handloom.workspace), session_id=session, mcp_servers=[])
            assert "An action is waiting for your answer." in editor.said()
            assert await editor.prompt(session, "go on") == "end_turn"
        assert [asked["title"] for asked in editor.asked] == ["touch made"]
        assert (handloom.workspace / "made").exists()

    async def test_questions_of_delegates_are_asked(self, handloom: Handloom, tmp_path: Path) -> None:
        model = write_script(tmp_path, [{"text": "", "tool_calls": [bash("touch made")]}, FINISH], "child.yaml")
        delegate = call("delegate", task="Make it.")
        parent = write_script(tmp_path, [{"text": "", "tool_calls": [delegate]}, FINISH], "parent.yaml")
        handloom = Handloom(tmp_path, HANDLOOM__AGENT__DELEGATE_MODEL=model)
        async with editing(handloom, parent) as editor:
            assert await editor.prompt(await editor.open(handloom), "have it made") == "end_turn"
        assert [asked["title"] for asked in editor.asked] == ["Delegate to CodeActAgent", "touch made"]
        assert {call["status"] for call in editor.calls().values()} == {"completed"}
        assert (handloom.workspace / "made").exists()


class TestEnds:
    async def test_cancel_interrupts_a_command(self, handloom: Handloom, tmp_path: Path) -> None:
        model = write_script(tmp_path, [{"text": "", "tool_calls": [bash("echo begun; sleep 600")]}, FINISH])
        async with editing(handloom, model) as editor:
            session = await editor.open(handloom)
            prompt = asyncio.create_task(editor.prompt(session, "wait"))
            await editor.until(lambda: any("begun" in text_of(call) for call in editor.calls().values()))
            await editor.connection.cancel(session_id=session)
            assert await prompt == "cancelled"
            (call,) = editor.calls().values()
            assert call["status"] == "failed"
            assert await editor.prompt(session, "then be done") == "end_turn"
        assert "All is done." in editor.said()

    async def test_cancel_withdraws_a_question(self, handloom: Handloom, tmp_path: Path) -> None:
        model = write_script(tmp_path, [{"text": "", "tool_calls": [bash("touch made")]}, FINISH])
        async with editing(handloom, model, lambda asked: None) as editor:
            session = await editor.open(handloom)
            prompt = asyncio.create_task(editor.prompt(session, "make it"))
            await editor.until(lambda: bool(editor.asked))
            await editor.connection.cancel(session_id=session)
            assert await prompt == "cancelled"
        assert states(handloom, session)[-1] == "stopped"
        assert not (handloom.workspace / "made").exists()

    async def test_immediate_cancel_stops_the_prompt_and_keeps_the_message(
        self, handloom: Handloom, tmp_path: Path
    ) -> None:
        async with editing(handloom, write_script(tmp_path, [{**FINISH, "first_token_s": 600.0}])) as editor:
            session = await editor.open(handloom)
            prompt = asyncio.create_task(editor.prompt(session, "remember me"))
            await asyncio.sleep(0)  # the prompt is written, and nothing is read yet
            await editor.connection.cancel(session_id=session)
            assert await prompt == "cancelled"
        said = [e["args"]["content"] for e in handloom.export(session) if e.get("action") == "message"]
        assert said == ["remember me"]

    async def test_limit_is_a_stop_reason_and_continue_extends_it(self, handloom: Handloom, tmp_path: Path) -> None:
        handloom = Handloom(tmp_path, HANDLOOM__AGENT__MAX_ITERATIONS="1")
        model = write_script(tmp_path, [{"text": "", "tool_calls": [bash("echo 1")]}, FINISH])
        async with editing(handloom, model) as editor:
            session = await editor.open(handloom)
            assert await editor.prompt(session, "count") == "max_turn_requests"
            assert "Send /continue" in editor.said()
            assert await editor.prompt(session, "/continue") == "end_turn"
        assert "All is done." in editor.said()

    async def test_compact_condenses_the_history_and_reports_it(self, handloom: Handloom, tmp_path: Path) -> None:
        summary = write_script(tmp_path, [{"text": "They echoed numbers."}], "summary.yaml")
        handloom = Handloom(tmp_path, HANDLOOM__LLM__SUMMARY_MODEL=summary, HANDLOOM__AGENT__CONFIRM="never")
        turns = [*({"tool_calls": [bash(f"echo {n}")]} for n in range(8)), FINISH]
        async with editing(handloom, write_script(tmp_path, turns)) as editor:
            session = await editor.open(handloom)
            with pytest.raises(RequestError, match="No messages yet"):
                await editor.prompt(session, "/compact")
            await editor.prompt(session, "echo numbers")
            assert await editor.prompt(session, "/compact the third number") == "end_turn"
            assert "Compacted: from your next message on, a summary replaces" in editor.said()
        events = handloom.export(session)
        (asked,) = [e for e in events if e.get("action") == "condensation_request"]
        assert asked["args"]["keep"] == "the third number"
        assert [e["args"]["content"] for e in events if e.get("action") == "message"] == ["echo numbers"]

    async def test_model_failure_is_an_error_with_a_message(self, handloom: Handloom, tmp_path: Path) -> None:
        async with editing(handloom, write_script(tmp_path, [{"expect": "never", **FINISH}])) as editor:
            session = await editor.open(handloom)
            with pytest.raises(RequestError, match="expect"):
                await editor.prompt(session, "hello")
        assert states(handloom, session)[-1] == "error"


class TestSessions:
    async def test_load_replays_the_conversation_in_order(self, handloom: Handloom, tmp_path: Path) -> None:
        turns = [{"text": "I look.", "tool_calls": [bash("echo 1")]}, FINISH, {"text": "Good bye."}]
        model = write_script(tmp_path, turns)
        picture = acp.image_block(base64.b64encode(PIXEL).decode(), "image/png")
        async with editing(handloom, model) as before:
            session = await before.open(handloom)
            await before.prompt(session, "hello", picture)
        async with editing(handloom, model) as editor:
            await editor.connection.load_session(cwd=str(handloom.workspace), session_id=session, mcp_servers=[])
            kinds = [update["sessionUpdate"] for _, update in editor.updates]
            assert kinds[:4] == ["user_message_chunk", "user_message_chunk", "agent_message_chunk", "tool_call"]
            assert editor.of("user_message_chunk")[1]["content"]["data"] == picture.data
            assert [text_of(call) for call in editor.calls().values()] == ["```\n1\n```"]
            assert editor.said().startswith("I look.\n\nReady.\n\nAll is done.")
            assert await editor.prompt(session, "and now?") == "end_turn"
        assert "Good bye." in editor.said()

    async def test_resume_continues_without_replay(self, handloom: Handloom, tmp_path: Path) -> None:
        model = write_script(tmp_path, [{"text": "Hello."}, {"text": "Good bye."}])
        async with editing(handloom, model) as before:
            session = await before.open(handloom)
            await before.prompt(session, "hello")
        async with editing(handloom, model) as editor:
            request = {"sessionId": session, "cwd": str(handloom.workspace), "mcpServers": []}
            resumed = await editor.connection._conn.send_request("session/resume", request)
            assert resumed["modes"]["currentModeId"] == "always"
            assert editor.of("user_message_chunk") == []
            assert await editor.prompt(session, "and now?") == "end_turn"
            assert "Hello." not in editor.said()
            assert "Good bye." in editor.said()

    async def test_prompt_reports_its_token_usage(self, handloom: Handloom, tmp_path: Path) -> None:
        usages = [{"prompt_tokens": 100, "completion_tokens": 20}, {"prompt_tokens": 7, "completion_tokens": 3}]
        model = write_script(tmp_path, [{"text": "Said.", "usage": usage} for usage in usages])
        async with editing(handloom, model) as editor:
            session = await editor.open(handloom)
            taken = [(await editor.connection.prompt(session_id=session, prompt=[acp.text_block("x")])).usage
                     for _ in usages]  # fmt: skip
            assert [(one.input_tokens, one.output_tokens, one.total_tokens) for one in taken if one] == [
                (100, 20, 120),
                (7, 3, 10),
            ]

    async def test_agent_with_its_own_model_needs_no_model_setting(self, handloom: Handloom, tmp_path: Path) -> None:
        other = written(tmp_path, 'say("I have my own.")')
        own = {"HANDLOOM__AGENT__NAME": "ACPAgent", "HANDLOOM__AGENT__ACP_COMMAND": other}
        handloom = Handloom(tmp_path, **own)
        async with editing(handloom, "") as editor:
            assert await editor.prompt(await editor.open(handloom), "hello") == "end_turn"
            assert "I have my own." in editor.said()

    async def test_close_ends_the_prompt_and_the_session_can_be_reloaded(
        self, handloom: Handloom, tmp_path: Path
    ) -> None:
        model = write_script(tmp_path, [{"text": "", "tool_calls": [bash("echo begun; sleep 600")]}, FINISH])
        async with editing(handloom, model) as editor:
            session = await editor.open(handloom)
            prompt = asyncio.create_task(editor.prompt(session, "wait"))
            await editor.until(lambda: any("begun" in text_of(call) for call in editor.calls().values()))
            await editor.close(session)
            assert await prompt == "cancelled"
            with pytest.raises(RequestError, match="is not loaded"):
                await editor.prompt(session, "hello?")
            await editor.connection.load_session(cwd=str(handloom.workspace), session_id=session, mcp_servers=[])
            assert await editor.prompt(session, "then be done") == "end_turn"

    async def test_concurrent_sessions_are_listed(self, handloom: Handloom, tmp_path: Path) -> None:
        script = [{"text": "", "tool_calls": [bash("cat name")]}, FINISH]
        other = tmp_path / "other"
        other.mkdir()
        for folder, name in ((handloom.workspace, "one"), (other, "two")):
            (folder / "name").write_text(name, "utf-8")
        async with editing(handloom, write_script(tmp_path, script)) as editor:
            one = await editor.open(handloom)
            two = (await editor.connection.new_session(cwd=str(other), mcp_servers=[])).session_id
            assert [*await asyncio.gather(editor.prompt(one, "who?"), editor.prompt(two, "who?"))] == ["end_turn"] * 2
            assert [text_of(call) for call in editor.calls(one).values()] == ["```\none\n```"]
            assert [text_of(call) for call in editor.calls(two).values()] == ["```\ntwo\n```"]
            listed = await editor.connection.list_sessions(cwd=str(other))
            assert [(info.session_id, info.cwd) for info in listed.sessions] == [(two, str(other))]

    async def test_second_editor_cannot_load_an_open_conversation(self, handloom: Handloom, tmp_path: Path) -> None:
        model = write_script(tmp_path, [FINISH])
        async with editing(handloom, model) as one, editing(handloom, model) as other:
            session = await one.open(handloom)
            with pytest.raises(RequestError, match="open"):
                await other.connection.load_session(cwd=str(handloom.workspace), session_id=session, mcp_servers=[])

    async def test_folder_must_be_absolute_and_exist(self, handloom: Handloom, tmp_path: Path) -> None:
        async with editing(handloom, write_script(tmp_path, [FINISH])) as editor:
            with pytest.raises(RequestError, match="not an absolute path"):
                await editor.connection.new_session(cwd="workspace", mcp_servers=[])
            with pytest.raises(RequestError, match="is not a folder"):
                await editor.connection.new_session(cwd=str(tmp_path / "nowhere"), mcp_servers=[])
        assert handloom.conversations() == []

    async def test_missing_model_is_reported_to_the_editor(self, handloom: Handloom) -> None:
        async with editing(handloom, "") as editor:
            with pytest.raises(RequestError, match="--model"):
                await editor.open(handloom)

    async def test_wrong_setting_is_reported_and_can_be_corrected_without_restart(
        self, handloom: Handloom, tmp_path: Path
    ) -> None:
        handloom.home.mkdir()
        config = handloom.home / "config.toml"
        config.write_text("[agent]\nconfirm = 'sometimes'\n", "utf-8")
        async with editing(handloom, write_script(tmp_path, [FINISH])) as editor:
            with pytest.raises(RequestError, match=r"agent\.confirm"):
                await editor.open(handloom)
            config.write_text("", "utf-8")
            assert await editor.prompt(await editor.open(handloom), "hello") == "end_turn"

    async def test_mcp_servers_of_the_editor_are_reported_and_not_started(
        self, handloom: Handloom, tmp_path: Path
    ) -> None:
        server = McpServerStdio(name="files", command="/bin/touch", args=[str(tmp_path / "started")], env=[])
        async with editing(handloom, write_script(tmp_path, [FINISH])) as editor:
            made = await editor.connection.new_session(cwd=str(handloom.workspace), mcp_servers=[server])
            await editor.until(lambda: "MCP servers: files" in editor.said())
            assert await editor.prompt(made.session_id, "hello") == "end_turn"
        assert not (tmp_path / "started").exists()

    async def test_user_commands_are_offered_and_expanded(self, handloom: Handloom, tmp_path: Path) -> None:
        folder = handloom.home / "commands"
        folder.mkdir(parents=True)
        (folder / "review.md").write_text("---\ndescription: Look\n---\nReview $ARGUMENTS closely.\n", "utf-8")
        async with editing(handloom, write_script(tmp_path, [FINISH])) as editor:
            session = await editor.open(handloom)
            await editor.until(lambda: bool(editor.of("available_commands_update")))
            await editor.prompt(session, "/review a.py")
        (offered,) = editor.of("available_commands_update")
        names = [command["name"] for command in offered["availableCommands"]]
        assert names == ["continue", "compact", "init", "review"]
        said = [e["args"]["content"] for e in handloom.export(session) if e.get("action") == "message"]
        assert said[0] == "Review a.py closely."
