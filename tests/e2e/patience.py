"""What end-to-end tests and their helper programs wait with: no other module of ours or of others, so that a
program which runs a hundred times in a test starts quickly."""
import os
import re
import time

BUILD = os.environ.get("TENURE_BUILD_DIR", "build")
# Of a server with a fault, whether we or a library have found it.
COMPLAINT = re.compile("Sanitizer|runtime error:|assertion failed:|: Assertion `")
PATIENCE = 120.0  # it only matters when something fails: let it be long, for machines that are slow


def until(condition, what):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        got = condition()
        if got:
            return got
        time.sleep(0.01)
    raise AssertionError("not within %d s: %s" % (PATIENCE, what))
