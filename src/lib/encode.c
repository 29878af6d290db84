/* Builds the engine's command from a tenure_command, following the kernel's verb table. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/library.h"

static const char *const field_names[] = {
    "lease",   "epoch",  "holder",      "ttl_s",   "after_s", "meta",    "immediate",
    "pool",    "claims", "values",      "options", "limits",  "name",    "trigger",
    "enabled", "spec",   "deadline_ms", "times",   "figures", "edition", "reason",
};

_Static_assert((1u << (sizeof field_names / sizeof field_names[0])) == (unsigned)KERNEL_F_NOTE << 1,
               "every field has a name");

/* The fields that the command has. What has no way to be absent counts if the verb takes it. */
static uint32_t fields_given(const struct tenure_command *command, uint32_t required,
                             uint32_t allowed) {
    uint32_t given = allowed & (KERNEL_F_ENABLED | KERNEL_F_FIGURES);
    given |= (command->epoch != 0 ? allowed : required) & KERNEL_F_EPOCH; /* epochs begin at 1 */
    given |= command->lease.lsn != 0 ? KERNEL_F_LEASE : 0u;
    given |= command->holder != NULL ? KERNEL_F_HOLDER : 0u;
    given |= command->has_ttl ? KERNEL_F_TTL : 0u;
    given |= command->has_after ? KERNEL_F_AFTER : 0u;
    given |= command->meta != NULL ? KERNEL_F_META : 0u;
    given |= command->immediate ? KERNEL_F_IMMEDIATE : 0u;
    given |= command->pool != NULL ? KERNEL_F_POOL : 0u;
    given |= command->claims != NULL ? KERNEL_F_CLAIMS : 0u;
    given |= command->values != NULL ? KERNEL_F_VALUES : 0u;
    given |= command->options != NULL ? KERNEL_F_POLICY : allowed & KERNEL_F_POLICY;
    given |= command->name != NULL ? KERNEL_F_NAME : 0u;
    given |= command->trigger != NULL ? KERNEL_F_TRIGGER : 0u;
    given |= command->spec != NULL ? KERNEL_F_SPEC : 0u;
    given |= command->caller.reason != NULL ? KERNEL_F_NOTE : 0u;
    given |= command->deadline_ms != 0 ? KERNEL_F_DEADLINE : 0u;
    given |=
        (command->created_ms | command->seen_ms | command->offline_ms) != 0 ? KERNEL_F_TIMES : 0u;
    return given;
}

/* A lease of LSN 0 never existed; the kernel says so, if it is asked. */
static bool fields_check(const struct tenure_command *command, uint32_t *ret_fields, char *detail) {
    if ((unsigned)command->verb >= LIB_VERBS) {
        (void)snprintf(detail, LIB_DETAIL, "unknown verb");
        return false;
    }
    const struct kernel_verb_row *row = &kernel_verb_rows[command->verb];
    uint32_t allowed = row->required | row->optional;
    uint32_t given =
        fields_given(command, row->required, allowed) | (row->required & KERNEL_F_LEASE);
    uint32_t wrong = (given & ~allowed) | (row->required & ~given);
    if (wrong != 0) {
        unsigned which = (unsigned)__builtin_ctz(wrong);
        (void)snprintf(detail, LIB_DETAIL, "%s: %s %s", row->name, field_names[which],
                       (given >> which & 1) != 0 ? "is unexpected" : "is missing");
        return false;
    }
    *ret_fields = given;
    return true;
}

static size_t requested_size(const struct tenure_requested *requested) {
    return requested->text != NULL ? 3 + strlen(requested->text) : 9;
}

static size_t requested_sizes(const struct tenure_requested *requested_values, uint32_t count) {
    size_t size = 0;
    for (uint32_t i = 0; requested_values != NULL && i < count; i++) {
        size += requested_size(&requested_values[i]);
    }
    return size;
}

/* Bytes of the claims and values. */
static size_t nested_size(const struct tenure_command *command) {
    size_t size = requested_sizes(command->values, command->value_count);
    for (uint32_t i = 0; command->claims != NULL && i < command->claim_count; i++) {
        const struct tenure_claim *claim = &command->claims[i];
        size += 7 + (claim->pool != NULL ? strlen(claim->pool) : 0);
        size += requested_sizes(claim->values, claim->count);
    }
    return size;
}

static void requested_write(struct tn_writer *w, const struct tenure_requested *requested_values,
                            uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (requested_values[i].text != NULL) {
            kernel_requested_write_text(w, lib_text(requested_values[i].text));
        } else {
            kernel_requested_write_number(w, requested_values[i].number);
        }
    }
}

