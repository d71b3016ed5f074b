"""`python -P -m handloom`, for where the script `handloom` is not at hand."""

import sys

from handloom.entry import main

if __name__ == "__main__":
    sys.exit(main())
