"""A transcript as short tuples that a test compares."""

from __future__ import annotations

from typing import Any

from core.import_export.agents.transcript import Transcript


def shown(transcript: Transcript) -> list[tuple[Any, ...]]:
    """Each event: its kind, and what a reader of the session sees of it."""
    return [_shown(form) for form in transcript.forms]


def _shown(form: dict[str, Any]) -> tuple[Any, ...]:
    if kind := form.get("action"):
        args = form["args"]
        match kind:
            case "message":
                return (form["source"], args["content"], *(args.get("image_urls") or ()))
            case "think":
                return "thinks", args["thought"]
            case "run":
                return "runs", args["command"]
            case "read":
                return "reads", args["path"]
            case "edit":
                return "edits", args["path"], args["command"]
            case "call_tool_mcp":
                return "calls", args["name"], args["arguments"]
            case "delegate":
                return "delegates", args["agent"], args["inputs"]
            case "condensation":
                return "compacts", args["summary"]
            case "task_tracking":
                return "plans", [(task["title"], task["status"]) for task in args["task_list"]]
        return kind, args
    kind, extras, content = form["observation"], form["extras"], form["content"]
    cause = form.get("cause")
    match kind:
        case "run":
            return "ran", cause, content, extras["metadata"]["exit_code"]
        case "edit":
            return "edited", cause, extras["diff"]
        case "agent_state_changed":
            return "state", extras["agent_state"]
    if "." in kind:
        return (kind,)
    return f"{kind} result", cause, content
