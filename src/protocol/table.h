/* The one table of commands. A row owns its command: dispatch, access, scheduling, arity errors,
 * usage texts, COMMAND DOCS, the reference in docs/commands.md, HTTP routes and the command line
 * follow what the row says and do not know commands by their ids. A new command is a row in
 * table.c, its handler in server/handler.c and, if it is a write, its verb in the kernel. */
#ifndef TN_PROTOCOL_TABLE_H
#define TN_PROTOCOL_TABLE_H

#include "kernel/command.h"

/* The roles that may use a command. Each has the rights of those before it. */
enum protocol_role {
    PROTOCOL_NOBODY, /* everyone, including clients that have not logged in */
    PROTOCOL_READER,
    PROTOCOL_HOLDER,
    PROTOCOL_OPERATOR,
    PROTOCOL_ADMIN,
};

enum protocol_kind {
    PROTOCOL_CONNECTION, /* about the connection or the server; RESP only */
    PROTOCOL_READ,
    PROTOCOL_WRITE,
    PROTOCOL_JOB, /* no command of the engine's; answered like a write, perhaps by another thread */
};

/* What a command acts on or shows. Users can be limited to some pools and holders; access control
 * judges a command of such a user by its subject, and refuses a subject that it does not know. */
enum protocol_subject {
    PROTOCOL_OF_UNKNOWN, /* of no row: refused */
    PROTOCOL_OF_NONE,    /* nothing that a user can be limited to, or a token proves the right */
    PROTOCOL_OF_POOL,    /* the pools that it names; a limited user must name one */
    PROTOCOL_OF_LEASE,   /* the lease that it names, or whatever lease has the value it names */
    PROTOCOL_OF_RULE,    /* a rule: for users who see the pool of sensors */
    PROTOCOL_OF_SENSOR,  /* a sensor: for users who may also act for its holder */
    PROTOCOL_OF_MANY,    /* leases that it does not name, in any pools */
    PROTOCOL_OF_ALL,     /* all pools and holders: users without limits */
    PROTOCOL_OF_LIST,    /* a list that shows only what the user may see: its handler filters */
};

/* What else the server and the command line must know of a command. */
enum protocol_trait {
    PROTOCOL_LONG = 1 << 0,        /* the reply may have many kilobytes: it waits for a slice */
    PROTOCOL_SLICED = 1 << 1,      /* the reply is made in several slices */
    PROTOCOL_QUICK = 1 << 2,       /* takes almost no time, like every write */
    PROTOCOL_SUBSCRIBER = 1 << 3,  /* RESP2: a client that has subscribed may send it */
    PROTOCOL_PUBSUB = 1 << 4,      /* begins or ends a subscription */
    PROTOCOL_AFTER_MULTI = 1 << 5, /* is served even after MULTI, which is refused */
    PROTOCOL_DERIVES = 1 << 6,     /* the holder may be *, which derives it from the metadata */
    PROTOCOL_DISABLES = 1 << 7,    /* turns off a rule or a sensor */
    PROTOCOL_PROGRAMS =
        1 << 8, /* defines programs for the server to run: not for anonymous clients */
    PROTOCOL_OWN_LEASE = 1 << 9,   /* below operator only for the user that the lease belongs to */
    PROTOCOL_STATE_ONLY = 1 << 10, /* shows the state of a sensor, but not its program */
    PROTOCOL_CLI = 1 << 11,      /* the command line offers it though it is about the connection */
    PROTOCOL_CREATES = 1 << 12,  /* HTTP: success has created what the path names */
    PROTOCOL_STREAM = 1 << 13,   /* HTTP: it can be answered as a stream of events */
    PROTOCOL_BEARER = 1 << 14,   /* HTTP: without a token in the body, that of Authorization */
    PROTOCOL_ENVELOPE = 1 << 15, /* HTTP: the second route answers {"data":{"id":...},...} */
    PROTOCOL_FOLLOW = 1 << 16,   /* the command line can follow it */
    PROTOCOL_STALE = 1 << 17, /* after READONLY also a node that does not own the log answers it */
    PROTOCOL_ANYWHERE = 1 << 18, /* every node answers it, whether it owns the log or not */
    PROTOCOL_SECRETS = 1 << 19,  /* its words contain a secret: the server wipes them */
    PROTOCOL_WATCH = 1 << 20, /* the command line can repeat it though it is about the connection */
    PROTOCOL_GRANTS = 1 << 21, /* a success has the values of a lease, which may be new */
    /* A success is one event, whose id the reply has. The lease is the token's: over HTTP 401 if it is over. */
    PROTOCOL_EMITS = 1 << 22,
};

