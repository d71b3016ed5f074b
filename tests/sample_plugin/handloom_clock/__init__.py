"""The sandbox tells the time: a plugin of another package, with an action, a tool and a look of its own."""

from core.plugin_requirements import PluginRequirement

CLOCK = PluginRequirement(
    name="clock",
    make="handloom_clock.plugin:ClockPlugin",
    events="handloom_clock.events",
    tools="handloom_clock.tools:TOOLS",
    cards="handloom_clock.cards:CARDS",
)
