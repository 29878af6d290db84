/* Messages about rules, as another program sends them: JSON to a command of the kernel.
 *
 *     {"event_type": "RuleCreated", "rule_id": 7, "trigger_ref": "core.timer", "enabled": true}
 *
 * or the same as `payload` of an envelope, which may have the type, an id and a time:
 *
 *     {"message_id": "...", "message_type": "RuleEnabled", "timestamp": "...", "payload": {...}}
 *
 * The type is event_type, else message_type, else the end of the routing key (rule.created). A rule
 * is known by its rule_id, else by its rule_ref: an id stays with its rule and is never used again,
 * whereas a ref may be renamed, or given to another rule before the deletion of the first one arrives.
 * A trigger is known by trigger_ref, else trigger_type, else trigger_id. The object trigger_params
 * becomes the metadata of the rule, where the message names the trigger. Members that are null are
 * absent; others are ignored. */
#ifndef TN_BROKER_RULE_MESSAGE_H
#define TN_BROKER_RULE_MESSAGE_H

#include "kernel/command.h"

#define RULE_MESSAGE_MAX 65536u /* maximum bytes of a message */

enum rule_message_kind {
    RULE_MESSAGE_CREATED,
    RULE_MESSAGE_ENABLED,
    RULE_MESSAGE_DISABLED,
    RULE_MESSAGE_DELETED,
};

struct rule_message {
    enum rule_message_kind kind;
    bool enabled; /* state of the rule after the message */
    uint32_t rule_len, trigger_len, id_len;
    char rule[KERNEL_RULE_MAX];
    char trigger[KERNEL_RULE_MAX]; /* empty: the message names none */
    char id[KERNEL_OPID_MAX];      /* id of the message, from its envelope; empty: none */
    struct tn_bytes meta;          /* trigger_params of the body; empty: none */
    uint64_t time_us;              /* when the message was made, since 1970; 0: unknown */
};

/* NULL, or what is wrong with the message. */
const char *rule_message_parse(struct tn_bytes body, struct tn_bytes routing_key,
                               struct rule_message *ret_message);

/* The operation id for a message id: the id itself, or its hash if it is too long. Returns the
 * length. */
uint32_t rule_message_opid(struct tn_bytes id, char out[KERNEL_OPID_MAX]);

/* The texts belong to the message. The caller adds the user and the operation id. */
struct kernel_command rule_message_command(const struct rule_message *message);

/* Parses a time such as 2026-01-02T03:04:05.678Z, with any fraction and any zone, into microseconds
 * since 1970. False: malformed, or before 1970. */
bool rule_message_time(struct tn_bytes text, uint64_t *ret_us);

#endif
