#!/usr/bin/env python3
"""Runs clang-tidy on C files, all processors at work, and remembers which files were clean.

    tools/tidy.py DATABASE KEPT FILE...

DATABASE is a compile_commands.json. A file is skipped if it was clean before and nothing that
clang-tidy sees has changed since: the preprocessed text with its comments, the configuration, the
options, the version. KEPT is the directory with a mark for each such state.

clang's analyzer takes most of the time, so it looks at the product (src, examples, bench) and not at the
tests; the other checks look at everything. With TENURE_TIDY_COMMITS=N in the environment, the analyzer
looks only at files that the last N commits or the working copy have changed: `make test` does that,
`make lint` checks all. Exits 1 if there is a finding."""

import concurrent.futures
import hashlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Optional, Set

COMMON = ["--quiet", "--extra-arg=-Wno-unknown-warning-option"]


def changed() -> Optional[Set[str]]:
    """The files that the analyzer examines; None: all."""
    commits = os.environ.get("TENURE_TIDY_COMMITS")
    if commits is None:
        return None
    run = subprocess.run(
        ["git", "diff", "--name-only", f"HEAD~{int(commits)}"],
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    return set(run.stdout.split()) if run.returncode == 0 else None


CHANGED = changed()


def options_of(name: str) -> List[str]:
    analyzed = not name.startswith("tests/") and (CHANGED is None or name in CHANGED)
    return COMMON + ([] if analyzed else ["--checks=-clang-analyzer-*"])


def preprocessed(entry: Dict[str, Any]) -> bytes:
    words = shlex.split(entry["command"])
    at = words.index("-o")
    words = words[:at] + words[at + 2 :]
    words[words.index("-c")] = "-E"
    run = subprocess.run(
        words + ["-C", "-P"], cwd=entry["directory"], check=False, stdout=subprocess.PIPE
    )
    return run.stdout  # if it fails, clang-tidy says why


def state_of(name: str, entry: Dict[str, Any], settings: bytes) -> str:
    state = hashlib.sha256(settings)
    state.update("\0".join([name] + options_of(name)).encode())
    state.update(preprocessed(entry))
    return state.hexdigest()


def clean(name: str, entry: Dict[str, Any], settings: bytes, kept: Path) -> bool:
    mark = kept / state_of(name, entry, settings)
    if mark.exists():
        return True
    # One file and one way to compile it in each run: clang-tidy 14 invents uninitialized va_lists when it is
    # given several files, and checks a file once for each entry that it has.
    with tempfile.TemporaryDirectory() as directory:
        with open(os.path.join(directory, "compile_commands.json"), "w", encoding="utf-8") as file:
            json.dump([entry], file)
        run = subprocess.run(
            ["clang-tidy", "-p", directory] + options_of(name) + [entry["file"]],
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    if run.returncode == 0:
        mark.touch()
        return True
    print(run.stdout + run.stderr, flush=True)
    return False


def main() -> int:
    database, kept = Path(sys.argv[1]), Path(sys.argv[2])
    kept.mkdir(parents=True, exist_ok=True)
    with open(database, encoding="utf-8") as file:
        entries = {os.path.relpath(entry["file"]): entry for entry in reversed(json.load(file))}
    names = [os.path.relpath(name) for name in sys.argv[3:]]
    unknown = [name for name in names if name not in entries]
    if unknown:
        print("tidy: not compiled by any target: " + " ".join(unknown))
        return 1
    version = subprocess.run(["clang-tidy", "--version"], check=True, stdout=subprocess.PIPE).stdout
    settings = version + Path(".clang-tidy").read_bytes()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as workers:
        results = workers.map(lambda name: clean(name, entries[name], settings, kept), names)
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
