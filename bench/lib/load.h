/* A load generator for servers that speak RESP: one thread, epoll, many connections with many requests
 * under way on each.
 *
 * A lane is one client's conversation, one request at a time: what it asks next may hang on the last
 * reply. A connection carries `depth` lanes and works like a client with a pipeline: it sends a request
 * of each, waits for all replies, and sends the next ones together. The script says what a lane asks
 * and what it makes of the answer, so that the same loop drives every server. */
#ifndef TN_BENCH_LOAD_H
#define TN_BENCH_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOAD_REQUEST_MAX 256u
#define LOAD_ELEMENTS 8u /* of a reply that a script may look at */

/* A reply's elements in order, those of nested ones too, the outer one first; the later ones are
 * skipped. Of a string: its bytes; of anything else: its line without the type. */
struct load_reply {
    char type; /* of the outer one */
    uint32_t count;
    struct {
        const char *at;
        uint32_t len;
    } of[LOAD_ELEMENTS];
};

struct load_lane {
    uint32_t index;    /* among all of them */
    uint32_t step;     /* the script's: where it stands; 0 at first */
    uint32_t text_len; /* the script's: what it remembers */
    char text[48];
    uint64_t number;
    uint64_t due_ns; /* when it was to be sent (at a rate) or was sent */
};

struct load_script {
    /* Writes the lane's next request, at most LOAD_REQUEST_MAX bytes; returns how many. */
    size_t (*request)(const void *ctx, struct load_lane *lane, char *out);
    /* False: that is not what should come, and the run is worth nothing. */
    bool (*reply)(const void *ctx, struct load_lane *lane, const struct load_reply *reply);
    const void *ctx;
    const char *hello; /* the first request of each connection, before any turn; NULL: none */
};

/* Latencies, in buckets 1/16 wide of their own size. */
#define LOAD_BUCKETS 640u
struct load_histogram {
    uint64_t count;
    uint64_t longest_ns;
    uint64_t of[LOAD_BUCKETS];
};
void load_note(struct load_histogram *histogram, uint64_t ns);
double load_percentile_us(const struct load_histogram *histogram, double part);

struct load;
/* Connects; exits with a message if that does not work, as all of these do. */
struct load *load_open(uint16_t port, uint32_t connections, uint32_t depth,
                       const struct load_script *script);
/* The same with TLS. The certificate is not verified, which costs the server nothing. */
struct load *load_open_tls(uint16_t port, uint32_t connections, uint32_t depth,
                           const struct load_script *script);
/* First lets each lane end its conversation: a client that has been granted a value releases it. */
void load_close(struct load *load);
/* As fast as it goes, for so long; then waits for what is under way. Returns replies a second. */
double load_turn(struct load *load, uint64_t ns, struct load_histogram *histogram);
/* Every lane asks once. */
void load_round(struct load *load);
/* At so many requests a second, whether the server keeps up or not: a request that finds no idle lane
 * waits, and its latency counts from the moment at which it was due. */
void load_turn_at_rate(struct load *load, uint64_t ns, double rate,
                       struct load_histogram *histogram);

/* One connection, one request: the reply's outer element as text. */
void load_ask(uint16_t port, const char *request, char *reply, size_t capacity);

#endif
