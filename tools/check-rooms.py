#!/usr/bin/python3
"""Checks the rules between the rooms of src/ that no compiler checks.

    tools/check-rooms.py [--write] [ROOT]

Prints each violation as `file:line: rule: explanation` and exits with 1 if there is one. --write first
brings the table in ARCHITECTURE.md up to date.

    list         src/rooms.list is well-formed, and the directories under src/ are the rooms it names
    name         no two files of src/ have the same name, so that a name is enough to find a file
    include      a file includes only headers that its room may use, each as "room/file.h"
    transitive   nor does it reach others through the headers it includes
    library      a file includes only the headers of libraries that its room may use
    pure         src/base and src/kernel do not allocate, print, read clocks, draw random numbers or use
                 floating point (the failing assertion in src/base/assert.c prints)
    os           only src/os opens, writes, syncs and renames files and reads clocks; exempt are the
                 guardian, a program of its own, and the two files it shares with the server, which read
                 /proc and write cgroups
    stream       in src/server only transport.c calls libuv for streams, so that another kind of stream,
                 such as TLS, is one more file beside it
    gather       a header includes at most 8 headers of its own room: one that gathers a room hides what
                 each file uses of it, and makes every file depend on all of them
    comment      comments in src/ name only source files that exist
    assert       the condition of a TN_ASSERT only looks: it assigns nothing, and each function that it
                 calls has a name that says so (LOOKING_WORDS below); call others before it
    function     no function is longer than 70 lines
    file         no C file but the public header is longer than 700 lines
    line         no line of a C file is longer than 120 characters: make format breaks code at 100, but not
                 comments. Exempt are tables that clang-format must not touch, and lines that have only
                 a string
    table        the table of rooms in ARCHITECTURE.md is that of src/rooms.list
    map          ARCHITECTURE.md names every directory and, in the indented lines of the section about
                 each room, every file of that room (a header may stand for its .c file, a * for any
                 text); it names no source file that is gone

Comments and literals do not count, nor do calls through a table (os->open).
"""
import argparse
import fnmatch
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 700
PUBLIC_HEADER = "include/tenure.h"  # which is its own documentation
LINE_CHARACTERS_MAX = 120
LIST = "src/rooms.list"
PAGE = "ARCHITECTURE.md"
TABLE_BEGIN = "<!-- rooms: made from src/rooms.list by tools/check-rooms.py --write -->"
TABLE_END = "<!-- end of rooms -->"

PURE = ("base", "kernel")
PRINTS_ALLOWED = ("src/base/assert.c",)
OS_EXEMPT = re.compile(r"src/(os/.*|base/assert\.c|guardian/\w+\.c|process/(proc|cgroup)\.c)")
IMPURE_CALLS = set(
    "malloc calloc realloc free aligned_alloc posix_memalign strdup strndup mmap "
    "time clock clock_gettime gettimeofday rand srand random getrandom".split()
)
PRINT_CALLS = set("printf fprintf dprintf vprintf vfprintf puts fputs putchar perror".split())
OS_CALLS = set(
    "open openat creat write writev pwrite pwritev fsync fdatasync sync_file_range msync "
    "ftruncate fallocate rename renameat unlink clock_gettime gettimeofday".split()
)
STREAM_FILE = "src/server/transport.c"
STREAM_CALL = re.compile(
    r"uv_(listen|accept|shutdown|read_start|read_stop|write2?|try_write2?|(stream|tcp|pipe)_\w+)"
)
GATHERED_MAX = 8
# A function that an assertion may call has one of these as its last word, or asks (is, has, may, should).
LOOKING_WORDS = set(
    "at bytes chunks closing count delivering empty end good limit lsn max min mixed newest offsetof "
    "room sizeof strlen memcmp strcmp valid".split()
)
ASKING_WORDS = set("is has may should".split())
CHANGES = re.compile(r"(?<![=!<>])=(?!=)|\+\+|--|<<=|>>=")
# Which library a system header belongs to; all others are the C library's or the system's.
LIBRARIES = {
    r"uv\.h": "libuv",
    r"jansson\.h": "jansson",
    r"sodium\.h": "libsodium",
    r"microhttpd\.h": "libmicrohttpd",
    r"amqp.*\.h": "librabbitmq",
    r"ini\.h": "inih",
    r"systemd/.*": "libsystemd",
    r"openssl/.*": "openssl",
    r"zlib\.h": "zlib",
    r"nghttp2/.*": "libnghttp2",
    r"protobuf-c/.*": "libprotobuf-c",
}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<([^>]+)>)', re.M)
# Comments and literals, longest first.
SKIPPED = re.compile(
    r"/\*.*?\*/|//[^\n]*|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'", re.S
)
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
FILE_NAME = re.compile(r"(?<![\w./<-])(?:[a-z]+/)*([a-z][a-z0-9_]*\.[ch])\b")
ONLY_STRING = re.compile(r'\s*(?:"(?:[^"\\]|\\.)*"\s*)+[,;)]*')
CALL = re.compile(r"([A-Za-z_]\w*)[ \t]*\(")


