/* Names and metadata can contain any bytes: bytes that are not printable or not UTF-8 are written
 * as \u00xx in both forms. */
#include "cli/dump_write.h"

#include <inttypes.h>
#include <string.h>

#include "cli/display.h"

void dump_line_begin(struct dump_line *line) {
    line->begun = false;
    if (line->json) {
        (void)fputc('{', line->out);
    }
}

void dump_line_end(struct dump_line *line) {
    (void)fputs(line->json ? "}\n" : "\n", line->out);
}

void dump_name(struct dump_line *line, const char *name) {
    if (line->begun) {
        (void)fputc(line->json ? ',' : ' ', line->out);
    }
    line->begun = true;
    (void)fprintf(line->out, line->json ? "\"%s\":" : "%s=", name);
}

static void quoted(FILE *out, struct tn_bytes text) {
    (void)fputc('"', out);
    for (uint32_t i = 0; i < text.len;) {
        uint32_t character;
        uint32_t len = cli_char_next(text.at + i, text.len - i, &character);
        if (character == '"' || character == '\\') {
            (void)fprintf(out, "\\%c", (int)character);
        } else if (len == 0 || cli_char_is_control(character)) {
            (void)fprintf(out, "\\u%04x", character);
        } else {
            (void)fwrite(text.at + i, 1, len, out);
        }
        i += len > 0 ? len : 1;
    }
    (void)fputc('"', out);
}

static bool is_plain(struct tn_bytes text) {
    for (uint32_t i = 0; i < text.len; i++) {
        uint8_t byte = text.at[i];
        if (byte <= ' ' || byte >= 0x7f || strchr("\"\\=", byte) != NULL) {
            return false;
        }
    }
    return text.len > 0;
}

void dump_text(struct dump_line *line, struct tn_bytes text) {
    if (!line->json && is_plain(text)) {
        (void)fwrite(text.at, 1, text.len, line->out);
    } else {
        quoted(line->out, text);
    }
}

void dump_string(struct dump_line *line, const char *text) {
    dump_text(line, tn_bytes_of(text, strlen(text)));
}

void dump_number(struct dump_line *line, uint64_t number) {
    (void)fprintf(line->out, line->json ? "\"%" PRIu64 "\"" : "%" PRIu64, number);
}

void dump_flag(struct dump_line *line, bool flag) {
    (void)fputs(line->json ? (flag ? "true" : "false") : (flag ? "yes" : "no"), line->out);
}
