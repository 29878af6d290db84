#!/usr/bin/python3
"""Checks what the documents of the repository say about the tree and about each other.

    tools/check-docs.py [ROOT]

Prints each violation as `file:line: rule: explanation` and exits with 1 if there is one.

    link         a relative link leads to a file that exists and, after #, to a heading of it
    path         a file of the tree that a document names as `src/...`, `tools/...` and so on exists
                 (decisions may name files that are gone, CONTRIBUTING.md has placeholders)
    name         a name with an underscore in backquotes, such as a setting, a metric, a function or a variable,
                 occurs in the source or is the name of a test; so is `unit/x`, as the test x of that kind
                 (FOREIGN has those of other programs; CONTRIBUTING.md and the change log are exempt as above)
    default      a setting in backquotes that is followed by its default in parentheses has that default
    decision     a decision has a number (that of its file), a date, a context, a decision and
                 consequences
    status       the table of HTTP statuses in docs/protocol.md has each result of kernel/result.h,
                 with its status
"""
import re
import sys
from pathlib import Path

RESULTS = "src/kernel/result.h"
STATUSES = "docs/protocol.md"
DECISIONS = "docs/decisions"
SECTIONS = ["## Context", "## Decision", "## Consequences"]
LINK = re.compile(r"\]\(([^)\s]+)\)")
PATH = re.compile(
    r"\b(?:src|tools|include|packaging|tests/[a-z]\w*)/[\w./-]+"
    r"\.(?:c|h|py|sh|list|txt|json|yml|conf(?:\.example)?)\b"
)
SOURCES = ("src", "include", "tests", "tools", "bench", "clients", "examples", "packaging", "web")
KINDS = (".c", ".h", ".py", ".sh", ".js", ".mjs", ".ts", ".go", ".json", ".txt", ".plants", ".example")
QUOTED = re.compile(r"`([^`\n]+)`")
NAME = re.compile(r"(?<![\w-])[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)+\b(?!\*)")
TEST = re.compile(r"\b(unit|integration|crash|sim|nemesis|e2e|fuzz|lint)/([a-z]\w*)(?![\w./*])")
SERIES = re.compile(r"_(bucket|sum|count)$")
SETTINGS = "src/config/config.h"
SETTING = re.compile(r'^\s*X\(\w+,\s*"(\w+)",\s*"\w*",\s*\w+,\s*"([^"]*)"', re.M)
DEFAULT = re.compile(r"`(\w+)`\s\(`([^`]+)`\)|`(\w+)` \((\d+)\)")
# Names of Attune, OpenSynaptic, systems and libraries that the documents mention and the source does not.
FOREIGN = set(
    "ATTUNE_LOG_LEVEL ATTUNE_SENSOR_TRIGGERS handle_rule_change ensure_id allocate_from_pool release_allocation "
    "innodb_flush_log_at_trx_commit O_DIRECT sentinel_kwargs CAP_SYS_ADMIN CONFIG_PROC_CHILDREN no_new_privs "
    "pkey_alloc from_url DTENURE_LTO".split()
)
RESULT = re.compile(r"^\s*X\((\w+),\s*\w+,\s*(\d+),\s*\d+,", re.M)
STATUS = re.compile(r"^\| ([\d, ]+) \| (.*) \|$", re.M)


def slug(heading: str) -> str:
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.strip("# \n"))
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


