"""The session manager without its screen: which conversations are wanted, the pages of their list, how a row reads."""
