/* The one table of commands, and how it is searched and shown. Rows are in the order of enum
 * protocol_id; the arrays above them are the arguments, and those that several commands share have
 * one array. */
#include "protocol/table.h"

#include "base/assert.h"

/* ---- Arguments ---- */

#define STRING(text, to) \
    { .name = (text), .type = PROTOCOL_T_STRING, .bind = (to) }
#define INTEGER(text, to) \
    { .name = (text), .type = PROTOCOL_T_INTEGER, .bind = (to) }
#define OPTION(word, text, kind, to) \
    { .name = (text), .token = (word), .type = (kind), .bind = (to), .optional = true }
#define FLAG(word, text, to) OPTION(word, text, PROTOCOL_T_TOKEN, to)
#define NEEDED(word, text, kind, to) \
    { .name = (text), .token = (word), .type = (kind), .bind = (to) }
#define PARTS(array) .parts = (array), .part_count = sizeof(array) / sizeof((array)[0])
#define FORM(array) \
    { .arguments = (array), .count = sizeof(array) / sizeof((array)[0]) }

#define OPID OPTION("OPID", "id", PROTOCOL_T_STRING, PROTOCOL_B_OPID)
#define FENCE OPTION("FENCE", "lsn", PROTOCOL_T_INTEGER, PROTOCOL_B_FENCE)
#define TTL OPTION("TTL", "duration", PROTOCOL_T_DURATION, PROTOCOL_B_TTL)
#define META OPTION("META", "json", PROTOCOL_T_STRING, PROTOCOL_B_META)
#define IN_POOL OPTION("POOL", "pool", PROTOCOL_T_STRING, PROTOCOL_B_POOL)
#define CURSOR OPTION("CURSOR", "cursor", PROTOCOL_T_INTEGER, PROTOCOL_B_CURSOR)
#define COUNT OPTION("COUNT", "n", PROTOCOL_T_INTEGER, PROTOCOL_B_COUNT)
#define LEASE STRING("lease", PROTOCOL_B_LEASE)
#define EPOCH INTEGER("epoch", PROTOCOL_B_EPOCH)
#define HOLDER STRING("holder", PROTOCOL_B_HOLDER)
#define POOL STRING("pool", PROTOCOL_B_POOL)

static const struct protocol_argument listed[] = {
    NEEDED("VALUES", "n", PROTOCOL_T_INTEGER, PROTOCOL_B_NONE),
    {.name = "value", .type = PROTOCOL_T_STRING, .multiple = true}};
static const struct protocol_argument amount[] = {
    NEEDED("COUNT", "n", PROTOCOL_T_INTEGER, PROTOCOL_B_NONE),
    {.name = "values", .type = PROTOCOL_T_BLOCK, PARTS(listed)}};
static const struct protocol_argument from[] = {
    STRING("pool", PROTOCOL_B_NONE), {.name = "amount", .type = PROTOCOL_T_ONEOF, PARTS(amount)}};
#define AMOUNT                                                                                \
    {                                                                                         \
        .name = "amount", .type = PROTOCOL_T_ONEOF, PARTS(amount), .bind = PROTOCOL_B_AMOUNT, \
        .optional = true                                                                      \
    }
#define CLAIMS                                                                   \
    {                                                                            \
        .name = "claim", .token = "FROM", .type = PROTOCOL_T_BLOCK, PARTS(from), \
        .bind = PROTOCOL_B_CLAIM, .multiple = true                               \
    }

static const struct protocol_argument range[] = {
    NEEDED("RANGE", "lo", PROTOCOL_T_STRING, PROTOCOL_B_NONE), STRING("hi", PROTOCOL_B_NONE)};
static const struct protocol_argument shape[] = {
    {.name = "range", .type = PROTOCOL_T_BLOCK, PARTS(range), .multiple = true},
    NEEDED("SET", "set", PROTOCOL_T_TOKEN, PROTOCOL_B_NONE)};
static const struct protocol_argument setting[] = {STRING("option", PROTOCOL_B_NONE),
                                                   STRING("value", PROTOCOL_B_NONE)};
static const struct protocol_argument option_parts[] = {
    {.name = "kind", .type = PROTOCOL_T_ONEOF, PARTS(shape), .optional = true},
    {.name = "setting",
     .type = PROTOCOL_T_BLOCK,
     PARTS(setting),
     .optional = true,
     .multiple = true}};
#define OPTIONS                                                           \
    {                                                                     \
        .name = "options", .type = PROTOCOL_T_BLOCK, PARTS(option_parts), \
        .bind = PROTOCOL_B_OPTIONS, .optional = true                      \
    }
#define VALUES \
    { .name = "name", .type = PROTOCOL_T_STRING, .bind = PROTOCOL_B_VALUES, .multiple = true }

static const struct protocol_argument token_args[] = {LEASE, HOLDER, EPOCH, OPID};
static const struct protocol_argument alloc_one[] = {
    STRING("pool", PROTOCOL_B_FROM), HOLDER, AMOUNT, TTL, META, OPID};
static const struct protocol_argument alloc_bundle[] = {HOLDER, CLAIMS, TTL, META, OPID};
static const struct protocol_argument import_args[] = {
    STRING("pool", PROTOCOL_B_FROM),
    HOLDER,
    {.name = "values", .type = PROTOCOL_T_BLOCK, PARTS(listed), .bind = PROTOCOL_B_AMOUNT},
    OPTION("DEADLINE", "ms", PROTOCOL_T_INTEGER, PROTOCOL_B_DEADLINE),
    OPTION("CREATED", "ms", PROTOCOL_T_INTEGER, PROTOCOL_B_CREATED),
    OPTION("SEEN", "ms", PROTOCOL_T_INTEGER, PROTOCOL_B_SEEN),
    OPTION("OFFLINE", "ms", PROTOCOL_T_INTEGER, PROTOCOL_B_OFFLINE),
    META,
    OPID};
static const struct protocol_argument seed_args[] = {
    POOL, OPTION("GIVEN", "n", PROTOCOL_T_INTEGER, PROTOCOL_B_GIVEN),
    OPTION("RECLAIMED", "n", PROTOCOL_T_INTEGER, PROTOCOL_B_RECLAIMED), OPID};
