"""Figures for people: money and sizes in few cells. Standard library only."""

from __future__ import annotations

UNKNOWN = "—"


def dollars(cost: float | None) -> str:
    """US dollars; a dash where they are not known."""
    if cost is None:
        return UNKNOWN
    return f"${cost:.4f}" if 0 < cost < 0.1 else f"${cost:,.2f}"


def bytes_of(size: int) -> str:
    """A number of bytes for people."""
    if size < 1000:
        return f"{size} B"
    step = min(4, (len(str(size)) - 1) // 3)
    value, unit = size / 1000**step, ("", "kB", "MB", "GB", "TB")[step]
    return f"{value:.1f} {unit}" if value < 10 else f"{value:.0f} {unit}"
