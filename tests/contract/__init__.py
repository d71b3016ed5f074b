"""What every runtime keeps, whatever it is made of: one suite for all of them. `conftest` names the runtimes."""
