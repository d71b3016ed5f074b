"""The words for the approval modes, by their names in the settings. Standard library only, for the first frame."""

from tui.i18n import _

MODE_WORDS = {
    "always": _("ask before everything"),
    "risky": _("ask before risky actions"),
    "auto-edit": _("auto-approve edits"),
    "plan": _("plan only"),
    "never": _("full auto"),
}
SHORT_MODE_WORDS = {
    "always": _("ask always"),
    "risky": _("ask if risky"),
    "auto-edit": _("auto-edit"),
}
"""For narrow windows, where a mode has shorter words."""


def mode_words(mode: str) -> str:
    """The words for a mode, or its name if it is unknown."""
    return MODE_WORDS.get(mode, mode)