@dataclass
class Room:
    name: str
    uses: list[str]
    libraries: list[str]
    purpose: str
    line: int


@dataclass
class Rooms:
    """The content of src/rooms.list."""

    rows: list[Room] = field(default_factory=list)  # rooms and parts of rooms, in order
    sets: dict[str, list[str]] = field(default_factory=dict)
    shows: dict[tuple[str, str], int] = field(default_factory=dict)  # exceptions, with their lines

    def rooms(self) -> list[Room]:
        return [row for row in self.rows if "/" not in row.name]

    def rows_of(self, path: str) -> list[Room]:
        """The rows that apply to a file, given as room/file."""
        room = path.split("/")[0]
        return [
            row
            for row in self.rows
            if row.name == room or ("/" in row.name and path.startswith(row.name))
        ]

    def may_include(self, path: str, header: str) -> bool:
        room = header.split("/")[0]
        if room == path.split("/")[0]:
            return True
        for row in self.rows_of(path):
            for word in row.uses:
                if word in ("*", room, header) or header in self.sets.get(word, []):
                    return True
        return False


class Checker:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.rooms = Rooms()
        self.bad = False
        self.includes: dict[str, list[tuple[int, str]]] = {}  # of room/file: line, header
        self.excused: set[tuple[str, str]] = set()
        self.file_names = {
            path.name
            for directory in ("src", "include", "tests", "bench", "tools", "examples")
            for path in (root / directory).rglob("*.[ch]")
        }

    def complain(self, path: str, line: int, rule: str, explanation: str) -> None:
        print(f"{path}:{line}: {rule}: {explanation}")
        self.bad = True

    # ---- The list ----

    def read_list(self) -> None:
        text = (self.root / LIST).read_text(encoding="utf-8")
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            if " shows " in line and "|" not in line:
                header, _, shown = line.partition(" shows ")
                for word in shown.split():
                    self.rooms.shows[(header.strip(), word)] = number
            elif re.match(r"\w+ = ", line):
                name, _, headers = line.partition(" = ")
                self.rooms.sets[name] = headers.split()
            elif line.count("|") == 3:
                name, uses, libraries, purpose = (part.strip() for part in line.split("|"))
                row = Room(name, uses.split(), libraries.split(), purpose, number)
                self.check_row(row)
                self.rooms.rows.append(row)
            else:
                self.complain(LIST, number, "list", "not a row, a set or an exception")

    def check_row(self, row: Room) -> None:
        above = {other.name for other in self.rooms.rooms()} | {"include", "*"}
        for word in row.uses:
            rooms = {header.split("/")[0] for header in self.rooms.sets.get(word, [word])}
            for room in sorted(rooms - above):
                self.complain(LIST, row.line, "list", f"{row.name} uses {room}, which is not above it")

    def check_directories(self) -> None:
        named = {room.name: room.line for room in self.rooms.rooms()}
        present = {path.name for path in (self.root / "src").iterdir() if path.is_dir()}
        for name in sorted(present - set(named)):
            for path in sorted((self.root / "src" / name).glob("*.[ch]")):
                self.complain(f"src/{name}/{path.name}", 1, "include", f"src/{name} is not in {LIST}")
        for name in sorted(set(named) - present):
            self.complain(LIST, named[name], "list", f"there is no src/{name}")

    def check_names(self) -> None:
        seen: dict[str, str] = {}
        for path in sorted((self.root / "src").rglob("*.[ch]")):
            name = path.relative_to(self.root).as_posix()
            other = seen.setdefault(path.name, name)
            if other != name:
                self.complain(name, 1, "name", f"there is already {other}")

    # ---- One file ----

    def check_file(self, path: str) -> None:
        text = (self.root / path).read_text(encoding="utf-8")
        code = strip(text)
        count = text.count("\n")
        if count > FILE_LINES_MAX and path != PUBLIC_HEADER:
            self.complain(
                path, FILE_LINES_MAX + 1, "file", f"{count} lines, at most {FILE_LINES_MAX}"
            )
        for number in long_lines(text):
            self.complain(path, number, "line", f"more than {LINE_CHARACTERS_MAX} characters")
        for first, last in functions(code):
            if last - first + 1 > FUNCTION_LINES_MAX:
                explanation = f"{last - first + 1} lines, at most {FUNCTION_LINES_MAX}"
                self.complain(path, first, "function", explanation)
        if path.startswith("src/"):
            self.check_calls(path, code)
            self.check_comments(path, text)
            self.check_asserts(path, code)

    def check_comments(self, path: str, text: str) -> None:
        for comment in COMMENT.finditer(text):
            for name in FILE_NAME.finditer(comment[0]):
                if name[1] not in self.file_names:
                    line = text.count("\n", 0, comment.start() + name.start()) + 1
                    self.complain(path, line, "comment", f"there is no {name[0]}")

    def check_calls(self, path: str, code: str) -> None:
        pure = path.split("/")[1] in PURE
        impure = IMPURE_CALLS if path in PRINTS_ALLOWED else IMPURE_CALLS | PRINT_CALLS
        exempt = OS_EXEMPT.fullmatch(path) is not None
        streams = not path.startswith("src/server/") or path == STREAM_FILE
        for number, line in enumerate(code.split("\n"), 1):
            for call in CALL.finditer(line):
                if line[: call.start()].rstrip().endswith((".", "->")):
                    continue
                if pure and call[1] in impure:
                    self.complain(path, number, "pure", f"{call[1]}()")
                if not exempt and call[1] in OS_CALLS:
                    self.complain(path, number, "os", f"{call[1]}()")
                if not streams and STREAM_CALL.fullmatch(call[1]):
                    self.complain(path, number, "stream", f"{call[1]}()")
            if pure and re.search(r"\b(float|double)\b", line):
                self.complain(path, number, "pure", "floating point")

    def check_asserts(self, path: str, code: str) -> None:
        for match in re.finditer(r"(?<!#define )\bTN_ASSERT\(", code):
            condition = parenthesized(code, match.end())
            line = code.count("\n", 0, match.start()) + 1
            if CHANGES.search(condition):
                self.complain(path, line, "assert", "the condition changes something")
            for call in CALL.finditer(condition):
                words = call[1].lower().split("_")
                if words[-1] not in LOOKING_WORDS and not ASKING_WORDS.intersection(words):
                    self.complain(path, line, "assert", f"{call[1]}() may do work; call it before")

    # ---- Includes ----

    def read_includes(self, path: str) -> None:
        """`path` is the path of a file under src/, or include/tenure.h."""
        text = (self.root / path).read_text(encoding="utf-8")
        text = re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.S)
        name = path.removeprefix("src/")
        found: list[tuple[int, str]] = []
        for match in INCLUDE.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            header = match[1] or match[2]
            if header == "tenure.h":
                found.append((line, "include/tenure.h"))
            elif match[1] is None:
                self.check_library(path, line, header)
            elif re.fullmatch(r"[a-z]+/[a-z0-9_]+\.h", header) is None:
                self.complain(path, line, "include", f'name the room: "{header}"')
            else:
                found.append((line, header))
        self.includes[name] = found

    def check_library(self, path: str, line: int, header: str) -> None:
        for pattern, library in LIBRARIES.items():
            if re.fullmatch(pattern, header) is None:
                continue
            rows = self.rooms.rows_of(path.removeprefix("src/"))
            if not any(library in row.libraries or "*" in row.uses for row in rows):
                self.complain(path, line, "library", f"{path.split('/')[1]} may not use {library}")

    def check_includes(self, name: str) -> None:
        own = [line for line, header in self.includes[name] if header.split("/")[0] == name.split("/")[0]]
        if name.endswith(".h") and len(own) > GATHERED_MAX:
            explanation = f"{len(own)} headers of its own room, at most {GATHERED_MAX}"
            self.complain(f"src/{name}", own[GATHERED_MAX], "gather", explanation)
        for line, header in self.includes[name]:
            if not self.rooms.may_include(name, header):
                room = name.split("/")[0]
                self.complain(f"src/{name}", line, "include", f"{room} may not use {header}")
            else:
                self.check_reach(name, line, header)

    def check_reach(self, name: str, line: int, direct: str) -> None:
        """Checks all files that this include adds, directly or indirectly."""
        seen = {direct}
        stack = [direct]
        while stack:
            through = stack.pop()
            for _, header in self.includes.get(through, []):
                if header in seen:
                    continue
                seen.add(header)
                if self.rooms.may_include(name, header):
                    stack.append(header)
                elif (through, header) in self.rooms.shows:
                    self.excused.add((through, header))
                else:
                    room = name.split("/")[0]
                    self.complain(
                        f"src/{name}", line, "transitive",
                        f"{room} may not use {header}, which {through} includes",
                    )

    def check_exceptions(self) -> None:
        for (through, header), line in self.rooms.shows.items():
            if (through, header) not in self.excused:
                self.complain(
                    LIST, line, "list", f"the exception for {header} in {through} is not needed; remove it"
                )

    # ---- ARCHITECTURE.md ----

    def table(self) -> str:
        lines = ["| room | purpose | may use |", "|---|---|---|"]
        for row in self.rooms.rows:
            uses = ["everything" if word == "*" else self.use_text(word) for word in row.uses]
            where = f"`src/{row.name}" + ("*`" if "/" in row.name else "/`")
            also = "also " if "/" in row.name else ""
            lines.append(f"| {where} | {row.purpose} | {also}{', '.join(uses + row.libraries)} |")
        return "\n".join(lines)

    def use_text(self, word: str) -> str:
        if word in self.rooms.sets:
            room = self.rooms.sets[word][0].split("/")[0]
            return f"the {room}'s {word}"
        return f"`{word}`" if "/" in word else "`tenure.h`" if word == "include" else word

    def check_page(self, write: bool) -> None:
        page = self.root / PAGE
        text = page.read_text(encoding="utf-8")
        begin, end = text.find(TABLE_BEGIN), text.find(TABLE_END)
        if begin < 0 or end < begin:
            self.complain(PAGE, 1, "table", f"no table between {TABLE_BEGIN} and {TABLE_END}")
            return
        wanted = text[:begin] + TABLE_BEGIN + "\n" + self.table() + "\n" + text[end:]
        if write:
            page.write_text(wanted, encoding="utf-8")
        elif wanted != text:
            line = text.count("\n", 0, begin) + 1
            self.complain(PAGE, line, "table", f"differs from {LIST}; run tools/check-rooms.py --write")
        self.check_map(wanted)

    def check_map(self, text: str) -> None:
        made = {"build", "node_modules", "__pycache__"}
        for parent in (self.root, self.root / "tests"):
            for path in sorted(parent.glob("*")):
                name = path.relative_to(self.root).as_posix()
                if path.is_dir() and path.name[0] != "." and path.name not in made:
                    if f"`{name}/" not in text and f"`{name}`" not in text:
                        self.complain(PAGE, 1, "map", f"does not name the directory {name}/")
        for match in re.finditer(r"`((?:src|include|tools)/[\w/.-]+\.\w+)`", text):
            if not (self.root / match[1]).exists():
                line = text.count("\n", 0, match.start()) + 1
                self.complain(PAGE, line, "map", f"there is no {match[1]}")

        for room in self.rooms.rooms():
            self.check_section(text, room.name)

    def check_section(self, text: str, room: str) -> None:
        """The lines about one room: every file of it, and no other."""
        found = re.search(rf"^### [^\n]*`src/{room}/`$.*?(?=^##|\Z)", text, re.M | re.S)
        if found is None:
            self.complain(PAGE, 1, "map", f"has no section ### ... `src/{room}/`")
            return
        line = text.count("\n", 0, found.start()) + 1
        block = "\n".join(re.findall(r"^    .*$", found[0], re.M))
        patterns = {pattern.rsplit(".", 1)[0] for pattern in re.findall(r"[\w*]+\.[ch]\b", block)}
        files = {path.stem: path.name for path in (self.root / "src" / room).glob("*.[ch]")}
        for stem, name in sorted(files.items()):
            if not any(fnmatch.fnmatchcase(stem, pattern) for pattern in patterns):
                self.complain(PAGE, line, "map", f"does not name src/{room}/{name}")
        others = {path.stem for path in (self.root / "src").rglob("*.[ch]")}
        for pattern in sorted(patterns):
            if not fnmatch.filter(others, pattern):
                self.complain(PAGE, line, "map", f"there is no {pattern}.c or .h")

    def run(self, write: bool) -> bool:
        """True: no violation was found."""
        self.read_list()
        self.check_directories()
        self.check_names()
        for directory in ("src", "include", "examples", "bench", "tests", "tools"):
            for path in sorted((self.root / directory).rglob("*.[ch]")):
                if "node_modules" in path.parts:
                    continue
                name = path.relative_to(self.root).as_posix()
                self.check_file(name)
                if directory == "src":
                    self.read_includes(name)
        if (self.root / "include/tenure.h").exists():
            self.read_includes("include/tenure.h")
        rooms = {room.name for room in self.rooms.rooms()}
        for name in self.includes:
            if name.split("/")[0] in rooms:
                self.check_includes(name)
        self.check_exceptions()
        self.check_page(write)
        return not self.bad


