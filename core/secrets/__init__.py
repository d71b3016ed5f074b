"""Secrets: the user's vault, the secrets of one command, and their redaction everywhere else.

Known values are redacted at any depth and in the encodings that programs use, and so is what looks like an unknown
secret. What is imported here is pure and loads next to nothing, because the sandbox's launcher and the model host use
it; import the rest from its module.
"""

from __future__ import annotations

from core.secrets.redactor import PLACEHOLDER, Redactor
from core.secrets.variable_names import MIN_LENGTH, from_environment, is_secret, is_secret_name

__all__ = ["MIN_LENGTH", "PLACEHOLDER", "Redactor", "from_environment", "is_secret", "is_secret_name"]
