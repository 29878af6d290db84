/* Members of a real etcd, for tests: Debian's etcd-server on loopback, in a temporary directory and
 * on free ports. Members die with the test. Waiting has no limit of its own: the test's limit ends
 * it. */
#ifndef TESTS_LIB_ETCDKIT_H
#define TESTS_LIB_ETCDKIT_H

#include <stdbool.h>
#include <sys/types.h>

#include "etcd/etcd_client.h"

#define ETCDKIT_MEMBERS 3u

struct etcdkit_options {
    unsigned members;        /* 1 to ETCDKIT_MEMBERS */
    const char *arguments;   /* more arguments, separated by spaces; or NULL */
    const char *client_host; /* host in client URLs; NULL: http://127.0.0.1 */
};

struct etcdkit {
    struct etcdkit_options options;
    char dir[64];
    struct etcdkit_member {
        pid_t pid; /* 0: not running */
        unsigned client_port, peer_port;
        char url[64];
    } members[ETCDKIT_MEMBERS];
    const char *urls[ETCDKIT_MEMBERS];
};

/* Starts the members and returns at once; a client waits for the members. */
void etcdkit_open(struct etcdkit *kit, const struct etcdkit_options *options);
/* As etcdkit_open, in a directory that exists already; the directory is removed at the end. */
void etcdkit_open_in(struct etcdkit *kit, const struct etcdkit_options *options, const char *dir);
void etcdkit_close(struct etcdkit *kit);

void etcdkit_start(struct etcdkit *kit, unsigned member);
/* Sends SIGKILL and waits until the member has ended. */
void etcdkit_kill(struct etcdkit *kit, unsigned member);
void etcdkit_pause(struct etcdkit *kit, unsigned member);
void etcdkit_resume(struct etcdkit *kit, unsigned member);

/* A port that is free now, and that no outgoing connection gets while its server is down. Taken by
 * binding, so that two calls do not get the same one: the socket stays open until the caller closes it. */
int etcdkit_port(unsigned *ret_port);

/* Options for a client of all members, patient enough for a busy machine. */
struct etcd_options etcdkit_client(const struct etcdkit *kit);

/* Runs etcdctl with these arguments against the first member; fails the test if it fails. */
void etcdkit_ctl(const struct etcdkit *kit, const char *arguments);

/* ---- Calls that wait for their answer ---- */

#define ETCDKIT_VALUES 64u

/* A copy of an answer. */
struct etcdkit_reply {
    bool done;
    enum etcd_outcome outcome;
    enum etcd_reason reason;
    int grpc_status;
    char message[ETCD_MESSAGE_MAX];
    uint64_t connection;
    struct etcd_header header;
    struct etcd_status status; /* without its version */
    char version[32];
    /* All keys found, by a range or by the gets of a transaction, in order; long values are
     * truncated. */
    unsigned count;
    int64_t total;
    bool more;
    int64_t deleted;
    struct {
        char key[64], value[64];
        uint64_t len; /* length of the whole value */
        int64_t mod_revision, version;
    } kvs[ETCDKIT_VALUES];
};

void etcdkit_done(void *ctx, const struct etcd_answer *answer); /* ctx: struct etcdkit_reply */

/* Steps until the call has ended. */
void etcdkit_wait(struct etcd *etcd, const struct etcdkit_reply *reply);
void etcdkit_wait_until(struct etcd *etcd, bool (*met)(void *ctx), void *ctx);
uint64_t etcdkit_now(void);

/* Makes one call, with `ms` milliseconds until its deadline. */
void etcdkit_call(struct etcd *etcd, const struct etcd_request *request, uint64_t ms,
                  struct etcdkit_reply *ret_reply);
/* Repeats the call until etcd answers: for reads and writes that may be repeated. */
void etcdkit_call_surely(struct etcd *etcd, const struct etcd_request *request,
                         struct etcdkit_reply *ret_reply);

struct tn_bytes etcdkit_text(const char *text);
void etcdkit_put(struct etcd *etcd, const char *key, const char *value,
                 struct etcdkit_reply *ret_reply);
/* If `key` has the value `was` (NULL: is absent), writes `value`; otherwise reads the key. */
void etcdkit_swap(struct etcd *etcd, const char *key, const char *was, const char *value,
                  uint64_t ms, struct etcdkit_reply *ret_reply);
/* Reads all keys that begin with `prefix`. */
void etcdkit_range(struct etcd *etcd, const char *prefix, struct etcdkit_reply *ret_reply);

#endif
