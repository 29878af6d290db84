/* The reader of replies: RESP2 and RESP3 bytes to a flat tree of nodes.
 *
 * It is bounded and total: any bytes may come, in any pieces; what claims too much is refused when
 * the claim is seen. Every byte is looked at a bounded number of times, however it arrives. */
#ifndef TN_CLI_REPLY_READER_H
#define TN_CLI_REPLY_READER_H

#include "base/bytes.h"

#define CLI_REPLY_MAX (256u * 1024u * 1024u) /* bytes of one reply */
#define CLI_NODES_MAX (16u * 1024u * 1024u)
#define CLI_DEPTH_MAX 16u

enum cli_type {
    CLI_STRING,
    CLI_ERROR,
    CLI_INTEGER, /* its digits are the text */
    CLI_DOUBLE,  /* as text */
    CLI_BOOLEAN, /* the text is "t" or "f" */
    CLI_NULL,
    CLI_ARRAY, /* a set too */
    CLI_MAP,   /* count is that of keys and values together */
    CLI_PUSH,
};

/* Nodes stand in the order of the bytes: a node, then all that is inside it. */
struct cli_node {
    uint32_t at, len; /* text, in the reader's bytes */
    uint32_t count;   /* of children */
    uint32_t end;     /* the node after the last one inside it */
    uint8_t type;     /* enum cli_type */
};

enum cli_parse {
    CLI_MORE,  /* it is not all there yet */
    CLI_READY, /* nodes[0] is the reply, until the next call */
    CLI_BAD,   /* `error` says why; nothing more can be read */
};

struct cli_reader {
    uint8_t *bytes;
    size_t len, capacity;
    struct cli_node *nodes;
    uint32_t node_count, node_capacity;
    size_t pos; /* looked at */
    bool ready; /* the reply before this one has still to be dropped */
    const char *error;
    uint32_t depth;
    struct {
        uint32_t node;
        uint32_t left;
    } open[CLI_DEPTH_MAX]; /* what is not complete yet, the outermost first */
};

void cli_reader_free(struct cli_reader *reader);

/* Room for at least 16 KiB more; NULL if there is no memory. Then tell how many bytes came. */
uint8_t *cli_reader_room(struct cli_reader *reader, size_t *ret_capacity);
void cli_reader_fill(struct cli_reader *reader, size_t len);

/* Goes on with the reply that is under way, or drops the last one and begins the next. */
enum cli_parse cli_reader_next(struct cli_reader *reader);

/* ---- Looking at a reply that is ready ---- */

struct tn_bytes cli_node_text(const struct cli_reader *reader, uint32_t node);
/* The value of a map's key; 0: there is none (0 is never inside anything). */
uint32_t cli_node_find(const struct cli_reader *reader, uint32_t map, const char *key);
/* A number, written as one or as text. */
bool cli_node_number(const struct cli_reader *reader, uint32_t node, uint64_t *ret_number);
bool cli_node_is(const struct cli_reader *reader, uint32_t node, const char *text);

#endif