static struct tn_bytes claims_write(struct tn_writer *w, const struct tenure_command *command,
                                    uint64_t *ret_values) {
    size_t from = w->len;
    for (uint32_t i = 0; i < command->claim_count; i++) {
        const struct tenure_claim *claim = &command->claims[i];
        bool any = claim->values == NULL;
        kernel_claim_write(w, lib_text(claim->pool), any, claim->count);
        if (!any) {
            requested_write(w, claim->values, claim->count);
        }
        *ret_values += claim->count;
    }
    return tn_bytes_of(w->at + from, w->len - from);
}

static struct kernel_command command_of(const struct tenure_command *command, uint32_t fields) {
    return (struct kernel_command){
        .verb = (enum kernel_verb)command->verb,
        .rights = (uint8_t)command->caller.rights,
        .fields = fields,
        .user = lib_text(command->caller.user),
        .opid = lib_text(command->caller.opid),
        .lease = {.shard = command->lease.shard, .lsn = command->lease.lsn},
        .epoch = command->epoch,
        .holder = lib_text(command->holder),
        .ttl_s = command->ttl_s,
        .after_s = command->after_s,
        .deadline_ms = command->deadline_ms,
        .created_ms = command->created_ms,
        .seen_ms = command->seen_ms,
        .offline_ms = command->offline_ms,
        .given_values = command->given_values,
        .reclaimed = command->reclaimed,
        .meta = tn_bytes_of(command->meta, command->meta_len),
        .pool = lib_text(command->pool),
        .name = lib_text(command->name),
        .trigger = lib_text(command->trigger),
        .enabled = command->enabled,
        .spec = tn_bytes_of(command->spec, command->spec_len),
        .note = lib_text(command->caller.reason),
    };
}

/* Claims and values are encoded into `buffer`. False: they are too long. */
static bool nested_write(const struct tenure_command *command, struct lib_command *built,
                         uint8_t *buffer, size_t capacity) {
    struct kernel_command *out = &built->command;
    struct tn_writer w = tn_writer_of(buffer, capacity);
    uint64_t values = 0;
    if ((out->fields & KERNEL_F_CLAIMS) != 0) {
        out->claims = claims_write(&w, command, &values);
        out->claim_count = command->claim_count;
        built->values = values > 0 && values < UINT32_MAX ? (uint32_t)values : UINT32_MAX;
    }
    if ((out->fields & KERNEL_F_VALUES) != 0) {
        size_t from = w.len;
        requested_write(&w, command->values, command->value_count);
        out->values = tn_bytes_of(w.at + from, w.len - from);
        out->value_count = command->value_count;
    }
    return !w.overflow;
}

static bool options_parse(const struct tenure_command *command,
                          struct kernel_policy_patch *ret_patch, char *detail) {
    *ret_patch = (struct kernel_policy_patch){.strict = true};
    for (uint32_t i = 0; i < command->option_count; i++) {
        const struct tenure_option *option = &command->options[i];
        if (option->name == NULL || option->value == NULL) {
            (void)snprintf(detail, LIB_DETAIL, "option %" PRIu32 " has no name or value", i);
            return false;
        }
        if (!kernel_option_set(option->name, option->value, ret_patch, detail)) {
            return false;
        }
    }
    return true;
}

enum tenure_result lib_command_build(const struct tenure_command *command,
                                     struct lib_command *built, char *detail) {
    uint32_t fields;
    built->heap = NULL;
    built->values = 0;
    if (!fields_check(command, &fields, detail)) {
        return TENURE_MALFORMED;
    }
    if ((fields & KERNEL_F_POLICY) != 0 && !options_parse(command, &built->patch, detail)) {
        return TENURE_BAD_POLICY;
    }
    size_t nested = nested_size(command);
    uint8_t *buffer = built->stack;
    if (nested > KERNEL_COMMAND_MAX) {
        (void)snprintf(detail, LIB_DETAIL, "the command is larger than %u bytes",
                       KERNEL_COMMAND_MAX);
        return TENURE_TOO_LARGE;
    }
    if (nested > sizeof built->stack) {
        buffer = built->heap = malloc(nested);
        if (buffer == NULL) {
            (void)snprintf(detail, LIB_DETAIL, "no memory for the command");
            return TENURE_OVERLOADED;
        }
    }
    built->command = command_of(command, fields);
    built->command.policy = &built->patch;
    if (!nested_write(command, built, buffer, nested) ||
        kernel_command_size(&built->command) == 0) {
        free(built->heap);
        (void)snprintf(detail, LIB_DETAIL,
                       "the command is larger than %u bytes, or a field than 65535",
                       KERNEL_COMMAND_MAX);
        return TENURE_TOO_LARGE;
    }
    return TENURE_OK;
}