/* How an argument is written. */
enum protocol_type {
    PROTOCOL_T_STRING,
    PROTOCOL_T_INTEGER,
    PROTOCOL_T_DURATION, /* see base/duration.h */
    PROTOCOL_T_TOKEN,    /* the keyword alone, without a value */
    PROTOCOL_T_ONEOF,    /* one of `parts` */
    PROTOCOL_T_BLOCK,    /* all of `parts` */
};

/* Where the parser puts an argument; see struct protocol_call. */
enum protocol_bind {
    PROTOCOL_B_NONE, /* a connection command looks at its arguments itself */
    PROTOCOL_B_LEASE,
    PROTOCOL_B_EPOCH,
    PROTOCOL_B_HOLDER,
    PROTOCOL_B_TTL,
    PROTOCOL_B_WAIT,
    PROTOCOL_B_AFTER,
    PROTOCOL_B_DEADLINE, /* milliseconds since 1970, as replies show them; so the next three */
    PROTOCOL_B_CREATED,
    PROTOCOL_B_SEEN,
    PROTOCOL_B_OFFLINE,
    PROTOCOL_B_GIVEN,
    PROTOCOL_B_RECLAIMED,
    PROTOCOL_B_META,
    PROTOCOL_B_PAYLOAD, /* JSON of an event */
    PROTOCOL_B_NOW,
    PROTOCOL_B_POOL,
    PROTOCOL_B_FROM,   /* the pool of a claim: one for the whole request */
    PROTOCOL_B_AMOUNT, /* an amount: COUNT n | VALUES n value... */
    PROTOCOL_B_CLAIM,  /* FROM pool (COUNT n | VALUES n value...), repeated */
    PROTOCOL_B_VALUES, /* value value ... */
    PROTOCOL_B_OPTIONS,
    PROTOCOL_B_NAME,
    PROTOCOL_B_TRIGGER,
    PROTOCOL_B_DISABLED,
    PROTOCOL_B_SPEC,
    PROTOCOL_B_TARGET, /* a lease's id, or pool/value */
    PROTOCOL_B_VALUE,  /* pool/value */
    PROTOCOL_B_STATE,
    PROTOCOL_B_VALUE_STATE,
    PROTOCOL_B_CURSOR,
    PROTOCOL_B_COUNT,
    PROTOCOL_B_BYTES,    /* the same, of bytes */
    PROTOCOL_B_POSITION, /* in the output of a sensor: file.offset */
    PROTOCOL_B_FILE,     /* the name of a file of a backup */
    PROTOCOL_B_OFFSET,   /* in it */
    PROTOCOL_B_EVENT,    /* an event's id: lsn.index */
    PROTOCOL_B_KIND,     /* these four select events */
    PROTOCOL_B_OF_VALUE,
    PROTOCOL_B_ACTOR,
    PROTOCOL_B_TEXT,
    PROTOCOL_B_PREFIX, /* of holders */
    PROTOCOL_B_STEP,   /* the step of a history: minute or hour */
    PROTOCOL_B_MATCH,  /* a pattern for names of pools */
    PROTOCOL_B_SORT,   /* the order of pools */
    PROTOCOL_B_SCOPES, /* scopes of templates: listed or left out */
    PROTOCOL_B_SAMPLES,
    PROTOCOL_B_TOKEN,    /* a token */
    PROTOCOL_B_BEARER,   /* the client's own token; over HTTP also in Authorization */
    PROTOCOL_B_TOKEN_ID, /* a token's jti: lease.epoch */
    PROTOCOL_B_SCOPE,
    PROTOCOL_B_REFRESH, /* seconds for which refreshes may extend a token */
    PROTOCOL_B_REASON,
    PROTOCOL_B_ROLE, /* from here to MAX_VALUES: of a user; parse_user.c */
    PROTOCOL_B_SECRET,
    PROTOCOL_B_POOLS,
    PROTOCOL_B_HOLDERS,
    PROTOCOL_B_MAX_VALUES,
    PROTOCOL_B_OPID,
    PROTOCOL_B_FENCE,
    PROTOCOL_B_UNUSED, /* a field of an HTTP body that is accepted and ignored */
};

