/* What an installation that does little takes from its machine: resident memory by the number of leases, of
 * the server and of a program with libtenure, and processor time while nothing is asked.
 *
 * The leases have a deadline and dense values. Resident memory is read from /proc. */
#include "bench.h"

#include <sys/wait.h>
#include <tenure.h>
#include <unistd.h>

#include "lib/process.h"
#include "lib/script_tenure.h"

#define POOL_VALUES 2000000u
#define MEBIBYTE 1048576.0

static enum bench_length length;

static _Noreturn void die(const char *what, const char *why) {
    fprintf(stderr, "bench: %s: %s\n", what, why);
    exit(1);
}

/* ---- The server ---- */

/* Allocates until the pool has `held` leases, and prints what each of them takes. */
static void measure_leases(const struct process *server, uint64_t empty, uint32_t *held,
                           uint32_t wanted, const char *name) {
    tenure_pool_fill(server->port, "timed", wanted - *held);
    *held = wanted;
    bench_row(name, (double)(process_resident_bytes(server) - empty) / wanted);
}

/* Ticks and looks at the clock go on. */
static void measure_rest(const struct process *server) {
    unsigned seconds = length == BENCH_SMOKE ? 1 : 10;
    double before = process_thread_ns(server);
    sleep(seconds);
    double used = process_thread_ns(server) - before;
    bench_row("tenured idle with 1 million timed leases, processor time", used / (seconds * 1e7));
}

static void measure_server(void) {
    bool smoke = length == BENCH_SMOKE;
    uint32_t held = 1000;
    struct process server = process_tenure("memory");
    tenure_pool_make(server.port, "timed", POOL_VALUES, "");
    uint64_t empty = process_resident_bytes(&server);
    tenure_pool_fill(server.port, "timed", held);
    bench_row("memory of tenured with a thousand leases",
              (double)process_resident_bytes(&server) / MEBIBYTE);
    measure_leases(&server, empty, &held, smoke ? 2000 : 100000,
                   "memory of tenured, each of 100 thousand leases");
    measure_leases(&server, empty, &held, smoke ? 3000 : 1000000,
                   "memory of tenured, each of 1 million leases");
    measure_rest(&server);
    process_stop(&server);
}

/* ---- The library ---- */

static struct tenure *library_open(void) {
    struct tenure *tenure = NULL;
    struct tenure_options options;
    struct tenure_error error;
    char path[512];
    process_path("library", path, sizeof path);
    tenure_options_init(&options, path);
    if (tenure_open(&options, &tenure, &error) != TENURE_STATUS_OK) {
        die("libtenure", error.text);
    }
    return tenure;
}

/* In a process of its own, which has nothing else. */
static uint64_t library_bytes(void) {
    static const struct tenure_option timed[] = {{"lo", "1"}, {"hi", "100000"}, {"lease", "86400"}};
    struct tenure *tenure = library_open();
    struct tenure_reply reply;
    char holder[32];
    if (tenure_pool_create(tenure, "timed", timed, 3, NULL, NULL) != TENURE_OK) {
        die("libtenure", "no pool");
    }
    for (unsigned i = 0; i < 1000; i++) {
        snprintf(holder, sizeof holder, "job/%u", i);
        if (tenure_alloc_any(tenure, "timed", holder, 1, NULL, &reply) != TENURE_OK) {
            die("libtenure", tenure_result_name(reply.code));
        }
    }
    return bench_resident_bytes();
}

static void measure_library(void) {
    int ends[2];
    uint64_t bytes = 0;
    if (pipe(ends) != 0) {
        die("libtenure", "no pipe");
    }
    pid_t id = fork();
    if (id == 0) {
        bytes = library_bytes();
        _exit(write(ends[1], &bytes, sizeof bytes) == (ssize_t)sizeof bytes ? 0 : 1);
    }
    close(ends[1]);
    if (id < 0 || read(ends[0], &bytes, sizeof bytes) != (ssize_t)sizeof bytes) {
        die("libtenure", "no figure");
    }
    close(ends[0]);
    (void)waitpid(id, NULL, 0);
    bench_row("memory of a program with libtenure and a thousand leases", (double)bytes / MEBIBYTE);
}

int main(int argc, char **argv) {
    length = bench_length_of(argc, argv);
    process_directory_make();
    measure_library();
    measure_server();
    process_directory_remove();
    return 0;
}
