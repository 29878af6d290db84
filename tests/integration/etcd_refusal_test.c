/* The client of etcd where it is not welcome: no space, users and passwords, servers that are no etcd. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/etcdkit.h"

static struct etcd *client_open(const struct etcd_options *options) {
    struct etcd *etcd = NULL;
    char error[ETCD_MESSAGE_MAX];
    if (etcd_open(options, &etcd, error) != TN_OK) {
        fail_msg("%s", error);
    }
    return etcd;
}

static bool watch_over(void *ctx) {
    return *(enum etcd_reason *)ctx != ETCD_NONE;
}

static void watched(void *ctx, const struct etcd_news *news) {
    if (news->kind == ETCD_WATCH_ENDED) {
        *(enum etcd_reason *)ctx = news->reason;
    }
}

static enum etcd_reason watch_end(struct etcd *etcd, const char *key) {
    enum etcd_reason reason = ETCD_NONE;
    uint64_t id;
    struct etcd_watch_options options = {.keys = {.key = etcdkit_text(key)},
                                         .deadline_ms = etcdkit_now() + 30000};
    assert_int_equal(etcd_watch(etcd, &options, watched, &reason, &id), TN_OK);
    etcdkit_wait_until(etcd, watch_over, &reason);
    return reason;
}

/* ---- No space ---- */

static void a_full_store_is_told_and_can_still_be_read(void **state) {
    struct etcdkit kit;
    struct etcdkit_options options = {.members = 1, .arguments = "--quota-backend-bytes 4194304"};
    struct etcdkit_reply reply = {0};
    enum { LEN = 300000 };
    char *value = calloc(1, LEN);
    char key[32];
    (void)state;
    assert_non_null(value);
    etcdkit_open(&kit, &options);
    struct etcd_options client = etcdkit_client(&kit);
    struct etcd *etcd = client_open(&client);
    etcdkit_put(etcd, "/head", "1", &reply);
    for (unsigned i = 0;; i++) {
        snprintf(key, sizeof key, "/full/%u", i);
        struct etcd_op put = {
            .kind = ETCD_PUT, .keys = {.key = etcdkit_text(key)}, .value = tn_bytes_of(value, LEN)};
        struct etcd_request request = {.verb = ETCD_TXN, .txn = {.then = &put, .then_count = 1}};
        etcdkit_call(etcd, &request, 30000, &reply);
        if (reply.outcome != ETCD_DONE) {
            break;
        }
        assert_true(i < 100);
    }
    /* etcd says this of calls that it has not carried out and of some that it has. */
    assert_int_equal(reply.outcome, ETCD_DOUBT);
    assert_int_equal(reply.reason, ETCD_NOSPACE);
    assert_int_equal(reply.grpc_status, 8);
    etcdkit_swap(etcd, "/head", "1", "2", 30000, &reply);
    assert_int_equal(reply.reason, ETCD_NOSPACE);
    struct etcd_info info;
    etcd_info(etcd, &info);
    assert_int_equal(info.connects, 1); /* no reason to go elsewhere */
    etcdkit_range(etcd, "/head", &reply);
    assert_string_equal(reply.kvs[0].value, "1");
    etcd_close(etcd);
    etcdkit_close(&kit);
    free(value);
}

/* ---- Users ---- */

static struct etcd *client_as(const struct etcdkit *kit, const char *user, const char *password) {
    struct etcd_options options = etcdkit_client(kit);
    options.user = user;
    options.password = password;
    return client_open(&options);
}

static void users_set_up(struct etcdkit *kit) {
    struct etcdkit_options options = {.members = 1};
    struct etcdkit_reply reply = {0};
    etcdkit_open(kit, &options);
    /* Before there is authentication, a client with a password gets on without. */
    struct etcd *etcd = client_as(kit, "tenure", "secret word");
    etcdkit_put(etcd, "/mine/a", "1", &reply);
    etcdkit_ctl(kit, "user add root:root");
    etcdkit_ctl(kit, "user grant-role root root");
    etcdkit_ctl(kit, "role add mine");
    etcdkit_ctl(kit, "role grant-permission mine --prefix=true readwrite /mine/");
    etcdkit_ctl(kit, "user add tenure:secret+word");
    etcdkit_ctl(kit, "user grant-role tenure mine");
    etcdkit_ctl(kit, "auth enable");
    etcd_close(etcd);
}

static void a_password_opens_what_its_user_may_see(void **state) {
    struct etcdkit kit;
    struct etcdkit_reply reply = {0};
    (void)state;
    users_set_up(&kit);
    struct etcd *etcd = client_as(&kit, "tenure", "secret+word");
    etcdkit_swap(etcd, "/mine/a", "1", "2", 30000, &reply);
    assert_int_equal(reply.outcome, ETCD_DONE);
    etcdkit_swap(etcd, "/yours/a", NULL, "2", 30000, &reply);
    assert_int_equal(reply.outcome, ETCD_SURELY_NOT);
    assert_int_equal(reply.reason, ETCD_DENIED);
    assert_int_equal(watch_end(etcd, "/yours/a"), ETCD_DENIED);
    etcdkit_swap(etcd, "/mine/a", "2", "3", 30000, &reply);
    assert_int_equal(reply.outcome, ETCD_DONE);
    /* After a restart etcd no longer knows the token. */
    etcdkit_kill(&kit, 0);
    etcdkit_start(&kit, 0);
    etcdkit_swap(etcd, "/mine/a", "3", "4", 60000, &reply);
    assert_int_equal(reply.outcome, ETCD_DONE);
    etcd_close(etcd);
    etcdkit_close(&kit);
}

