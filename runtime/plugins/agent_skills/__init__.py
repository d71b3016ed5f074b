"""AgentSkillsPlugin: functions for reading and searching files that every kernel has.

    plugin          AgentSkillsPlugin: puts the functions into each kernel
    agentskills/    the functions; a separate package in the kernel, where nothing else of Handloom can be imported

What they print is word for word that of OpenHands V0 (`openhands/runtime/plugins/agent_skills/`).
"""
