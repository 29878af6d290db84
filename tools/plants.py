#!/usr/bin/env python3
"""Plants the bugs of tests/plants/*.plants in a copy of src/, to see whether the tests find them.

    tools/plants.py check [--root DIR]          reads every entry and applies it; writes nothing
    tools/plants.py apply OUT [--root DIR]      writes OUT/src, the planted copy, and OUT/plants.def

Production code has no trace of a planted bug. An entry names the file and shows the lines to change,
with the prefixes of a diff: "-" is removed, "+" is added, " " stays and says where. The old lines
(" " and "-") must occur exactly once in the file; otherwise the entry is an error, because the code
has moved on without its bug.

    # a comment
    plant: EXPIRE_EARLY
    bug: a lease ends one millisecond before its deadline
    found by: model within 5 seeds
    file: src/kernel/due.c
    -           l->deadline_ms <= root_at(k)->now_ms &&
    +           l->deadline_ms <= root_at(k)->now_ms + (PLANTED ? 1 : 0) &&

An entry ends at an empty line. It may have several `found by` lines and several `file` parts. The new
lines say PLANTED, which is true in a process whose environment variable TENURE_PLANT is the name of
this entry. So one copy has all bugs, and a run has at most one of them.

OUT/plants.def has a line PLANT(name, file, bug, finder, seeds) for each `found by`. Files in OUT that
would not change are not written again, so that a build compiles only what is new.
"""

import argparse
import re
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Dict, List, Tuple

FINDERS = {
    "model": "MODEL",
    "world": "WORLD",
    "states": "CRASH",
    "cluster": "CLUSTER",
    "stories": "STORIES",
    "names": "NAMES",
    "engines": "ENGINES",
    "abroad": "ABROAD",
    "deadline": "DEADLINE",
    "refusals": "REFUSALS",
    "early": "EARLY",
}
HEADER = "plants/plant.h"


class PlantError(Exception):
    """An entry that cannot be read or applied."""


@dataclass
class Part:
    """One place that a bug changes."""

    where: str  # FILE:LINE of the entry, for messages
    file: str
    old: List[str] = field(default_factory=list)
    new: List[str] = field(default_factory=list)


@dataclass
class Plant:
    where: str
    name: str
    bug: str = ""
    finders: List[Tuple[str, int]] = field(default_factory=list)
    parts: List[Part] = field(default_factory=list)


def read_key(plant: Plant, where: str, key: str, value: str) -> None:
    if key == "bug":
        plant.bug = value
    elif key == "file":
        plant.parts.append(Part(where, value))
    elif key == "found by":
        match = re.fullmatch(r"(\w+) within (\d+) seeds", value)
        if match is None or match.group(1) not in FINDERS:
            raise PlantError(f"{where}: not `{'|'.join(FINDERS)} within N seeds`: {value}")
        plant.finders.append((match.group(1), int(match.group(2))))
    else:
        raise PlantError(f"{where}: there is no key '{key}'")


def read_change(plant: Plant, where: str, line: str) -> None:
    if not plant.parts:
        raise PlantError(f"{where}: a changed line before `file:`")
    part = plant.parts[-1]
    if line[0] in " -":
        part.old.append(line[1:])
    if line[0] in " +":
        part.new.append(line[1:].replace("PLANTED", f"TN_PLANTED({plant.name})"))


def complete(plant: Plant) -> Plant:
    if not plant.bug or not plant.finders or not plant.parts:
        raise PlantError(f"{plant.where}: {plant.name} lacks `bug`, `found by` or `file`")
    for part in plant.parts:
        if not part.old:
            raise PlantError(f"{part.where}: {plant.name} has no old lines")
        if f"TN_PLANTED({plant.name})" not in "\n".join(part.new):
            raise PlantError(f"{part.where}: the new lines of {plant.name} do not say PLANTED")
    return plant


def read_entries(path: Path) -> List[Plant]:
    plants: List[Plant] = []
    inside = False
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        where = f"{path.name}:{number}"
        if line == "" or line.startswith("#"):
            inside = inside and line != ""
            continue
        key, _, value = line.partition(": ")
        if key == "plant":
            if inside or not re.fullmatch(r"[A-Z][A-Z0-9_]*", value):
                raise PlantError(f"{where}: `plant: NAME` begins an entry, after an empty line")
            plants.append(Plant(where, value))
            inside = True
        elif not inside:
            raise PlantError(f"{where}: not in an entry: {line}")
        elif line[0] in " -+":
            read_change(plants[-1], where, line)
        else:
            read_key(plants[-1], where, key, value)
    return [complete(plant) for plant in plants]