class Checker:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.bad = False
        self.pages = sorted(
            page
            for pattern in ("*.md", "docs/**/*.md", "clients/*/*.md", "packaging/**/*.md")
            for page in root.glob(pattern)
            if "node_modules" not in page.parts
        )

        self.words: set[str] = set()
        self.files: set[str] = set()
        for path in sorted(each for room in SOURCES for each in (root / room).rglob("*")):
            if "node_modules" not in path.parts and path.suffix in KINDS:
                self.words.update(re.findall(r"\w+", path.read_text(encoding="utf-8")))
                self.files.add(path.stem)
        text = ""
        if (root / SETTINGS).exists():
            text = (root / SETTINGS).read_text(encoding="utf-8")
        self.settings = dict(SETTING.findall(text))

    def fail(self, page: Path, line: int, rule: str, text: str) -> None:
        print(f"{page.relative_to(self.root)}:{line}: {rule}: {text}")
        self.bad = True

    def links(self, page: Path, text: str) -> None:
        for match in LINK.finditer(text):
            target, _, anchor = match.group(1).partition("#")
            if re.match(r"\w+:", target):
                continue
            line = text.count("\n", 0, match.start()) + 1
            other = page.parent / target if target else page
            if not other.exists():
                self.fail(page, line, "link", f"{target} does not exist")
            elif anchor and other.suffix == ".md":
                lines = other.read_text(encoding="utf-8").splitlines()
                if anchor not in {slug(each) for each in lines if each.startswith("#")}:
                    self.fail(page, line, "link", f"no heading is #{anchor}")

    def paths(self, page: Path, text: str) -> None:
        if page.parent == self.root / DECISIONS or page.name in ("CONTRIBUTING.md", "CHANGELOG.md"):
            return
        for match in PATH.finditer(text):
            if not (self.root / match.group()).exists():
                line = text.count("\n", 0, match.start()) + 1
                self.fail(page, line, "path", f"{match.group()} does not exist")

    def exists(self, name: str) -> bool:
        setting = name.removeprefix("TENURE_").lower() if name.startswith("TENURE_") else name
        return not {name, setting, SERIES.sub("", name)}.isdisjoint(self.words | FOREIGN) or (
            name in self.files or name + "_test" in self.files
        )

    def names(self, page: Path, text: str) -> None:
        if page.parent == self.root / DECISIONS or page.name in ("CONTRIBUTING.md", "CHANGELOG.md"):
            return
        for quoted in QUOTED.finditer(text):
            line = text.count("\n", 0, quoted.start()) + 1
            for test in TEST.finditer(quoted.group(1)):
                kind, name = test.groups()
                if not list((self.root / "tests" / kind).glob(f"{name.removesuffix('_test')}*")):
                    self.fail(page, line, "name", f"there is no test {test.group()}")
            for name in NAME.findall(quoted.group(1)):
                if not self.exists(name):
                    self.fail(page, line, "name", f"{name} is not in the source")

    def defaults(self, page: Path, text: str) -> None:
        for match in DEFAULT.finditer(text):
            name, value = match.group(1) or match.group(3), match.group(2) or match.group(4)
            if self.settings.get(name, value) != value:
                line = text.count("\n", 0, match.start()) + 1
                self.fail(page, line, "default", f"that of {name} is {self.settings[name]}")

    def decision(self, page: Path, text: str) -> None:
        number = int(page.name[:4])
        if not text.startswith(f"# {number}. "):
            self.fail(page, 1, "decision", f'the title does not begin with "# {number}. "')
        if not re.match(r"20\d\d-\d\d-\d\d\b", text.partition("\n\n")[2]):
            self.fail(page, 3, "decision", "the title is not followed by the date")
        if [each for each in text.splitlines() if each in SECTIONS] != SECTIONS:
            self.fail(page, 1, "decision", f"the sections are not {', '.join(SECTIONS)}")

    def statuses(self) -> None:
        page = self.root / STATUSES
        named: dict[str, set[str]] = {}  # of a status
        for match in STATUS.finditer(page.read_text(encoding="utf-8")):
            for status in re.findall(r"\d{3}", match.group(1)):
                named.setdefault(status, set()).update(re.findall(r"`([A-Z_]+)`", match.group(2)))
        for result, status in RESULT.findall((self.root / RESULTS).read_text(encoding="utf-8")):
            words = named.get(status, set())
            if int(status) >= 300 and result not in words and not (
                result.endswith("_FULL") and "_FULL" in words
            ):
                self.fail(page, 1, "status", f"the table does not show {result} at {status}")

    def run(self) -> int:
        for page in self.pages:
            text = page.read_text(encoding="utf-8")
            self.links(page, text)
            self.paths(page, text)
            self.names(page, text)
            if page.parent != self.root / DECISIONS and page.name != "CHANGELOG.md":
                self.defaults(page, text)
            if page.parent == self.root / DECISIONS and page.name[:4].isdigit():
                self.decision(page, text)
        self.statuses()
        return 1 if self.bad else 0


if __name__ == "__main__":
    sys.exit(Checker(Path(sys.argv[1] if len(sys.argv) > 1 else ".")).run())
