/* The arguments of the commands, for the rows of table.c and nobody else. Those that several commands share
 * have one array. */
#ifndef TN_PROTOCOL_TABLE_FORMS_H
#define TN_PROTOCOL_TABLE_FORMS_H

#include "protocol/table.h"

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
#define WAIT OPTION("WAIT", "duration", PROTOCOL_T_DURATION, PROTOCOL_B_WAIT)
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
    STRING("pool", PROTOCOL_B_FROM), HOLDER, AMOUNT, TTL, WAIT, META, OPID};
static const struct protocol_argument alloc_bundle[] = {HOLDER, CLAIMS, TTL, WAIT, META, OPID};
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
    HOLDER, NEEDED("TTL", "duration", PROTOCOL_T_DURATION, PROTOCOL_B_TTL), CLAIMS, WAIT, META,
    OPID};
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
static const struct protocol_argument pools_args[] = {
    OPTION("MATCH", "pattern", PROTOCOL_T_STRING, PROTOCOL_B_MATCH),
    OPTION("SORT", "occupancy|free|waiting|name", PROTOCOL_T_STRING, PROTOCOL_B_SORT),
    OPTION("SCOPES", "yes|no", PROTOCOL_T_STRING, PROTOCOL_B_SCOPES),
    CURSOR,
    COUNT,
    FENCE};
static const struct protocol_argument verify_args[] = {LEASE, EPOCH, FENCE};
static const struct protocol_argument lease_read[] = {STRING("lease|pool/value", PROTOCOL_B_TARGET),
                                                      FENCE};
static const struct protocol_argument leases_args[] = {
    IN_POOL,
    OPTION("HOLDER", "holder", PROTOCOL_T_STRING, PROTOCOL_B_HOLDER),
    OPTION("PREFIX", "prefix", PROTOCOL_T_STRING, PROTOCOL_B_PREFIX),
    OPTION("STATE", "state", PROTOCOL_T_STRING, PROTOCOL_B_STATE),
    CURSOR,
    COUNT,
    FENCE};
static const struct protocol_argument values_args[] = {
    POOL, OPTION("STATE", "state", PROTOCOL_T_STRING, PROTOCOL_B_VALUE_STATE), CURSOR, COUNT,
    FENCE};
static const struct protocol_argument history_args[] = {
    POOL, OPTION("STEP", "minute|hour", PROTOCOL_T_STRING, PROTOCOL_B_STEP),
    OPTION("COUNT", "n", PROTOCOL_T_INTEGER, PROTOCOL_B_SAMPLES), FENCE};
static const struct protocol_argument value_args[] = {STRING("pool/value", PROTOCOL_B_VALUE),
                                                      FENCE};
static const struct protocol_argument events_args[] = {
    OPTION("AFTER", "event", PROTOCOL_T_STRING, PROTOCOL_B_EVENT),
    COUNT,
    IN_POOL,
    OPTION("HOLDER", "holder", PROTOCOL_T_STRING, PROTOCOL_B_HOLDER),
    OPTION("KIND", "kind", PROTOCOL_T_STRING, PROTOCOL_B_KIND),
    OPTION("LEASE", "lease", PROTOCOL_T_STRING, PROTOCOL_B_LEASE),
    OPTION("VALUE", "value", PROTOCOL_T_STRING, PROTOCOL_B_OF_VALUE),
    OPTION("ACTOR", "actor", PROTOCOL_T_STRING, PROTOCOL_B_ACTOR),
    OPTION("TEXT", "text", PROTOCOL_T_STRING, PROTOCOL_B_TEXT),
    FENCE};
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
#define USER_FIELDS                                                           \
    OPTION("POOLS", "patterns", PROTOCOL_T_STRING, PROTOCOL_B_POOLS),         \
        OPTION("HOLDERS", "patterns", PROTOCOL_T_STRING, PROTOCOL_B_HOLDERS), \
        OPTION("MAX_VALUES", "n", PROTOCOL_T_INTEGER, PROTOCOL_B_MAX_VALUES), REASON, OPID
static const struct protocol_argument user_add[] = {
    STRING("name", PROTOCOL_B_NAME), NEEDED("ROLE", "role", PROTOCOL_T_STRING, PROTOCOL_B_ROLE),
    NEEDED("SECRET", "secret", PROTOCOL_T_STRING, PROTOCOL_B_SECRET), USER_FIELDS};
static const struct protocol_argument user_set[] = {
    STRING("name", PROTOCOL_B_NAME), OPTION("ROLE", "role", PROTOCOL_T_STRING, PROTOCOL_B_ROLE),
    OPTION("SECRET", "secret", PROTOCOL_T_STRING, PROTOCOL_B_SECRET), USER_FIELDS};
static const struct protocol_argument user_delete[] = {STRING("name", PROTOCOL_B_NAME), REASON,
                                                       OPID};
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

#endif
