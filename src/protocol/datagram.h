/* The datagrams of OpenSynaptic nodes, which request an id before anything else.
 *
 *     01 sequence:16 metadata              one id     ->  02 sequence:16 id:32 seconds:64
 *     03 sequence:16 count:16 metadata     1..256     ->  04 sequence:16 count:16 id:32 ...
 *                                          a failure  ->  06 sequence:16 reason
 *
 * Numbers are big-endian, metadata is one JSON object, blanks around it are dropped (so a request
 * can be made as long as its reply), the reason is text. Everything here is pure. */
#ifndef TN_PROTOCOL_DATAGRAM_H
#define TN_PROTOCOL_DATAGRAM_H

#include "base/bytes.h"

#define PROTOCOL_UDP_HEADER 3u
#define PROTOCOL_UDP_COUNT_MAX 256u
#define PROTOCOL_UDP_REPLY_MAX (5u + 4u * PROTOCOL_UDP_COUNT_MAX)
#define PROTOCOL_UDP_REASON_MAX 200u
#define PROTOCOL_UDP_NO_ID UINT32_MAX /* a node without an id */
#define PROTOCOL_UDP_OPERATION 37u    /* bytes of an operation id, with its NUL */

enum protocol_udp {
    PROTOCOL_UDP_OK,
    PROTOCOL_UDP_BAD,     /* an invalid request; `detail` has the reason */
    PROTOCOL_UDP_NOTHING, /* not a request; no answer */
};

struct protocol_udp_request {
    bool many;
    uint16_t sequence;
    uint32_t count;       /* 1 unless many */
    uint32_t reply_len;   /* bytes of the reply, if it is not a failure */
    struct tn_bytes meta; /* in the datagram */
};

/* `detail` has PROTOCOL_DETAIL bytes. After BAD only the sequence is valid. */
enum protocol_udp protocol_udp_parse(struct tn_bytes datagram, struct protocol_udp_request *ret,
                                     char *detail);

/* Each returns the length; `out` has PROTOCOL_UDP_REPLY_MAX bytes. */
size_t protocol_udp_one(uint8_t *out, uint16_t sequence, uint32_t id, uint64_t seconds);
size_t protocol_udp_many(uint8_t *out, uint16_t sequence, const uint32_t *ids, uint32_t count);
size_t protocol_udp_failure(uint8_t *out, uint16_t sequence, const char *reason);

/* The operation id of a datagram: the same for the same bytes from the same source; no other
 * datagram can be crafted to have it. */
void protocol_udp_operation(struct tn_bytes source, struct tn_bytes datagram,
                            char out[PROTOCOL_UDP_OPERATION]);

#endif
