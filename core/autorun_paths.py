"""Names in a workspace that programs of the user run or obey automatically, outside of any sandbox.

Editors, shells, git hook managers and other agents act on these files when a folder is opened or a commit is made. The
list is used by the sandbox (read-only mounts, and files that are moved aside when they appear), by the audit of the
workspace, and by the mode that lets the agent edit files without asking. Git's own files (`.git/config`, `.git/hooks`)
are always protected as well, by `runtime.isolation.protected_paths` and `runtime.isolation.git_config`.
"""

from __future__ import annotations

NAMES = (
    ".aider.conf.yml",
    ".amazonq",
    ".amp",
    ".claude",
    ".cline",
    ".clinerules",
    ".codex",
    ".continue",
    ".crush.json",
    ".cursor",
    ".devcontainer",
    ".dir-locals-2.el",
    ".dir-locals.el",
    ".envrc",
    ".exrc",
    ".factory",
    ".gdbinit",
    ".gemini",
    ".githooks",
    ".gvimrc",
    ".handloom",
    ".helix",
    ".husky",
    ".idea",
    ".irbrc",
    ".junie",
    ".kilocode",
    ".kiro",
    ".lazy.lua",
    ".lefthook-local.json",
    ".lefthook-local.toml",
    ".lefthook-local.yaml",
    ".lefthook-local.yml",
    ".lefthook.json",
    ".lefthook.toml",
    ".lefthook.yaml",
    ".lefthook.yml",
    ".lldbinit",
    ".lvimrc",
    ".mcp.json",
    ".mise",
    ".mise.local.toml",
    ".mise.toml",
    ".neoconf.json",
    ".nvim.lua",
    ".nvimrc",
    ".ocamlinit",
    ".opencode",
    ".pdbrc",
    ".pre-commit-config.yaml",
    ".pryrc",
    ".qwen",
    ".roo",
    ".Rprofile",
    ".trae",
    ".vimrc",
    ".vscode",
    ".windsurf",
    ".zed",
    "crush.json",
    "lefthook-local.json",
    "lefthook-local.toml",
    "lefthook-local.yaml",
    "lefthook-local.yml",
    "lefthook.json",
    "lefthook.toml",
    "lefthook.yaml",
    "lefthook.yml",
    "mise.local.toml",
    "mise.toml",
    "opencode.json",
    "opencode.jsonc",
)
"""Files and folders, relative to the workspace. A folder includes everything in it, such as `.cursor/mcp.json`."""
NESTED = (".hg/hgrc", ".hg/hgrc-not-shared", ".hg/sharedpath", ".jj/repo/config.toml", ".sl/config")
"""Settings of Mercurial, Jujutsu and Sapling that run programs, as git's do. Protected whatever the list is."""
_PARTS = frozenset(name.lower() for name in NAMES)


def is_autorun(path: str) -> bool:
    """Whether a path is one of these names or inside one, at any depth; upper case counts as lower."""
    return not _PARTS.isdisjoint(path.lower().split("/")) or is_nested(path)


def is_nested(path: str) -> bool:
    """Whether a path is one of NESTED, at any depth."""
    return f"/{path.lower()}".endswith(tuple(f"/{name}" for name in NESTED))
