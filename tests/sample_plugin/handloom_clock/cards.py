"""How the chat shows it."""

from handloom_clock.events import TellTimeAction, TimeObservation

CARDS = {
    TellTimeAction: lambda action: f"clock {action.zone}",
    TimeObservation: lambda observation: f"{observation.zone}: {observation.content}",
}
