/* The arguments of USER ADD and USER SET. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "protocol/parse.h"
#include "protocol/text.h"

_Static_assert((unsigned)PROTOCOL_ADMIN == KERNEL_ROLES, "a user is stored with its role");

#define SECRET_MAX 256u

__attribute__((format(printf, 3, 4))) static enum tn_result refuse(struct protocol_call *call,
                                                                   enum tn_result code,
                                                                   const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(call->detail, sizeof call->detail, format, arguments);
    va_end(arguments);
    return code;
}

static enum tn_result role_parse(struct tn_bytes word, struct protocol_call *call) {
    enum protocol_role role = protocol_role_parse(word);
    if (role == PROTOCOL_NOBODY) {
        return refuse(call, TN_R_MALFORMED, "ROLE: reader, holder, operator or admin");
    }
    call->command.role = (uint8_t)role;
    call->command.fields |= KERNEL_F_ROLE;
    return TN_R_OK;
}

/* The word is never shown: it is the secret. */
static enum tn_result secret_parse(struct tn_bytes word, struct protocol_call *call) {
    if (word.len == 0 || word.len > SECRET_MAX || memchr(word.at, '\n', word.len) != NULL) {
        return refuse(call, TN_R_MALFORMED, "SECRET: one line of 1 to %u bytes", SECRET_MAX);
    }
    call->secret = word;
    call->command.fields |= KERNEL_F_SPEC;
    return TN_R_OK;
}

static bool is_separator(uint8_t c) {
    return c == ' ' || c == '\t' || c == ',';
}

static const char *patterns_fault(struct tn_bytes word) {
    uint32_t i = 0;
    while (i < word.len && is_separator(word.at[i])) {
        i++;
    }
    return word.len > 0 && i == word.len ? "it contains no pattern"
                                         : protocol_name_fault(word, KERNEL_PATTERNS_MAX);
}

/* `*` alone is no limit. A list without a pattern is more likely a mistake. */
static enum tn_result patterns_parse(const char *what, uint32_t field, struct tn_bytes word,
                                     struct protocol_call *call, struct tn_bytes *ret_patterns) {
    const char *why = patterns_fault(word);
    if (why != NULL) {
        return refuse(call, TN_R_MALFORMED, "%s: %s; use * for all", what, why);
    }
    *ret_patterns = word.len == 1 && word.at[0] == '*' ? tn_bytes_of(NULL, 0) : word;
    call->command.fields |= field;
    return TN_R_OK;
}

static enum tn_result quota_parse(struct tn_bytes word, struct protocol_call *call) {
    uint64_t number;
    if (!kernel_value_parse(KERNEL_DEC, word, &number) || number > UINT32_MAX) {
        return refuse(call, TN_R_MALFORMED, "MAX_VALUES: a whole number from 0 to %u; 0: no limit",
                      UINT32_MAX);
    }
    call->command.quota = (uint32_t)number;
    call->command.fields |= KERNEL_F_QUOTA;
    return TN_R_OK;
}

enum tn_result protocol_user_parse(enum protocol_bind to, struct tn_bytes word,
                                   struct protocol_call *call) {
    struct kernel_command *command = &call->command;
    switch (to) {
    case PROTOCOL_B_ROLE:
        return role_parse(word, call);
    case PROTOCOL_B_SECRET:
        return secret_parse(word, call);
    case PROTOCOL_B_POOLS:
        return patterns_parse("POOLS", KERNEL_F_POOL, word, call, &command->pool);
    case PROTOCOL_B_HOLDERS:
        return patterns_parse("HOLDERS", KERNEL_F_HOLDER, word, call, &command->holder);
    default:
        return quota_parse(word, call);
    }
}
