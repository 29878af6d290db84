#!/usr/bin/env python3
"""Refuses words that do not belong in plain English: tools/words.txt has the list and the reasons.

    tools/check-words.py [ROOT]

Prints FILE:LINE: WORD: INSTEAD for each finding and exits 1 if there is one. It reads source,
documents and examples; not tests and decisions. A phrase may continue on the next line."""
import bisect
import os
import re
import sys
from typing import Iterable, Iterator

SOURCES = ("src", "include", "examples", "bench", "web", "clients", "packaging", "tools")
DOCUMENTS = ("docs", "README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "SECURITY.md",
             "CHANGELOG.md")
SKIPPED = ("docs/decisions", "tools/words.txt", "tools/check-words.py")
KINDS = (".c", ".h", ".py", ".sh", ".md", ".js", ".html", ".conf", ".example", ".service",
         ".1", ".8")
STRING = re.compile(r'"((?:\\.|[^"\\])*)"')
# What stands before the words of a line: indentation, and the marks of comments, quotations and lists.
MARGIN = re.compile(r"^(?:\s|/\*|\*|//|#|>|-\s)*")


def rules(root: str) -> list[tuple[str, re.Pattern[str], str]]:
    with open(os.path.join(root, "tools", "words.txt"), encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file if line.strip() and line[0] != "#"]
    return [(scope, re.compile(word, re.IGNORECASE), instead) for scope, word, instead in rows]


class Text:
    """The lines of a file as one string, with one blank between the words."""

    def __init__(self, lines: Iterable[str]) -> None:
        parts = [" ".join(line.split()) for line in lines]
        self.words = " ".join(parts)
        self.begins = [0]
        for part in parts:
            self.begins.append(self.begins[-1] + len(part) + 1)

    def line(self, offset: int) -> int:
        return bisect.bisect_right(self.begins, offset)


def files(root: str) -> Iterator[str]:
    for name in SOURCES + DOCUMENTS:
        path = os.path.join(root, name)
        if os.path.isfile(path):
            yield path
        for folder, _, names in os.walk(path):
            yield from (os.path.join(folder, name) for name in sorted(names)
                        if name.endswith(KINDS))


def findings(root: str) -> Iterator[str]:
    table = rules(root)
    for path in files(root):
        name = os.path.relpath(path, root)
        if name.startswith(SKIPPED):
            continue
        is_document = name.startswith(DOCUMENTS) or name.endswith(".md")
        with open(path, encoding="utf-8") as file:
            lines = file.read().split("\n")
        everything = Text(MARGIN.sub("", line).rstrip() for line in lines)
        messages = Text(" ".join(STRING.findall(line)) for line in lines)
        found = set()
        for rank, (scope, word, instead) in enumerate(table):
            text = everything if scope == "all" or is_document else messages
            for match in word.finditer(text.words):
                found.add((text.line(match.start()), rank, match.group(0), instead))
        for number, _, match_text, instead in sorted(found):
            yield f"{name}:{number}: {match_text}: {instead}"


def main() -> int:
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "..")
    found = list(findings(os.path.abspath(root)))
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
