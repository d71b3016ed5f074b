"""The plugins: what a sandbox can do beyond shell, files and plan.

A plugin is one file or folder beside this one and one entry in `core.plugin_requirements.OURS`; those of other packages
are found by their entry point. Two that claim one action are refused when the server starts.

    base        what a plugin is, and what it is given
    browser     one Chromium that the agent drives and the user can watch
    startup     starts them in order, beside the server, and lets their actions wait for that
"""
