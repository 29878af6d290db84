#!/usr/bin/env python3
"""Puts results of benchmark programs together with bench/rows.tsv, which has units, peers and goals.

    tools/bench-table.py [--quick] [--without PEER]... LINES TSV SVG PROGRAM...

LINES has what the programs printed, each line behind the name of its program: program, name, value,
ratio, value of the peer. Writes TSV (name, Tenure, unit, peer, value of the peer, ratio, goal, met) and SVG,
a chart of the ratios, and prints a table in Markdown.

A line that bench/rows.tsv does not list, and a row of one of the PROGRAMs without a line, is an error: it is
printed and the exit status is 1. --quick: rows of `make bench` only may be missing. --without: rows
against that peer may be missing."""

import argparse
import math
import sys
from html import escape
from typing import Dict, List, NamedTuple, Optional, Tuple

ROWS = "bench/rows.tsv"


class Row(NamedTuple):
    program: str
    name: str
    unit: str
    peer: str
    goal: str
    when: str


class Result(NamedTuple):
    row: Row
    value: float
    ratio: Optional[float]
    peer_value: Optional[float]

    def met(self) -> Optional[bool]:
        """Whether the goal is met; None: no goal."""
        if self.row.goal == "-":
            return None
        sense, bound = self.row.goal.split()
        measured = self.value if self.ratio is None else self.ratio
        return measured >= float(bound) if sense == ">=" else measured <= float(bound)


def rows_read() -> List[Row]:
    with open(ROWS, encoding="utf-8") as file:
        lines = [line.rstrip("\n") for line in file if not line.startswith("#")]
    rows = [Row(*line.split("\t")) for line in lines[1:]]
    assert len({row.name for row in rows}) == len(rows), "a name is in bench/rows.tsv twice"
    return rows


def number(text: str) -> Optional[float]:
    return None if text == "-" else float(text)


def results_read(path: str, rows: Dict[Tuple[str, str], Row], errors: List[str]) -> List[Result]:
    results = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            fields = line.rstrip("\n").split("\t")
            row = rows.get((fields[0], fields[1])) if len(fields) == 5 else None
            if row is None:
                errors.append(f"not a row of {ROWS}: {line.rstrip()}")
                continue
            value = float(fields[2])
            results.append(Result(row, value, number(fields[3]), number(fields[4])))
    return results


def missing(rows: List[Row], results: List[Result], options: argparse.Namespace) -> List[str]:
    present = {result.row.name for result in results}
    left_out = [peer.lower() for peer in options.without]
    return [
        f"no result: {row.name}"
        for row in rows
        if row.program in options.programs
        and row.name not in present
        and not (options.quick and row.when == "full")
        and not any(row.peer.lower().startswith(peer) for peer in left_out)
    ]


def figure(value: Optional[float]) -> str:
    """Three digits, no exponent."""
    if value is None:
        return "–"
    if value == 0:
        return "0"
    digits = 2 - math.floor(math.log10(abs(value)))
    return f"{round(value, digits):,.{max(0, digits)}f}"


def goal_text(result: Result) -> str:
    if result.row.goal == "-":
        return "–"
    text = result.row.goal.replace(">=", "≥").replace("<=", "≤")
    return text if result.met() else f"{text}, **missed**"


def markdown(results: List[Result]) -> str:
    lines = ["| name | Tenure | peer | ratio | goal |", "|---|--:|---|--:|---|"]
    for result in results:
        row = result.row
        peer = "–" if row.peer == "-" else row.peer
        if result.peer_value is not None:
            peer += f": {figure(result.peer_value)}"
        ratio = figure(result.ratio)
        lines.append(
            f"| {row.name} | {figure(result.value)} {row.unit} | {peer} | {ratio} | {goal_text(result)} |"
        )
    return "\n".join(lines)


def tsv_write(path: str, results: List[Result]) -> None:
    def text(value: Optional[float]) -> str:
        return "-" if value is None else f"{value:.6g}"

    with open(path, "w", encoding="utf-8") as file:
        file.write("name\ttenure\tunit\tpeer\tpeer_value\tratio\tgoal\tmet\n")
        for result in results:
            row, met = result.row, result.met()
            fields = [row.name, text(result.value), row.unit, row.peer, text(result.peer_value)]
            fields += [text(result.ratio), row.goal, "-" if met is None else "yes" if met else "no"]
            file.write("\t".join(fields) + "\n")


