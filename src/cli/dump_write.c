/* Any bytes can be a name or metadata: what is not printable or not UTF-8 is written as \u00xx in
 * both forms, byte by byte. */
#include "cli/dump_write.h"

#include <inttypes.h>
#include <string.h>

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

/* Length of the UTF-8 sequence at `at`, 0 if it is not one. */
static uint32_t utf8_len(const uint8_t *at, uint32_t left) {
    uint32_t len = at[0] < 0x80 ? 1 : at[0] < 0xc2 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : 4;
    if (len == 0 || at[0] > 0xf4 || len > left) {
        return 0;
    }
    for (uint32_t i = 1; i < len; i++) {
        if ((at[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    bool bad = (at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f) ||
               (at[0] == 0xf0 && at[1] < 0x90) || (at[0] == 0xf4 && at[1] > 0x8f);
    return bad ? 0 : len;
}

static void quoted(FILE *out, struct tn_bytes text) {
    (void)fputc('"', out);
    for (uint32_t i = 0; i < text.len;) {
        uint8_t byte = text.at[i];
        uint32_t len = utf8_len(text.at + i, text.len - i);
        if (byte == '"' || byte == '\\') {
            (void)fprintf(out, "\\%c", byte);
            len = 1;
        } else if (len == 0 || byte < 0x20 || byte == 0x7f) {
            (void)fprintf(out, "\\u%04x", byte);
            len = 1;
        } else {
            (void)fwrite(text.at + i, 1, len, out);
        }
        i += len;
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
