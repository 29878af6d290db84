/* Names and values on one line: as text (`name=value`, quoted where needed) or as a JSON object. */
#ifndef TN_CLI_DUMP_WRITE_H
#define TN_CLI_DUMP_WRITE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/bytes.h"

struct dump_line {
    FILE *out;
    bool json;
    bool begun; /* the line has content */
};

void dump_line_begin(struct dump_line *line);
void dump_line_end(struct dump_line *line);

/* Writes the name of the next value. */
void dump_name(struct dump_line *line, const char *name);

/* Values. 64-bit numbers are strings in JSON, because parsers may lose digits. */
void dump_text(struct dump_line *line, struct tn_bytes text);
void dump_string(struct dump_line *line, const char *text);
void dump_number(struct dump_line *line, uint64_t number);
void dump_flag(struct dump_line *line, bool flag);

#endif
