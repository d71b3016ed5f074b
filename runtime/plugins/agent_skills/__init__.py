"""AgentSkillsPlugin: functions that every kernel has, for reading and searching files, and what they are told as.

    plugin          AgentSkillsPlugin: puts them into each kernel
    agentskills/    the functions; a package of its own in the kernel, where nothing else of ours is in sight

What they print is word for word that of OpenHands V0 (`openhands/runtime/plugins/agent_skills/`).
"""