static void without_the_password_nothing_is_done(void **state) {
    struct etcdkit kit;
    struct etcdkit_reply reply = {0};
    (void)state;
    users_set_up(&kit);
    struct etcd *etcd = client_as(&kit, "tenure", "wrong");
    etcdkit_swap(etcd, "/mine/a", "1", "2", 60000, &reply);
    assert_int_equal(reply.outcome, ETCD_SURELY_NOT);
    assert_int_equal(reply.reason, ETCD_DENIED);
    assert_non_null(strstr(reply.message, "log-in of user tenure"));
    assert_null(strstr(reply.message, "wrong"));
    struct etcd_info info;
    etcd_info(etcd, &info);
    assert_int_equal(info.trouble, ETCD_DENIED);
    assert_int_equal(watch_end(etcd, "/mine/a"), ETCD_DENIED);
    etcd_close(etcd);
    struct etcd_options options = etcdkit_client(&kit);
    etcd = client_open(&options);
    etcdkit_swap(etcd, "/mine/a", "1", "2", 60000, &reply);
    assert_int_equal(reply.outcome, ETCD_SURELY_NOT);
    assert_int_equal(reply.reason, ETCD_DENIED);
    etcd_close(etcd);
    etcdkit_close(&kit);
}

/* ---- No etcd ---- */

/* A server that sends something to every client that connects, and may then close the
 * connection. */
struct stranger {
    const char *name;
    const char *says;
    size_t len;
    bool reads;           /* before it says it */
    bool hangs_up;        /* after it */
    const char *expected; /* part of the client's error; "": it looks like etcd at first */
};

#define SAYS(text) text, sizeof text - 1

static const struct stranger strangers[] = {
    {"hangs up", SAYS(""), false, true, "127.0.0.1:"},
    {"is silent", SAYS(""), false, false, "did not begin to speak HTTP/2"},
    {"garbage", SAYS("SSH-2.0-OpenSSH_9.2p1\r\n"), false, false, "does not speak HTTP/2"},
    {"HTTP/1", SAYS("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"), true, true,
     "does not speak HTTP/2"},
    {"zeros", SAYS("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"), false, false,
     "does not speak HTTP/2"},
    {"settings, then hangs up", SAYS("\0\0\0\4\0\0\0\0\0"), true, true, ""},
};

static pid_t stranger_start(const struct stranger *stranger, char url[64]) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0 && bind(fd, (struct sockaddr *)&address, len) == 0);
    assert_int_equal(listen(fd, 16), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    snprintf(url, 64, "http://127.0.0.1:%u", ntohs(address.sin_port));
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) {
            char in[256];
            int peer = accept(fd, NULL, NULL);
            if (stranger->reads) {
                (void)!read(peer, in, sizeof in);
            }
            (void)!write(peer, stranger->says, stranger->len);
            if (stranger->hangs_up) {
                close(peer);
            }
        }
    }
    close(fd);
    return pid;
}

static void stop(pid_t pid) {
    int status;
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
}

static void a_server_that_is_no_etcd_is_named_and_passed_over(void **state) {
    struct etcdkit kit;
    struct etcdkit_options options = {.members = 1};
    (void)state;
    (void)signal(SIGPIPE, SIG_DFL);
    etcdkit_open(&kit, &options);
    for (size_t i = 0; i < sizeof strangers / sizeof strangers[0]; i++) {
        char url[64];
        struct etcdkit_reply reply = {0};
        pid_t pid = stranger_start(&strangers[i], url);
        const char *urls[] = {url, kit.urls[0]};
        struct etcd_options client = {.endpoints = urls, .endpoint_count = 1, .connect_ms = 300};
        struct etcd *etcd = client_open(&client);
        etcdkit_swap(etcd, "/stranger", NULL, "x", 1500, &reply);
        bool talks = strangers[i].expected[0] == '\0'; /* so the call may have been sent */
        assert_true(reply.outcome == ETCD_SURELY_NOT || (talks && reply.outcome == ETCD_DOUBT));
        assert_true(reply.reason == ETCD_UNREACHABLE || (talks && reply.reason == ETCD_LOST));
        if (strstr(reply.message, strangers[i].expected) == NULL) {
            fail_msg("%s: %s", strangers[i].name, reply.message);
        }
        etcd_close(etcd);
        /* With a real one beside it, all is well. */
        client = (struct etcd_options){
            .endpoints = urls, .endpoint_count = 2, .connect_ms = 300, .silence_ms = 10000};
        etcd = client_open(&client);
        etcdkit_put(etcd, "/stranger", strangers[i].name, &reply);
        etcd_close(etcd);
        stop(pid);
    }
    etcdkit_close(&kit);
}

static void names_are_looked_up(void **state) {
    struct etcdkit kit;
    struct etcdkit_options options = {.members = 1};
    struct etcdkit_reply reply = {0};
    char url[64];
    (void)state;
    etcdkit_open(&kit, &options);
    snprintf(url, sizeof url, "http://localhost:%u", kit.members[0].client_port);
    const char *urls[] = {"http://no-such-host.invalid:1", "http://127.0.0.1:1", url};
    struct etcd_options client = {
        .endpoints = urls, .endpoint_count = 3, .connect_ms = 10000, .silence_ms = 10000};
    struct etcd *etcd = client_open(&client);
    etcdkit_put(etcd, "/name", "1", &reply);
    etcd_close(etcd);
    etcdkit_close(&kit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_store_is_told_and_can_still_be_read),
        cmocka_unit_test(a_password_opens_what_its_user_may_see),
        cmocka_unit_test(without_the_password_nothing_is_done),
        cmocka_unit_test(a_server_that_is_no_etcd_is_named_and_passed_over),
        cmocka_unit_test(names_are_looked_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
