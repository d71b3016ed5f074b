"""The library: the sessions of other agents on this machine, as conversations in a home of their own."""