def read_all(directory: Path) -> List[Plant]:
    plants: List[Plant] = []
    for path in sorted(directory.glob("*.plants")):
        plants += read_entries(path)
    if not plants:
        raise PlantError(f"no entries in {directory}")
    names = set()
    for plant in plants:
        if plant.name in names:
            raise PlantError(f"{plant.where}: {plant.name} is repeated")
        names.add(plant.name)
    return plants


def find_once(lines: List[str], part: Part) -> int:
    count = len(part.old)
    at = [i for i in range(len(lines) - count + 1) if lines[i : i + count] == part.old]
    if len(at) != 1:
        raise PlantError(f"{part.where}: the old lines occur {len(at)} times in {part.file}, not once")
    return at[0]


def plant_file(root: Path, file: str, parts: List[Part]) -> str:
    """The text of the file with all bugs in."""
    path = root / file
    if not file.startswith("src/") or not path.is_file():
        raise PlantError(f"{parts[0].where}: there is no {file} under src/")
    lines = path.read_text(encoding="utf-8").split("\n")
    changes = sorted(((find_once(lines, part), part) for part in parts), key=lambda c: c[0])
    planted: List[str] = []
    done = 0
    for at, part in changes:
        if at < done:
            raise PlantError(f"{part.where}: its lines of {file} belong to another entry, too")
        planted += lines[done:at] + part.new
        done = at + len(part.old)
    return f'#include "{HEADER}"\n' + "\n".join(planted + lines[done:])


def plant_files(root: Path, plants: List[Plant]) -> Dict[str, str]:
    parts: Dict[str, List[Part]] = {}
    for plant in plants:
        for part in plant.parts:
            parts.setdefault(part.file, []).append(part)
    return {file: plant_file(root, file, parts[file]) for file in parts}


def table(plants: List[Plant]) -> str:
    rows = ["/* Made by tools/plants.py from tests/plants. */"]
    for plant in plants:
        bug = plant.bug.replace("\\", "\\\\").replace('"', '\\"')
        for finder, seeds in plant.finders:
            rows.append(
                f'PLANT({plant.name}, "{plant.parts[0].file}", "{bug}", {FINDERS[finder]}, {seeds})'
            )
    return "\n".join(rows) + "\n"


def write(path: Path, data: bytes) -> None:
    if not path.is_file() or path.read_bytes() != data:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def apply(root: Path, out: Path, plants: List[Plant], planted: Dict[str, str]) -> None:
    wanted = {
        f"src/{HEADER}": (root / "tests" / HEADER).read_bytes(),
        "plants.def": table(plants).encode(),
    }
    for path in (root / "src").rglob("*"):
        if path.is_file():
            wanted[path.relative_to(root).as_posix()] = path.read_bytes()
    wanted.update({file: text.encode() for file, text in planted.items()})
    for file, data in wanted.items():
        write(out / file, data)
    for path in sorted((out / "src").rglob("*"), reverse=True):
        if path.is_file() and path.relative_to(out).as_posix() not in wanted:
            path.unlink()
        elif path.is_dir() and not any(path.iterdir()):
            shutil.rmtree(path)


def main() -> int:
    parser = argparse.ArgumentParser(description="Plants the bugs of tests/plants in a copy of src.")
    parser.add_argument("verb", choices=("check", "apply"))
    parser.add_argument("out", nargs="?", type=Path)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    arguments = parser.parse_args()
    if (arguments.verb == "apply") != (arguments.out is not None):
        parser.error("`apply` takes a directory, `check` does not")
    try:
        plants = read_all(arguments.root / "tests" / "plants")
        planted = plant_files(arguments.root, plants)
    except PlantError as error:
        print(f"plants: {error}", file=sys.stderr)
        return 1
    if arguments.verb == "apply":
        apply(arguments.root, arguments.out, plants, planted)
    else:
        print(f"{len(plants)} bugs can be planted in {len(planted)} files")
    return 0


if __name__ == "__main__":
    sys.exit(main())
