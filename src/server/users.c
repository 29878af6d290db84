/* What users.h promises. */
#include "server/users.h"

#include "server/http_listen.h"
#include "server/log_line.h"
#include "server/parts.h"

#define PAGE 16u

static bool page_put(struct server *server, const struct kernel_user_view *page, uint32_t count) {
    bool good = true;
    for (uint32_t i = 0; i < count; i++) {
        const struct access_option option = {.name = page[i].name,
                                             .hash = page[i].secret,
                                             .role = (enum protocol_role)page[i].role,
                                             .pools = page[i].pools,
                                             .holders = page[i].holders,
                                             .max_values = page[i].max_values};
        good = access_user_put(&server->access, &option, page[i].lsn) && good;
    }
    return good;
}

/* The position is read before the users, so that a change in between is noticed by the next
 * call. */
static void users_take(struct server *server, uint64_t lsn) {
    struct kernel_user_view page[PAGE];
    uint64_t cursor = 0;
    uint32_t count;
    bool good = true;
    access_users_begin(&server->access);
    do {
        if (engine_users_list(server->engine, &cursor, page, PAGE, &count) != TN_R_OK) {
            /* The engine has halted and serves no one, or it starts and this is called again. */
            return;
        }
        good = page_put(server, page, count) && good;
    } while (cursor != 0);
    access_users_end(&server->access);
    if (!good) {
        server_log("users_failed", "reason=\"no memory; some users cannot log in\"");
    }
    server->users.lsn = lsn;
    server->users.review = true;
}

void server_users_look(struct server *server) {
    uint64_t lsn = engine_users_lsn(server->engine);
    if (lsn != server->users.lsn) {
        users_take(server, lsn);
    }
}

void server_users_again(struct server *server) {
    uint64_t lsn = engine_users_lsn(server->engine);
    if (lsn != 0) {
        users_take(server, lsn);
    }
    server->users.review = true;
}

void server_users_review(struct server *server) {
    if (server->users.review) {
        server->users.review = false;
        server_connections_review(server);
        server_http_review(server);
    }
}
