#include "lib/etcdkit.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "etcd/wait.h"

#define PATIENCE_MS 60000u

/* ---- Members ---- */

#define PORT_LOW 10000u
#define PORT_HIGH 32000u /* the system gives ports above this to outgoing connections */

int etcdkit_port(unsigned *ret_port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int one = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    do {
        uint32_t random = 0;
        assert_int_equal(getrandom(&random, sizeof random, 0), sizeof random);
        *ret_port = PORT_LOW + random % (PORT_HIGH - PORT_LOW);
        address.sin_port = htons((uint16_t)*ret_port);
    } while (bind(fd, (struct sockaddr *)&address, sizeof address) != 0);
    return fd;
}

static void ports_choose(struct etcdkit *kit) {
    int fds[2 * ETCDKIT_MEMBERS] = {0};
    const char *host = kit->options.client_host;
    for (unsigned i = 0; i < kit->options.members; i++) {
        struct etcdkit_member *member = &kit->members[i];
        fds[2 * i] = etcdkit_port(&member->client_port);
        fds[2 * i + 1] = etcdkit_port(&member->peer_port);
        snprintf(member->url, sizeof member->url, "%s:%u", host, member->client_port);
        kit->urls[i] = member->url;
    }
    for (unsigned i = 0; i < 2 * kit->options.members; i++) {
        close(fds[i]);
    }
}

#define WORDS_MAX 48u

/* Splits at spaces, in place. */
static unsigned words_split(char *text, char **words, unsigned count) {
    for (char *word = strtok(text, " "); word != NULL; word = strtok(NULL, " ")) {
        assert_true(count + 1 < WORDS_MAX);
        words[count++] = word;
    }
    return count;
}

static void member_run(const struct etcdkit *kit, unsigned n) {
    char text[2048];
    char cluster[512] = "";
    char *words[WORDS_MAX] = {0};
    const struct etcdkit_member *member = &kit->members[n];
    for (unsigned i = 0; i < kit->options.members; i++) {
        size_t len = strlen(cluster);
        snprintf(cluster + len, sizeof cluster - len, "%sm%u=http://127.0.0.1:%u", i > 0 ? "," : "",
                 i, kit->members[i].peer_port);
    }
    snprintf(text, sizeof text,
             "etcd --name m%u --data-dir %s/m%u --listen-client-urls %s --advertise-client-urls %s "
             "--listen-peer-urls http://127.0.0.1:%u --initial-advertise-peer-urls "
             "http://127.0.0.1:%u --initial-cluster %s --logger zap --log-level error "
             "--log-outputs %s/m%u.log %s",
             n, kit->dir, n, member->url, member->url, member->peer_port, member->peer_port,
             cluster, kit->dir, n, kit->options.arguments != NULL ? kit->options.arguments : "");
    words_split(text, words, 0);
    execvp(words[0], words);
    _exit(127);
}

void etcdkit_start(struct etcdkit *kit, unsigned member) {
    assert_int_equal(kit->members[member].pid, 0);
    pid_t parent = getpid();
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        /* With the test, however it ends. */
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) {
            _exit(1);
        }
        int null = open("/dev/null", O_RDWR);
        dup2(null, 0);
        dup2(null, 1);
        dup2(null, 2);
        member_run(kit, member);
    }
    kit->members[member].pid = pid;
}

void etcdkit_kill(struct etcdkit *kit, unsigned member) {
    int status;
    pid_t pid = kit->members[member].pid;
    if (pid != 0) {
        kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        kit->members[member].pid = 0;
    }
}

void etcdkit_pause(struct etcdkit *kit, unsigned member) {
    int status;
    assert_int_equal(kill(kit->members[member].pid, SIGSTOP), 0);
    assert_int_equal(waitpid(kit->members[member].pid, &status, WUNTRACED),
                     kit->members[member].pid);
    assert_true(WIFSTOPPED(status));
}

void etcdkit_resume(struct etcdkit *kit, unsigned member) {
    assert_int_equal(kill(kit->members[member].pid, SIGCONT), 0);
}

void etcdkit_open_in(struct etcdkit *kit, const struct etcdkit_options *options, const char *dir) {
    *kit = (struct etcdkit){.options = *options};
    if (kit->options.client_host == NULL) {
        kit->options.client_host = "http://127.0.0.1";
    }
    snprintf(kit->dir, sizeof kit->dir, "%s", dir);
    ports_choose(kit);
    for (unsigned i = 0; i < options->members; i++) {
        etcdkit_start(kit, i);
    }
}

void etcdkit_open(struct etcdkit *kit, const struct etcdkit_options *options) {
    char dir[] = "/tmp/tenure-etcd-XXXXXX";
    assert_non_null(mkdtemp(dir));
    etcdkit_open_in(kit, options, dir);
}

