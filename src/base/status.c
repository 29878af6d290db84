/* Names and sentences of the statuses, from the one table in the header.
 *
 * Both functions are total: a status may come from a newer peer or a foreign caller, and the code
 * that reports a failure must not fail itself. */
#include "base/status.h"

static const char *const names[] = {
#define TN_STATUS_NAME(name, text) #name,
    TN_STATUS_TABLE(TN_STATUS_NAME)
#undef TN_STATUS_NAME
};

static const char *const texts[] = {
#define TN_STATUS_TEXT(name, text) text,
    TN_STATUS_TABLE(TN_STATUS_TEXT)
#undef TN_STATUS_TEXT
};

const char *tn_status_name(enum tn_status status) {
    return (unsigned)status < TN_STATUS_COUNT ? names[status] : "UNKNOWN";
}

const char *tn_status_text(enum tn_status status) {
    return (unsigned)status < TN_STATUS_COUNT ? texts[status] : "unknown status";
}
