/* A request of an import in flight, or a row that was decided locally. */
#ifndef TN_CLI_IMPORT_ITEM_H
#define TN_CLI_IMPORT_ITEM_H

#include "cli/import.h"

enum import_item_kind {
    IMPORT_ITEM_OPEN,   /* not sent yet, because the next row may belong to the same lease */
    IMPORT_ITEM_IMPORT, /* on its way */
    IMPORT_ITEM_LOOK,   /* in a dry run: reads the lease of the value */
    IMPORT_ITEM_WHO,    /* refused with BUSY: reads the holder */
    IMPORT_ITEM_SAID,   /* decided locally; reported in order */
};

struct import_item {
    enum import_item_kind kind;
    uint64_t line, other_line;
    uint64_t deadline_ms, created_ms, seen_ms, offline_ms;
    bool again; /* was sent on a connection that was lost */
    enum tn_result result;
    struct cli_text request; /* the bytes of the request; for SAID, the reason */
    struct cli_text names;   /* pool, holder and owner of the other line, one after the other */
    struct cli_text values;  /* separated by blanks, which no value contains */
    uint32_t pool, holder, owner; /* lengths */
    uint32_t count;               /* number of values, which is the number of rows */
};

void import_item_names(struct import_item *item, struct tn_bytes pool, struct tn_bytes value,
                       struct tn_bytes holder, struct tn_bytes owner);
/* Adds another value of the same lease. */
void import_item_join(struct import_item *item, struct tn_bytes value);
void import_item_decide(struct import_item *item, enum tn_result result, const char *reason);
/* Makes the request. */
void import_item_import(struct import_item *item);
void import_item_look(struct import_item *item);

struct import_said import_item_said(const struct import_item *item);
/* The holder that the other line of the file gives the value. Empty: unknown. */
struct tn_bytes import_item_owner(const struct import_item *item);
bool import_item_holder_is(const struct import_item *item, struct tn_bytes holder);
void import_item_free(struct import_item *item);

#endif
