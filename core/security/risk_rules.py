"""The rules by which the risk of an action is told: one row each, with the id and the sentence that the user sees.

Data alone. Readers of commands, cells, pages and files name a rule by its id when they see what it is about; the
strictest rule that was named is the action's risk. To add one, add a row here and name it where it is seen.
"""

from __future__ import annotations

from dataclasses import dataclass

from core.events import ActionSecurityRisk

LOW, MEDIUM = ActionSecurityRisk.LOW, ActionSecurityRisk.MEDIUM
HIGH, UNKNOWN = ActionSecurityRisk.HIGH, ActionSecurityRisk.UNKNOWN

_STRICTNESS = {LOW: 0, MEDIUM: 1, UNKNOWN: 2, HIGH: 3}


def strictness(risk: ActionSecurityRisk) -> int:
    """How strict a risk is, from 0 to 3: what cannot be told stands above MEDIUM and below HIGH."""
    return _STRICTNESS[risk]


def strictest(*risks: ActionSecurityRisk) -> ActionSecurityRisk:
    """The strictest of these; LOW where there are none."""
    return max(risks, key=strictness, default=LOW)


def names(text: str) -> frozenset[str]:
    """The words of a text, as a set: how the tables of programs are written."""
    return frozenset(text.split())


@dataclass(frozen=True, slots=True)
class Rule:
    """A row of the table."""

    id: str
    """`room.thing`, as the user sees it and as policies name it."""
    risk: ActionSecurityRisk
    reason: str
    """One short sentence."""


