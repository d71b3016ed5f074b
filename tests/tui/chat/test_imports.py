"""The first frame waits for nothing that it does not need."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("pydantic", "core.events", "core.errors", "core.settings", "rich.markdown", "markdown_it", "pygments")
MODULES = (
    "tui.chat.view",
    "tui.prompt",
    "tui.workspace.pane",
    "tui.terminal_io.sanitizer",
    "tui.terminal_io.strip_filter",
)


def test_widgets_import_no_heavy_modules() -> None:
    program = f"import sys, {', '.join(MODULES)}\nprint([name for name in {HEAVY!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_model_imports_no_textual() -> None:
    program = "import sys, tui.chat.model\nprint('textual' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"