static const struct protocol_argument reserve_args[] = {
    HOLDER, NEEDED("TTL", "duration", PROTOCOL_T_DURATION, PROTOCOL_B_TTL), CLAIMS, META, OPID};
static const struct protocol_argument touch_args[] = {LEASE, EPOCH, TTL, META, OPID};
static const struct protocol_argument release_args[] = {LEASE, HOLDER, EPOCH,
                                                        FLAG("NOW", "now", PROTOCOL_B_NOW), OPID};
static const struct protocol_argument revoke_args[] = {
    LEASE, OPTION("AFTER", "duration", PROTOCOL_T_DURATION, PROTOCOL_B_AFTER), OPID};
static const struct protocol_argument lease_write[] = {LEASE, OPID};
static const struct protocol_argument rekey_args[] = {LEASE, EPOCH, HOLDER, OPID};
static const struct protocol_argument disown_args[] = {HOLDER, IN_POOL, OPID};
static const struct protocol_argument sweep_args[] = {IN_POOL, OPID};
static const struct protocol_argument opid_only[] = {OPID};
static const struct protocol_argument pool_options[] = {POOL, OPTIONS, OPID};
static const struct protocol_argument pool_write[] = {POOL, OPID};
static const struct protocol_argument pool_values[] = {POOL, VALUES, OPID};
static const struct protocol_argument pool_read[] = {POOL, FENCE};
static const struct protocol_argument page_args[] = {CURSOR, COUNT, FENCE};
static const struct protocol_argument verify_args[] = {LEASE, EPOCH, FENCE};
static const struct protocol_argument lease_read[] = {STRING("lease|pool/value", PROTOCOL_B_TARGET),
                                                      FENCE};
static const struct protocol_argument leases_args[] = {
    IN_POOL,
    OPTION("HOLDER", "holder", PROTOCOL_T_STRING, PROTOCOL_B_HOLDER),
    OPTION("STATE", "state", PROTOCOL_T_STRING, PROTOCOL_B_STATE),
    CURSOR,
    COUNT,
    FENCE};
static const struct protocol_argument events_args[] = {
    OPTION("AFTER", "event", PROTOCOL_T_STRING, PROTOCOL_B_EVENT), COUNT, IN_POOL,
    OPTION("HOLDER", "holder", PROTOCOL_T_STRING, PROTOCOL_B_HOLDER), FENCE};
static const struct protocol_argument channels_args[] = {
    {.name = "channel", .type = PROTOCOL_T_STRING, .multiple = true}};
static const struct protocol_argument any_channels_args[] = {
    {.name = "channel", .type = PROTOCOL_T_STRING, .optional = true, .multiple = true}};
static const struct protocol_argument any_patterns_args[] = {
    {.name = "pattern", .type = PROTOCOL_T_STRING, .optional = true, .multiple = true}};
static const struct protocol_argument rule_set[] = {
    STRING("id", PROTOCOL_B_NAME), STRING("trigger", PROTOCOL_B_TRIGGER),
    FLAG("DISABLED", "disabled", PROTOCOL_B_DISABLED), OPID};
static const struct protocol_argument rule_write[] = {STRING("id", PROTOCOL_B_NAME), OPID};
static const struct protocol_argument sensor_set[] = {
    STRING("ref", PROTOCOL_B_NAME), STRING("trigger", PROTOCOL_B_TRIGGER),
    STRING("spec", PROTOCOL_B_SPEC), FLAG("DISABLED", "disabled", PROTOCOL_B_DISABLED), OPID};
static const struct protocol_argument sensor_write[] = {STRING("ref", PROTOCOL_B_NAME), OPID};
static const struct protocol_argument sensor_read[] = {STRING("ref", PROTOCOL_B_NAME), FENCE};
static const struct protocol_argument sensor_job[] = {STRING("ref", PROTOCOL_B_NAME)};
static const struct protocol_argument sensor_logs[] = {
    STRING("ref", PROTOCOL_B_NAME),
    OPTION("AFTER", "position", PROTOCOL_T_STRING, PROTOCOL_B_POSITION),
    OPTION("COUNT", "bytes", PROTOCOL_T_INTEGER, PROTOCOL_B_BYTES), FENCE};
static const struct protocol_argument heartbeat_args[] = {STRING("token", PROTOCOL_B_BEARER),
                                                          FENCE};
#define SCOPE OPTION("SCOPE", "scope", PROTOCOL_T_STRING, PROTOCOL_B_SCOPE)
#define REFRESH OPTION("REFRESH", "duration", PROTOCOL_T_DURATION, PROTOCOL_B_REFRESH)
static const struct protocol_argument token_introspect_args[] = {STRING("token", PROTOCOL_B_TOKEN),
                                                                 FENCE};
static const struct protocol_argument token_issue_args[] = {LEASE,   EPOCH, TTL,
                                                            REFRESH, SCOPE, FENCE};
static const struct protocol_argument token_keys_args[] = {FENCE};
static const struct protocol_argument token_refresh_args[] = {STRING("token", PROTOCOL_B_TOKEN),
                                                              TTL, FENCE};
static const struct protocol_argument token_revoke_args[] = {
    STRING("id", PROTOCOL_B_TOKEN_ID),
    OPTION("AFTER", "duration", PROTOCOL_T_DURATION, PROTOCOL_B_AFTER), OPID};
static const struct protocol_argument token_rotate_args[] = {FLAG("NOW", "now", PROTOCOL_B_NOW)};
static const struct protocol_argument token_sensor_args[] = {STRING("ref", PROTOCOL_B_NAME), TTL,
                                                             REFRESH, SCOPE, FENCE};
static const struct protocol_argument emit_args[] = {
    STRING("token", PROTOCOL_B_BEARER), STRING("trigger_type", PROTOCOL_B_TRIGGER),
    OPTION("PAYLOAD", "json", PROTOCOL_T_STRING, PROTOCOL_B_PAYLOAD), OPID};
