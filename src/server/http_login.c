/* Log-ins over HTTP: a name and a secret in the header Authorization, as Basic (which curl -u and
 * browsers send) or as Bearer NAME:SECRET. Each request contains them. Without that header, the
 * user is the one that the connection itself proves, by a client certificate or by the process at
 * the Unix-domain socket. */
#include <sodium.h>
#include <string.h>
#include <strings.h>

#include "protocol/render.h"
#include "server/access.h"
#include "server/http_parts.h"
#include "server/login.h"
#include "server/owners.h"
#include "server/users.h"

#define CREDENTIALS_MAX (KERNEL_USER_MAX + 1 + ACCESS_SECRET_MAX)

static bool scheme_is(const char *value, const char *scheme, const char **ret_rest) {
    size_t len = strlen(scheme);
    if (strncasecmp(value, scheme, len) != 0 || value[len] != ' ') {
        return false;
    }
    *ret_rest = value + len + strspn(value + len, " ");
    return true;
}

/* Decodes NAME:SECRET. Returns the length; 0: the header has none, or it is malformed. */
static size_t credentials_read(const char *value, char out[CREDENTIALS_MAX]) {
    const char *rest;
    size_t len = 0;
    if (scheme_is(value, "Basic", &rest)) {
        if (sodium_base642bin((unsigned char *)out, CREDENTIALS_MAX, rest, strlen(rest), NULL, &len,
                              NULL, sodium_base64_VARIANT_ORIGINAL) != 0) {
            return 0;
        }
        return len;
    }
    if (scheme_is(value, "Bearer", &rest) && strlen(rest) <= CREDENTIALS_MAX) {
        len = strlen(rest);
        memcpy(out, rest, len);
    }
    return len;
}

void http_answer_refusal(struct http_exchange *exchange, enum tn_result code, const char *detail) {
    char text[PROTOCOL_PROBLEM_MAX];
    struct protocol_writer w = {.out = tn_writer_of(text, sizeof text), .encoding = PROTOCOL_JSON};
    protocol_render_refusal(&w, code, detail);
    http_answer(exchange, (unsigned)tn_result_http(code), "application/problem+json", text,
                w.out.len);
    /* The page has its own log-in, and the browser's dialog for this header would cover it. */
    const char *fetched = http_header_in(exchange, "Sec-Fetch-Dest");
    if (code == TN_R_NOAUTH && (fetched == NULL || strcmp(fetched, "empty") != 0)) {
        http_header_out(exchange, MHD_HTTP_HEADER_WWW_AUTHENTICATE,
                        "Basic realm=\"tenure\", charset=\"UTF-8\"");
    }
}

/* True: the user of the request is known, if it has one. False: the request has been answered, or
 * it waits. */
static bool login(struct http_exchange *exchange) {
    char credentials[CREDENTIALS_MAX];
    const char *value = http_header_in(exchange, MHD_HTTP_HEADER_AUTHORIZATION);
    if (value == NULL || exchange->client.login.user != exchange->connection->arrived.user) {
        return true;
    }
    size_t len = credentials_read(value, credentials);
    const char *colon = len > 0 ? memchr(credentials, ':', len) : NULL;
    enum server_login_step step = SERVER_LOGIN_BAD;
    if (colon != NULL) {
        size_t name = (size_t)(colon - credentials);
        step = server_login(exchange->client.owners->logins, &exchange->client,
                            tn_bytes_of(credentials, name), tn_bytes_of(colon + 1, len - name - 1));
    }
    sodium_memzero(credentials, sizeof credentials);
    exchange->connection->failures = exchange->client.failures;
    if (step == SERVER_LOGIN_BAD) {
        http_answer_refusal(exchange, TN_R_NOAUTH, "unknown user or wrong secret");
        if (exchange->connection->failures >= SERVER_LOGIN_FAILURES) {
            http_header_out(exchange, MHD_HTTP_HEADER_CONNECTION, "close");
        }
    } else if (step == SERVER_LOGIN_BUSY) {
        http_answer_refusal(exchange, TN_R_OVERLOADED, "too many log-ins at once; try again");
        http_header_out(exchange, MHD_HTTP_HEADER_RETRY_AFTER, "1");
    }
    return step == SERVER_LOGIN_GOOD;
}

bool http_arrived_is_void(const struct http_connection *connection) {
    const struct access_login *arrived = &connection->arrived;
    return arrived->user != NULL && !arrived->user->is_fixed &&
           access_user_of(connection->http->owners->access, arrived)->role == PROTOCOL_NOBODY;
}

bool http_access(struct http_exchange *exchange, enum protocol_role role) {
    struct server_owners *owners = exchange->client.owners;
    server_users_look(owners);
    if (role == PROTOCOL_NOBODY || (!owners->access->on && exchange->client.login.user == NULL)) {
        return true;
    }
    if (owners->access->on && !login(exchange)) {
        return false;
    }
    const struct access_user *user = access_user_of(owners->access, &exchange->client.login);
    enum tn_result code = access_role(user, role);
    if (code != TN_R_OK) {
        http_answer_refusal(exchange, code, NULL);
    }
    if (code == TN_R_NOAUTH && http_arrived_is_void(exchange->connection)) {
        http_header_out(exchange, MHD_HTTP_HEADER_CONNECTION, "close");
    }
    return code == TN_R_OK;
}
