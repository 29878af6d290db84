/* What tls_login.h promises. */
#include "server/tls_login.h"

struct search {
    const struct access *access;
    struct access_login login;
};

static bool name_is_user(void *ctx, struct tn_bytes name) {
    struct search *search = ctx;
    search->login = access_login_of(search->access, name);
    search->login.by_certificate = search->login.user != NULL;
    return search->login.user != NULL;
}

struct access_login server_tls_login(const struct transport *transport,
                                     const struct access *access) {
    struct search search = {.access = access};
    (void)transport_tls_names(transport, name_is_user, &search);
    return search.login;
}
