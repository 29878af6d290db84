#!/usr/bin/env python3
"""Line and branch coverage from gcov's JSON, file by file, least covered first.

    coverage.py ROOT NOTES...

A branch is counted once for each place in the source, whatever test took it. Lines with TN_ASSERT are
left out of the branches: the other way of an assertion is a bug, which no test can take; so are accessors
that are made by a macro with an assertion in it.
For src/kernel (but for its checker) and src/log the branches are summed up, and those never taken are
listed with -v."""
from __future__ import annotations

import collections
import gzip
import json
import os
import subprocess
import sys
import tempfile
from typing import Any

LEFT_OUT = ("TN_ASSERT", "_Static_assert", "KERNEL_RECORD(")
CHECKERS = ("src/kernel/check.c",)  # all of it is one assertion: the other ways are what fuzzing takes
Lines = collections.defaultdict[str, dict[int, int]]  # by path and number: how often it ran
Branches = collections.defaultdict[str, dict[int, list[int]]]


def read(notes: list[str]) -> tuple[Lines, Branches]:
    lines: Lines = collections.defaultdict(dict)
    branches: Branches = collections.defaultdict(dict)
    with tempfile.TemporaryDirectory() as directory:
        for note in notes:
            subprocess.run(["gcov", "--branch-probabilities", "--json-format", os.path.abspath(note)],
                           cwd=directory, check=True, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
            for name in os.listdir(directory):
                path = os.path.join(directory, name)
                with gzip.open(path, "rt", encoding="utf-8") as file:
                    take(json.load(file), lines, branches)
                os.unlink(path)
    return lines, branches


def take(document: dict[str, Any], lines: Lines, branches: Branches) -> None:
    for file in document["files"]:
        path = os.path.normpath(os.path.join(document["current_working_directory"], file["file"]))
        for line in file["lines"]:
            number = line["line_number"]
            lines[path][number] = lines[path].get(number, 0) + line["count"]
            counts = [branch["count"] for branch in line["branches"] if not branch["throw"]]
            before = branches[path].get(number)
            if before is not None and len(before) == len(counts):
                counts = [a + b for a, b in zip(before, counts)]
            branches[path][number] = counts


def asserted(source: list[str]) -> set[int]:
    """The numbers of lines that belong to an assertion."""
    out = set()
    open_parentheses = 0
    for number, text in enumerate(source, 1):
        if open_parentheses > 0 or any(word in text for word in LEFT_OUT):
            out.add(number)
            open_parentheses = max(0, open_parentheses + text.count("(") - text.count(")"))
    return out


def main() -> None:
    verbose = "-v" in sys.argv
    arguments = [word for word in sys.argv[1:] if word != "-v"]
    root = os.path.abspath(arguments[0])
    lines, branches = read(arguments[1:])
    rows: list[tuple[float, int, int, int, int, str]] = []
    rooms: collections.defaultdict[str, list[int]] = collections.defaultdict(lambda: [0, 0])
    for path in lines:
        name = os.path.relpath(path, root)
        if not name.startswith("src/") or not name.endswith((".c", ".h")):
            continue
        with open(path, encoding="utf-8") as file:
            source = file.read().splitlines()
        skip = asserted(source)
        taken = total = 0
        for number, counts in sorted(branches[path].items()):
            if number in skip:
                continue
            total += len(counts)
            taken += sum(1 for count in counts if count > 0)
            if verbose and 0 in counts and name.startswith(("src/kernel/", "src/log/")):
                print("%s:%d: %s" % (name, number, source[number - 1].strip()))
        seen = sum(1 for count in lines[path].values() if count > 0)
        rows.append((seen / len(lines[path]), seen, len(lines[path]), taken, total, name))
        if name not in CHECKERS:
            room = rooms["/".join(name.split("/")[:2])]
            room[0] += taken
            room[1] += total
    for part, seen, all_lines, taken, total, name in sorted(rows):
        print("%6.2f %% of %5d lines  %6.2f %% of %5d branches  %s" %
              (100 * part, all_lines, 100 * taken / total if total else 100, total, name))
    everything = [sum(column) for column in zip(*(row[1:5] for row in rows))]
    print("%6.2f %% of %5d lines  %6.2f %% of %5d branches  all" %
          (100 * everything[0] / everything[1], everything[1],
           100 * everything[2] / everything[3], everything[3]))
    for name in ("src/kernel", "src/log"):
        taken, total = rooms[name]
        print("branches of %s: %.2f %% of %d" % (name, 100 * taken / total, total))


if __name__ == "__main__":
    main()
