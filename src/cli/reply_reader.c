/* The reader of replies. A reply is read node by node; `open` holds the incomplete
 * arrays and maps, so that reading can stop in the middle and resume. */
#include "cli/reply_reader.h"

#include <stdlib.h>

#include "base/assert.h"
#include "kernel/types.h"

#define ROOM (16u * 1024u)
#define LINE_MAX_BYTES (64u * 1024u)

void cli_reader_free(struct cli_reader *reader) {
    free(reader->bytes);
    free(reader->nodes);
    *reader = (struct cli_reader){.bytes = NULL};
}

uint8_t *cli_reader_room(struct cli_reader *reader, size_t *ret_capacity) {
    if (reader->capacity - reader->len < ROOM) {
        size_t capacity = reader->capacity + reader->capacity / 2 + ROOM;
        uint8_t *bytes = realloc(reader->bytes, capacity);
        if (bytes == NULL) {
            return NULL;
        }
        reader->bytes = bytes;
        reader->capacity = capacity;
    }
    *ret_capacity = reader->capacity - reader->len;
    return reader->bytes + reader->len;
}

void cli_reader_fill(struct cli_reader *reader, size_t len) {
    TN_ASSERT(len <= reader->capacity - reader->len);
    reader->len += len;
}

static enum cli_parse bad(struct cli_reader *reader, const char *why) {
    reader->error = why;
    return CLI_BAD;
}

/* The line at pos, without its end; false if it is not all there. */
static bool line_next(const struct cli_reader *reader, struct tn_bytes *ret_line) {
    size_t left = reader->len - reader->pos;
    const uint8_t *at = left > 0 ? reader->bytes + reader->pos : NULL;
    const uint8_t *end = left > 0 ? memchr(at, '\n', left) : NULL;
    if (end == NULL) {
        return false;
    }
    size_t len = (size_t)(end - at);
    *ret_line = tn_bytes_of(at, len > 0 && at[len - 1] == '\r' ? len - 1 : len);
    return true;
}

static struct cli_node *node_add(struct cli_reader *reader, enum cli_type type) {
    if (reader->node_count == reader->node_capacity) {
        uint32_t capacity = reader->node_capacity + reader->node_capacity / 2 + 64;
        struct cli_node *nodes =
            capacity <= CLI_NODES_MAX ? realloc(reader->nodes, capacity * sizeof nodes[0]) : NULL;
        if (nodes == NULL) {
            return NULL;
        }
        reader->nodes = nodes;
        reader->node_capacity = capacity;
    }
    struct cli_node *node = &reader->nodes[reader->node_count++];
    *node = (struct cli_node){.type = (uint8_t)type, .end = reader->node_count};
    return node;
}

/* A length after $, *, % and such: -1 is the null of RESP2. */
static bool length_parse(struct tn_bytes digits, uint32_t max, bool *ret_null, uint32_t *ret_len) {
    uint64_t number = 0;
    *ret_null = digits.len == 2 && digits.at[0] == '-' && digits.at[1] == '1';
    if (!*ret_null && (!kernel_value_parse(KERNEL_DEC, digits, &number) || number > max)) {
        return false;
    }
    *ret_len = (uint32_t)number;
    return true;
}

/* $, = and !: a length, then that many bytes. The head is consumed only together with them. */
static enum cli_parse read_bulk(struct cli_reader *reader, char kind, struct tn_bytes line) {
    bool null;
    uint32_t len;
    if (!length_parse(tn_bytes_of(line.at + 1, line.len - 1), CLI_REPLY_MAX, &null, &len)) {
        return bad(reader, "a string has an invalid length");
    }
    size_t from = (size_t)(line.at - reader->bytes) + line.len;
    from += reader->bytes[from] == '\r' ? 2 : 1;
    if (!null && reader->len - from < (size_t)len + 2) {
        return CLI_MORE;
    }
    struct cli_node *node =
        node_add(reader, null ? CLI_NULL : (kind == '!' ? CLI_ERROR : CLI_STRING));
    if (node == NULL) {
        return bad(reader, "too many parts");
    }
    if (!null) {
        uint32_t skip = kind == '=' && len >= 4 ? 4 : 0; /* "txt:" */
        node->at = (uint32_t)from + skip;
        node->len = len - skip;
        from += (size_t)len + 2;
    }
    reader->pos = from;
    return CLI_READY;
}

static bool scalar_type(char kind, struct tn_bytes text, enum cli_type *ret_type) {
    uint64_t number;
    struct tn_bytes digits = text.len > 0 && (text.at[0] == '-' || text.at[0] == '+')
                                 ? tn_bytes_of(text.at + 1, text.len - 1)
                                 : text;
    switch (kind) {
    case '+':
        *ret_type = CLI_STRING;
        return true;
    case '-':
        *ret_type = CLI_ERROR;
        return true;
    case ':':
        *ret_type = CLI_INTEGER;
        return kernel_value_parse(KERNEL_DEC, digits, &number);
    case ',':
        *ret_type = CLI_DOUBLE;
        return text.len > 0;
    case '#':
        *ret_type = CLI_BOOLEAN;
        return text.len == 1 && (text.at[0] == 't' || text.at[0] == 'f');
    case '_':
        *ret_type = CLI_NULL;
        return text.len == 0;
    default:
        return false;
    }
}

