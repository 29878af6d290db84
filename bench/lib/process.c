/* Starting, finding and stopping servers. They die with the program that started them. */
#include "process.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "loopback.h"

#define PATH_BYTES 512

static char build[256]; /* directory of this program's build */
static char run[300];   /* of this run */

static _Noreturn void die(const char *what) {
    fprintf(stderr, "bench: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* build/bench/server is in build/. */
void process_directory_make(void) {
    ssize_t len = readlink("/proc/self/exe", build, sizeof build - 1);
    for (unsigned i = 0; i < 2 && len > 0; i++) {
        build[len] = '\0';
        char *slash = strrchr(build, '/');
        len = slash != NULL ? slash - build : 0;
    }
    if (len <= 0) {
        die("where am I?");
    }
    build[len] = '\0';
    snprintf(run, sizeof run, "%s/bench-data-XXXXXX", build);
    if (mkdtemp(run) == NULL || chmod(run, 0711) != 0) { /* databases run as users of their own */
        die("no directory");
    }
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *at) {
    (void)info;
    (void)type;
    (void)at;
    return remove(path);
}

void process_directory_remove(void) {
    if (nftw(run, remove_entry, 16, FTW_DEPTH | FTW_PHYS) != 0) {
        die("cannot remove the directory");
    }
}

const char *process_directory(void) {
    return run;
}

/* ---- Starting ---- */

pid_t process_spawn(const char *name, char *const *argv) {
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s.out", run, name);
    pid_t parent = getpid();
    pid_t child = fork();
    if (child < 0) {
        die("cannot fork");
    }
    if (child > 0) {
        return child;
    }
    int out = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (out < 0 || dup2(out, STDOUT_FILENO) < 0 || dup2(out, STDERR_FILENO) < 0 ||
        prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) {
        _exit(126);
    }
    (void)execvp(argv[0], argv);
    _exit(127);
}

static void pause_a_little(void) {
    struct timespec pause = {.tv_nsec = 5000000};
    nanosleep(&pause, NULL);
}

void process_check(const struct process *process, const char *name) {
    if (waitpid(process->id, NULL, WNOHANG) != 0) {
        fprintf(stderr, "bench: %s ended before it was ready\n", name);
        exit(1);
    }
    pause_a_little();
}

/* One set for all servers of this run. */
static void certificates_make(char *program, char certificate[PATH_BYTES], char key[PATH_BYTES]) {
    char dir[PATH_BYTES], make[] = "--make-certificate";
    int status = 0;
    snprintf(dir, sizeof dir, "%s/tls", run);
    snprintf(certificate, PATH_BYTES, "%s/tls/server.pem", run);
    snprintf(key, PATH_BYTES, "%s/tls/server-key.pem", run);
    char *argv[] = {program, make, dir, NULL};
    if (access(key, F_OK) != 0 &&
        (waitpid(process_spawn("certificates", argv), &status, 0) < 0 || status != 0)) {
        die("no certificates");
    }
}

struct process process_tenure(const char *name) {
    return process_tenure_set(name, NULL, NULL);
}

struct process process_tenure_set(const char *name, const char *option, const char *value) {
    char more[2][PATH_BYTES] = {"", ""};
    char program[PATH_BYTES], data[PATH_BYTES], port[PATH_BYTES];
    snprintf(program, sizeof program, "%s/tenured", build);
    snprintf(data, sizeof data, "%s/%s", run, name);
    snprintf(port, sizeof port, "%s/%s.port", run, name);
    char certificate[PATH_BYTES], key[PATH_BYTES];
    certificates_make(program, certificate, key);
    if (option != NULL) {
        snprintf(more[0], sizeof more[0], "%s", option);
        snprintf(more[1], sizeof more[1], "%s", value);
    }
    char *argv[] = {program,       "--data",
                    data,          "--listen",
                    "127.0.0.1:0", "--http",
                    "127.0.0.1:0", "--port-file",
                    port,          "--tls-listen",
                    "127.0.0.1:0", "--tls-cert-file",
                    certificate,   "--tls-key-file",
                    key,           option != NULL ? more[0] : NULL,
                    more[1],       NULL};
    struct process process = {.id = process_spawn(name, argv)};
    FILE *file = fopen(port, "re"); /* it appears whole */
    for (; file == NULL; file = fopen(port, "re")) {
        process_check(&process, program);
    }
    unsigned ports[4] = {0}; /* RESP, HTTP, UDP, RESP with TLS */
    char line[16];
    for (unsigned i = 0; i < 4; i++) {
        if (fgets(line, sizeof line, file) == NULL) {
            die("no ports in the port file");
        }
        ports[i] = (unsigned)strtoul(line, NULL, 10);
    }
    fclose(file);
    process.port = (uint16_t)ports[0];
    process.tls_port = (uint16_t)ports[3];
    return process;
}

uint16_t process_port_free(void) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof address;
    int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (probe < 0 || bind(probe, (const struct sockaddr *)&address, sizeof address) != 0 ||
        getsockname(probe, (struct sockaddr *)&address, &len) != 0) {
        die("no port");
    }
    close(probe);
    return ntohs(address.sin_port);
}

static bool answers(uint16_t port) {
    int probe = loopback_connect(port);
    if (probe < 0) {
        return false;
    }
    close(probe);
    return true;
}

/* No rewriting of the log behind our back: that only helps it. */
bool process_redis(const char *name, bool durable, struct process *ret_process) {
    char data[PATH_BYTES], port[8];
    static char program[] = "/usr/bin/redis-server"; /* Debian's */
    if (access(program, X_OK) != 0) {
        return false;
    }
    ret_process->port = process_port_free();
    snprintf(port, sizeof port, "%u", ret_process->port);
    snprintf(data, sizeof data, "%s/%s", run, name);
    if (mkdir(data, 0700) != 0) {
        die("no directory");
    }
    char *argv[] = {program,
                    "--port",
                    port,
                    "--bind",
                    "127.0.0.1",
                    "--dir",
                    data,
                    "--save",
                    "",
                    "--appendonly",
                    durable ? "yes" : "no",
                    "--appendfsync",
                    "always",
                    "--auto-aof-rewrite-percentage",
                    "0",
                    "--loglevel",
                    "warning",
                    NULL};
    ret_process->id = process_spawn(name, argv);
    while (!answers(ret_process->port)) {
        process_check(ret_process, "redis-server");
    }
    return true;
}

void process_stop(const struct process *process) {
    int status;
    if (kill(process->id, SIGTERM) != 0 || waitpid(process->id, &status, 0) != process->id) {
        die("cannot stop a server");
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fprintf(stderr, "bench: a server ended with status %d\n", status);
        exit(1);
    }
}

void process_kill(const struct process *process) {
    if (kill(process->id, SIGKILL) != 0 || waitpid(process->id, NULL, 0) != process->id) {
        die("cannot kill a server");
    }
}

/* ---- A cluster ---- */

static void member_start(struct process_etcd *members, unsigned index, const uint16_t peers[3],
                         char *initial) {
    char name[16], data[PATH_BYTES], peer[32];
    char *client = members->endpoint[index];
    static char program[] = "/usr/bin/etcd"; /* Debian's */
    snprintf(name, sizeof name, "etcd%u", index);
    snprintf(data, sizeof data, "%s/%s", run, name);
    snprintf(peer, sizeof peer, "http://127.0.0.1:%u", peers[index]);
    char *argv[] = {program,      "--name",
                    name,         "--data-dir",
                    data,         "--listen-client-urls",
                    client,       "--advertise-client-urls",
                    client,       "--listen-peer-urls",
                    peer,         "--initial-advertise-peer-urls",
                    peer,         "--initial-cluster",
                    initial,      "--quota-backend-bytes",
                    "4294967296", "--pre-vote",
                    NULL};
    members->id[index] = process_spawn(name, argv);
}

bool process_etcd(unsigned count, struct process_etcd *ret_members) {
    char initial[256] = "";
    uint16_t clients[3], peers[3];
    if (access("/usr/bin/etcd", X_OK) != 0) {
        return false;
    }
    ret_members->count = count;
    for (unsigned i = 0; i < count; i++) {
        size_t len = strlen(initial);
        clients[i] = process_port_free();
        peers[i] = process_port_free();
        snprintf(ret_members->endpoint[i], sizeof ret_members->endpoint[i], "http://127.0.0.1:%u",
                 clients[i]);
        snprintf(initial + len, sizeof initial - len, "%setcd%u=http://127.0.0.1:%u",
                 i > 0 ? "," : "", i, peers[i]);
    }
    for (unsigned i = 0; i < count; i++) {
        member_start(ret_members, i, peers, initial);
    }
    for (unsigned i = 0; i < count; i++) {
        struct process member = {.id = ret_members->id[i]};
        while (!answers(clients[i])) {
            process_check(&member, "etcd");
        }
    }
    return true;
}

void process_etcd_stop(const struct process_etcd *members) {
    for (unsigned i = 0; i < members->count; i++) {
        struct process member = {.id = members->id[i]};
        process_kill(&member);
    }
}

/* The same for all nodes. */
static void secret_make(char path[PATH_BYTES]) {
    snprintf(path, PATH_BYTES, "%s/secret", run);
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file >= 0) {
        static const char secret[] = "a secret that all nodes share\n";
        if (write(file, secret, sizeof secret - 1) != sizeof secret - 1) {
            die("no secret");
        }
        close(file);
    }
}

