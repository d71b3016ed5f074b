"""`handloom serve`: the workspace in a web browser, on loopback, for anyone who has the address with its token."""
