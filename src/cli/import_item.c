/* Requests of an import. Buffers are reused: an import of a million rows allocates only for the
 * requests in flight. */
#include "cli/import_item.h"

#include <inttypes.h>
#include <string.h>

static void request_begin(struct cli_text *text, uint32_t words) {
    text->len = 0;
    cli_text_printf(text, "*%u\r\n", words);
}

static void request_word(struct cli_text *text, const void *at, size_t len) {
    cli_text_printf(text, "$%zu\r\n", len);
    cli_text_add(text, at, len);
    cli_text_put(text, "\r\n");
}

static void request_number(struct cli_text *text, uint64_t number) {
    char digits[24];
    int len = snprintf(digits, sizeof digits, "%" PRIu64, number);
    request_word(text, digits, (size_t)len);
}

static void request_time(struct cli_text *text, const char *token, uint64_t ms) {
    if (ms != 0) {
        request_word(text, token, strlen(token));
        request_number(text, ms);
    }
}

void import_item_import(struct import_item *item) {
    struct cli_text *text = &item->request;
    uint32_t times = 0u + (item->deadline_ms != 0) + (item->created_ms != 0) +
                     (item->seen_ms != 0) + (item->offline_ms != 0);
    const char *value = item->values.at;
    request_begin(text, 5 + item->count + 2 * times);
    request_word(text, "IMPORT", 6);
    request_word(text, item->names.at, item->pool);
    request_word(text, item->names.at + item->pool, item->holder);
    request_word(text, "VALUES", 6);
    request_number(text, item->count);
    for (uint32_t i = 0; i < item->count; i++) {
        size_t len = strcspn(value, " ");
        request_word(text, value, len);
        value += len + 1;
    }
    request_time(text, "DEADLINE", item->deadline_ms);
    request_time(text, "CREATED", item->created_ms);
    request_time(text, "SEEN", item->seen_ms);
    request_time(text, "OFFLINE", item->offline_ms);
    item->kind = IMPORT_ITEM_IMPORT;
}

/* Makes the request LEASE pool/value, for the first of several values. */
void import_item_look(struct import_item *item) {
    struct cli_text name = {.at = NULL};
    cli_text_add(&name, item->names.at, item->pool);
    cli_text_put(&name, "/");
    cli_text_add(&name, item->values.at, strcspn(item->values.at, " "));
    request_begin(&item->request, 2);
    request_word(&item->request, "LEASE", 5);
    request_word(&item->request, name.failed ? "" : name.at, name.len);
    cli_text_free(&name);
}

void import_item_names(struct import_item *item, struct tn_bytes pool, struct tn_bytes value,
                       struct tn_bytes holder, struct tn_bytes owner) {
    item->names.len = 0;
    cli_text_add(&item->names, pool.at, pool.len);
    cli_text_add(&item->names, holder.at, holder.len);
    cli_text_add(&item->names, owner.at, owner.len);
    item->values.len = 0;
    cli_text_add(&item->values, value.at, value.len);
    item->pool = pool.len;
    item->holder = holder.len;
    item->owner = owner.len;
    item->count = 1;
}

void import_item_join(struct import_item *item, struct tn_bytes value) {
    cli_text_put(&item->values, " ");
    cli_text_add(&item->values, value.at, value.len);
    item->count++;
}

void import_item_decide(struct import_item *item, enum tn_result result, const char *reason) {
    item->kind = IMPORT_ITEM_SAID;
    item->result = result;
    item->request.len = 0;
    cli_text_put(&item->request, reason);
}

struct import_said import_item_said(const struct import_item *item) {
    return (struct import_said){.line = item->line,
                                .rows = item->count,
                                .pool = tn_bytes_of(item->names.at, item->pool),
                                .value = tn_bytes_of(item->values.at, item->values.len),
                                .holder = tn_bytes_of(item->names.at + item->pool, item->holder)};
}

struct tn_bytes import_item_owner(const struct import_item *item) {
    return tn_bytes_of(item->names.at + item->pool + item->holder, item->owner);
}

bool import_item_holder_is(const struct import_item *item, struct tn_bytes holder) {
    return tn_bytes_equal(holder, tn_bytes_of(item->names.at + item->pool, item->holder));
}

void import_item_free(struct import_item *item) {
    cli_text_free(&item->request);
    cli_text_free(&item->names);
    cli_text_free(&item->values);
}
