"""Secrets: how they are kept (`vault`), lent to one command (`lent`), and kept out of everything else (`masker`).

A known value is replaced wherever it stands, at any depth and in the encodings that programs use, in keys of free-form
objects too; what looks like an unknown one (`shapes`) is replaced as well. What is imported here is pure and loads
next to nothing, so that the sandbox's launcher and the model host can use it; the rest is imported by its module.
"""

from __future__ import annotations

from core.secrets.redactor import PLACEHOLDER, Masker
from core.secrets.variable_names import MIN_LENGTH, from_environment, is_secret, is_secret_name

__all__ = ["MIN_LENGTH", "PLACEHOLDER", "Masker", "from_environment", "is_secret", "is_secret_name"]
