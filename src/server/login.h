/* Log-ins: whether a name and a secret belong together. See login.c and login_address.c. */
#ifndef TN_SERVER_LOGIN_H
#define TN_SERVER_LOGIN_H

#include <sodium.h>
#include <uv.h>

#include "server/client.h"
#include "server/count.h"

#define SERVER_LOGINS_MAX 4096u         /* log-ins waiting to be compared */
#define SERVER_LOGINS_ADDRESS_MAX 1024u /* of these, from one address */
#define SERVER_LOGIN_ADDRESSES 512u     /* that are remembered */
#define SERVER_LOGIN_NAMES 256u
#define SERVER_LOGIN_FAILURES 8u /* on one connection; then it is closed */
#define SERVER_LOGIN_LINES 8u    /* lines in the log per second */
#define SERVER_LOGIN_KNOWN 1024u
#define SERVER_LOGIN_MARK 32u
#define SERVER_LOGIN_ADDRESS_TEXT 64u

/* A log-in that was accepted before. */
struct server_login_known {
    uint8_t mark[SERVER_LOGIN_MARK];
    struct access_login login;
};

/* An address from which clients log in. */
struct server_login_address {
    uint8_t key[16];
    uint32_t waiting;  /* its log-ins in the queue */
    uint32_t failures; /* recent failures, halved every second */
    uint64_t used_ms;
};

struct server_logins {
    uv_loop_t *loop;
    struct access *access;
    struct server_counters *counters;
    void (*ended)(void *ctx); /* called when a comparison is over */
    void *ctx;
    TAILQ_HEAD(server_login_list, server_login) waiting; /* in order of arrival */
    /* Being compared on another thread, not in the list; NULL: none. */
    struct server_login *compared;
    uint32_t count; /* with that one */
    uint64_t turn;  /* comparisons begun */
    /* The turn of the last log-in of each user, by a hash of the name. */
    uint64_t name_turns[SERVER_LOGIN_NAMES];
    struct server_login_address addresses[SERVER_LOGIN_ADDRESSES + 1];
    /* Failures of this second that were logged, and that were only counted. */
    uint32_t told, untold;
    uv_work_t work;
    /* The hash of a random secret, with which secrets of unknown users are compared. */
    char nobodys_hash[crypto_pwhash_STRBYTES];
    uint8_t key[32];
    struct server_login_known known[SERVER_LOGIN_KNOWN];
};

enum server_login_step {
    SERVER_LOGIN_GOOD, /* the client is logged in as client->login */
    SERVER_LOGIN_BAD,
    SERVER_LOGIN_WAIT, /* the client will be run; then the handler must call again */
    SERVER_LOGIN_BUSY, /* too many wait */
};

/* The caller sets the first five fields. False: no random bytes, or no memory for a hash. */
bool server_login_init(struct server_logins *logins);
enum server_login_step server_login(struct server_logins *logins, struct server_client *client,
                                    struct tn_bytes name, struct tn_bytes secret);
void server_login_leave(struct server_logins *logins, struct server_client *client);
/* Every second. */
void server_logins_second(struct server_logins *logins);

/* login_address.c: the entry for the address of the client at the other end of the socket, without
 * its port. */
struct server_login_address *server_login_address(struct server_logins *logins, int socket,
                                                  uint64_t now_ms);
void server_login_address_text(int socket, char out[SERVER_LOGIN_ADDRESS_TEXT]);

#endif