struct process process_node(const char *name, const struct process_etcd *members, bool init) {
    char program[PATH_BYTES], data[PATH_BYTES], port_file[PATH_BYTES], secret[PATH_BYTES];
    char endpoints[128], listen[32], http[32];
    struct process process = {.port = process_port_free()};
    snprintf(program, sizeof program, "%s/tenured", build);
    snprintf(data, sizeof data, "%s/%s", run, name);
    snprintf(port_file, sizeof port_file, "%s/%s.port", run, name);
    snprintf(endpoints, sizeof endpoints, "%s,%s,%s", members->endpoint[0], members->endpoint[1],
             members->endpoint[2]);
    snprintf(listen, sizeof listen, "127.0.0.1:%u", process.port);
    snprintf(http, sizeof http, "127.0.0.1:%u", process_port_free());
    secret_make(secret);
    (void)unlink(port_file);
    char *argv[] = {program,      "--data",
                    data,         "--listen",
                    listen,       "--http",
                    http,         "--port-file",
                    port_file,    "--node",
                    (char *)name, "--etcd-endpoints",
                    endpoints,    "--cluster-secret-file",
                    secret,       init ? "--cluster-init" : NULL,
                    NULL};
    process.id = process_spawn(name, argv);
    while (access(port_file, F_OK) != 0) {
        process_check(&process, program);
    }
    return process;
}

