/* The story of Tenure in three acts, told with real processes and a real kill -9:
 *
 *   1  two processes cannot get one port
 *   2  a stale token is refused
 *   3  kill -9 loses nothing that was answered
 *
 * Everything happens in a fresh directory under the current one, which is removed at the end. */
#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <tenure.h>
#include <unistd.h>

static char dir[] = "story-data-XXXXXX";

static void die(const char *what) {
    fprintf(stderr, "story: %s\n", what);
    exit(1);
}

static struct tenure *open_or_die(void) {
    struct tenure *t;
    struct tenure_error error;
    struct tenure_options options;
    tenure_options_init(&options, dir);
    if (tenure_open(&options, &t, &error) != TENURE_STATUS_OK) {
        die(error.text);
    }
    return t;
}

static void expect(enum tenure_result got, enum tenure_result wanted) {
    if (got != wanted) {
        fprintf(stderr, "story: %s, where %s was expected\n", tenure_result_name(got),
                tenure_result_name(wanted));
        exit(1);
    }
}

static enum tenure_result alloc_port(struct tenure *t, const char *holder, const char *port,
                                     struct tenure_reply *reply) {
    const struct tenure_requested requested = {.text = port};
    const struct tenure_claim claim = {
        .pool = "ports", .count = 1, .values = port == NULL ? NULL : &requested};
    const struct tenure_ask ask = {.holder = holder, .claims = &claim, .claim_count = 1};
    return tenure_alloc(t, &ask, NULL, reply);
}

/* Runs `act` in a child process and waits for it. */
static void in_process(void (*act)(void)) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        act();
        fflush(stdout);
        _exit(0);
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        die("a process of the story failed");
    }
}

/* ---- Act one ---- */

static void act_one_latecomer(void) {
    struct tenure *t;
    struct tenure_error error;
    struct tenure_options options;
    tenure_options_init(&options, dir);
    if (tenure_open(&options, &t, &error) != TENURE_STATUS_LOCKED) {
        die("two processes opened one directory");
    }
    printf("   process B tries at the same time:  %s\n", tenure_status_name(error.status));
}

static void act_one_first(void) {
    struct tenure *t = open_or_die();
    const struct tenure_option options[] = {{"lo", "30000"}, {"hi", "30009"}, {"lease", "3600"}};
    expect(tenure_pool_create(t, "ports", options, 3, NULL, NULL), TENURE_OK);
    struct tenure_reply reply;
    expect(alloc_port(t, "process/A", "30000", &reply), TENURE_OK);
    printf("   process A asks for port 30000:     it is A's, on disk, at log position %llu\n",
           (unsigned long long)reply.lsn);
    in_process(act_one_latecomer);
    tenure_close(t);
}

static void act_one_second(void) {
    struct tenure *t = open_or_die();
    struct tenure_reply reply;
    expect(alloc_port(t, "process/B", "30000", NULL), TENURE_BUSY);
    printf("   A is gone. B asks for port 30000:  BUSY. A's lease outlives A, until it expires\n");
    expect(alloc_port(t, "process/B", NULL, &reply), TENURE_OK);
    printf("   B asks for any port:               %s\n", reply.values[0].text);
    tenure_close(t);
}

/* ---- Act two ---- */

static void act_two(void) {
    struct tenure *t = open_or_die();
    struct tenure_reply lease, reply;
    char id[TENURE_LEASE_ID_TEXT];
    expect(alloc_port(t, "worker/old", "30005", &lease), TENURE_OK);
    tenure_lease_id_format(lease.lease, id);
    printf("   worker/old holds 30005:            token (%s, %llu)\n", id,
           (unsigned long long)lease.epoch);
    expect(tenure_revoke(t, lease.lease, NULL, NULL, &reply), TENURE_OK);
    printf("   the operator revokes it:           epoch is now %llu, the port is nobody's yet\n",
           (unsigned long long)reply.epoch);
    expect(tenure_touch(t, lease.lease, lease.epoch, NULL, NULL, NULL), TENURE_STALE);
    printf("   worker/old tries to renew:         STALE\n");
    expect(alloc_port(t, "worker/new", "30005", NULL), TENURE_BUSY);
    printf("   worker/new asks for 30005:         BUSY, for the old one may still be acting\n");
    expect(tenure_ack(t, lease.lease, "worker/old", lease.epoch, NULL, NULL), TENURE_OK);
    expect(alloc_port(t, "worker/new", "30005", &reply), TENURE_OK);
    tenure_lease_id_format(reply.lease, id);
    printf("   worker/old says it has stopped:    worker/new has it, token (%s, %llu)\n", id,
           (unsigned long long)reply.epoch);
    tenure_close(t);
}

/* ---- Act three ---- */

#define ANSWERS 400

/* Leases values as fast as it can and reports each one only after it was answered. */
static void act_three_writer(int out) {
    struct tenure *t = open_or_die();
    const struct tenure_option options[] = {{"lo", "1"}, {"hi", "1000000"}, {"strategy", "random"}};
    expect(tenure_pool_create(t, "ids", options, 3, NULL, NULL), TENURE_OK);
    for (;;) {
        struct tenure_reply reply;
        expect(tenure_alloc_any(t, "ids", "device", 1, NULL, &reply), TENURE_OK);
        uint64_t told[2] = {reply.lease.lsn, reply.values[0].number};
        if (write(out, told, sizeof told) != (ssize_t)sizeof told) {
            _exit(1);
        }
    }
}

static void act_three(void) {
    int ends[2];
    if (pipe(ends) != 0) {
        die("no pipe");
    }
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        act_three_writer(ends[1]);
    }
    close(ends[1]);
    static uint64_t told[ANSWERS * 64][2];
    size_t count = 0;
    while (count < ANSWERS &&
           read(ends[0], told[count], sizeof told[0]) == (ssize_t)sizeof told[0]) {
        count++;
    }
    kill(child, SIGKILL);
    /* Leases that the pipe still contains were answered, too. */
    while (count < ANSWERS * 64 &&
           read(ends[0], told[count], sizeof told[0]) == (ssize_t)sizeof told[0]) {
        count++;
    }
    waitpid(child, NULL, 0);
    printf("   a process leases ids in a loop:    kill -9 after %zu answers\n", count);
    struct tenure *t = open_or_die();
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        struct tenure_lease lease;
        struct tenure_lease_id id = {.shard = 0, .lsn = told[i][0]};
        found += tenure_lease_read(t, id, 0, &lease) == TENURE_OK &&
                 lease.state == TENURE_LEASE_ACTIVE && lease.values[0].number == told[i][1];
    }
    tenure_close(t);
    printf("   the directory is opened again:     %zu of %zu leases are there, as answered\n",
           found, count);
    if (found != count || count < ANSWERS) {
        die("an answer was lost");
    }
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *at) {
    (void)info;
    (void)type;
    (void)at;
    return remove(path);
}

int main(void) {
    if (mkdtemp(dir) == NULL) {
        die(strerror(errno));
    }
    printf("Tenure %s: one correct way to hold anything finite.\n", tenure_version());
    printf("\n1. Two processes cannot get one port\n");
    in_process(act_one_first);
    in_process(act_one_second);
    printf("\n2. A stale token is refused\n");
    in_process(act_two);
    printf("\n3. kill -9 loses nothing\n");
    act_three();
    printf("\nLook at the program: examples/story.c. Yours can be shorter: examples/embedded.c.\n");
    return nftw(dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS) == 0 ? 0 : 1;
}
