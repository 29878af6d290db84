/* Names, versions, and assertions that the public numbers equal the internal ones. */
#include <inttypes.h>
#include <stdio.h>

#include "engine/read.h"
#include "lib/library.h"

#define NAMES_SAME_RESULT(name, outcome, http, exit_code, text) \
    _Static_assert((int)TENURE_##name == (int)TN_R_##name, "result " #name);
TN_RESULT_TABLE(NAMES_SAME_RESULT)

#define NAMES_SAME_STATUS(name, text) \
    _Static_assert((int)TENURE_STATUS_##name == (int)TN_##name, "status " #name);
TN_STATUS_TABLE(NAMES_SAME_STATUS)

#define NAMES_SAME_STATE(name, text) \
    _Static_assert((int)TENURE_LEASE_##name == (int)KERNEL_##name, "state " #name);
KERNEL_STATE_TABLE(NAMES_SAME_STATE)

_Static_assert((int)TENURE_COMMITTED == (int)TN_COMMITTED, "outcomes");
_Static_assert((int)TENURE_REJECTED == (int)TN_REJECTED, "outcomes");
_Static_assert((int)TENURE_UNKNOWN == (int)TN_UNKNOWN, "outcomes");
_Static_assert((int)TENURE_RIGHT_OPERATOR == (int)KERNEL_RIGHT_OPERATOR, "rights");
_Static_assert((int)TENURE_RIGHT_SUPERVISOR == (int)KERNEL_RIGHT_SUPERVISOR, "rights");

#define NAMES_SAME_VERB(name) \
    _Static_assert((int)TENURE_VERB_##name == (int)KERNEL_VERB_##name, "verb " #name)
NAMES_SAME_VERB(TICK);
NAMES_SAME_VERB(POOL_CREATE);
NAMES_SAME_VERB(POOL_ALTER);
NAMES_SAME_VERB(POOL_DROP);
NAMES_SAME_VERB(POOL_ADD);
NAMES_SAME_VERB(POOL_REMOVE);
NAMES_SAME_VERB(ALLOC);
NAMES_SAME_VERB(RESERVE);
NAMES_SAME_VERB(ACTIVATE);
NAMES_SAME_VERB(TOUCH);
NAMES_SAME_VERB(RELEASE);
NAMES_SAME_VERB(REVOKE);
NAMES_SAME_VERB(ACK);
NAMES_SAME_VERB(RECLAIM);
NAMES_SAME_VERB(REKEY);
NAMES_SAME_VERB(DISOWN);
NAMES_SAME_VERB(SWEEP);
NAMES_SAME_VERB(RULE_SET);
NAMES_SAME_VERB(RULE_ENABLE);
NAMES_SAME_VERB(RULE_DELETE);
NAMES_SAME_VERB(SENSOR_SET);
NAMES_SAME_VERB(SENSOR_ENABLE);
NAMES_SAME_VERB(SENSOR_DELETE);
NAMES_SAME_VERB(IMPORT);
NAMES_SAME_VERB(POOL_SEED);
NAMES_SAME_VERB(EMIT);
NAMES_SAME_VERB(SENSOR_REPORT);
NAMES_SAME_VERB(UNATTEND);
/* Users are the server's: the library has no access control. */
_Static_assert(KERNEL_VERB_COUNT == LIB_VERBS + 3 && LIB_VERBS == KERNEL_VERB_USER_ADD,
               "every verb but those of users has its public name");

_Static_assert(TENURE_HOLDER_MAX == KERNEL_HOLDER_MAX, "sizes");
_Static_assert(TENURE_USER_MAX == KERNEL_USER_MAX, "sizes");
_Static_assert(TENURE_OPID_MAX == KERNEL_OPID_MAX, "sizes");
_Static_assert(TENURE_POOL_MAX == KERNEL_POOL_MAX, "sizes");
_Static_assert(TENURE_VALUE_MAX >= KERNEL_RESOURCE_MAX, "sizes");
_Static_assert(TENURE_VALUE_MAX + 1 >= KERNEL_VALUE_TEXT_MAX, "sizes");
_Static_assert(TENURE_RULE_MAX == KERNEL_RULE_MAX, "sizes");
_Static_assert(TENURE_SENSOR_MAX == KERNEL_RESOURCE_MAX, "sizes");
_Static_assert(TENURE_META_MAX == KERNEL_META_MAX, "sizes");
_Static_assert(TENURE_REASON_MAX == KERNEL_NOTE_MAX, "sizes");
_Static_assert(TENURE_SPEC_MAX == KERNEL_SENSOR_SPEC_MAX, "sizes");
_Static_assert(TENURE_REPLY_VALUES == ENGINE_LEASE_VALUES, "sizes");
_Static_assert(sizeof(((struct tenure_error *)0)->text) == sizeof(((struct log_error *)0)->text),
               "errors fit");

const char *tenure_version(void) {
    return TENURE_VERSION;
}

const char *tenure_result_name(enum tenure_result result) {
    return tn_result_name((enum tn_result)result);
}

const char *tenure_result_text(enum tenure_result result) {
    return tn_result_text((enum tn_result)result);
}

const char *tenure_status_name(enum tenure_status status) {
    return (unsigned)status < TN_STATUS_COUNT ? tn_status_name((enum tn_status)status) : "?";
}

const char *tenure_state_name(enum tenure_state state) {
    return kernel_state_name((enum kernel_state)state);
}

void tenure_lease_id_format(struct tenure_lease_id id, char out[TENURE_LEASE_ID_TEXT]) {
    (void)snprintf(out, TENURE_LEASE_ID_TEXT, "%" PRIu64 "-%" PRIu64, id.shard, id.lsn);
}

/* Digits only: no sign, no space, no leading zero that would make two texts of one id. */
static bool names_number(const char **text, uint64_t *ret_number) {
    const char *at = *text;
    uint64_t number = 0;
    if (*at < '0' || *at > '9' || (*at == '0' && at[1] >= '0' && at[1] <= '9')) {
        return false;
    }
    for (; *at >= '0' && *at <= '9'; at++) {
        unsigned digit = (unsigned)(*at - '0');
        if (number > (UINT64_MAX - digit) / 10) {
            return false;
        }
        number = number * 10 + digit;
    }
    *text = at;
    *ret_number = number;
    return true;
}

bool tenure_lease_id_parse(const char *text, struct tenure_lease_id *ret_id) {
    struct tenure_lease_id id;
    if (!names_number(&text, &id.shard) || *text++ != '-' || !names_number(&text, &id.lsn) ||
        *text != '\0') {
        return false;
    }
    *ret_id = id;
    return true;
}
