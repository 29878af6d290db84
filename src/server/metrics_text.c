/* Writes the text format: HELP and TYPE once for each family, then a line for each sample. Numbers
 * are written from integers, exactly, without rounding and without a locale. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "server/metrics.h"

#define TEXT_FIRST_BYTES 65536u

const struct server_metric_row server_metric_rows[SERVER_METRIC_COUNT] = {
#define SERVER_METRIC_ROW(id, name, type, labels, help) {name, type, labels, help},
    SERVER_METRIC_TABLE(SERVER_METRIC_ROW)
#undef SERVER_METRIC_ROW
};

/* Makes room for `len` more bytes. NULL: there is none. */
static char *text_room(struct metrics_text *text, size_t len) {
    size_t need = text->len + len;
    if (text->failed || need > SERVER_METRICS_BYTES) {
        text->failed = true;
        return NULL;
    }
    if (need > text->capacity) {
        size_t capacity = text->capacity == 0 ? TEXT_FIRST_BYTES : text->capacity;
        while (capacity < need) {
            capacity *= 2;
        }
        char *bigger = realloc(text->at, capacity);
        if (bigger == NULL) {
            text->failed = true;
            return NULL;
        }
        text->at = bigger;
        text->capacity = capacity;
    }
    return text->at + text->len;
}

static void text_raw(struct metrics_text *text, const void *bytes, size_t len) {
    char *room = text_room(text, len);
    if (room != NULL && len > 0) {
        memcpy(room, bytes, len);
        text->len += len;
    }
}

static void text_string(struct metrics_text *text, const char *string) {
    text_raw(text, string, strlen(string));
}

/* Escapes a backslash, a quote or a newline in a label's value. */
static void text_escaped(struct metrics_text *text, struct tn_bytes value) {
    char *room = text_room(text, 2 * (size_t)value.len);
    if (room == NULL) {
        return;
    }
    char *at = room;
    for (uint32_t i = 0; i < value.len; i++) {
        uint8_t c = value.at[i];
        if (c == '\\' || c == '"' || c == '\n') {
            *at++ = '\\';
            c = c == '\n' ? 'n' : c;
        }
        *at++ = (char)c;
    }
    text->len += (size_t)(at - room);
}

void metrics_family(struct metrics_text *text, enum server_metric family) {
    const struct server_metric_row *row = &server_metric_rows[family];
    text->family = family;
    text_string(text, "# HELP ");
    text_string(text, row->name);
    text_string(text, " ");
    text_string(text, row->help);
    text_string(text, "\n# TYPE ");
    text_string(text, row->name);
    text_string(text, " ");
    text_string(text, row->type);
    text_string(text, "\n");
}

static void label_write(struct metrics_text *text, const char *before, const char *label,
                        struct tn_bytes value) {
    text_string(text, before);
    text_string(text, label);
    text_string(text, "=\"");
    text_escaped(text, value);
    text_string(text, "\"");
}

void metrics_sample(struct metrics_text *text, const char *suffix, const char *label,
                    struct tn_bytes value, const char *label2, const char *value2) {
    text_string(text, server_metric_rows[text->family].name);
    text_string(text, suffix);
    if (label != NULL) {
        label_write(text, "{", label, value);
        if (label2 != NULL) {
            label_write(text, ",", label2, tn_bytes_of(value2, strlen(value2)));
        }
        text_string(text, "}");
    }
    text_string(text, " ");
}

/* Omits zeros at the end of a fraction. `out` has room for 24 bytes. */
static size_t decimal_write(uint64_t value, unsigned digits, char out[24]) {
    char reversed[24];
    size_t len = 0;
    size_t to = 0;
    unsigned skip = 0;
    TN_ASSERT(digits <= 9);
    for (unsigned written = 0; value > 0 || written <= digits; written++, value /= 10) {
        if (written == digits && digits > skip) {
            reversed[len++] = '.';
        }
        if (written < digits && skip == written && value % 10 == 0) {
            skip++;
            continue;
        }
        reversed[len++] = (char)('0' + value % 10);
    }
    while (len > 0) {
        out[to++] = reversed[--len];
    }
    return to;
}

void metrics_number(struct metrics_text *text, uint64_t value, unsigned digits) {
    char number[24];
    size_t len = decimal_write(value, digits, number);
    text_raw(text, number, len);
    text_raw(text, "\n", 1);
}

void metrics_infinity(struct metrics_text *text) {
    text_string(text, "+Inf\n");
}

void metrics_single(struct metrics_text *text, enum server_metric family, uint64_t value,
                    unsigned digits) {
    metrics_family(text, family);
    metrics_sample(text, "", NULL, tn_bytes_of(NULL, 0), NULL, NULL);
    metrics_number(text, value, digits);
}

/* Writes one bucket, with the family's label first, if it has one. */
static void bucket_write(struct metrics_text *text, const char *label, struct tn_bytes value,
                         const char *bound, uint64_t sum) {
    if (label != NULL) {
        metrics_sample(text, "_bucket", label, value, "le", bound);
    } else {
        metrics_sample(text, "_bucket", "le", tn_bytes_of(bound, strlen(bound)), NULL, NULL);
    }
    metrics_number(text, sum, 0);
}

void metrics_histogram(struct metrics_text *text, const char *label, const char *value,
                       const struct metrics_buckets *buckets) {
    struct tn_bytes bytes = tn_bytes_of(value, label != NULL ? strlen(value) : 0);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < buckets->count; i++) {
        char bound[24];
        bound[decimal_write(buckets->bounds_ns[i], 9, bound)] = '\0';
        sum += buckets->counts[i];
        bucket_write(text, label, bytes, bound, sum);
    }
    sum += buckets->counts[buckets->count];
    bucket_write(text, label, bytes, "+Inf", sum);
    metrics_sample(text, "_sum", label, bytes, NULL, NULL);
    metrics_number(text, buckets->sum, buckets->sum_digits);
    metrics_sample(text, "_count", label, bytes, NULL, NULL);
    metrics_number(text, sum, 0);
}
