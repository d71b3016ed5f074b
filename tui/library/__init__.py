"""The library on the command line and in the workspace: the sessions of other agents."""