static void run(char **words) {
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        execvp(words[0], words);
        _exit(127);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

void etcdkit_close(struct etcdkit *kit) {
    char *words[] = {"rm", "-rf", kit->dir, NULL};
    for (unsigned i = 0; i < kit->options.members; i++) {
        etcdkit_kill(kit, i);
    }
    run(words);
}

void etcdkit_ctl(const struct etcdkit *kit, const char *arguments) {
    char copy[1024];
    char *words[WORDS_MAX] = {"etcdctl", "--endpoints", (char *)(uintptr_t)kit->urls[0]};
    snprintf(copy, sizeof copy, "%s", arguments);
    words_split(copy, words, 3);
    setenv("ETCDCTL_API", "3", 1);
    run(words);
}

struct etcd_options etcdkit_client(const struct etcdkit *kit) {
    return (struct etcd_options){
        .endpoints = kit->urls,
        .endpoint_count = kit->options.members,
        .connect_ms = 5000,
        .silence_ms = 10000,
    };
}

/* ---- Calls ---- */

uint64_t etcdkit_now(void) {
    const struct os *os = os_posix();
    return os->clock_boot_ms(os->ctx);
}

struct tn_bytes etcdkit_text(const char *text) {
    return tn_bytes_of(text, strlen(text));
}

static void text_copy(char *out, size_t max, struct tn_bytes bytes) {
    size_t len = bytes.len < max - 1 ? bytes.len : max - 1;
    if (len > 0) {
        memcpy(out, bytes.at, len);
    }
    out[len] = '\0';
}

static void found_copy(struct etcdkit_reply *reply, const struct etcd_found *found) {
    for (uint32_t i = 0; i < found->count && reply->count < ETCDKIT_VALUES; i++) {
        const struct etcd_kv *kv = &found->kvs[i];
        unsigned n = reply->count++;
        text_copy(reply->kvs[n].key, sizeof reply->kvs[n].key, kv->key);
        text_copy(reply->kvs[n].value, sizeof reply->kvs[n].value, kv->value);
        reply->kvs[n].len = kv->value.len;
        reply->kvs[n].mod_revision = kv->mod_revision;
        reply->kvs[n].version = kv->version;
    }
    reply->more |= found->more;
    reply->total += found->total;
}

void etcdkit_done(void *ctx, const struct etcd_answer *answer) {
    struct etcdkit_reply *reply = ctx;
    assert_false(reply->done);
    *reply = (struct etcdkit_reply){
        .done = true,
        .outcome = answer->outcome,
        .reason = answer->reason,
        .grpc_status = answer->grpc_status,
        .connection = answer->connection,
        .header = answer->header,
        .status = answer->status,
    };
    snprintf(reply->message, sizeof reply->message, "%s", answer->message);
    text_copy(reply->version, sizeof reply->version, answer->status.version);
    reply->status.version = (struct tn_bytes){0};
    found_copy(reply, &answer->found);
    for (uint32_t i = 0; i < answer->op_count; i++) {
        found_copy(reply, &answer->ops[i].found);
        reply->deleted += answer->ops[i].deleted;
    }
}

void etcdkit_wait_until(struct etcd *etcd, bool (*met)(void *ctx), void *ctx) {
    etcd_step(etcd, etcdkit_now());
    while (!met(ctx)) {
        etcd_wait(&etcd, 1, os_posix(), -1, etcdkit_now() + 100);
    }
}

static bool reply_is_done(void *ctx) {
    return ((struct etcdkit_reply *)ctx)->done;
}

void etcdkit_wait(struct etcd *etcd, const struct etcdkit_reply *reply) {
    etcdkit_wait_until(etcd, reply_is_done, (void *)(uintptr_t)reply);
}

void etcdkit_call(struct etcd *etcd, const struct etcd_request *request, uint64_t ms,
                  struct etcdkit_reply *ret_reply) {
    ret_reply->done = false;
    assert_int_equal(etcd_submit(etcd, request, etcdkit_now() + ms, etcdkit_done, ret_reply),
                     TN_OK);
    etcdkit_wait(etcd, ret_reply);
}

void etcdkit_call_surely(struct etcd *etcd, const struct etcd_request *request,
                         struct etcdkit_reply *ret_reply) {
    do {
        etcdkit_call(etcd, request, PATIENCE_MS, ret_reply);
    } while (ret_reply->outcome != ETCD_DONE && ret_reply->outcome != ETCD_COMPARE_FAILED);
}

void etcdkit_put(struct etcd *etcd, const char *key, const char *value,
                 struct etcdkit_reply *ret_reply) {
    struct etcd_op put = {
        .kind = ETCD_PUT, .keys = {.key = etcdkit_text(key)}, .value = etcdkit_text(value)};
    struct etcd_request request = {.verb = ETCD_TXN, .txn = {.then = &put, .then_count = 1}};
    etcdkit_call_surely(etcd, &request, ret_reply);
    assert_int_equal(ret_reply->outcome, ETCD_DONE);
}

void etcdkit_swap(struct etcd *etcd, const char *key, const char *was, const char *value,
                  uint64_t ms, struct etcdkit_reply *ret_reply) {
    struct etcd_compare compare = {
        .kind = was != NULL ? ETCD_VALUE_IS : ETCD_ABSENT,
        .key = etcdkit_text(key),
        .value = etcdkit_text(was != NULL ? was : ""),
    };
    struct etcd_op put = {
        .kind = ETCD_PUT, .keys = {.key = etcdkit_text(key)}, .value = etcdkit_text(value)};
    struct etcd_op get = {.kind = ETCD_GET, .keys = {.key = etcdkit_text(key)}};
    struct etcd_request request = {
        .verb = ETCD_TXN,
        .txn = {.compares = &compare,
                .compare_count = 1,
                .then = &put,
                .then_count = 1,
                .otherwise = &get,
                .otherwise_count = 1},
    };
    etcdkit_call(etcd, &request, ms, ret_reply);
}

void etcdkit_range(struct etcd *etcd, const char *prefix, struct etcdkit_reply *ret_reply) {
    uint8_t end[64];
    struct tn_bytes key = etcdkit_text(prefix);
    assert_true(key.len <= sizeof end);
    struct etcd_request request = {
        .verb = ETCD_RANGE, .range = {.keys = {.key = key, .end = etcd_prefix_end(key, end)}}};
    etcdkit_call_surely(etcd, &request, ret_reply);
}