static enum cli_parse read_scalar(struct cli_reader *reader, char kind, struct tn_bytes line) {
    enum cli_type type;
    struct tn_bytes text = tn_bytes_of(line.at + 1, line.len - 1);
    if (!scalar_type(kind, text, &type)) {
        return bad(reader, "not a reply in RESP");
    }
    struct cli_node *node = node_add(reader, type);
    if (node == NULL) {
        return bad(reader, "too many parts");
    }
    node->at = (uint32_t)(text.at - reader->bytes);
    node->len = text.len;
    reader->pos = node->at + text.len;
    reader->pos += reader->bytes[reader->pos] == '\r' ? 2 : 1;
    return CLI_READY;
}

/* *, ~, % and >: opens a level, unless there is nothing in it. */
static enum cli_parse read_group(struct cli_reader *reader, char kind, struct tn_bytes line) {
    bool null;
    uint32_t count;
    struct tn_bytes digits = tn_bytes_of(line.at + 1, line.len - 1);
    if (!length_parse(digits, CLI_NODES_MAX / 2, &null, &count)) {
        return bad(reader, "invalid length");
    }
    if (reader->depth == CLI_DEPTH_MAX) {
        return bad(reader, "too deep");
    }
    enum cli_type type = kind == '%' ? CLI_MAP : (kind == '>' ? CLI_PUSH : CLI_ARRAY);
    struct cli_node *node = node_add(reader, null ? CLI_NULL : type);
    if (node == NULL) {
        return bad(reader, "too many parts");
    }
    node->count = kind == '%' ? 2 * count : count;
    reader->pos = (size_t)(line.at - reader->bytes) + line.len;
    reader->pos += reader->bytes[reader->pos] == '\r' ? 2 : 1;
    if (node->count > 0) {
        reader->open[reader->depth].node = reader->node_count - 1;
        reader->open[reader->depth++].left = node->count;
    }
    return CLI_READY;
}

static enum cli_parse read_node(struct cli_reader *reader) {
    struct tn_bytes line;
    if (!line_next(reader, &line)) {
        return reader->len - reader->pos > LINE_MAX_BYTES ? bad(reader, "a line without end")
                                                          : CLI_MORE;
    }
    if (line.len == 0) {
        return bad(reader, "not a reply in RESP");
    }
    char kind = (char)line.at[0];
    if (strchr("$=!", kind) != NULL && kind != '\0') {
        return read_bulk(reader, kind, line);
    }
    if (strchr("*~%>", kind) != NULL && kind != '\0') {
        return read_group(reader, kind, line);
    }
    return read_scalar(reader, kind, line);
}

/* A node is there: whatever it completes is closed. */
static void close_levels(struct cli_reader *reader, uint32_t depth_before) {
    if (reader->depth > depth_before) {
        return; /* it opened a level itself */
    }
    while (reader->depth > 0) {
        uint32_t top = reader->depth - 1;
        if (--reader->open[top].left > 0) {
            return;
        }
        reader->nodes[reader->open[top].node].end = reader->node_count;
        reader->depth--;
    }
}

enum cli_parse cli_reader_next(struct cli_reader *reader) {
    if (reader->error != NULL) {
        return CLI_BAD;
    }
    if (reader->ready) {
        memmove(reader->bytes, reader->bytes + reader->pos, reader->len - reader->pos);
        reader->len -= reader->pos;
        reader->pos = reader->node_count = 0;
        reader->ready = false;
    }
    do {
        uint32_t depth = reader->depth;
        enum cli_parse parse = read_node(reader);
        if (parse != CLI_READY) {
            if (parse == CLI_MORE && reader->len > CLI_REPLY_MAX) {
                return bad(reader, "too long");
            }
            return parse;
        }
        close_levels(reader, depth);
    } while (reader->depth > 0);
    reader->ready = true;
    return CLI_READY;
}

/* ---- Looking at a reply ---- */

struct tn_bytes cli_node_text(const struct cli_reader *reader, uint32_t node) {
    return tn_bytes_of(reader->bytes + reader->nodes[node].at, reader->nodes[node].len);
}

bool cli_node_is(const struct cli_reader *reader, uint32_t node, const char *text) {
    return tn_bytes_equal(cli_node_text(reader, node), tn_bytes_of(text, strlen(text)));
}

uint32_t cli_node_find(const struct cli_reader *reader, uint32_t map, const char *key) {
    if (map >= reader->node_count || reader->nodes[map].type != CLI_MAP) {
        return 0;
    }
    for (uint32_t at = map + 1; at < reader->nodes[map].end;) {
        uint32_t value = reader->nodes[at].end;
        if (cli_node_is(reader, at, key)) {
            return value;
        }
        at = reader->nodes[value].end;
    }
    return 0;
}

bool cli_node_number(const struct cli_reader *reader, uint32_t node, uint64_t *ret_number) {
    return node != 0 && kernel_value_parse(KERNEL_DEC, cli_node_text(reader, node), ret_number);
}
