"""The screens: the workspace, and what comes up over it and goes again."""
