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
#define REASON OPTION("REASON", "text", PROTOCOL_T_STRING, PROTOCOL_B_REASON)
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
static const struct protocol_argument release_args[] = {
    LEASE, HOLDER, EPOCH, FLAG("NOW", "now", PROTOCOL_B_NOW), REASON, OPID};
static const struct protocol_argument revoke_args[] = {
    LEASE, OPTION("AFTER", "duration", PROTOCOL_T_DURATION, PROTOCOL_B_AFTER), REASON, OPID};
static const struct protocol_argument lease_write[] = {LEASE, REASON, OPID};
static const struct protocol_argument rekey_args[] = {LEASE, EPOCH, HOLDER, REASON, OPID};
static const struct protocol_argument disown_args[] = {HOLDER, IN_POOL, REASON, OPID};
static const struct protocol_argument sweep_args[] = {IN_POOL, OPID};
static const struct protocol_argument opid_only[] = {OPID};
static const struct protocol_argument pool_options[] = {POOL, OPTIONS, REASON, OPID};
static const struct protocol_argument pool_write[] = {POOL, REASON, OPID};
static const struct protocol_argument pool_values[] = {POOL, VALUES, REASON, OPID};
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
static const struct protocol_argument values_args[] = {
    POOL, OPTION("STATE", "state", PROTOCOL_T_STRING, PROTOCOL_B_VALUE_STATE), CURSOR, COUNT,
    FENCE};
static const struct protocol_argument value_args[] = {STRING("pool/value", PROTOCOL_B_VALUE),
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
    STRING("id", PROTOCOL_B_NAME),
    STRING("trigger", PROTOCOL_B_TRIGGER),
    FLAG("DISABLED", "disabled", PROTOCOL_B_DISABLED),
    META,
    REASON,
    OPID};
static const struct protocol_argument rule_write[] = {STRING("id", PROTOCOL_B_NAME), REASON, OPID};
static const struct protocol_argument sensor_set[] = {
    STRING("ref", PROTOCOL_B_NAME),
    STRING("trigger", PROTOCOL_B_TRIGGER),
    STRING("spec", PROTOCOL_B_SPEC),
    FLAG("DISABLED", "disabled", PROTOCOL_B_DISABLED),
    REASON,
    OPID};
static const struct protocol_argument sensor_write[] = {STRING("ref", PROTOCOL_B_NAME), REASON,
                                                        OPID};
static const struct protocol_argument sensor_read[] = {STRING("ref", PROTOCOL_B_NAME), FENCE};
static const struct protocol_argument node_job[] = {STRING("name", PROTOCOL_B_NAME)};
static const struct protocol_argument sensor_job[] = {STRING("ref", PROTOCOL_B_NAME)};
static const struct protocol_argument sensor_logs[] = {
    STRING("ref", PROTOCOL_B_NAME),
    OPTION("AFTER", "position", PROTOCOL_T_STRING, PROTOCOL_B_POSITION),
    OPTION("COUNT", "bytes", PROTOCOL_T_INTEGER, PROTOCOL_B_BYTES), FENCE};
static const struct protocol_argument rule_read[] = {STRING("id", PROTOCOL_B_NAME), FENCE};
static const struct protocol_argument sensor_rules[] = {
    STRING("ref", PROTOCOL_B_NAME), STRING("token", PROTOCOL_B_BEARER), CURSOR, COUNT, FENCE};
static const struct protocol_argument heartbeat_args[] = {STRING("token", PROTOCOL_B_BEARER),
                                                          FENCE};
static const struct protocol_argument backup_end_args[] = {INTEGER("backup", PROTOCOL_B_CURSOR)};
static const struct protocol_argument backup_read_args[] = {
    INTEGER("backup", PROTOCOL_B_CURSOR), STRING("file", PROTOCOL_B_FILE),
    INTEGER("offset", PROTOCOL_B_OFFSET),
    OPTION("COUNT", "bytes", PROTOCOL_T_INTEGER, PROTOCOL_B_BYTES)};
#define SCOPE OPTION("SCOPE", "scope", PROTOCOL_T_STRING, PROTOCOL_B_SCOPE)
#define REFRESH OPTION("REFRESH", "duration", PROTOCOL_T_DURATION, PROTOCOL_B_REFRESH)
static const struct protocol_argument token_introspect_args[] = {STRING("token", PROTOCOL_B_TOKEN),
                                                                 FENCE};
static const struct protocol_argument token_issue_args[] = {LEASE,   EPOCH, TTL,
                                                            REFRESH, SCOPE, FENCE};
static const struct protocol_argument fence_only[] = {FENCE};
static const struct protocol_argument token_refresh_args[] = {STRING("token", PROTOCOL_B_TOKEN),
                                                              TTL, FENCE};
static const struct protocol_argument token_revoke_args[] = {
    STRING("id", PROTOCOL_B_TOKEN_ID),
    OPTION("AFTER", "duration", PROTOCOL_T_DURATION, PROTOCOL_B_AFTER), REASON, OPID};
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

/* What every row must say: its id, its words, who serves it, who may ask for it, what it is about. */
#define ROW(name, first, second, its_kind, its_role, its_subject)                           \
    .id = PROTOCOL_##name, .word = (first), .sub = (second), .word_len = sizeof(first) - 1, \
    .sub_len = sizeof(second) - 1, .since = "0.1.0", .kind = PROTOCOL_##its_kind,           \
    .role = PROTOCOL_##its_role, .subject = PROTOCOL_OF_##its_subject

