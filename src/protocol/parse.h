/* Parses the words of a request to a command, following the command table. */
#ifndef TN_PROTOCOL_PARSE_H
#define TN_PROTOCOL_PARSE_H

#include "kernel/command.h"
#include "kernel/result.h"
#include "protocol/detail.h"
#include "protocol/table.h"

#define PROTOCOL_PAGE_MAX 1000u    /* the largest COUNT of a list */
#define PROTOCOL_PAGE 100u         /* the default COUNT */
#define PROTOCOL_MATCH_MAX 512u    /* bytes of MATCH of POOL LIST */
#define PROTOCOL_SAMPLES_MAX 1440u /* the largest COUNT of POOL HISTORY */
#define PROTOCOL_LOGS_MAX 65536u   /* the largest COUNT of SENSOR LOGS, in bytes */
#define PROTOCOL_LOGS 16384u       /* the default */

/* The id of an event: the log position of the command, and the number of the event within it. */
struct protocol_event_id {
    uint64_t lsn;
    uint32_t index;
};

/* The order of POOL LIST. */
enum protocol_sort {
    PROTOCOL_SORT_NONE, /* the order of the table */
    PROTOCOL_SORT_OCCUPANCY,
    PROTOCOL_SORT_FREE,
    PROTOCOL_SORT_WAITING,
    PROTOCOL_SORT_NAME,
};

/* What some reads select by; an empty field selects everything. */
struct protocol_selection {
    struct tn_bytes kind, actor, text; /* EVENTS, with the lease and `value` of the call */
    struct tn_bytes prefix;            /* LEASES: of the holder */
    struct tn_bytes match;             /* POOL LIST: a pattern for names */
    enum protocol_sort sort;           /* POOL LIST */
    bool no_scopes;                    /* POOL LIST */
    bool hours;                        /* POOL HISTORY: samples of hours, not of minutes */
    uint32_t samples;                  /* POOL HISTORY: the last ones; 0: all */
};

/* A parsed request. Byte runs are borrowed from the arguments and the scratch buffer. Do not copy a
 * call: the command points to the policy in it. */
struct protocol_call {
    const struct protocol_command *row;
    /* A write, ready to be encoded. Reads also find their lease, epoch, holder, pool and name here.
     * */
    struct kernel_command command;
    struct kernel_policy_patch policy;
    bool derive;                      /* the holder is *: see identity.h */
    struct tn_bytes from;             /* with `derive`: the pool */
    uint64_t fence_lsn;               /* reads */
    uint64_t cursor;                  /* lists */
    uint32_t count;                   /* lists: the maximum number */
    struct protocol_event_id after;   /* EVENTS: events after this one; zero: all retained ones */
    struct protocol_selection select; /* reads */
    struct tn_bytes position; /* SENSOR LOGS: output after it; empty: the end of the output */
    uint32_t bytes;           /* SENSOR LOGS, BACKUP READ: the maximum number of bytes */
    struct tn_bytes file;     /* BACKUP READ */
    uint64_t offset;          /* in it */
    enum kernel_state state;  /* lists; KERNEL_NO_STATE: any live one */
    enum kernel_value_state value_state;
    struct tn_bytes value;        /* of pool/value; empty: the request names a lease id */
    struct tn_bytes token, scope; /* empty: not given */
    struct tn_bytes secret;       /* of USER ADD and SET; the server hashes it */
    uint64_t refresh_s;           /* of a token */
    bool has_refresh;
    char detail
        [PROTOCOL_REASON]; /* the reason of a refusal; the parser uses PROTOCOL_DETAIL bytes */
};

/* argv holds the whole request, including the command's words, and its count is within the
 * command's arity. `scratch` holds lists of values; it needs the bytes of the request plus four for
 * each argument. OK, or a rejection with the reason in ret_call->detail; nothing has been logged.
 * Names are checked only for their form: valid UTF-8, no control characters, the length. */
enum tn_result protocol_call_parse(const struct protocol_command *row, const struct tn_bytes *argv,
                                   uint32_t argc, void *scratch, size_t capacity,
                                   struct protocol_call *ret_call);

/* One argument of a user. As above. */
enum tn_result protocol_user_parse(enum protocol_bind to, struct tn_bytes word,
                                   struct protocol_call *call);

/* "0-1042". */
bool protocol_lease_parse(struct tn_bytes text, struct kernel_lease_id *ret_lease);

/* Whether it is a valid token scope: words of printable ASCII without quotes and backslashes (RFC
 * 6749), separated by single blanks. */
#define PROTOCOL_SCOPE_MAX 256u
bool protocol_scope_fits(struct tn_bytes scope);

/* "0-1042.3": a lease and its epoch. */
bool protocol_token_id_parse(struct tn_bytes text, struct kernel_lease_id *ret_lease,
                             uint64_t *ret_epoch);

/* "1042.0", or "1042" for the end of that command: after all its events. */
bool protocol_event_id_parse(struct tn_bytes text, struct protocol_event_id *ret_id);

#endif
