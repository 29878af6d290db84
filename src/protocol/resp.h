/* RESP2 and RESP3: a request parser, and a reply writer that also writes JSON. Neither allocates:
 * the caller owns the bytes, the argument array and the parser's state.
 *
 * Requests come as an array of bulk strings,
 *
 *     *2\r\n $4\r\nPING\r\n $2\r\nhi\r\n
 *
 * or as an inline command, one line of words (quoted as in a shell), from people at a terminal. A
 * line that begins like another protocol (HTTP, TLS, SSH, ...) is refused at once: browsers let any
 * web page send HTTP to any port of the machine, and the page chooses the body. The caller may call
 * the parser again as bytes of a request arrive; it remembers its position, so it reads every byte
 * a bounded number of times. It refuses a request that is too large when it reads the declared
 * size. */
#ifndef TN_PROTOCOL_RESP_H
#define TN_PROTOCOL_RESP_H

#include "base/bytes.h"

#define PROTOCOL_ELEMENTS_MAX (1024 * 1024)  /* the largest declared number */
#define PROTOCOL_BULK_MAX (512u * 1024u)     /* bytes of one argument */
#define PROTOCOL_REQUEST_MAX (1024u * 1024u) /* bytes of a whole request */
#define PROTOCOL_LINE_MAX (64u * 1024u)      /* bytes of an inline request */

/* ---- Requests ---- */

/* Zero before each request. */
struct protocol_parser {
    uint32_t pos;      /* bytes already examined, from the first byte of the request */
    uint32_t elements; /* still to come */
    uint32_t argc;     /* seen so far */
    bool begun;        /* the array's length has been read */
};

enum protocol_parse {
    PROTOCOL_MORE,  /* the request is incomplete */
    PROTOCOL_READY, /* ret_request says what it is */
    PROTOCOL_BAD,   /* see ret_request->error; the connection cannot continue */
};

struct protocol_request {
    uint32_t used;     /* bytes it took */
    uint32_t argc;     /* 0: an empty line, to be ignored. May be more than the capacity */
    const char *error; /* after "Protocol error: " */
    char got;          /* for that error: the byte found, or 0 */
    bool foreign; /* for that error: the client speaks another protocol; close without a reply */
    bool is_line; /* a line of words, not an array */
};

/* Looks for one request at the start of data[0..len). Arguments point into data, those of an inline
 * request into `line`. At most `capacity` of them are stored. On READY and BAD the parser is zero
 * again; a request that cannot be served yet may be shown again. */
enum protocol_parse protocol_request_parse(struct protocol_parser *parser, const uint8_t *data,
                                           size_t len, uint8_t line[PROTOCOL_LINE_MAX],
                                           struct tn_bytes *argv, uint32_t capacity,
                                           struct protocol_request *ret_request);

/* ---- Replies ---- */

enum protocol_encoding { PROTOCOL_RESP2, PROTOCOL_RESP3, PROTOCOL_JSON };

#define PROTOCOL_NEST_MAX 12u /* maps and arrays inside each other, in a reply */

/* A bounded buffer, total as tn_writer is: check out.overflow once, at the end. In RESP2 a map is
 * an array of twice the length, a boolean 1 or 0, a double or verbatim text a bulk string, a push
 * an array.
 *
 * In JSON a set or a push is an array, and everything that is text a string, in which bytes that
 * are not valid UTF-8 become U+FFFD. The writer counts what is still to come in each open map and
 * array, so commas, colons and closing brackets write themselves, and the same calls serve all
 * encodings. */
struct protocol_writer {
    struct tn_writer out;
    enum protocol_encoding encoding;
    uint16_t depth; /* open maps and arrays; the rest is about them */
    uint16_t maps;  /* a bit a level: a map, not an array */
    uint32_t left[PROTOCOL_NEST_MAX];
};

void protocol_write_map(struct protocol_writer *w, uint32_t pairs);
void protocol_write_array(struct protocol_writer *w, uint32_t count);
void protocol_write_set(struct protocol_writer *w, uint32_t count);
void protocol_write_push(struct protocol_writer *w, uint32_t count);
void protocol_write_bulk(struct protocol_writer *w, const void *bytes, size_t len);
void protocol_write_text(struct protocol_writer *w, const char *text);
void protocol_write_verbatim(struct protocol_writer *w, const char *text, size_t len);
/* Text that is JSON itself: in JSON a part of the reply, if it is one object (see text.h; line ends
 * in it become blanks), else a string. */
void protocol_write_json(struct protocol_writer *w, const void *text, size_t len);
/* What another writer of the same encoding has written: one whole value. */
void protocol_write_rendered(struct protocol_writer *w, const void *bytes, size_t len);
/* A line: text must have no CR or LF. */
void protocol_write_simple(struct protocol_writer *w, const char *text);
/* Writes any bytes as an error. What is not printable becomes a question mark, so that nothing can
 * end the line. In JSON it is a string; render.h has the errors of HTTP. */
void protocol_write_error(struct protocol_writer *w, const char *text);
/* A number in JSON, only for values that are always small. */
void protocol_write_integer(struct protocol_writer *w, int64_t number);
/* Beyond what an integer can be, it is a bulk string of digits. In JSON always a string: readers
 * there keep 53 bits of a number. */
void protocol_write_u64(struct protocol_writer *w, uint64_t number);
/* A fraction in millionths. */
void protocol_write_micro(struct protocol_writer *w, uint64_t micro);
void protocol_write_boolean(struct protocol_writer *w, bool value);
void protocol_write_null(struct protocol_writer *w);

#endif