uint64_t process_resident_bytes(const struct process *process) {
    char path[64], line[128] = "";
    snprintf(path, sizeof path, "/proc/%d/statm", (int)process->id);
    FILE *file = fopen(path, "re");
    const char *got = file != NULL ? fgets(line, sizeof line, file) : NULL;
    const char *second = got != NULL ? strchr(got, ' ') : NULL;
    if (second == NULL) {
        die("no figures about a server");
    }
    fclose(file);
    return strtoull(second, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

double process_cpu_us(const struct process *process) {
    char path[64], line[1024] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)process->id);
    FILE *file = fopen(path, "re");
    const char *got = file != NULL ? fgets(line, sizeof line, file) : NULL;
    const char *at = got != NULL ? strrchr(line, ')') : NULL; /* a name may have blanks */
    for (unsigned field = 2; field < 14 && at != NULL; field++) {
        at = strchr(at + 1, ' ');
    }
    if (at == NULL) {
        die("no figures about a server");
    }
    fclose(file);
    char *end;
    unsigned long long user = strtoull(at, &end, 10), system = strtoull(end, NULL, 10);
    return (double)(user + system) * 1e6 / (double)sysconf(_SC_CLK_TCK);
}

double process_thread_ns(const struct process *process) {
    char path[64], file_name[352], line[128];
    double sum = 0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)process->id);
    DIR *tasks = opendir(path);
    if (tasks == NULL) {
        die("no figures about a server");
    }
    for (const struct dirent *task = readdir(tasks); task != NULL; task = readdir(tasks)) {
        snprintf(file_name, sizeof file_name, "%s/%s/schedstat", path, task->d_name);
        FILE *file = task->d_name[0] != '.' ? fopen(file_name, "re") : NULL;
        if (file != NULL) {
            sum += fgets(line, sizeof line, file) != NULL ? strtod(line, NULL) : 0;
            fclose(file);
        }
    }
    closedir(tasks);
    return sum;
}
