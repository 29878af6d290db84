/* Any bytes as a block of event records: what is taken for an event stays within its record, and every
 * text in it ends in a NUL. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "engine/record.h"

static struct engine_event_value values[KERNEL_BUNDLE_MAX];

static void check_text(struct tn_bytes record, struct tn_bytes text) {
    TN_ASSERT(text.at[text.len] == '\0');
    TN_ASSERT(text.len == 0 ||
              (text.at >= record.at && text.at + text.len < record.at + record.len));
}

static void check(struct tn_bytes record, const struct engine_event *event) {
    check_text(record, event->fact.holder);
    check_text(record, event->fact.previous);
    check_text(record, event->fact.user);
    check_text(record, event->fact.name);
    check_text(record, event->fact.trigger);
    check_text(record, event->fact.payload);
    TN_ASSERT(strlen(kernel_event_name(event->fact.kind)) > 0);
    for (uint32_t i = 0; i < event->fact.value_count; i++) {
        char text[KERNEL_VALUE_TEXT_MAX];
        check_text(record, event->values[i].pool);
        check_text(record, event->values[i].name);
        (void)kernel_value_format(event->values[i].format, event->values[i].number, text);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct tn_bytes rest = tn_bytes_of(data, size);
    while (rest.len > 0) {
        struct tn_bytes record = engine_record_first(rest);
        struct engine_event event;
        if (record.len == 0) {
            return 0;
        }
        if (engine_record_values(record.at) <= KERNEL_BUNDLE_MAX &&
            engine_record_read(record, values, &event)) {
            check(record, &event);
        }
        rest = tn_bytes_of(rest.at + record.len, rest.len - record.len);
    }
    return 0;
}
