#!/usr/bin/env bash
# Checks the rules between the rooms of src/ that no compiler checks; prints what breaks them as
# `file:line: rule: what` and exits 1 if there is anything to print.
#
#   tools/check-rooms.sh [ROOT]
#
#   include      a room includes only the rooms it may use (the table below)
#   pure         src/base and src/kernel allocate nothing, print nothing, ask no clock, roll no
#                dice and know no floating point (the failing assertion in src/base/assert.c prints)
#   os           only src/os opens, writes, syncs and renames files and reads clocks; the guardian, a
#                program of its own, writes its sensor's output, and two files that it shares with the
#                server talk to the kernel of the machine through /proc and cgroups
#   function     no function is longer than 70 lines
#   file         no file is longer than 700 lines
#
# Comments and literals do not count, nor do calls through a table (os->open).
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"

dirs=()
for dir in src examples bench tests; do
    if [ -d "$dir" ]; then
        dirs+=("$dir")
    fi
done
if [ ${#dirs[@]} -eq 0 ]; then
    echo "check-rooms: no src/ in $PWD" >&2
    exit 2
fi
mapfile -t files < <(find "${dirs[@]}" -name '*.[ch]' | sort)
if [ ${#files[@]} -eq 0 ]; then
    exit 0
fi

awk '
function complain(line, rule, what) {
    print FILENAME ":" line ": " rule ": " what
    bad = 1
}

# May this file include that header? A room may always include itself.
function may_include(header,    to) {
    to = header
    sub(/\/.*/, "", to)
    if (to == room || room == "main") {
        return 1
    }
    if (room == "cli" && FILENAME ~ /^src\/cli\/(check|dump)[^\/]*$/ && to ~ /^(log|os|kernel|engine|lib)$/) {
        return 1
    }
    if (header in kernel_types && index(" protocol token process guardian broker supervisor server config cli ", " " room " ") > 0) {
        return 1
    }
    return index(" " uses[room] " ", " " to " ") > 0
}

function check_include(line,    header) {
    if (!match(line, /^[ \t]*#[ \t]*include[ \t]*["<][^">]+[">]/)) {
        return
    }
    header = substr(line, RSTART, RLENGTH)
    if (header ~ /</ && header !~ /<tenure\.h>/) {
        return
    }
    gsub(/^[^"<]*["<]|[">]$/, "", header)
    if (header == "tenure.h") {
        header = "include/tenure.h"
    }
    if (!(room in uses)) {
        complain(FNR, "include", "src/" room " is not in the table of tools/check-rooms.sh")
    } else if (header !~ /^[a-z]+\/[a-z0-9_]+\.h$/) {
        complain(FNR, "include", "name the room: \"" header "\"")
    } else if (!may_include(header)) {
        complain(FNR, "include", room " may not use " header)
    }
}

# The line without comments, with empty literals; a comment may go on from the line before.
function strip(line,    out, at, c) {
    out = ""
    while (line != "") {
        if (in_comment) {
            at = index(line, "*/")
            if (at == 0) {
                return out
            }
            line = substr(line, at + 2)
            in_comment = 0
            continue
        }
        if (!match(line, /\/\*|\/\/|"|\047/)) {
            return out line
        }
        c = substr(line, RSTART, RLENGTH)
        out = out substr(line, 1, RSTART - 1)
        line = substr(line, RSTART + RLENGTH)
        if (c == "//") {
            return out
        } else if (c == "/*") {
            in_comment = 1
            out = out " "
        } else if (c == "\"") {
            match(line, /^([^"\\]|\\.)*"/)
            line = RLENGTH > 0 ? substr(line, RLENGTH + 1) : ""
            out = out "\"\""
        } else {
            match(line, /^([^\047\\]|\\.)*\047/)
            line = RLENGTH > 0 ? substr(line, RLENGTH + 1) : ""
            out = out "0"
        }
    }
    return out
}

# Complains about each call in code of a function in names.
function check_calls(code, names, rule,    before, name) {
    while (match(code, /[A-Za-z_][A-Za-z0-9_]*[ \t]*\(/)) {
        before = substr(code, 1, RSTART - 1)
        name = substr(code, RSTART, RLENGTH)
        sub(/[ \t]*\($/, "", name)
        code = substr(code, RSTART + RLENGTH)
        if ((name in names) && before !~ /(\.|->)[ \t]*$/) {
            complain(FNR, rule, name "()")
        }
    }
}

# Follows braces to find where functions begin and end. Only the outermost level matters: what
# stands between the last ; or } there and a { tells a function (it ends in a parenthesis) from a
# type or an initialiser.
function follow_braces(code,    c) {
    while (match(code, /[{};]/)) {
        c = substr(code, RSTART, 1)
        if (depth == 0) {
            note_head(substr(code, 1, RSTART - 1))
        }
        code = substr(code, RSTART + 1)
        if (c == "{") {
            if (depth++ == 0) {
                is_function = head ~ /\)[ \t]*$/ && head !~ /=/
                function_line = head_line
            }
        } else if (c == "}") {
            depth--
            if (depth == 0 && is_function && FNR - function_line + 1 > 70) {
                complain(function_line, "function", FNR - function_line + 1 " lines, at most 70")
            }
        }
        if (depth == 0) {
            head = ""
        }
    }
    if (depth == 0) {
        note_head(code)
    }
}

function note_head(text) {
    if (head == "" && text ~ /[^ \t]/) {
        head_line = FNR
    }
    if (text ~ /[^ \t]/) {
        head = head " " text
    }
}

function finish_file() {
    if (name_of_file != "" && lines_of_file > 700) {
        print name_of_file ":701: file: " lines_of_file " lines, at most 700"
        bad = 1
    }
}

BEGIN {
    uses["base"] = ""
    uses["os"] = "base"
    uses["kernel"] = "base"
    uses["log"] = "base os"
    uses["engine"] = "base os kernel log include"
    uses["lib"] = "base os kernel log engine include"
    uses["protocol"] = "base"
    uses["token"] = "base os engine protocol"
    uses["process"] = "base os protocol"
    uses["guardian"] = "base process"
    uses["broker"] = "base os engine protocol"
    uses["supervisor"] = "base os engine protocol token process"
    uses["server"] = "base os engine protocol token process broker supervisor"
    uses["config"] = "base os engine protocol token process broker supervisor server"
    uses["cli"] = "base os protocol include"
    uses["main"] = ""
    split("kernel/command.h kernel/event.h kernel/result.h kernel/types.h kernel/option.h", list, " ")
    for (i in list) kernel_types[list[i]] = 1
    split("malloc calloc realloc free aligned_alloc posix_memalign strdup strndup mmap " \
        "time clock clock_gettime gettimeofday rand srand random getrandom", list, " ")
    for (i in list) impure[list[i]] = 1
    split("printf fprintf dprintf vprintf vfprintf puts fputs putchar perror", list, " ")
    for (i in list) prints[list[i]] = 1
    split("open openat creat write writev pwrite pwritev fsync fdatasync sync_file_range msync " \
        "ftruncate fallocate rename renameat unlink clock_gettime gettimeofday", list, " ")
    for (i in list) os_only[list[i]] = 1
}

FNR == 1 {
    finish_file()
    name_of_file = FILENAME
    in_comment = in_macro = depth = 0
    head = ""
    in_src = FILENAME ~ /^src\//
    room = FILENAME
    sub(/^src\//, "", room)
    sub(/\/.*/, "", room)
    asserts = FILENAME == "src/base/assert.c"
    may_open = FILENAME ~ /^src\/(guardian\/[a-z_]+|process\/proc|process\/cgroup)\.c$/
}

{
    lines_of_file = FNR
    was_comment = in_comment
    code = strip($0)
    if (in_src && !was_comment) {
        check_include($0)
    }
    if (in_src && (room == "base" || room == "kernel")) {
        check_calls(code, impure, "pure")
        if (!asserts) {
            check_calls(code, prints, "pure")
        }
        if ((" " code " ") ~ /[^A-Za-z0-9_](float|double)[^A-Za-z0-9_]/) {
            complain(FNR, "pure", "floating point")
        }
    }
    if (in_src && room != "os" && !asserts && !may_open) {
        check_calls(code, os_only, "os")
    }
    # A macro has no lines to count, and its braces need not match.
    is_macro = in_macro || code ~ /^[ \t]*#/
    in_macro = is_macro && $0 ~ /\\$/
    if (!is_macro) {
        follow_braces(code)
    }
}

END {
    finish_file()
    exit bad
}' "${files[@]}"
