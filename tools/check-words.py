#!/usr/bin/env python3
"""Refuses words that do not belong in plain English: tools/words.txt has the list and the reasons.

    tools/check-words.py [ROOT]

Prints FILE:LINE: WORD: INSTEAD for each finding and exits 1 if there is one. It reads source,
documents and examples; not tests, decisions, the change log and the record of campaigns."""
import os
import re
import sys
from typing import Iterator

SOURCES = ("src", "include", "examples", "bench", "web", "clients", "packaging", "tools")
DOCUMENTS = ("docs", "README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "SECURITY.md")
SKIPPED = ("docs/decisions", "docs/campaigns.md", "docs/man", "tools/words.txt",
           "tools/check-words.py")
KINDS = (".c", ".h", ".py", ".sh", ".md", ".js", ".html", ".conf", ".example", ".service")
STRING = re.compile(r'"(?:\\.|[^"\\])*"')


def rules(root: str) -> list[tuple[str, re.Pattern[str], str]]:
    with open(os.path.join(root, "tools", "words.txt"), encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file if line.strip() and line[0] != "#"]
    return [(scope, re.compile(word, re.IGNORECASE), instead) for scope, word, instead in rows]


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
        for number, line in enumerate(lines, 1):
            text = line if is_document else " ".join(STRING.findall(line))
            for scope, word, instead in table:
                found = word.search(line if scope == "all" else text)
                if found:
                    yield f"{name}:{number}: {found.group(0)}: {instead}"


def main() -> int:
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "..")
    found = list(findings(os.path.abspath(root)))
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