# ---- The chart ----

LABEL, WIDTH, STEP, TOP = 470, 420, 18, 46
STYLE = """text { font: 12px system-ui, sans-serif; fill: #1c1e21; }
.back { fill: #ffffff; }
.title { font-size: 14px; font-weight: 600; }
.faint { fill: #656d76; } .grid { stroke: #d0d7de; } .one { stroke: #656d76; }
.met { fill: #1a7f37; } .missed { fill: #bc4c00; } .none { fill: #0969da; } .goal { stroke: #1c1e21; stroke-width: 2; }
@media (prefers-color-scheme: dark) {
.back { fill: #0d1117; }
text { fill: #e6edf3; } .faint { fill: #8d96a0; } .grid { stroke: #30363d; } .one { stroke: #8d96a0; }
.met { fill: #3fb950; } .missed { fill: #f0883e; } .none { fill: #4493f8; } .goal { stroke: #e6edf3; }
}"""


class Axis:
    """A logarithmic axis, from one power of ten to another."""

    def __init__(self, values: List[float]) -> None:
        logs = [math.log10(value) for value in values]
        self.low = min(-1, math.floor(min(logs)))
        self.high = max(1, math.ceil(max(logs)))

    def at(self, value: float) -> float:
        return LABEL + WIDTH * (math.log10(value) - self.low) / (self.high - self.low)


def bar(axis: Axis, result: Result, y: float) -> List[str]:
    assert result.ratio is not None
    ends = sorted((axis.at(1), axis.at(result.ratio)))
    kind = {None: "none", True: "met", False: "missed"}[result.met()]
    name, peer = result.row.name, result.row.peer
    name = escape(name if name.startswith(peer) else f"{name} : {peer}")
    out = [
        f'<text x="{LABEL - 8}" y="{y + 11:.0f}" text-anchor="end">{name}</text>',
        f'<rect class="{kind}" x="{ends[0]:.1f}" y="{y:.0f}" height="12" width="{max(ends[1] - ends[0], 1):.1f}"/>',
        f'<text class="faint" x="{LABEL + WIDTH + 8}" y="{y + 11:.0f}">{figure(result.ratio)}</text>',
    ]
    if result.row.goal != "-":
        x = axis.at(float(result.row.goal.split()[1]))
        out.append(f'<path class="goal" d="M{x:.1f} {y - 2:.0f}v16"/>')
    return out


def svg_write(path: str, results: List[Result]) -> None:
    shown = [result for result in results if result.ratio is not None and result.ratio > 0]
    if not shown:
        return
    goals = [float(result.row.goal.split()[1]) for result in shown if result.row.goal != "-"]
    axis = Axis([result.ratio for result in shown if result.ratio is not None] + goals)
    height = TOP + STEP * len(shown) + 30
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LABEL + WIDTH + 70} {height}" role="img">',
        "<title>Tenure's rates and times as ratios to its peers</title>",
        f"<style>{STYLE}</style>",
        '<rect class="back" width="100%" height="100%"/>',
        '<text class="title" x="8" y="18">Tenure : peer, each a median of ratios in one run</text>',
        '<text class="faint" x="8" y="36">green: goal met, orange: missed, blue: no goal; '
        "the short line is the goal; logarithmic</text>",
    ]
    for power in range(axis.low, axis.high + 1):
        x, kind = axis.at(10.0**power), "one" if power == 0 else "grid"
        out.append(f'<path class="{kind}" d="M{x:.1f} {TOP}V{height - 26}"/>')
        out.append(
            f'<text class="faint" x="{x:.1f}" y="{height - 10}" text-anchor="middle">{10.0**power:g}</text>'
        )
    for index, result in enumerate(shown):
        out += bar(axis, result, TOP + 4 + STEP * index)
    out.append("</svg>")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(out) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--without", action="append", default=[])
    parser.add_argument("lines")
    parser.add_argument("tsv")
    parser.add_argument("svg")
    parser.add_argument("programs", nargs="*")
    options = parser.parse_args()
    rows = rows_read()
    errors: List[str] = []
    results = results_read(options.lines, {(row.program, row.name): row for row in rows}, errors)
    errors += missing(rows, results, options)
    tsv_write(options.tsv, results)
    svg_write(options.svg, results)
    print(markdown(results))
    for error in errors:
        print(f"bench: {error}", file=sys.stderr)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
