"""The workspace in a web browser: `handloom serve`, on loopback, for whoever has the address with its token."""
