"""Knowledge: microagents, skills, commands and instructions, which the user or a project wrote down for agents.

Texts come from `core.trust.survey`: the user's own, and those of a project that the user said yes to. Here they are
understood, and found again by what is said. Follows the microagents of OpenHands V0 (`openhands/microagent`) and the
Agent Skills format. Everything but `gathering` is pure.
"""