/* As sensors of Attune post it. */
static const struct protocol_argument emit_api_args[] = {
    STRING("token", PROTOCOL_B_BEARER),
    STRING("trigger_ref", PROTOCOL_B_TRIGGER),
    OPTION("PAYLOAD", "json", PROTOCOL_T_STRING, PROTOCOL_B_PAYLOAD),
    {.name = "trigger_instance_id",
     .type = PROTOCOL_T_STRING,
     .bind = PROTOCOL_B_UNUSED,
     .optional = true},
    OPID};
static const struct protocol_argument auth_args[] = {
    {.name = "username", .type = PROTOCOL_T_STRING, .optional = true},
    STRING("password", PROTOCOL_B_NONE)};
static const struct protocol_argument text_arg[] = {STRING("message", PROTOCOL_B_NONE)};
static const struct protocol_argument ping_args[] = {
    {.name = "message", .type = PROTOCOL_T_STRING, .optional = true}};
static const struct protocol_argument name_arg[] = {STRING("name", PROTOCOL_B_NONE)};
static const struct protocol_argument index_arg[] = {INTEGER("index", PROTOCOL_B_NONE)};
static const struct protocol_argument setinfo_args[] = {STRING("attribute", PROTOCOL_B_NONE),
                                                        STRING("value", PROTOCOL_B_NONE)};
static const struct protocol_argument kill_args[] = {
    STRING("address|ID", PROTOCOL_B_NONE),
    {.name = "id", .type = PROTOCOL_T_INTEGER, .optional = true}};
static const struct protocol_argument names_args[] = {
    {.name = "command", .type = PROTOCOL_T_STRING, .optional = true, .multiple = true}};
static const struct protocol_argument patterns_args[] = {
    {.name = "pattern", .type = PROTOCOL_T_STRING, .multiple = true}};
static const struct protocol_argument section_args[] = {
    {.name = "section", .type = PROTOCOL_T_STRING, .optional = true, .multiple = true}};
static const struct protocol_argument hello_args[] = {
    {.name = "protover", .type = PROTOCOL_T_INTEGER, .optional = true},
    {.name = "setting", .type = PROTOCOL_T_STRING, .optional = true, .multiple = true}};

/* ---- Commands ---- */

#define NAME(first, second)                                          \
    .word = (first), .sub = (second), .word_len = sizeof(first) - 1, \
    .sub_len = sizeof(second) - 1, .since = "0.1.0"

