/* A load generator for servers that speak RESP: one thread, epoll, many connections with many
 * requests in flight on each.
 *
 * A lane is one client's conversation, one request at a time: its next request may depend on the
 * last reply. A connection carries `depth` lanes and works like a client with a pipeline: it sends
 * a request of each, waits for all replies, and sends the next ones together. The script makes the
 * requests of a lane and judges the answers, so that the same loop drives every server. */
#ifndef TN_BENCH_LOAD_H
#define TN_BENCH_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOAD_REQUEST_MAX 256u
#define LOAD_ELEMENTS 8u /* elements of a reply that a script can read */

/* A reply's elements in order, including nested ones, the outer one first; elements beyond
 * LOAD_ELEMENTS are skipped. For a string, its bytes; for anything else, its line without the
 * type. */
struct load_reply {
    char type; /* type of the outer element */
    uint32_t count;
    struct {
        const char *at;
        uint32_t len;
    } of[LOAD_ELEMENTS];
};

struct load_lane {
    uint32_t index;    /* index among all lanes */
    uint32_t step;     /* for the script: its current step; 0 at first */
    uint32_t text_len; /* for the script: length of the text that it stores */
    char text[48];
    uint64_t number;
    uint64_t due_ns; /* when the request was due (at a rate) or was sent */
};

struct load_script {
    /* Writes the lane's next request, at most LOAD_REQUEST_MAX bytes; returns its length. */
    size_t (*request)(const void *ctx, struct load_lane *lane, char *out);
    /* False: the reply is not the expected one, and the run is worthless. */
    bool (*reply)(const void *ctx, struct load_lane *lane, const struct load_reply *reply);
    const void *ctx;
    const char *hello; /* the first request of each connection, before any turn; NULL: none */
};

/* Latencies, in buckets with a width of 1/16 of their value. */
#define LOAD_BUCKETS 640u
struct load_histogram {
    uint64_t count;
    uint64_t longest_ns;
    uint64_t of[LOAD_BUCKETS];
};
void load_note(struct load_histogram *histogram, uint64_t ns);
double load_percentile_us(const struct load_histogram *histogram, double part);

struct load;
/* Connects. Like all functions here, exits with a message on failure. */
struct load *load_open(uint16_t port, uint32_t connections, uint32_t depth,
                       const struct load_script *script);
/* As load_open, with TLS. The certificate is not verified, which costs the server nothing. */
struct load *load_open_tls(uint16_t port, uint32_t connections, uint32_t depth,
                           const struct load_script *script);
/* Before closing, lets each lane end its conversation: a client that has been granted a value
 * releases it. */
void load_close(struct load *load);
/* Sends as fast as possible for `ns` nanoseconds, then waits for the requests in flight. Returns
 * replies a second. */
double load_turn(struct load *load, uint64_t ns, struct load_histogram *histogram);
/* Every lane sends one request. */
void load_round(struct load *load);
/* Sends `rate` requests a second, whether the server keeps up or not: a request that finds no idle
 * lane waits, and its latency counts from the moment at which it was due. */
void load_turn_at_rate(struct load *load, uint64_t ns, double rate,
                       struct load_histogram *histogram);

/* Sends one request on a connection of its own; returns the reply's outer element as text. */
void load_ask(uint16_t port, const char *request, char *reply, size_t capacity);

#endif
