"""Plugins: what a sandbox can do in addition to shell, files and plan.

A plugin is a file or folder in this folder and an entry in `core.plugin_requirements.OURS`. Plugins of other packages
are found by their entry point. The server refuses to start with two plugins that claim the same action.

    base            the Plugin protocol, the context that a plugin gets, and the start of plugins
    agent_skills    functions for reading and searching files, in every kernel
    browser         one Chromium that the agent controls and the user can watch
    jupyter         Python cells in a kernel
    vscode          an editor in the user's browser
"""