const struct protocol_command protocol_table[PROTOCOL_COMMANDS] = {
    [PROTOCOL_ACK] =
        {NAME("ACK", ""), .id = PROTOCOL_ACK, .kind = PROTOCOL_WRITE, .role = PROTOCOL_HOLDER,
         .verb = KERNEL_VERB_ACK, .form = FORM(token_args),
         .summary =
             "The holder of a revoked lease states that it has stopped; the epoch is the one it had",
         .method = "POST", .path = "/v1/leases/{lease}/ack", .example = "ACK 0-1042 job/42 1"},
    [PROTOCOL_ACTIVATE] = {NAME("ACTIVATE", ""), .id = PROTOCOL_ACTIVATE, .kind = PROTOCOL_WRITE,
                           .role = PROTOCOL_HOLDER, .verb = KERNEL_VERB_ACTIVATE,
                           .form = FORM(token_args), .summary = "Makes a reserved lease active",
                           .method = "POST", .path = "/v1/leases/{lease}/activate",
                           .example = "ACTIVATE 0-1042 job/42 1"},
    [PROTOCOL_ALLOC] =
        {NAME("ALLOC", ""), .id = PROTOCOL_ALLOC, .kind = PROTOCOL_WRITE, .role = PROTOCOL_HOLDER,
         .verb = KERNEL_VERB_ALLOC, .form = FORM(alloc_one), .other = FORM(alloc_bundle),
         .summary =
             "Leases values of one pool, or of several at once, to a holder; * derives the holder from the metadata",
         .method = "POST", .path = "/v1/pools/{pool}/leases", .also_method = "POST",
         .also_path = "/v1/leases", .example = "ALLOC ports job/42 COUNT 2 TTL 60"},
    [PROTOCOL_AUTH] = {NAME("AUTH", ""), .id = PROTOCOL_AUTH, .kind = PROTOCOL_CONNECTION,
                       .role = PROTOCOL_NOBODY, .form = FORM(auth_args),
                       .summary = "Authenticates the connection; no password is set",
                       .example = "AUTH secret"},
    [PROTOCOL_CLIENT_GETNAME] = {NAME("CLIENT", "GETNAME"), .id = PROTOCOL_CLIENT_GETNAME,
                                 .kind = PROTOCOL_CONNECTION, .role = PROTOCOL_READER,
                                 .summary = "The name of the connection",
                                 .example = "CLIENT GETNAME"},
    [PROTOCOL_CLIENT_ID] = {NAME("CLIENT", "ID"), .id = PROTOCOL_CLIENT_ID,
                            .kind = PROTOCOL_CONNECTION, .role = PROTOCOL_READER,
                            .summary = "The number of the connection", .example = "CLIENT ID"},
    [PROTOCOL_CLIENT_KILL] = {NAME("CLIENT", "KILL"), .id = PROTOCOL_CLIENT_KILL,
                              .kind = PROTOCOL_CONNECTION, .role = PROTOCOL_ADMIN,
                              .form = FORM(kill_args),
                              .summary = "Closes a connection, by its address or its number",
                              .example = "CLIENT KILL ID 7"},
    [PROTOCOL_CLIENT_LIST] = {NAME("CLIENT", "LIST"), .id = PROTOCOL_CLIENT_LIST,
                              .kind = PROTOCOL_CONNECTION, .role = PROTOCOL_ADMIN,
                              .summary = "All connections, a line each", .example = "CLIENT LIST"},
    [PROTOCOL_CLIENT_SETINFO] = {NAME("CLIENT", "SETINFO"), .id = PROTOCOL_CLIENT_SETINFO,
                                 .kind = PROTOCOL_CONNECTION, .role = PROTOCOL_READER,
                                 .form = FORM(setinfo_args),
                                 .summary = "Says what library the client is (LIB-NAME, LIB-VER)",
                                 .example = "CLIENT SETINFO LIB-NAME mine"},
    [PROTOCOL_CLIENT_SETNAME] = {NAME("CLIENT", "SETNAME"), .id = PROTOCOL_CLIENT_SETNAME,
                                 .kind = PROTOCOL_CONNECTION, .role = PROTOCOL_READER,
                                 .form = FORM(name_arg), .summary = "Names the connection",
                                 .example = "CLIENT SETNAME worker-1"},
    [PROTOCOL_COMMAND] = {NAME("COMMAND", ""), .id = PROTOCOL_COMMAND, .kind = PROTOCOL_CONNECTION,
                          .role = PROTOCOL_READER, .summary = "Describes all commands",
                          .example = "COMMAND"},
    [PROTOCOL_COMMAND_COUNT] = {NAME("COMMAND", "COUNT"), .id = PROTOCOL_COMMAND_COUNT,
                                .kind = PROTOCOL_CONNECTION, .role = PROTOCOL_READER,
                                .summary = "How many commands there are",
                                .example = "COMMAND COUNT"},
    [PROTOCOL_COMMAND_DOCS] = {NAME("COMMAND", "DOCS"), .id = PROTOCOL_COMMAND_DOCS,
                               .kind = PROTOCOL_CONNECTION, .role = PROTOCOL_READER,
                               .form = FORM(names_args),
                               .summary = "Documentation of some or all commands",
                               .example = "COMMAND DOCS ALLOC"},
    [PROTOCOL_COMMAND_INFO] = {NAME("COMMAND", "INFO"), .id = PROTOCOL_COMMAND_INFO,
                               .kind = PROTOCOL_CONNECTION, .role = PROTOCOL_READER,
                               .form = FORM(names_args),
                               .summary = "Arity and flags of some or all commands",
                               .example = "COMMAND INFO ALLOC"},
    [PROTOCOL_COMMAND_LIST] = {NAME("COMMAND", "LIST"), .id = PROTOCOL_COMMAND_LIST,
                               .kind = PROTOCOL_CONNECTION, .role = PROTOCOL_READER,
                               .summary = "The names of all commands", .example = "COMMAND LIST"},
    [PROTOCOL_CONFIG_GET] = {NAME("CONFIG", "GET"), .id = PROTOCOL_CONFIG_GET,
                             .kind = PROTOCOL_CONNECTION, .role = PROTOCOL_READER,
                             .form = FORM(patterns_args),
                             .summary = "Settings that clients of Redis ask for",
                             .example = "CONFIG GET save"},
    [PROTOCOL_DISOWN] = {NAME("DISOWN", ""), .id = PROTOCOL_DISOWN, .kind = PROTOCOL_WRITE,
                         .role = PROTOCOL_OPERATOR, .verb = KERNEL_VERB_DISOWN,
                         .form = FORM(disown_args),
                         .summary = "Releases everything a holder has, in bounded steps",
                         .method = "POST", .path = "/v1/holders/{holder}/disown",
                         .example = "DISOWN job/42 POOL ports"},
    [PROTOCOL_ECHO] = {NAME("ECHO", ""), .id = PROTOCOL_ECHO, .kind = PROTOCOL_CONNECTION,
                       .role = PROTOCOL_READER, .form = FORM(text_arg), .summary = "Says it back",
                       .example = "ECHO hello"},
    [PROTOCOL_EMIT] =
        {NAME("EMIT", ""), .id = PROTOCOL_EMIT, .kind = PROTOCOL_WRITE, .role = PROTOCOL_NOBODY,
         .verb = KERNEL_VERB_EMIT, .form = FORM(emit_args),
         .summary =
             "An event of a running sensor, by its token and for a trigger type that the token has",
         .method = "POST", .path = "/v1/events/emit", .also_method = "POST",
         .also_path = "/api/v1/events", .also_form = FORM(emit_api_args),
         .example = "EMIT eyJ.eyJ.sig core.tick PAYLOAD {\"n\":1}"},
    [PROTOCOL_EVENTS] = {NAME("EVENTS", ""), .id = PROTOCOL_EVENTS, .kind = PROTOCOL_READ,
                         .role = PROTOCOL_READER, .form = FORM(events_args),
                         .summary = "What happened, oldest first, a page at a time",
                         .method = "GET", .path = "/v1/events",
                         .example = "EVENTS AFTER 1042.0 COUNT 10 POOL ports"},
    [PROTOCOL_HELLO] = {NAME("HELLO", ""), .id = PROTOCOL_HELLO, .kind = PROTOCOL_CONNECTION,
                        .role = PROTOCOL_NOBODY, .form = FORM(hello_args),
                        .summary = "Chooses the protocol, 2 or 3, and tells who is speaking",
                        .example = "HELLO 3"},
    [PROTOCOL_IMPORT] =
        {NAME("IMPORT", ""), .id = PROTOCOL_IMPORT, .kind = PROTOCOL_WRITE,
         .role = PROTOCOL_OPERATOR, .verb = KERNEL_VERB_IMPORT, .form = FORM(import_args),
         .summary =
             "Takes over a lease that was granted elsewhere, with its own times; what is there already is left alone",
         .method = "POST", .path = "/v1/pools/{pool}/imports",
         .example = "IMPORT ports job/7 VALUES 1 30007 CREATED 1700000000000"},
    [PROTOCOL_INFO] = {NAME("INFO", ""), .id = PROTOCOL_INFO, .kind = PROTOCOL_CONNECTION,
                       .role = PROTOCOL_READER, .form = FORM(section_args),
                       .summary = "The server in figures", .example = "INFO server"},
    [PROTOCOL_LEASE] = {NAME("LEASE", ""), .id = PROTOCOL_LEASE, .kind = PROTOCOL_READ,
                        .role = PROTOCOL_READER, .form = FORM(lease_read),
                        .summary = "A lease, by its id or by a value that it holds",
                        .method = "GET", .path = "/v1/leases/{lease}", .also_method = "GET",
                        .also_path = "/v1/pools/{pool}/values/{value}/lease",
                        .example = "LEASE ports/30000"},
    [PROTOCOL_LEASES] = {NAME("LEASES", ""), .id = PROTOCOL_LEASES, .kind = PROTOCOL_READ,
                         .role = PROTOCOL_READER, .form = FORM(leases_args),
                         .summary = "Leases, a page at a time", .method = "GET",
                         .path = "/v1/leases",
                         .example = "LEASES POOL ports STATE active COUNT 10"},
    [PROTOCOL_PING] = {NAME("PING", ""), .id = PROTOCOL_PING, .kind = PROTOCOL_CONNECTION,
                       .role = PROTOCOL_READER, .form = FORM(ping_args), .summary = "PONG",
                       .example = "PING"},
    [PROTOCOL_POOL_ADD] = {NAME("POOL", "ADD"), .id = PROTOCOL_POOL_ADD, .kind = PROTOCOL_WRITE,
                           .role = PROTOCOL_OPERATOR, .verb = KERNEL_VERB_POOL_ADD,
                           .form = FORM(pool_values), .summary = "Adds named resources to a set",
                           .method = "POST", .path = "/v1/pools/{pool}/resources",
                           .example = "POOL ADD gpus gpu-1 gpu-2"},
    [PROTOCOL_POOL_ALTER] = {NAME("POOL", "ALTER"), .id = PROTOCOL_POOL_ALTER,
                             .kind = PROTOCOL_WRITE, .role = PROTOCOL_OPERATOR,
                             .verb = KERNEL_VERB_POOL_ALTER, .form = FORM(pool_options),
                             .summary =
                                 "Changes options of a pool, for what is granted from then on",
                             .method = "PATCH", .path = "/v1/pools/{pool}",
                             .example = "POOL ALTER ports LEASE 120"},
    [PROTOCOL_POOL_CREATE] =
        {NAME("POOL", "CREATE"), .id = PROTOCOL_POOL_CREATE, .kind = PROTOCOL_WRITE,
         .role = PROTOCOL_OPERATOR, .verb = KERNEL_VERB_POOL_CREATE, .form = FORM(pool_options),
         .summary = "Makes a pool: a range of numbers or a set of names, with a policy",
         .method = "PUT", .path = "/v1/pools/{pool}",
         .example = "POOL CREATE ports RANGE 30000 30009 LEASE 60"},
    [PROTOCOL_POOL_DROP] = {NAME("POOL", "DROP"), .id = PROTOCOL_POOL_DROP, .kind = PROTOCOL_WRITE,
                            .role = PROTOCOL_OPERATOR, .verb = KERNEL_VERB_POOL_DROP,
                            .form = FORM(pool_write),
                            .summary = "Removes a pool that nothing is held in", .method = "DELETE",
                            .path = "/v1/pools/{pool}", .example = "POOL DROP ports"},
    [PROTOCOL_POOL_INFO] = {NAME("POOL", "INFO"), .id = PROTOCOL_POOL_INFO, .kind = PROTOCOL_READ,
                            .role = PROTOCOL_READER, .form = FORM(pool_read),
                            .summary = "A pool: options, figures, what is free", .method = "GET",
                            .path = "/v1/pools/{pool}", .example = "POOL INFO ports"},
    [PROTOCOL_POOL_LIST] = {NAME("POOL", "LIST"), .id = PROTOCOL_POOL_LIST, .kind = PROTOCOL_READ,
                            .role = PROTOCOL_READER, .form = FORM(page_args),
                            .summary = "Pools, a page at a time", .method = "GET",
                            .path = "/v1/pools", .example = "POOL LIST COUNT 100"},
    [PROTOCOL_POOL_METRICS] = {NAME("POOL", "METRICS"), .id = PROTOCOL_POOL_METRICS,
                               .kind = PROTOCOL_READ, .role = PROTOCOL_READER,
                               .form = FORM(pool_read),
                               .summary = "Rate and lease of a sticky pool", .method = "GET",
                               .path = "/v1/pools/{pool}/metrics",
                               .example = "POOL METRICS devices"},
    [PROTOCOL_POOL_REMOVE] = {NAME("POOL", "REMOVE"), .id = PROTOCOL_POOL_REMOVE,
                              .kind = PROTOCOL_WRITE, .role = PROTOCOL_OPERATOR,
                              .verb = KERNEL_VERB_POOL_REMOVE, .form = FORM(pool_values),
                              .summary = "Removes named resources that are not held from a set",
                              .method = "DELETE", .path = "/v1/pools/{pool}/resources",
                              .example = "POOL REMOVE gpus gpu-2"},
    [PROTOCOL_POOL_SEED] =
        {NAME("POOL", "SEED"), .id = PROTOCOL_POOL_SEED, .kind = PROTOCOL_WRITE,
         .role = PROTOCOL_OPERATOR, .verb = KERNEL_VERB_POOL_SEED, .form = FORM(seed_args),
         .summary =
             "Tells a pool of its past elsewhere: how many of its values were once given, how many leases reclaimed",
         .method = "POST", .path = "/v1/pools/{pool}/seed",
         .example = "POOL SEED ports GIVEN 8 RECLAIMED 3"},
    [PROTOCOL_PSUBSCRIBE] = {NAME("PSUBSCRIBE", ""), .id = PROTOCOL_PSUBSCRIBE,
                             .kind = PROTOCOL_CONNECTION, .role = PROTOCOL_READER,
                             .form = FORM(patterns_args),
                             .summary = "Follows all channels that match a pattern",
                             .example = "PSUBSCRIBE pool:*"},
    [PROTOCOL_PUNSUBSCRIBE] = {NAME("PUNSUBSCRIBE", ""), .id = PROTOCOL_PUNSUBSCRIBE,
                               .kind = PROTOCOL_CONNECTION, .role = PROTOCOL_READER,
                               .form = FORM(any_patterns_args),
                               .summary = "Ends what PSUBSCRIBE began, for some or all patterns",
                               .example = "PUNSUBSCRIBE pool:*"},
    [PROTOCOL_QUIT] = {NAME("QUIT", ""), .id = PROTOCOL_QUIT, .kind = PROTOCOL_CONNECTION,
                       .role = PROTOCOL_NOBODY, .summary = "Closes the connection",
                       .example = "QUIT"},
    [PROTOCOL_READONLY] = {NAME("READONLY", ""), .id = PROTOCOL_READONLY,
                           .kind = PROTOCOL_CONNECTION, .role = PROTOCOL_READER,
                           .summary = "Accepted and without effect: every connection may read",
                           .example = "READONLY"},
    [PROTOCOL_RECLAIM] = {NAME("RECLAIM", ""), .id = PROTOCOL_RECLAIM, .kind = PROTOCOL_WRITE,
                          .role = PROTOCOL_OPERATOR, .verb = KERNEL_VERB_RECLAIM,
                          .form = FORM(lease_write),
                          .summary =
                              "Ends a revoked lease; the caller knows that the holder is gone",
                          .method = "POST", .path = "/v1/leases/{lease}/reclaim",
                          .example = "RECLAIM 0-1042"},
    [PROTOCOL_REKEY] = {NAME("REKEY", ""), .id = PROTOCOL_REKEY, .kind = PROTOCOL_WRITE,
                        .role = PROTOCOL_OPERATOR, .verb = KERNEL_VERB_REKEY,
                        .form = FORM(rekey_args), .summary = "Gives a lease to another holder",
                        .method = "POST", .path = "/v1/leases/{lease}/rekey",
                        .example = "REKEY 0-1042 1 job/43"},
    [PROTOCOL_RELEASE] =
        {NAME("RELEASE", ""), .id = PROTOCOL_RELEASE, .kind = PROTOCOL_WRITE,
         .role = PROTOCOL_HOLDER, .verb = KERNEL_VERB_RELEASE, .form = FORM(release_args),
         .summary = "Gives a lease back; in a sticky pool it is kept for the holder unless NOW",
         .method = "POST", .path = "/v1/leases/{lease}/release", .also_method = "DELETE",
         .also_path = "/v1/leases/{lease}", .example = "RELEASE 0-1042 job/42 1"},
    [PROTOCOL_RESERVE] = {NAME("RESERVE", ""), .id = PROTOCOL_RESERVE, .kind = PROTOCOL_WRITE,
                          .role = PROTOCOL_HOLDER, .verb = KERNEL_VERB_RESERVE,
                          .form = FORM(reserve_args),
                          .summary =
                              "Holds values for a short time without authority, until ACTIVATE",
                          .method = "POST", .path = "/v1/reservations",
                          .example =
                              "RESERVE job/42 TTL 30 FROM ports COUNT 2 FROM gpus VALUES 1 gpu-1"},
    [PROTOCOL_RESET] = {NAME("RESET", ""), .id = PROTOCOL_RESET, .kind = PROTOCOL_CONNECTION,
                        .role = PROTOCOL_NOBODY, .summary = "The connection is as new",
                        .example = "RESET"},
    [PROTOCOL_REVOKE] =
        {NAME("REVOKE", ""), .id = PROTOCOL_REVOKE, .kind = PROTOCOL_WRITE,
         .role = PROTOCOL_OPERATOR, .verb = KERNEL_VERB_REVOKE, .form = FORM(revoke_args),
         .summary =
             "Ends the authority of a lease at once, and frees its values after seconds, or by ACK or RECLAIM",
         .method = "POST", .path = "/v1/leases/{lease}/revoke",
         .example = "REVOKE 0-1042 AFTER 30"},
    [PROTOCOL_RULE_DELETE] = {NAME("RULE", "DELETE"), .id = PROTOCOL_RULE_DELETE,
                              .kind = PROTOCOL_WRITE, .role = PROTOCOL_OPERATOR,
                              .verb = KERNEL_VERB_RULE_DELETE, .form = FORM(rule_write),
                              .summary = "Removes a rule", .method = "DELETE",
                              .path = "/v1/rules/{id}", .example = "RULE DELETE r1"},
    [PROTOCOL_RULE_DISABLE] = {NAME("RULE", "DISABLE"), .id = PROTOCOL_RULE_DISABLE,
                               .kind = PROTOCOL_WRITE, .role = PROTOCOL_OPERATOR,
                               .verb = KERNEL_VERB_RULE_ENABLE, .form = FORM(rule_write),
                               .summary = "A rule no longer counts as demand", .method = "POST",
                               .path = "/v1/rules/{id}/disable", .example = "RULE DISABLE r1"},
    [PROTOCOL_RULE_ENABLE] = {NAME("RULE", "ENABLE"), .id = PROTOCOL_RULE_ENABLE,
                              .kind = PROTOCOL_WRITE, .role = PROTOCOL_OPERATOR,
                              .verb = KERNEL_VERB_RULE_ENABLE, .form = FORM(rule_write),
                              .summary = "A rule counts as demand", .method = "POST",
                              .path = "/v1/rules/{id}/enable", .example = "RULE ENABLE r1"},
    [PROTOCOL_RULE_LIST] = {NAME("RULE", "LIST"), .id = PROTOCOL_RULE_LIST, .kind = PROTOCOL_READ,
                            .role = PROTOCOL_READER, .form = FORM(page_args),
                            .summary = "Rules, a page at a time", .method = "GET",
                            .path = "/v1/rules", .example = "RULE LIST"},
    [PROTOCOL_RULE_SET] = {NAME("RULE", "SET"), .id = PROTOCOL_RULE_SET, .kind = PROTOCOL_WRITE,
                           .role = PROTOCOL_OPERATOR, .verb = KERNEL_VERB_RULE_SET,
                           .form = FORM(rule_set),
                           .summary = "Makes or changes a rule: demand for a trigger",
                           .method = "PUT", .path = "/v1/rules/{id}",
                           .example = "RULE SET r1 core.timer"},
    [PROTOCOL_SELECT] = {NAME("SELECT", ""), .id = PROTOCOL_SELECT, .kind = PROTOCOL_CONNECTION,
                         .role = PROTOCOL_READER, .form = FORM(index_arg),
                         .summary = "Accepts database 0, the only one", .example = "SELECT 0"},
    [PROTOCOL_SENSOR_DELETE] = {NAME("SENSOR", "DELETE"), .id = PROTOCOL_SENSOR_DELETE,
                                .kind = PROTOCOL_WRITE, .role = PROTOCOL_OPERATOR,
                                .verb = KERNEL_VERB_SENSOR_DELETE, .form = FORM(sensor_write),
                                .summary = "Removes a sensor", .method = "DELETE",
                                .path = "/v1/sensors/{ref}", .example = "SENSOR DELETE s1"},
    [PROTOCOL_SENSOR_DISABLE] = {NAME("SENSOR", "DISABLE"), .id = PROTOCOL_SENSOR_DISABLE,
                                 .kind = PROTOCOL_WRITE, .role = PROTOCOL_OPERATOR,
                                 .verb = KERNEL_VERB_SENSOR_ENABLE, .form = FORM(sensor_write),
                                 .summary = "A sensor is not wanted, whatever the rules say",
                                 .method = "POST", .path = "/v1/sensors/{ref}/disable",
                                 .example = "SENSOR DISABLE s1"},
    [PROTOCOL_SENSOR_ENABLE] = {NAME("SENSOR", "ENABLE"), .id = PROTOCOL_SENSOR_ENABLE,
                                .kind = PROTOCOL_WRITE, .role = PROTOCOL_OPERATOR,
                                .verb = KERNEL_VERB_SENSOR_ENABLE, .form = FORM(sensor_write),
                                .summary = "A sensor is wanted while a rule needs it",
                                .method = "POST", .path = "/v1/sensors/{ref}/enable",
                                .example = "SENSOR ENABLE s1"},
    [PROTOCOL_SENSOR_HEARTBEAT] = {NAME("SENSOR", "HEARTBEAT"), .id = PROTOCOL_SENSOR_HEARTBEAT,
                                   .kind = PROTOCOL_READ, .role = PROTOCOL_NOBODY,
                                   .form = FORM(heartbeat_args),
                                   .summary =
                                       "A running sensor says, by its token, that it is well",
                                   .method = "POST", .path = "/v1/sensors/heartbeat",
                                   .example = "SENSOR HEARTBEAT eyJ.eyJ.sig"},
    [PROTOCOL_SENSOR_INFO] = {NAME("SENSOR", "INFO"), .id = PROTOCOL_SENSOR_INFO,
                              .kind = PROTOCOL_READ, .role = PROTOCOL_OPERATOR,
                              .form = FORM(sensor_read),
                              .summary = "A sensor, with its description", .method = "GET",
                              .path = "/v1/sensors/{ref}", .example = "SENSOR INFO s1"},
    [PROTOCOL_SENSOR_LIST] = {NAME("SENSOR", "LIST"), .id = PROTOCOL_SENSOR_LIST,
                              .kind = PROTOCOL_READ, .role = PROTOCOL_READER,
                              .form = FORM(page_args), .summary = "Sensors, a page at a time",
                              .method = "GET", .path = "/v1/sensors", .example = "SENSOR LIST"},
    [PROTOCOL_SENSOR_LOGS] =
        {NAME("SENSOR", "LOGS"), .id = PROTOCOL_SENSOR_LOGS, .kind = PROTOCOL_READ,
         .role = PROTOCOL_OPERATOR, .form = FORM(sensor_logs),
         .summary = "What a sensor has printed: the end of it, or what follows a position",
         .method = "GET", .path = "/v1/sensors/{ref}/logs", .example = "SENSOR LOGS s1 COUNT 4096"},
    [PROTOCOL_SENSOR_RESET] =
        {NAME("SENSOR", "RESET"), .id = PROTOCOL_SENSOR_RESET, .kind = PROTOCOL_JOB,
         .role = PROTOCOL_OPERATOR, .form = FORM(sensor_job),
         .summary = "Forgives a sensor its crashes, or declares its unproven run dead: it is "
                    "tried again at once",
         .method = "POST", .path = "/v1/sensors/{ref}/reset", .example = "SENSOR RESET s1"},
    [PROTOCOL_SENSOR_RESTART] = {NAME("SENSOR", "RESTART"), .id = PROTOCOL_SENSOR_RESTART,
                                 .kind = PROTOCOL_JOB, .role = PROTOCOL_OPERATOR,
                                 .form = FORM(sensor_job),
                                 .summary = "Stops a sensor and starts it anew, with a new token",
                                 .method = "POST", .path = "/v1/sensors/{ref}/restart",
                                 .example = "SENSOR RESTART s1"},
    [PROTOCOL_SENSOR_SET] =
        {NAME("SENSOR", "SET"), .id = PROTOCOL_SENSOR_SET, .kind = PROTOCOL_WRITE,
         .role = PROTOCOL_ADMIN, .programs = true, .verb = KERNEL_VERB_SENSOR_SET,
         .form = FORM(sensor_set),
         .summary =
             "Makes or changes a sensor: what serves a trigger; the description is a JSON object. For "
             "the Unix socket and named users only, not for anonymous clients",
         .method = "PUT", .path = "/v1/sensors/{ref}",
         .example = "SENSOR SET s1 core.timer {\"command\":[\"/usr/bin/timer\"]}"},
    [PROTOCOL_SENSOR_STATUS] =
        {NAME("SENSOR", "STATUS"), .id = PROTOCOL_SENSOR_STATUS, .kind = PROTOCOL_READ,
         .role = PROTOCOL_READER, .form = FORM(sensor_read),
         .summary = "A sensor's process: its state, its run, what became of those before",
         .method = "GET", .path = "/v1/sensors/{ref}/status", .also_method = "GET",
         .also_path = "/api/v1/sensors/{ref}/status", .example = "SENSOR STATUS s1"},
    [PROTOCOL_SNAPSHOT] = {NAME("SNAPSHOT", ""), .id = PROTOCOL_SNAPSHOT, .kind = PROTOCOL_JOB,
                           .role = PROTOCOL_ADMIN, .summary = "Takes a snapshot and waits for it",
                           .method = "POST", .path = "/v1/snapshot", .example = "SNAPSHOT"},
    [PROTOCOL_SUBSCRIBE] =
        {NAME("SUBSCRIBE", ""), .id = PROTOCOL_SUBSCRIBE, .kind = PROTOCOL_CONNECTION,
         .role = PROTOCOL_READER, .form = FORM(channels_args),
         .summary =
             "Follows channels: events, pool:NAME, holder:NAME, metrics:POOL; ?after=ID resumes",
         .example = "SUBSCRIBE events pool:ports?after=1042.0"},
    [PROTOCOL_SWEEP] =
        {NAME("SWEEP", ""), .id = PROTOCOL_SWEEP, .kind = PROTOCOL_WRITE, .role = PROTOCOL_OPERATOR,
         .verb = KERNEL_VERB_SWEEP, .form = FORM(sweep_args),
         .summary = "Runs a bounded step of what is due now and tells how many values it freed",
         .method = "POST", .path = "/v1/sweep", .example = "SWEEP POOL ports"},
    [PROTOCOL_TICK] = {NAME("TICK", ""), .id = PROTOCOL_TICK, .kind = PROTOCOL_WRITE,
                       .role = PROTOCOL_ADMIN, .verb = KERNEL_VERB_TICK, .form = FORM(opid_only),
                       .summary = "Moves the time of the log to now; the server does so by itself",
                       .method = "POST", .path = "/v1/tick", .example = "TICK"},
    [PROTOCOL_TIME] =
        {NAME("TIME", ""), .id = PROTOCOL_TIME, .kind = PROTOCOL_CONNECTION,
         .role = PROTOCOL_READER,
         .summary = "The time that deadlines are counted in: seconds and microseconds since 1970",
         .example = "TIME"},
    [PROTOCOL_TOKEN_INTROSPECT] =
        {NAME("TOKEN", "INTROSPECT"), .id = PROTOCOL_TOKEN_INTROSPECT, .kind = PROTOCOL_READ,
         .role = PROTOCOL_READER, .form = FORM(token_introspect_args),
         .summary = "Whether a token is live, what it says, and if it is not, why",
         .method = "POST", .path = "/auth/introspect", .example = "TOKEN INTROSPECT eyJ.eyJ.sig"},
    [PROTOCOL_TOKEN_ISSUE] =
        {NAME("TOKEN", "ISSUE"), .id = PROTOCOL_TOKEN_ISSUE, .kind = PROTOCOL_READ,
         .role = PROTOCOL_HOLDER, .form = FORM(token_issue_args),
         .summary =
             "A signed token for a live lease, that anyone can verify; it dies with the lease",
         .method = "POST", .path = "/v1/leases/{lease}/token",
         .example = "TOKEN ISSUE 0-1042 1 TTL 3600 SCOPE deploy"},
    [PROTOCOL_TOKEN_KEYS] =
        {NAME("TOKEN", "KEYS"), .id = PROTOCOL_TOKEN_KEYS, .kind = PROTOCOL_READ,
         .role = PROTOCOL_NOBODY, .form = FORM(token_keys_args),
         .summary = "The public keys that tokens are verified with, as a JSON Web Key Set",
         .method = "GET", .path = "/.well-known/jwks.json", .example = "TOKEN KEYS"},
    [PROTOCOL_TOKEN_REFRESH] =
        {NAME("TOKEN", "REFRESH"), .id = PROTOCOL_TOKEN_REFRESH, .kind = PROTOCOL_READ,
         .role = PROTOCOL_NOBODY, .form = FORM(token_refresh_args),
         .summary = "A token like a live one, ending later if its issuer and its lease allow that; "
                    "the old one stays valid",
         .method = "POST", .path = "/auth/refresh", .also_method = "POST",
         .also_path = "/api/v1/auth/refresh", .example = "TOKEN REFRESH eyJ.eyJ.sig"},
    [PROTOCOL_TOKEN_REVOKE] =
        {NAME("TOKEN", "REVOKE"), .id = PROTOCOL_TOKEN_REVOKE, .kind = PROTOCOL_WRITE,
         .role = PROTOCOL_OPERATOR, .verb = KERNEL_VERB_REVOKE, .form = FORM(token_revoke_args),
         .summary = "Revokes the lease of a token, if it still has the token's epoch",
         .method = "POST", .path = "/auth/revoke/{id}", .also_method = "DELETE",
         .also_path = "/auth/token/{id}", .example = "TOKEN REVOKE 0-1042.1"},
    [PROTOCOL_TOKEN_ROTATE] =
        {NAME("TOKEN", "ROTATE"), .id = PROTOCOL_TOKEN_ROTATE, .kind = PROTOCOL_JOB,
         .role = PROTOCOL_ADMIN, .form = FORM(token_rotate_args),
         .summary =
             "A new key signs; those before it verify until their tokens have ended, with NOW not at all",
         .method = "POST", .path = "/auth/rotate", .example = "TOKEN ROTATE"},
    [PROTOCOL_TOKEN_SENSOR] = {NAME("TOKEN", "SENSOR"), .id = PROTOCOL_TOKEN_SENSOR,
                               .kind = PROTOCOL_READ, .role = PROTOCOL_OPERATOR,
                               .form = FORM(token_sensor_args),
                               .summary =
                                   "A token for the lease of a running sensor, with its trigger",
                               .method = "POST", .path = "/auth/sensor-token",
                               .example = "TOKEN SENSOR core.timer"},
    [PROTOCOL_TOUCH] = {NAME("TOUCH", ""), .id = PROTOCOL_TOUCH, .kind = PROTOCOL_WRITE,
                        .role = PROTOCOL_HOLDER, .verb = KERNEL_VERB_TOUCH,
                        .form = FORM(touch_args),
                        .summary = "Renews a lease, and makes an offline one active",
                        .method = "POST", .path = "/v1/leases/{lease}/touch",
                        .example = "TOUCH 0-1042 1 TTL 60"},
    [PROTOCOL_UNSUBSCRIBE] = {NAME("UNSUBSCRIBE", ""), .id = PROTOCOL_UNSUBSCRIBE,
                              .kind = PROTOCOL_CONNECTION, .role = PROTOCOL_READER,
                              .form = FORM(any_channels_args),
                              .summary = "Ends what SUBSCRIBE began, for some or all channels",
                              .example = "UNSUBSCRIBE events"},
    [PROTOCOL_VERIFY] = {NAME("VERIFY", ""), .id = PROTOCOL_VERIFY, .kind = PROTOCOL_READ,
                         .role = PROTOCOL_READER, .form = FORM(verify_args),
                         .summary = "Whether a token is the live authority", .method = "GET",
                         .path = "/v1/leases/{lease}/verify", .example = "VERIFY 0-1042 1"},
};