struct protocol_argument {
    const char *name;
    const char *token; /* the word before it; NULL: none */
    const struct protocol_argument *parts;
    uint8_t part_count;
    uint8_t type; /* enum protocol_type */
    uint8_t bind; /* enum protocol_bind */
    bool optional;
    bool multiple;
};

#define PROTOCOL_ARGUMENTS_MAX 10u /* arguments of one form, or parts of one argument */

struct protocol_form {
    const struct protocol_argument *arguments; /* arguments without a token come first */
    uint32_t count;
};

/* Rows: id, first word, second word ("" if none). In order of first words, so that those with a
 * common one stand together; dispatch goes by the first letter. */
enum protocol_id {
    PROTOCOL_ACK,
    PROTOCOL_ACTIVATE,
    PROTOCOL_ALLOC,
    PROTOCOL_AUTH,
    PROTOCOL_BACKUP_BEGIN,
    PROTOCOL_BACKUP_END,
    PROTOCOL_BACKUP_READ,
    PROTOCOL_CLIENT_GETNAME,
    PROTOCOL_CLIENT_ID,
    PROTOCOL_CLIENT_KILL,
    PROTOCOL_CLIENT_LIST,
    PROTOCOL_CLIENT_SETINFO,
    PROTOCOL_CLIENT_SETNAME,
    PROTOCOL_COMMAND,
    PROTOCOL_COMMAND_COUNT,
    PROTOCOL_COMMAND_DOCS,
    PROTOCOL_COMMAND_INFO,
    PROTOCOL_COMMAND_LIST,
    PROTOCOL_CONFIG_GET,
    PROTOCOL_DISOWN,
    PROTOCOL_ECHO,
    PROTOCOL_EMIT,
    PROTOCOL_EVENTS,
    PROTOCOL_HELLO,
    PROTOCOL_IMPORT,
    PROTOCOL_INFO,
    PROTOCOL_LEASE,
    PROTOCOL_LEASES,
    PROTOCOL_NODE_CLOSE,
    PROTOCOL_NODE_FORGET,
    PROTOCOL_NODE_LIST,
    PROTOCOL_NODE_STEP_DOWN,
    PROTOCOL_PING,
    PROTOCOL_POOL_ADD,
    PROTOCOL_POOL_ALTER,
    PROTOCOL_POOL_CREATE,
    PROTOCOL_POOL_DROP,
    PROTOCOL_POOL_HISTORY,
    PROTOCOL_POOL_INFO,
    PROTOCOL_POOL_LIST,
    PROTOCOL_POOL_METRICS,
    PROTOCOL_POOL_REMOVE,
    PROTOCOL_POOL_SEED,
    PROTOCOL_POOL_VALUES,
    PROTOCOL_PSUBSCRIBE,
    PROTOCOL_PUNSUBSCRIBE,
    PROTOCOL_QUIT,
    PROTOCOL_READONLY,
    PROTOCOL_READWRITE,
    PROTOCOL_RECLAIM,
    PROTOCOL_REKEY,
    PROTOCOL_RELEASE,
    PROTOCOL_RESERVE,
    PROTOCOL_RESET,
    PROTOCOL_REVOKE,
    PROTOCOL_ROLE,
    PROTOCOL_RULE_DELETE,
    PROTOCOL_RULE_DISABLE,
    PROTOCOL_RULE_ENABLE,
    PROTOCOL_RULE_INFO,
    PROTOCOL_RULE_LIST,
    PROTOCOL_RULE_SET,
    PROTOCOL_SELECT,
    PROTOCOL_SENSOR_DELETE,
    PROTOCOL_SENSOR_DISABLE,
    PROTOCOL_SENSOR_ENABLE,
    PROTOCOL_SENSOR_HEARTBEAT,
    PROTOCOL_SENSOR_INFO,
    PROTOCOL_SENSOR_LIST,
    PROTOCOL_SENSOR_LOGS,
    PROTOCOL_SENSOR_RESET,
    PROTOCOL_SENSOR_RESTART,
    PROTOCOL_SENSOR_RULES,
    PROTOCOL_SENSOR_SET,
    PROTOCOL_SENSOR_STATUS,
    PROTOCOL_SENTINEL_CKQUORUM,
    PROTOCOL_SENTINEL_GET_MASTER_ADDR,
    PROTOCOL_SENTINEL_MASTER,
    PROTOCOL_SENTINEL_MASTERS,
    PROTOCOL_SENTINEL_REPLICAS,
    PROTOCOL_SENTINEL_SENTINELS,
    PROTOCOL_SENTINEL_SLAVES,
    PROTOCOL_SNAPSHOT,
    PROTOCOL_SUBSCRIBE,
    PROTOCOL_SWEEP,
    PROTOCOL_TICK,
    PROTOCOL_TIME,
    PROTOCOL_TOKEN_INTROSPECT,
    PROTOCOL_TOKEN_ISSUE,
    PROTOCOL_TOKEN_KEYS,
    PROTOCOL_TOKEN_REFRESH,
    PROTOCOL_TOKEN_REVOKE,
    PROTOCOL_TOKEN_ROTATE,
    PROTOCOL_TOKEN_SENSOR,
    PROTOCOL_TOUCH,
    PROTOCOL_UNSUBSCRIBE,
    PROTOCOL_USER_ADD,
    PROTOCOL_USER_DELETE,
    PROTOCOL_USER_LIST,
    PROTOCOL_USER_SET,
    PROTOCOL_VALUE,
    PROTOCOL_VERIFY,
    PROTOCOL_WHOAMI,
    PROTOCOL_COMMANDS, /* how many there are */
};

