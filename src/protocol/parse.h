/* From the words of a request to a command, following the table. */
#ifndef TN_PROTOCOL_PARSE_H
#define TN_PROTOCOL_PARSE_H

#include "kernel/command.h"
#include "kernel/result.h"
#include "protocol/detail.h"
#include "protocol/table.h"

#define PROTOCOL_PAGE_MAX 1000u  /* that COUNT of a list may ask for */
#define PROTOCOL_PAGE 100u       /* that a list shows without it */
#define PROTOCOL_LOGS_MAX 65536u /* bytes that COUNT of a sensor's output may ask for */
#define PROTOCOL_LOGS 16384u     /* that are shown without it */

/* Of an event: the command's position in the log, and its place among the events of that command. */
struct protocol_event_id {
    uint64_t lsn;
    uint32_t index;
};

/* What a request says. Byte runs are borrowed from the arguments and the scratch buffer; the policy
 * lies in the call itself, so a call is not to be copied. */
struct protocol_call {
    const struct protocol_command *row;
    /* A write is ready to be encoded. Reads find their lease, epoch, holder, pool and name here too. */
    struct kernel_command command;
    struct kernel_policy_patch policy;
    bool derive;                    /* the holder is *: see identity.h */
    struct tn_bytes from;           /* with that: the pool */
    uint64_t fence_lsn;             /* reads */
    uint64_t cursor;                /* lists */
    uint32_t count;                 /* lists: at most so many */
    struct protocol_event_id after; /* EVENTS: those later than this; zero: all that are kept */
    struct tn_bytes position;       /* SENSOR LOGS: what follows it; empty: the end of the output */
    uint32_t bytes;                 /* and at most so many */
    enum kernel_state state;        /* lists; KERNEL_NO_STATE: any live one */
    enum kernel_value_state value_state;
    struct tn_bytes value;        /* of pool/value; empty: it was a lease's id */
    struct tn_bytes token, scope; /* empty: not given */
    uint64_t refresh_s;           /* of a token */
    bool has_refresh;
    char detail[PROTOCOL_REASON]; /* why it is refused; the parser uses PROTOCOL_DETAIL of it */
};

/* argv holds the whole request, the command's words included, and its count is within the command's
 * arity. `scratch` takes lists of values; as many bytes as the request had, plus four for each
 * argument, are enough. OK, or why not, with words in ret_call->detail: nothing that is refused here
 * has been logged. Names are checked for form that no kernel is needed for: valid UTF-8, no control
 * characters, the length. */
enum tn_result protocol_call_parse(const struct protocol_command *row, const struct tn_bytes *argv,
                                   uint32_t argc, void *scratch, size_t capacity,
                                   struct protocol_call *ret_call);

/* "0-1042". */
bool protocol_lease_parse(struct tn_bytes text, struct kernel_lease_id *ret_lease);

/* Whether it can be the scope of a token: words of printable ASCII without quotes and backslashes (RFC
 * 6749), one blank between them. */
#define PROTOCOL_SCOPE_MAX 256u
bool protocol_scope_fits(struct tn_bytes scope);

/* "0-1042.3": a lease and its epoch. */
bool protocol_token_id_parse(struct tn_bytes text, struct kernel_lease_id *ret_lease,
                             uint64_t *ret_epoch);

/* "1042.0", or "1042" for the end of that command: after all its events. */
bool protocol_event_id_parse(struct tn_bytes text, struct protocol_event_id *ret_id);

#endif
