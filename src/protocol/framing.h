/* Finds where HTTP requests begin and end on a connection, strictly, byte by byte.
 *
 * Two programs that disagree about the end of a request can be made to see different requests
 * (request smuggling). So everything that RFC 9112 leaves to the recipient is refused here, before
 * the HTTP library sees the end of the head:
 *
 *     lines that do not end in CRLF; control characters; folded headers; a blank before the colon;
 *     no Host, or two; two Content-Lengths, equal or not, or a list of them; Content-Length beside
 *     Transfer-Encoding; codings other than chunked; chunks that are not framed; trailers that
 *     frame.
 *
 *     request line -> headers -> (body | chunks -> trailers)? -> request line ...
 *
 * Requests that the library would answer in its own format are also refused here: heads that are
 * too large, too many arguments, other versions. No state except the struct, no I/O. */
#ifndef TN_PROTOCOL_FRAMING_H
#define TN_PROTOCOL_FRAMING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The size of a head: its bytes, cookies twice, and PROTOCOL_FIELD_COST for each header, cookie and
 * query argument, which the library needs in addition to the text. */
#define PROTOCOL_HEAD_MAX (12u * 1024u)
#define PROTOCOL_FIELD_COST 64u

#define PROTOCOL_FRAMING_NAME_MAX 20u  /* longer than the names that matter */
#define PROTOCOL_FRAMING_VALUE_MAX 24u /* and than their values */

/* id, HTTP status, words */
#define PROTOCOL_FRAMING_TABLE(X)                                                        \
    X(REQUEST_LINE, 400, "the request line is not METHOD TARGET HTTP/1.1")               \
    X(VERSION, 505, "this server speaks HTTP/1.0 and HTTP/1.1")                          \
    X(LINE_END, 400, "a line of the request does not end in CRLF")                       \
    X(CONTROL, 400, "a line of the request has a control character")                     \
    X(NAME, 400, "a header has a name that is none: a colon must follow a name at once") \
    X(FOLDED, 400, "a header is folded: it must be on one line")                         \
    X(HEAD, 431, "the head of the request is too large")                                 \
    X(ARGUMENTS, 400, "the query has more than 64 arguments")                            \
    X(NO_HOST, 400, "a request of HTTP/1.1 must have a Host header")                     \
    X(HOSTS, 400, "there is more than one Host header")                                  \
    X(LENGTHS, 400, "there is more than one Content-Length header")                      \
    X(LENGTH, 400, "Content-Length is not a number")                                     \
    X(BODY, 413, "Content-Length is too large")                                          \
    X(CODINGS, 400, "there is more than one Transfer-Encoding header")                   \
    X(BOTH, 400, "there are both Transfer-Encoding and Content-Length")                  \
    X(OLD_CODING, 400, "a request of HTTP/1.0 has no Transfer-Encoding")                 \
    X(CODING, 501, "the only Transfer-Encoding that is understood is chunked")           \
    X(CHUNK, 400, "the chunks of the body are not framed as chunks are")                 \
    X(TRAILER, 400, "a trailer has a field that belongs to the head")

enum protocol_framing_fault {
    PROTOCOL_FRAMING_GOOD,
#define PROTOCOL_FRAMING_ENUM(id, status, text) PROTOCOL_FRAMING_##id,
    PROTOCOL_FRAMING_TABLE(PROTOCOL_FRAMING_ENUM)
#undef PROTOCOL_FRAMING_ENUM
        PROTOCOL_FRAMING_FAULTS
};

/* Zero at the beginning of a connection. */
struct protocol_framing {
    uint8_t state; /* framing.c */
    uint8_t fault; /* enum protocol_framing_fault; never cleared */
    bool http_1_0, in_query, in_trailers;
    bool has_host, has_length, has_coding, coding_is_chunked;
    uint32_t name_len, value_len; /* the capacity + 1 means longer */
    uint32_t word_len; /* length of the current word: method, version, or size of a chunk */
    uint32_t arguments;
    uint32_t head_cost;
    uint64_t left;            /* bytes of the body or of the chunk */
    uint64_t heads, requests; /* completed */
    char name[PROTOCOL_FRAMING_NAME_MAX];
    char value[PROTOCOL_FRAMING_VALUE_MAX];
};

/* Reads `len` bytes; returns the number of valid bytes. If fewer, ->fault has the reason, and the
 * request of these bytes will never be complete. */
size_t protocol_framing_feed(struct protocol_framing *framing, const void *bytes, size_t len);

unsigned protocol_framing_status(enum protocol_framing_fault fault);
const char *protocol_framing_text(enum protocol_framing_fault fault);

#endif
