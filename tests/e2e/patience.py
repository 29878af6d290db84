"""How end-to-end tests and their helper programs wait. Imports only small standard modules, so that a
program which runs a hundred times in a test starts quickly."""
import os
import re
import time

BUILD = os.environ.get("TENURE_BUILD_DIR", "build")
# Output of a server with a fault that the server or a library has detected.
COMPLAINT = re.compile("Sanitizer|runtime error:|assertion failed:|: Assertion `")
PATIENCE = 120.0  # only matters when something fails: long, for slow machines


def until(condition, what):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        got = condition()
        if got:
            return got
        time.sleep(0.01)
    raise AssertionError("not within %d s: %s" % (PATIENCE, what))