_ROWS = (
    # What is not known.
    Rule("not-understood", UNKNOWN, "Part of it is not understood."),
    Rule("action.unknown", UNKNOWN, "Nothing is known about this kind of action."),
    Rule("program.unknown", UNKNOWN, "Handloom does not know what this program does."),
    Rule("shell.interactive", UNKNOWN, "It opens a shell or an editor that waits for input."),
    # Running code.
    Rule("run.remote", HIGH, "It runs what it fetches from the network."),
    Rule("run.written", UNKNOWN, "It runs a file that a command of this shell wrote."),
    Rule("run.project", MEDIUM, "It runs code of the workspace."),
    Rule("run.elsewhere", UNKNOWN, "It runs code from outside the workspace."),
    Rule("run.remotely", MEDIUM, "It runs a command on another machine."),
    # Destruction.
    Rule("destroy.root", HIGH, "It removes the file system, the home folder or the whole workspace."),
    Rule("destroy.outside", HIGH, "It removes files outside the workspace."),
    Rule("destroy.variable", HIGH, "It removes what a variable names, which may be empty."),
    Rule("destroy.work", HIGH, "It throws away changes that are in no commit."),
    Rule("destroy.folder", MEDIUM, "It removes a folder with all that is in it."),
    Rule("destroy.found", MEDIUM, "It removes every file that a search finds."),
    Rule("destroy.disk", HIGH, "It writes to a disk or makes a file system."),
    Rule("destroy.emptied", HIGH, "It empties or overwrites files outside the workspace."),
    Rule("destroy.traces", HIGH, "It removes the traces of what was done."),
    Rule("destroy.containers", HIGH, "It removes containers, images or volumes."),
    Rule("machine.kill", HIGH, "It ends programs that it did not start."),
    Rule("machine.kill-one", MEDIUM, "It ends a program."),
    Rule("rights.wide", HIGH, "It gives everyone rights to files, or changes rights outside the workspace."),
    Rule("rights.root", HIGH, "It runs with the rights of the administrator."),
    Rule("rights.container", HIGH, "It gives a container the rights of the machine."),
    # What outlasts the conversation.
    Rule("persist.shell", HIGH, "It changes a file that every new shell runs."),
    Rule("persist.ssh", HIGH, "It changes who may log in here, or how."),
    Rule("persist.cron", HIGH, "It has something run later or again and again."),
    Rule("persist.hook", HIGH, "It changes what git or the editor runs by itself."),
    Rule("persist.ci", MEDIUM, "It changes what the project's automation runs."),
    Rule("persist.config", HIGH, "It changes the settings of a program for all folders."),
    Rule("persist.system", HIGH, "It changes files of the system."),
    # Files.
    Rule("write.home", UNKNOWN, "It writes to the home folder."),
    Rule("write.outside", UNKNOWN, "It writes outside the workspace."),
    Rule("read.outside", UNKNOWN, "It reads personal files outside the workspace."),
    # Secrets.
    Rule("secret.read", HIGH, "It reads a file that holds secrets."),
    Rule("secret.environment", MEDIUM, "It lists the environment, where secrets stand."),
    Rule("secret.process", HIGH, "It reads the environment of a program."),
    Rule("secret.keyring", HIGH, "It asks a keyring or a credential helper for a secret."),
    Rule("secret.search", HIGH, "It searches for secrets."),
    Rule("secret.sent", HIGH, "It sends secrets out."),
    Rule("secret.metadata", HIGH, "It asks the cloud's metadata service, which gives out keys."),
    # The network.
    Rule("net.local", LOW, "It calls a program on this machine."),
    Rule("net.fetch", MEDIUM, "It fetches something from the network."),
    Rule("net.upload", HIGH, "It sends files or the output of programs to the network."),
    Rule("net.post", UNKNOWN, "It sends data to a host."),
    Rule("net.in-address", HIGH, "It puts what a command prints or a file holds into an address."),
    Rule("net.raw", HIGH, "It opens a raw connection."),
    Rule("net.listen", MEDIUM, "It waits for connections from others."),
    Rule("net.open", HIGH, "It gives the network a way into this machine."),
    Rule("net.login", MEDIUM, "It logs in on another machine."),
    Rule("net.probe", MEDIUM, "It asks the network about a host."),
    Rule("net.scan", HIGH, "It scans hosts of the network."),
    Rule("net.dns-data", HIGH, "It puts what a command prints into a name that is looked up."),
    Rule("net.unchecked", HIGH, "It does not check who answers."),
    Rule("git.fetch", MEDIUM, "It fetches from another repository."),
    Rule("git.push", UNKNOWN, "It pushes commits to another repository."),
    Rule("git.push-elsewhere", HIGH, "It pushes commits to an address that it names itself."),
    Rule("git.force", HIGH, "It overwrites the history of another repository."),
    Rule("git.remote", MEDIUM, "It changes where the repository fetches and pushes."),
    Rule("git.discard", MEDIUM, "It takes back changes of single files, or drops a branch."),
    Rule("package.install", MEDIUM, "It installs packages, which may run code of others."),
    Rule("package.install-url", HIGH, "It installs a package from an address outside the package index."),
    Rule("package.publish", HIGH, "It publishes a package."),
    Rule("package.run", UNKNOWN, "It fetches a package and runs it."),
    Rule("container.run", MEDIUM, "It runs a container."),
    Rule("cloud.change", HIGH, "It changes something in the cloud or the cluster."),
    Rule("cloud.read", MEDIUM, "It asks the cloud or the cluster."),
    Rule("message.sent", HIGH, "It sends a message to people."),
    # The browser, MCP, other agents.
    Rule("page.open", MEDIUM, "It opens a page."),
    Rule("page.local-file", HIGH, "It opens a file of this machine in the browser."),
    Rule("page.script", HIGH, "It runs a script in a page."),
    Rule("page.fill", MEDIUM, "It types into a page."),
    Rule("page.upload", HIGH, "It gives a file to a page."),
    Rule("page.unknown", UNKNOWN, "Part of it is no call of a browser function with literal arguments."),
    Rule("mcp.read-only", LOW, "The server says that this tool changes nothing."),
    Rule("mcp.call", UNKNOWN, "What a tool of a server does is not known."),
    Rule("agent.delegate", MEDIUM, "Another agent works on it; each of its own actions is judged too."),
)

RULES = {rule.id: rule for rule in _ROWS}
"""Every rule by its id."""
