/* What users.h promises. */
#include "server/users.h"

#include "server/access.h"
#include "server/connection.h"
#include "server/http_listen.h"
#include "server/log_line.h"
#include "server/owners.h"

#define PAGE 16u

static bool page_put(struct server_owners *owners, const struct kernel_user_view *page,
                     uint32_t count) {
    bool good = true;
    for (uint32_t i = 0; i < count; i++) {
        const struct access_option option = {.name = page[i].name,
                                             .hash = page[i].secret,
                                             .role = (enum protocol_role)page[i].role,
                                             .pools = page[i].pools,
                                             .holders = page[i].holders,
                                             .max_values = page[i].max_values};
        good = access_user_put(owners->access, &option, page[i].lsn) && good;
    }
    return good;
}

/* The position is read before the users, so that a change in between is noticed by the next
 * call. */
static void users_take(struct server_owners *owners, uint64_t lsn) {
    struct kernel_user_view page[PAGE];
    uint64_t cursor = 0;
    uint32_t count;
    bool good = true;
    access_users_begin(owners->access);
    do {
        if (engine_users_list(owners->engine, &cursor, page, PAGE, &count) != TN_R_OK) {
            /* The engine has halted and serves no one, or it starts and this is called again. */
            return;
        }
        good = page_put(owners, page, count) && good;
    } while (cursor != 0);
    access_users_end(owners->access);
    if (!good) {
        server_log("users_failed", "reason=\"no memory; some users cannot log in\"");
    }
    owners->users->lsn = lsn;
    owners->users->review = true;
}

void server_users_look(struct server_owners *owners) {
    uint64_t lsn = engine_users_lsn(owners->engine);
    if (lsn != owners->users->lsn) {
        users_take(owners, lsn);
    }
}

void server_users_again(struct server_owners *owners) {
    uint64_t lsn = engine_users_lsn(owners->engine);
    if (lsn != 0) {
        users_take(owners, lsn);
    }
    owners->users->review = true;
}

void server_users_review(struct server_owners *owners) {
    if (owners->users->review) {
        owners->users->review = false;
        server_connections_review(owners);
        server_http_review(owners);
    }
}