struct protocol_command {
    const char *word; /* upper case */
    const char *sub;  /* "" if one word is the whole name */
    uint8_t word_len, sub_len;
    uint8_t kind;    /* enum protocol_kind */
    uint8_t role;    /* enum protocol_role */
    uint8_t verb;    /* enum kernel_verb: what a write is logged as */
    uint8_t id;      /* its own index */
    uint8_t subject; /* enum protocol_subject */
    uint32_t traits; /* of enum protocol_trait */
    struct protocol_form form;
    struct protocol_form other; /* another spelling of the command; count 0: none */
    const char *summary;
    const char *since;
    const char *method; /* of HTTP; NULL: the command has no route */
    const char *path;
    const char *also_method; /* a second route, for the other form if there is one; NULL: none */
    const char *also_path;
    struct protocol_form also_form; /* the names of fields on that route; count 0: the same */
    const char *number; /* of a write: the field with how many it were, as "freed"; NULL: none */
    const char *reply;  /* the schema in openapi_parts.h of a success over HTTP; NULL: no route */
    const char *example;
};

extern const struct protocol_command protocol_table[PROTOCOL_COMMANDS];

static inline bool protocol_command_has(const struct protocol_command *row,
                                        enum protocol_trait trait) {
    return (row->traits & (uint32_t)trait) != 0;
}

/* The fields of the row's first route, or of the second (`also`). */
const struct protocol_form *protocol_command_form(const struct protocol_command *row, bool also);

/* The command that argv names. NULL: none; then *ret_container says whether the first word is
 * valid, that is, whether the second one is wrong. A command of one word is found by its first
 * word. */
const struct protocol_command *protocol_command_find(const struct tn_bytes *argv, uint32_t argc,
                                                     bool *ret_container);

/* Whether a command with this first word has the trait. */
bool protocol_family_has(struct tn_bytes word, enum protocol_trait trait);

/* As in Redis: the number of words and arguments; negative: the minimum. */
int32_t protocol_command_arity(const struct protocol_command *command);

/* "POOL CREATE" or "pool|create", NUL-terminated; PROTOCOL_NAME_MAX bytes are enough. */
#define PROTOCOL_NAME_MAX 40u
void protocol_command_name(const struct protocol_command *command, char out[PROTOCOL_NAME_MAX]);
void protocol_command_full_name(const struct protocol_command *command,
                                char out[PROTOCOL_NAME_MAX]);

/* The usage of a command, such as "ALLOC pool holder [TTL seconds]". False if it does not fit. */
bool protocol_usage_write(const struct protocol_command *command, const struct protocol_form *form,
                          char *out, size_t capacity);

const char *protocol_role_name(enum protocol_role role);
/* NOBODY: there is no such role for a user. */
enum protocol_role protocol_role_parse(struct tn_bytes word);
const char *protocol_type_name(enum protocol_type type);

bool protocol_word_is(struct tn_bytes argument, const char *upper, size_t len);
/* Whether the word is a token that may follow a list of names or options: none of them can be it.
 * */
bool protocol_word_ends_list(struct tn_bytes word);

#endif