def strip(text: str) -> str:
    """The text without comments and contents of literals, line by line the same."""

    def blank(match: re.Match[str]) -> str:
        if match[0][0] == '"':
            return '""'
        return "0" if match[0][0] == "'" else " " + "\n" * match[0].count("\n")

    return SKIPPED.sub(blank, text)


def parenthesized(code: str, begin: int) -> str:
    """The code from begin up to the parenthesis that closes the one before it."""
    depth = 1
    end = begin
    while depth > 0 and end < len(code):
        depth += (code[end] == "(") - (code[end] == ")")
        end += 1
    return code[begin : end - 1]


def long_lines(text: str) -> list[int]:
    found = []
    formatted = True
    for number, line in enumerate(text.split("\n"), 1):
        if "clang-format o" in line:
            formatted = "clang-format on" in line
        if len(line) > LINE_CHARACTERS_MAX and formatted and not ONLY_STRING.fullmatch(line):
            found.append(number)
    return found


def functions(code: str) -> list[tuple[int, int]]:
    """First and last line of each function.

    Only the outermost braces matter: the text between the last ; or } and a { there ends in a
    parenthesis before a function, and not before a type or an initializer. Macros do not count, for
    their braces need not match."""
    code = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda m: "\n" * m[0].count("\n"), code, flags=re.M)
    found: list[tuple[int, int]] = []
    depth = start = line = 0
    head_at = 0
    is_function = False
    position = 0
    for match in re.finditer(r"[{};]", code):
        brace = match[0]
        if brace == "{":
            if depth == 0:
                head = code[head_at : match.start()]
                is_function = head.rstrip().endswith(")") and "=" not in head
                start = head_at + len(head) - len(head.lstrip())
            depth += 1
        elif brace == "}":
            depth -= 1
            if depth == 0 and is_function:
                line += code.count("\n", position, start)
                last = line + code.count("\n", start, match.start())
                found.append((line + 1, last + 1))
                line, position = last, match.start()
        if depth == 0:
            head_at = match.end()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="Checks the rules between the rooms of src/.")
    parser.add_argument("--write", action="store_true", help=f"update the table in {PAGE}")
    parser.add_argument("root", nargs="?", default=Path(__file__).resolve().parent.parent)
    arguments = parser.parse_args()
    root = Path(arguments.root)
    if not (root / LIST).exists():
        print(f"check-rooms: no {LIST} in {root}", file=sys.stderr)
        return 2
    return 0 if Checker(root).run(arguments.write) else 1


if __name__ == "__main__":
    sys.exit(main())