const struct protocol_command protocol_table[PROTOCOL_COMMANDS] = {
    [PROTOCOL_ACK] =
        {ROW(ACK, "ACK", "", WRITE, HOLDER, LEASE), .verb = KERNEL_VERB_ACK,
         .form = FORM(token_args),
         .summary = "Confirms that the holder of a revoked lease has stopped; the epoch is the one "
                    "before the revoke",
         .method = "POST", .path = "/v1/leases/{lease}/ack", .example = "ACK 0-1042 job/42 1"},
    [PROTOCOL_ACTIVATE] = {ROW(ACTIVATE, "ACTIVATE", "", WRITE, HOLDER, LEASE),
                           .verb = KERNEL_VERB_ACTIVATE, .form = FORM(token_args),
                           .summary = "Activates a reserved lease", .method = "POST",
                           .path = "/v1/leases/{lease}/activate",
                           .example = "ACTIVATE 0-1042 job/42 1"},
    [PROTOCOL_ALLOC] =
        {ROW(ALLOC, "ALLOC", "", WRITE, HOLDER, POOL), .traits = PROTOCOL_DERIVES,
         .verb = KERNEL_VERB_ALLOC, .form = FORM(alloc_one), .other = FORM(alloc_bundle),
         .summary =
             "Leases values from one or more pools to a holder; * derives the holder from the "
             "metadata",
         .method = "POST", .path = "/v1/pools/{pool}/leases", .also_method = "POST",
         .also_path = "/v1/leases", .example = "ALLOC ports job/42 COUNT 2 TTL 60"},
    [PROTOCOL_AUTH] = {ROW(AUTH, "AUTH", "", CONNECTION, NOBODY, NONE), .form = FORM(auth_args),
                       .summary = "Authenticates the connection", .example = "AUTH secret"},
    [PROTOCOL_BACKUP_BEGIN] =
        {ROW(BACKUP_BEGIN, "BACKUP", "BEGIN", JOB, ADMIN, NONE),
         .summary =
             "Begins a backup: returns its number, its log position and its files, which stay "
             "as they are until BACKUP END or a minute without BACKUP READ; `tenure backup` "
             "does it all",
         .example = "BACKUP BEGIN"},
    [PROTOCOL_BACKUP_END] = {ROW(BACKUP_END, "BACKUP", "END", JOB, ADMIN, NONE),
                             .form = FORM(backup_end_args), .summary = "Ends a backup",
                             .example = "BACKUP END 1"},
    [PROTOCOL_BACKUP_READ] =
        {ROW(BACKUP_READ, "BACKUP", "READ", JOB, ADMIN, NONE), .form = FORM(backup_read_args),
         .summary = "Returns bytes of a file of a backup, from an offset; none at its end",
         .example = "BACKUP READ 1 0000000000000001.log 0"},
    [PROTOCOL_CLIENT_GETNAME] = {ROW(CLIENT_GETNAME, "CLIENT", "GETNAME", CONNECTION, READER, NONE),
                                 .summary = "Returns the name of the connection",
                                 .example = "CLIENT GETNAME"},
    [PROTOCOL_CLIENT_ID] = {ROW(CLIENT_ID, "CLIENT", "ID", CONNECTION, READER, NONE),
                            .summary = "Returns the number of the connection",
                            .example = "CLIENT ID"},
    [PROTOCOL_CLIENT_KILL] = {ROW(CLIENT_KILL, "CLIENT", "KILL", CONNECTION, ADMIN, NONE),
                              .traits = PROTOCOL_CLI, .form = FORM(kill_args),
                              .summary = "Closes a connection, by address or number",
                              .example = "CLIENT KILL ID 7"},
    [PROTOCOL_CLIENT_LIST] = {ROW(CLIENT_LIST, "CLIENT", "LIST", CONNECTION, ADMIN, NONE),
                              .traits = PROTOCOL_LONG | PROTOCOL_CLI,
                              .summary = "Lists all connections, one per line",
                              .example = "CLIENT LIST"},
    [PROTOCOL_CLIENT_SETINFO] =
        {ROW(CLIENT_SETINFO, "CLIENT", "SETINFO", CONNECTION, READER, NONE),
         .form = FORM(setinfo_args),
         .summary = "Sets the name or version of the client library (LIB-NAME, LIB-VER)",
         .example = "CLIENT SETINFO LIB-NAME mine"},
    [PROTOCOL_CLIENT_SETNAME] = {ROW(CLIENT_SETNAME, "CLIENT", "SETNAME", CONNECTION, READER, NONE),
                                 .form = FORM(name_arg), .summary = "Names the connection",
                                 .example = "CLIENT SETNAME worker-1"},
    [PROTOCOL_COMMAND] = {ROW(COMMAND, "COMMAND", "", CONNECTION, READER, NONE),
                          .traits = PROTOCOL_LONG, .summary = "Describes all commands",
                          .example = "COMMAND"},
    [PROTOCOL_COMMAND_COUNT] = {ROW(COMMAND_COUNT, "COMMAND", "COUNT", CONNECTION, READER, NONE),
                                .summary = "Returns the number of commands",
                                .example = "COMMAND COUNT"},
    [PROTOCOL_COMMAND_DOCS] = {ROW(COMMAND_DOCS, "COMMAND", "DOCS", CONNECTION, READER, NONE),
                               .traits = PROTOCOL_LONG, .form = FORM(names_args),
                               .summary = "Returns the documentation of some or all commands",
                               .example = "COMMAND DOCS ALLOC"},
    [PROTOCOL_COMMAND_INFO] = {ROW(COMMAND_INFO, "COMMAND", "INFO", CONNECTION, READER, NONE),
                               .traits = PROTOCOL_LONG, .form = FORM(names_args),
                               .summary = "Returns the arity and flags of some or all commands",
                               .example = "COMMAND INFO ALLOC"},
    [PROTOCOL_COMMAND_LIST] = {ROW(COMMAND_LIST, "COMMAND", "LIST", CONNECTION, READER, NONE),
                               .summary = "Lists the names of all commands",
                               .example = "COMMAND LIST"},
    [PROTOCOL_CONFIG_GET] = {ROW(CONFIG_GET, "CONFIG", "GET", CONNECTION, READER, NONE),
                             .traits = PROTOCOL_CLI, .form = FORM(patterns_args),
                             .summary = "Returns settings that Redis clients request",
                             .example = "CONFIG GET save"},
    [PROTOCOL_DISOWN] = {ROW(DISOWN, "DISOWN", "", WRITE, OPERATOR, MANY),
                         .verb = KERNEL_VERB_DISOWN, .form = FORM(disown_args),
                         .summary = "Releases all leases of a holder, in bounded steps",
                         .method = "POST", .path = "/v1/holders/{holder}/disown",
                         .example = "DISOWN job/42 POOL ports"},
    [PROTOCOL_ECHO] = {ROW(ECHO, "ECHO", "", CONNECTION, READER, NONE), .traits = PROTOCOL_CLI,
                       .form = FORM(text_arg), .summary = "Returns its argument",
                       .example = "ECHO hello"},
    [PROTOCOL_EMIT] =
        {ROW(EMIT, "EMIT", "", WRITE, NOBODY, NONE), .traits = PROTOCOL_ENVELOPE,
         .verb = KERNEL_VERB_EMIT, .form = FORM(emit_args),
         .summary = "Emits an event of a running sensor; its token must include the trigger type",
         .method = "POST", .path = "/v1/events/emit", .also_method = "POST",
         .also_path = "/api/v1/events", .also_form = FORM(emit_api_args),
         .example = "EMIT eyJ.eyJ.sig core.tick PAYLOAD {\"n\":1}"},
    [PROTOCOL_EVENTS] = {ROW(EVENTS, "EVENTS", "", READ, READER, LIST),
                         .traits =
                             PROTOCOL_LONG | PROTOCOL_SLICED | PROTOCOL_STREAM | PROTOCOL_ANYWHERE,
                         .form = FORM(events_args),
                         .summary = "Returns retained events, oldest first, one page at a time",
                         .method = "GET", .path = "/v1/events",
                         .example = "EVENTS AFTER 1042.0 COUNT 10 POOL ports"},
    [PROTOCOL_HELLO] = {ROW(HELLO, "HELLO", "", CONNECTION, NOBODY, NONE), .form = FORM(hello_args),
                        .summary =
                            "Selects the protocol version, 2 or 3, and optionally authenticates",
                        .example = "HELLO 3"},
    [PROTOCOL_IMPORT] =
        {ROW(IMPORT, "IMPORT", "", WRITE, OPERATOR, POOL), .verb = KERNEL_VERB_IMPORT,
         .form = FORM(import_args),
         .summary =
             "Imports a lease that another system granted, with its times; an existing lease is "
             "left unchanged",
         .method = "POST", .path = "/v1/pools/{pool}/imports",
         .example = "IMPORT ports job/7 VALUES 1 30007 CREATED 1700000000000"},
    [PROTOCOL_INFO] = {ROW(INFO, "INFO", "", CONNECTION, READER, NONE), .traits = PROTOCOL_CLI,
                       .form = FORM(section_args), .summary = "Returns statistics of the server",
                       .example = "INFO server"},
    [PROTOCOL_LEASE] = {ROW(LEASE, "LEASE", "", READ, READER, LEASE), .traits = PROTOCOL_STALE,
                        .form = FORM(lease_read),
                        .summary = "Returns a lease, by its id or by one of its values",
                        .method = "GET", .path = "/v1/leases/{lease}", .also_method = "GET",
                        .also_path = "/v1/pools/{pool}/values/{value}/lease",
                        .example = "LEASE ports/30000"},
    [PROTOCOL_LEASES] = {ROW(LEASES, "LEASES", "", READ, READER, LIST),
                         .traits = PROTOCOL_LONG | PROTOCOL_STALE, .form = FORM(leases_args),
                         .summary = "Lists leases, one page at a time", .method = "GET",
                         .path = "/v1/leases",
                         .example = "LEASES POOL ports STATE active COUNT 10"},
    [PROTOCOL_NODE_CLOSE] =
        {ROW(NODE_CLOSE, "NODE", "CLOSE", JOB, ADMIN, NONE),
         .summary =
             "Ends the cluster for good: no node takes the log over, and each can be started alone",
         .method = "POST", .path = "/v1/cluster/close", .example = "NODE CLOSE"},
    [PROTOCOL_NODE_FORGET] =
        {ROW(NODE_FORGET, "NODE", "FORGET", JOB, ADMIN, NONE), .form = FORM(node_job),
         .summary = "Removes a node that is gone from the cluster: nothing is kept for it any more",
         .method = "DELETE", .path = "/v1/cluster/nodes/{name}", .example = "NODE FORGET node3"},
    [PROTOCOL_NODE_LIST] = {ROW(NODE_LIST, "NODE", "LIST", READ, READER, NONE),
                            .traits = PROTOCOL_ANYWHERE, .form = FORM(fence_only),
                            .summary = "Lists the nodes of the cluster; every node answers",
                            .method = "GET", .path = "/v1/cluster/nodes", .example = "NODE LIST"},
    [PROTOCOL_NODE_STEP_DOWN] =
        {ROW(NODE_STEP_DOWN, "NODE", "STEP-DOWN", JOB, ADMIN, NONE),
         .summary = "Hands the log over: another node takes it, and this one follows",
         .method = "POST", .path = "/v1/cluster/step-down", .example = "NODE STEP-DOWN"},
    [PROTOCOL_PING] = {ROW(PING, "PING", "", CONNECTION, READER, NONE),
                       .traits = PROTOCOL_QUICK | PROTOCOL_SUBSCRIBER | PROTOCOL_CLI,
                       .form = FORM(ping_args), .summary = "PONG", .example = "PING"},
    [PROTOCOL_POOL_ADD] = {ROW(POOL_ADD, "POOL", "ADD", WRITE, OPERATOR, POOL),
                           .verb = KERNEL_VERB_POOL_ADD, .form = FORM(pool_values),
                           .summary = "Adds named resources to a set", .method = "POST",
                           .path = "/v1/pools/{pool}/resources",
                           .example = "POOL ADD gpus gpu-1 gpu-2"},
    [PROTOCOL_POOL_ALTER] = {ROW(POOL_ALTER, "POOL", "ALTER", WRITE, OPERATOR, POOL),
                             .verb = KERNEL_VERB_POOL_ALTER, .form = FORM(pool_options),
                             .summary = "Changes options of a pool, for later grants and renewals",
                             .method = "PATCH", .path = "/v1/pools/{pool}",
                             .example = "POOL ALTER ports LEASE 120"},
    [PROTOCOL_POOL_CREATE] =
        {ROW(POOL_CREATE, "POOL", "CREATE", WRITE, OPERATOR, POOL), .traits = PROTOCOL_CREATES,
         .verb = KERNEL_VERB_POOL_CREATE, .form = FORM(pool_options),
         .summary = "Creates a pool: a range of numbers or a set of names, with a policy",
         .method = "PUT", .path = "/v1/pools/{pool}",
         .example = "POOL CREATE ports RANGE 30000 30009 LEASE 60"},
    [PROTOCOL_POOL_DROP] = {ROW(POOL_DROP, "POOL", "DROP", WRITE, OPERATOR, POOL),
                            .verb = KERNEL_VERB_POOL_DROP, .form = FORM(pool_write),
                            .summary = "Deletes a pool without held or cooling values",
                            .method = "DELETE", .path = "/v1/pools/{pool}",
                            .example = "POOL DROP ports"},
    [PROTOCOL_POOL_INFO] = {ROW(POOL_INFO, "POOL", "INFO", READ, READER, POOL),
                            .traits = PROTOCOL_STALE, .form = FORM(pool_read),
                            .summary = "Returns a pool: options, counts, free values",
                            .method = "GET", .path = "/v1/pools/{pool}",
                            .example = "POOL INFO ports"},
    [PROTOCOL_POOL_LIST] = {ROW(POOL_LIST, "POOL", "LIST", READ, READER, LIST),
                            .traits = PROTOCOL_LONG | PROTOCOL_STALE, .form = FORM(page_args),
                            .summary = "Lists pools, one page at a time", .method = "GET",
                            .path = "/v1/pools", .example = "POOL LIST COUNT 100"},
    [PROTOCOL_POOL_METRICS] = {ROW(POOL_METRICS, "POOL", "METRICS", READ, READER, POOL),
                               .traits = PROTOCOL_STALE, .form = FORM(pool_read),
                               .summary =
                                   "Returns the rate and the effective lease of a sticky pool",
                               .method = "GET", .path = "/v1/pools/{pool}/metrics",
                               .example = "POOL METRICS devices"},
    [PROTOCOL_POOL_REMOVE] = {ROW(POOL_REMOVE, "POOL", "REMOVE", WRITE, OPERATOR, POOL),
                              .verb = KERNEL_VERB_POOL_REMOVE, .form = FORM(pool_values),
                              .summary = "Removes free named resources from a set",
                              .method = "DELETE", .path = "/v1/pools/{pool}/resources",
                              .example = "POOL REMOVE gpus gpu-2"},
    [PROTOCOL_POOL_SEED] =
        {ROW(POOL_SEED, "POOL", "SEED", WRITE, OPERATOR, POOL), .verb = KERNEL_VERB_POOL_SEED,
         .form = FORM(seed_args),
         .summary =
             "Sets the counters of a pool from another system: values ever given, leases reclaimed",
         .method = "POST", .path = "/v1/pools/{pool}/seed",
         .example = "POOL SEED ports GIVEN 8 RECLAIMED 3"},
    [PROTOCOL_POOL_VALUES] =
        {ROW(POOL_VALUES, "POOL", "VALUES", READ, READER, POOL),
         .traits = PROTOCOL_LONG | PROTOCOL_STALE, .form = FORM(values_args),
         .summary =
             "The values of a pool with their states, a page at a time; of a range, free ones as spans",
         .method = "GET", .path = "/v1/pools/{pool}/values",
         .example = "POOL VALUES ports STATE available COUNT 10"},
    [PROTOCOL_PSUBSCRIBE] = {ROW(PSUBSCRIBE, "PSUBSCRIBE", "", CONNECTION, READER, NONE),
                             .traits = PROTOCOL_SUBSCRIBER | PROTOCOL_PUBSUB,
                             .form = FORM(patterns_args),
                             .summary = "Subscribes to all channels that match a pattern",
                             .example = "PSUBSCRIBE pool:*"},
    [PROTOCOL_PUNSUBSCRIBE] = {ROW(PUNSUBSCRIBE, "PUNSUBSCRIBE", "", CONNECTION, READER, NONE),
                               .traits = PROTOCOL_SUBSCRIBER | PROTOCOL_PUBSUB,
                               .form = FORM(any_patterns_args),
                               .summary = "Unsubscribes from some or all patterns",
                               .example = "PUNSUBSCRIBE pool:*"},
    [PROTOCOL_QUIT] = {ROW(QUIT, "QUIT", "", CONNECTION, NOBODY, NONE),
                       .traits = PROTOCOL_SUBSCRIBER | PROTOCOL_AFTER_MULTI,
                       .summary = "Closes the connection", .example = "QUIT"},
    [PROTOCOL_READONLY] =
        {ROW(READONLY, "READONLY", "", CONNECTION, READER, NONE),
         .summary = "Allows reads from a node that follows the owner of the log; they may be stale",
         .example = "READONLY"},
    [PROTOCOL_READWRITE] = {ROW(READWRITE, "READWRITE", "", CONNECTION, READER, NONE),
                            .summary = "Ends READONLY: only the owner of the log answers reads",
                            .example = "READWRITE"},
    [PROTOCOL_RECLAIM] =
        {ROW(RECLAIM, "RECLAIM", "", WRITE, OPERATOR, LEASE), .verb = KERNEL_VERB_RECLAIM,
         .form = FORM(lease_write),
         .summary = "Ends a revoked lease; the caller has evidence that the holder has stopped",
         .method = "POST", .path = "/v1/leases/{lease}/reclaim", .example = "RECLAIM 0-1042"},
    [PROTOCOL_REKEY] = {ROW(REKEY, "REKEY", "", WRITE, OPERATOR, LEASE), .verb = KERNEL_VERB_REKEY,
                        .form = FORM(rekey_args), .summary = "Transfers a lease to another holder",
                        .method = "POST", .path = "/v1/leases/{lease}/rekey",
                        .example = "REKEY 0-1042 1 job/43"},
    [PROTOCOL_RELEASE] = {ROW(RELEASE, "RELEASE", "", WRITE, HOLDER, LEASE),
                          .verb = KERNEL_VERB_RELEASE, .form = FORM(release_args),
                          .summary =
                              "Releases a lease; a sticky pool keeps it for the holder unless NOW",
                          .method = "POST", .path = "/v1/leases/{lease}/release",
                          .also_method = "DELETE", .also_path = "/v1/leases/{lease}",
                          .example = "RELEASE 0-1042 job/42 1"},
    [PROTOCOL_RESERVE] = {ROW(RESERVE, "RESERVE", "", WRITE, HOLDER, POOL),
                          .verb = KERNEL_VERB_RESERVE, .form = FORM(reserve_args),
                          .summary = "Reserves values for a short time, until ACTIVATE",
                          .method = "POST", .path = "/v1/reservations",
                          .example =
                              "RESERVE job/42 TTL 30 FROM ports COUNT 2 FROM gpus VALUES 1 gpu-1"},
    [PROTOCOL_RESET] = {ROW(RESET, "RESET", "", CONNECTION, NOBODY, NONE),
                        .traits = PROTOCOL_SUBSCRIBER | PROTOCOL_AFTER_MULTI,
                        .summary = "Resets the connection to its initial state",
                        .example = "RESET"},
    [PROTOCOL_REVOKE] =
        {ROW(REVOKE, "REVOKE", "", WRITE, OPERATOR, LEASE), .verb = KERNEL_VERB_REVOKE,
         .form = FORM(revoke_args),
         .summary =
             "Ends the authority of a lease at once; its values become free by ACK, RECLAIM or "
             "AFTER a time",
         .method = "POST", .path = "/v1/leases/{lease}/revoke",
         .example = "REVOKE 0-1042 AFTER 30"},
    [PROTOCOL_ROLE] = {ROW(ROLE, "ROLE", "", CONNECTION, READER, NONE), .traits = PROTOCOL_CLI,
                       .summary = "Returns whether this node owns the log, and its other nodes or "
                                  "the owner, as Redis does",
                       .example = "ROLE"},
    [PROTOCOL_RULE_DELETE] = {ROW(RULE_DELETE, "RULE", "DELETE", WRITE, OPERATOR, RULE),
                              .verb = KERNEL_VERB_RULE_DELETE, .form = FORM(rule_write),
                              .summary = "Deletes a rule", .method = "DELETE",
                              .path = "/v1/rules/{id}", .example = "RULE DELETE r1"},
    [PROTOCOL_RULE_DISABLE] = {ROW(RULE_DISABLE, "RULE", "DISABLE", WRITE, OPERATOR, RULE),
                               .traits = PROTOCOL_DISABLES, .verb = KERNEL_VERB_RULE_ENABLE,
                               .form = FORM(rule_write), .summary = "Disables a rule",
                               .method = "POST", .path = "/v1/rules/{id}/disable",
                               .example = "RULE DISABLE r1"},
    [PROTOCOL_RULE_ENABLE] = {ROW(RULE_ENABLE, "RULE", "ENABLE", WRITE, OPERATOR, RULE),
                              .verb = KERNEL_VERB_RULE_ENABLE, .form = FORM(rule_write),
                              .summary = "Enables a rule", .method = "POST",
                              .path = "/v1/rules/{id}/enable", .example = "RULE ENABLE r1"},
    [PROTOCOL_RULE_INFO] = {ROW(RULE_INFO, "RULE", "INFO", READ, OPERATOR, RULE),
                            .traits = PROTOCOL_STALE, .form = FORM(rule_read),
                            .summary = "A rule, with its metadata", .method = "GET",
                            .path = "/v1/rules/{id}", .example = "RULE INFO r1"},
    [PROTOCOL_RULE_LIST] = {ROW(RULE_LIST, "RULE", "LIST", READ, READER, LIST),
                            .traits = PROTOCOL_LONG | PROTOCOL_STALE, .form = FORM(page_args),
                            .summary = "Lists rules, one page at a time", .method = "GET",
                            .path = "/v1/rules", .example = "RULE LIST"},
    [PROTOCOL_RULE_SET] = {ROW(RULE_SET, "RULE", "SET", WRITE, OPERATOR, RULE),
                           .verb = KERNEL_VERB_RULE_SET, .form = FORM(rule_set),
                           .summary = "Creates or changes a rule, which requests a trigger",
                           .method = "PUT", .path = "/v1/rules/{id}",
                           .example = "RULE SET r1 core.timer"},
    [PROTOCOL_SELECT] = {ROW(SELECT, "SELECT", "", CONNECTION, READER, NONE),
                         .form = FORM(index_arg), .summary = "Accepts database 0, the only one",
                         .example = "SELECT 0"},
    [PROTOCOL_SENSOR_DELETE] = {ROW(SENSOR_DELETE, "SENSOR", "DELETE", WRITE, OPERATOR, SENSOR),
                                .verb = KERNEL_VERB_SENSOR_DELETE, .form = FORM(sensor_write),
                                .summary = "Deletes a sensor", .method = "DELETE",
                                .path = "/v1/sensors/{ref}", .example = "SENSOR DELETE s1"},
    [PROTOCOL_SENSOR_DISABLE] = {ROW(SENSOR_DISABLE, "SENSOR", "DISABLE", WRITE, OPERATOR, SENSOR),
                                 .traits = PROTOCOL_DISABLES, .verb = KERNEL_VERB_SENSOR_ENABLE,
                                 .form = FORM(sensor_write),
                                 .summary =
                                     "Disables a sensor: it does not run, whatever the rules",
                                 .method = "POST", .path = "/v1/sensors/{ref}/disable",
                                 .example = "SENSOR DISABLE s1"},
    [PROTOCOL_SENSOR_ENABLE] = {ROW(SENSOR_ENABLE, "SENSOR", "ENABLE", WRITE, OPERATOR, SENSOR),
                                .verb = KERNEL_VERB_SENSOR_ENABLE, .form = FORM(sensor_write),
                                .summary = "Enables a sensor: it runs while a rule needs it",
                                .method = "POST", .path = "/v1/sensors/{ref}/enable",
                                .example = "SENSOR ENABLE s1"},
    [PROTOCOL_SENSOR_HEARTBEAT] = {ROW(SENSOR_HEARTBEAT, "SENSOR", "HEARTBEAT", READ, NOBODY, NONE),
                                   .form = FORM(heartbeat_args),
                                   .summary =
                                       "Reports, by its token, that a running sensor is healthy",
                                   .method = "POST", .path = "/v1/sensors/heartbeat",
                                   .example = "SENSOR HEARTBEAT eyJ.eyJ.sig"},
    [PROTOCOL_SENSOR_INFO] = {ROW(SENSOR_INFO, "SENSOR", "INFO", READ, OPERATOR, SENSOR),
                              .traits = PROTOCOL_STALE, .form = FORM(sensor_read),
                              .summary = "Returns a sensor with its description", .method = "GET",
                              .path = "/v1/sensors/{ref}", .example = "SENSOR INFO s1"},
    [PROTOCOL_SENSOR_LIST] = {ROW(SENSOR_LIST, "SENSOR", "LIST", READ, READER, LIST),
                              .traits = PROTOCOL_LONG | PROTOCOL_STALE, .form = FORM(page_args),
                              .summary = "Lists sensors, one page at a time", .method = "GET",
                              .path = "/v1/sensors", .example = "SENSOR LIST"},
    [PROTOCOL_SENSOR_LOGS] =
        {ROW(SENSOR_LOGS, "SENSOR", "LOGS", READ, OPERATOR, SENSOR),
         .traits = PROTOCOL_LONG | PROTOCOL_FOLLOW, .form = FORM(sensor_logs),
         .summary = "Returns the output of a sensor: the end, or the part after a position",
         .method = "GET", .path = "/v1/sensors/{ref}/logs", .example = "SENSOR LOGS s1 COUNT 4096"},
    [PROTOCOL_SENSOR_RESET] =
        {ROW(SENSOR_RESET, "SENSOR", "RESET", JOB, OPERATOR, SENSOR), .form = FORM(sensor_job),
         .summary =
             "Clears the failures of a sensor, or confirms that its unproven run is dead; the "
             "sensor is retried at once",
         .method = "POST", .path = "/v1/sensors/{ref}/reset", .example = "SENSOR RESET s1"},
    [PROTOCOL_SENSOR_RESTART] = {ROW(SENSOR_RESTART, "SENSOR", "RESTART", JOB, OPERATOR, SENSOR),
                                 .form = FORM(sensor_job),
                                 .summary = "Stops a sensor and starts it again with a new token",
                                 .method = "POST", .path = "/v1/sensors/{ref}/restart",
                                 .example = "SENSOR RESTART s1"},
    [PROTOCOL_SENSOR_RULES] =
        {ROW(SENSOR_RULES, "SENSOR", "RULES", READ, NOBODY, NONE), .form = FORM(sensor_rules),
         .summary = "A running sensor reads, by its token, the enabled rules of its trigger with "
                    "their metadata, a page at a time",
         .method = "GET", .path = "/v1/sensors/{ref}/rules",
         .example = "SENSOR RULES core.timer eyJ.eyJ.sig"},
    [PROTOCOL_SENSOR_SET] =
        {ROW(SENSOR_SET, "SENSOR", "SET", WRITE, ADMIN, SENSOR), .traits = PROTOCOL_PROGRAMS,
         .verb = KERNEL_VERB_SENSOR_SET, .form = FORM(sensor_set),
         .summary =
             "Creates or changes a sensor for a trigger; the description is a JSON object. Only "
             "over the Unix socket or as a named user, not for anonymous clients",
         .method = "PUT", .path = "/v1/sensors/{ref}",
         .example = "SENSOR SET s1 core.timer {\"command\":[\"/usr/bin/timer\"]}"},
    [PROTOCOL_SENSOR_STATUS] =
        {ROW(SENSOR_STATUS, "SENSOR", "STATUS", READ, READER, SENSOR),
         .traits = PROTOCOL_STATE_ONLY, .form = FORM(sensor_read),
         .summary = "Returns the state of a sensor, its run, and how the last run ended",
         .method = "GET", .path = "/v1/sensors/{ref}/status", .also_method = "GET",
         .also_path = "/api/v1/sensors/{ref}/status", .example = "SENSOR STATUS s1"},
    [PROTOCOL_SENTINEL_CKQUORUM] = {ROW(SENTINEL_CKQUORUM, "SENTINEL", "CKQUORUM", CONNECTION,
                                        READER, NONE),
                                    .form = FORM(name_arg),
                                    .summary = "Returns whether a node owns the log",
                                    .example = "SENTINEL CKQUORUM tenure"},
    [PROTOCOL_SENTINEL_GET_MASTER_ADDR] =
        {ROW(SENTINEL_GET_MASTER_ADDR, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", CONNECTION, READER,
             NONE),
         .form = FORM(name_arg),
         .summary = "Returns host and port of the node that owns the log; null if no node does",
         .example = "SENTINEL GET-MASTER-ADDR-BY-NAME tenure"},
    [PROTOCOL_SENTINEL_MASTER] = {ROW(SENTINEL_MASTER, "SENTINEL", "MASTER", CONNECTION, READER,
                                      NONE),
                                  .form = FORM(name_arg),
                                  .summary =
                                      "Returns the node that owns the log, as Redis Sentinel does",
                                  .example = "SENTINEL MASTER tenure"},
    [PROTOCOL_SENTINEL_MASTERS] =
        {ROW(SENTINEL_MASTERS, "SENTINEL", "MASTERS", CONNECTION, READER, NONE),
         .summary = "The same, as a list of one; the name of the service is tenure",
         .example = "SENTINEL MASTERS"},
    [PROTOCOL_SENTINEL_REPLICAS] = {ROW(SENTINEL_REPLICAS, "SENTINEL", "REPLICAS", CONNECTION,
                                        READER, NONE),
                                    .form = FORM(name_arg),
                                    .summary = "Lists the nodes that follow the owner of the log",
                                    .example = "SENTINEL REPLICAS tenure"},
    [PROTOCOL_SENTINEL_SENTINELS] = {ROW(SENTINEL_SENTINELS, "SENTINEL", "SENTINELS", CONNECTION,
                                         READER, NONE),
                                     .form = FORM(name_arg),
                                     .summary =
                                         "Lists the other nodes: each can be asked for the owner",
                                     .example = "SENTINEL SENTINELS tenure"},
    [PROTOCOL_SENTINEL_SLAVES] = {ROW(SENTINEL_SLAVES, "SENTINEL", "SLAVES", CONNECTION, READER,
                                      NONE),
                                  .form = FORM(name_arg),
                                  .summary = "The same as SENTINEL REPLICAS",
                                  .example = "SENTINEL SLAVES tenure"},
    [PROTOCOL_SNAPSHOT] = {ROW(SNAPSHOT, "SNAPSHOT", "", JOB, ADMIN, NONE),
                           .traits = PROTOCOL_ANYWHERE,
                           .summary = "Takes a snapshot and waits until it is complete",
                           .method = "POST", .path = "/v1/snapshot", .example = "SNAPSHOT"},
    [PROTOCOL_SUBSCRIBE] =
        {ROW(SUBSCRIBE, "SUBSCRIBE", "", CONNECTION, READER, NONE),
         .traits = PROTOCOL_SUBSCRIBER | PROTOCOL_PUBSUB, .form = FORM(channels_args),
         .summary =
             "Subscribes to channels: events, pool:NAME, holder:NAME, metrics:POOL; ?after=ID "
             "resumes",
         .example = "SUBSCRIBE events pool:ports?after=1042.0"},
    [PROTOCOL_SWEEP] = {ROW(SWEEP, "SWEEP", "", WRITE, OPERATOR, POOL), .verb = KERNEL_VERB_SWEEP,
                        .form = FORM(sweep_args),
                        .summary =
                            "Runs one bounded expiry step and returns the number of freed values",
                        .method = "POST", .path = "/v1/sweep", .example = "SWEEP POOL ports"},
    [PROTOCOL_TICK] = {ROW(TICK, "TICK", "", WRITE, ADMIN, NONE), .verb = KERNEL_VERB_TICK,
                       .form = FORM(opid_only),
                       .summary = "Advances the log's time to now; the server does this by itself",
                       .method = "POST", .path = "/v1/tick", .example = "TICK"},
    [PROTOCOL_TIME] =
        {ROW(TIME, "TIME", "", CONNECTION, READER, NONE), .traits = PROTOCOL_CLI,
         .summary =
             "Returns the log's time, which deadlines use: seconds and microseconds since 1970",
         .example = "TIME"},
    [PROTOCOL_TOKEN_INTROSPECT] =
        {ROW(TOKEN_INTROSPECT, "TOKEN", "INTROSPECT", READ, READER, NONE),
         .form = FORM(token_introspect_args),
         .summary = "Returns whether a token is live, its claims, and the reason if it is not live",
         .method = "POST", .path = "/auth/introspect", .example = "TOKEN INTROSPECT eyJ.eyJ.sig"},
    [PROTOCOL_TOKEN_ISSUE] =
        {ROW(TOKEN_ISSUE, "TOKEN", "ISSUE", READ, HOLDER, LEASE), .traits = PROTOCOL_OWN_LEASE,
         .form = FORM(token_issue_args),
         .summary =
             "Issues a signed token for a live lease; it becomes invalid when the lease ends",
         .method = "POST", .path = "/v1/leases/{lease}/token",
         .example = "TOKEN ISSUE 0-1042 1 TTL 3600 SCOPE deploy"},
    [PROTOCOL_TOKEN_KEYS] =
        {ROW(TOKEN_KEYS, "TOKEN", "KEYS", READ, NOBODY, NONE), .traits = PROTOCOL_ANYWHERE,
         .form = FORM(fence_only),
         .summary = "Returns the public keys for token verification, as a JSON Web Key Set",
         .method = "GET", .path = "/.well-known/jwks.json", .example = "TOKEN KEYS"},
    [PROTOCOL_TOKEN_REFRESH] =
        {ROW(TOKEN_REFRESH, "TOKEN", "REFRESH", READ, NOBODY, NONE), .traits = PROTOCOL_BEARER,
         .form = FORM(token_refresh_args),
         .summary =
             "Exchanges a live token for one with a later expiry, within the limits of its issuer "
             "and its lease; the old one stays valid",
         .method = "POST", .path = "/auth/refresh", .also_method = "POST",
         .also_path = "/api/v1/auth/refresh", .example = "TOKEN REFRESH eyJ.eyJ.sig"},
    [PROTOCOL_TOKEN_REVOKE] = {ROW(TOKEN_REVOKE, "TOKEN", "REVOKE", WRITE, OPERATOR, LEASE),
                               .verb = KERNEL_VERB_REVOKE, .form = FORM(token_revoke_args),
                               .summary =
                                   "Revokes the lease of a token if it still has the token's epoch",
                               .method = "POST", .path = "/auth/revoke/{id}",
                               .also_method = "DELETE", .also_path = "/auth/token/{id}",
                               .example = "TOKEN REVOKE 0-1042.1"},
    [PROTOCOL_TOKEN_ROTATE] =
        {ROW(TOKEN_ROTATE, "TOKEN", "ROTATE", JOB, ADMIN, NONE), .form = FORM(token_rotate_args),
         .summary =
             "Creates a new signing key; older keys verify until their tokens expire, or with NOW "
             "not at all",
         .method = "POST", .path = "/auth/rotate", .example = "TOKEN ROTATE"},
    [PROTOCOL_TOKEN_SENSOR] =
        {ROW(TOKEN_SENSOR, "TOKEN", "SENSOR", READ, OPERATOR, SENSOR),
         .form = FORM(token_sensor_args),
         .summary = "Issues a token for the lease of a running sensor, with its trigger",
         .method = "POST", .path = "/auth/sensor-token", .example = "TOKEN SENSOR core.timer"},
    [PROTOCOL_TOUCH] = {ROW(TOUCH, "TOUCH", "", WRITE, HOLDER, LEASE), .verb = KERNEL_VERB_TOUCH,
                        .form = FORM(touch_args),
                        .summary = "Renews a lease; an offline lease becomes active",
                        .method = "POST", .path = "/v1/leases/{lease}/touch",
                        .example = "TOUCH 0-1042 1 TTL 60"},
    [PROTOCOL_UNSUBSCRIBE] = {ROW(UNSUBSCRIBE, "UNSUBSCRIBE", "", CONNECTION, READER, NONE),
                              .traits = PROTOCOL_SUBSCRIBER | PROTOCOL_PUBSUB,
                              .form = FORM(any_channels_args),
                              .summary = "Unsubscribes from some or all channels",
                              .example = "UNSUBSCRIBE events"},
    [PROTOCOL_VALUE] = {ROW(VALUE, "VALUE", "", READ, READER, POOL), .traits = PROTOCOL_STALE,
                        .form = FORM(value_args),
                        .summary = "A value of a pool, held or free, with its last holder",
                        .method = "GET", .path = "/v1/pools/{pool}/values/{value}",
                        .example = "VALUE ports/30000"},
    [PROTOCOL_VERIFY] = {ROW(VERIFY, "VERIFY", "", READ, READER, LEASE), .form = FORM(verify_args),
                         .summary = "Returns whether a fencing token is the live authority",
                         .method = "GET", .path = "/v1/leases/{lease}/verify",
                         .example = "VERIFY 0-1042 1"},
};
