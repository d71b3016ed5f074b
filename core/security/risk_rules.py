"""The rules that rate the risk of an action: one row each, with an id and the sentence that the user sees.

Data only. Readers of commands, cells, pages and files report a rule by its id; the strictest rule reported is the risk
of the action. To add a rule, add a row here and report it in a reader.
"""

from __future__ import annotations

from dataclasses import dataclass

from core.events import ActionSecurityRisk

LOW, MEDIUM = ActionSecurityRisk.LOW, ActionSecurityRisk.MEDIUM
HIGH, UNKNOWN = ActionSecurityRisk.HIGH, ActionSecurityRisk.UNKNOWN

_STRICTNESS = {LOW: 0, MEDIUM: 1, UNKNOWN: 2, HIGH: 3}


def strictness(risk: ActionSecurityRisk) -> int:
    """How strict a risk is, from 0 to 3: UNKNOWN is between MEDIUM and HIGH."""
    return _STRICTNESS[risk]


def strictest(*risks: ActionSecurityRisk) -> ActionSecurityRisk:
    """The strictest of these; LOW if there are none."""
    return max(risks, key=strictness, default=LOW)


def names(text: str) -> frozenset[str]:
    """The words of a text as a set."""
    return frozenset(text.split())


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule."""

    id: str
    """`group.name`, as the user sees it and policies name it."""
    risk: ActionSecurityRisk
    reason: str
    """One short sentence."""


_ROWS = (
    # What is not known.
    Rule("not-understood", UNKNOWN, "Handloom does not understand part of it."),
    Rule("action.unknown", UNKNOWN, "Handloom does not know this kind of action."),
    Rule("program.unknown", UNKNOWN, "Handloom does not know what this program does."),
    Rule("shell.interactive", UNKNOWN, "It opens a shell or an editor that waits for input."),
    # Running code.
    Rule("run.remote", HIGH, "It runs code downloaded from the network."),
    Rule("run.written", UNKNOWN, "It runs a file written by a command in this shell."),
    Rule("run.project", MEDIUM, "It runs code from the workspace."),
    Rule("run.elsewhere", UNKNOWN, "It runs code from outside the workspace."),
    Rule("run.remotely", MEDIUM, "It runs a command on another machine."),
    # Destruction.
    Rule("destroy.root", HIGH, "It deletes the file system, the home folder or the whole workspace."),
    Rule("destroy.outside", HIGH, "It deletes files outside the workspace."),
    Rule("destroy.variable", HIGH, "It deletes a path from a variable, which may be empty."),
    Rule("destroy.work", HIGH, "It discards uncommitted changes."),
    Rule("destroy.folder", MEDIUM, "It deletes a folder and everything in it."),
    Rule("destroy.found", MEDIUM, "It deletes every file that a search finds."),
    Rule("destroy.disk", HIGH, "It writes to a disk or creates a file system."),
    Rule("destroy.emptied", HIGH, "It empties or overwrites files outside the workspace."),
    Rule("destroy.containers", HIGH, "It deletes containers, images or volumes."),
    Rule("machine.kill", HIGH, "It stops programs that it did not start."),
    Rule("machine.kill-one", MEDIUM, "It stops a program."),
    Rule("rights.wide", HIGH, "It gives all users access to files, or changes permissions outside the workspace."),
    Rule("rights.root", HIGH, "It runs as administrator."),
    Rule("rights.container", HIGH, "It gives a container access to this machine."),
    # What outlasts the conversation.
    Rule("persist.shell", HIGH, "It changes a file that every new shell runs."),
    Rule("persist.ssh", HIGH, "It changes who can log in to this machine, or how."),
    Rule("persist.cron", HIGH, "It schedules a program to run later or repeatedly."),
    Rule("persist.hook", HIGH, "It changes what git or the editor runs automatically."),
    Rule("persist.ci", MEDIUM, "It changes what the project's CI runs."),
    Rule("persist.config", HIGH, "It changes the global settings of a program."),
    Rule("persist.system", HIGH, "It changes system files."),
    # Files.
    Rule("write.home", UNKNOWN, "It writes to the home folder."),
    Rule("write.outside", UNKNOWN, "It writes outside the workspace."),
    Rule("read.outside", UNKNOWN, "It reads personal files outside the workspace."),
    # Secrets.
    Rule("secret.read", HIGH, "It reads a file that contains secrets."),
    Rule("secret.environment", MEDIUM, "It lists environment variables, which may contain secrets."),
    Rule("secret.process", HIGH, "It reads the environment variables of another program."),
    Rule("secret.keyring", HIGH, "It asks a keyring or a credential helper for a secret."),
    Rule("secret.search", HIGH, "It searches for secrets."),
    Rule("secret.sent", HIGH, "It sends secrets to another machine."),
    Rule("secret.metadata", HIGH, "It calls the cloud metadata service, which returns keys."),
    # The network.
    Rule("net.local", LOW, "It calls a program on this machine."),
    Rule("net.fetch", MEDIUM, "It downloads from the network."),
    Rule("net.upload", HIGH, "It sends files or command output to the network."),
    Rule("net.post", UNKNOWN, "It sends data to another machine."),
    Rule("net.in-address", HIGH, "It puts command output or the contents of a file into a URL."),
    Rule("net.raw", HIGH, "It opens a raw network connection."),
    Rule("net.listen", MEDIUM, "It accepts network connections."),
    Rule("net.open", HIGH, "It opens this machine to the network."),
    Rule("net.login", MEDIUM, "It logs in to another machine."),
    Rule("net.probe", MEDIUM, "It looks up a host on the network."),
    Rule("net.scan", HIGH, "It scans hosts on the network."),
    Rule("net.dns-data", HIGH, "It puts command output into a DNS query."),
    Rule("net.unchecked", HIGH, "It does not check the server's certificate."),
    Rule("git.fetch", MEDIUM, "It fetches from another repository."),
    Rule("git.push", UNKNOWN, "It pushes commits to another repository."),
    Rule("git.push-elsewhere", HIGH, "It pushes commits to a URL instead of a configured remote."),
    Rule("git.force", HIGH, "It overwrites the history of another repository."),
    Rule("git.remote", MEDIUM, "It changes the remotes of the repository."),
    Rule("git.discard", MEDIUM, "It discards changes to single files, or deletes a branch."),
    Rule("package.install", MEDIUM, "It installs packages, which may run third-party code."),
    Rule("package.install-url", HIGH, "It installs a package from a URL outside the package index."),
    Rule("package.publish", HIGH, "It publishes a package."),
    Rule("package.run", UNKNOWN, "It downloads a package and runs it."),
    Rule("container.run", MEDIUM, "It runs a container."),
    Rule("cloud.change", HIGH, "It changes something in the cloud or the cluster."),
    Rule("cloud.read", MEDIUM, "It reads from the cloud or the cluster."),
    Rule("message.sent", HIGH, "It sends a message to people."),
    # The browser, MCP, other agents.
    Rule("page.open", MEDIUM, "It opens a page."),
    Rule("page.local-file", HIGH, "It opens a local file in the browser."),
    Rule("page.script", HIGH, "It runs a script in a page."),
    Rule("page.fill", MEDIUM, "It types into a page."),
    Rule("page.upload", HIGH, "It uploads a file to a page."),
    Rule("page.unknown", UNKNOWN, "Part of it is not a browser function call with literal arguments."),
    Rule("mcp.read-only", LOW, "The server declares this tool read-only."),
    Rule("mcp.call", UNKNOWN, "Handloom does not know what this MCP tool does."),
    Rule("agent.delegate", MEDIUM, "Another agent does this. Each of its actions is checked too."),
)

RULES = {rule.id: rule for rule in _ROWS}
"""Every rule by its id."""
