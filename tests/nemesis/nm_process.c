/* See nm_process.h. */
#include "nemesis/nm_process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"

uint64_t nm_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

bool nm_process_make(struct nm_process *process) {
    const char *base = getenv("TMPDIR");
    memset(process, 0, sizeof *process);
    snprintf(process->dir, sizeof process->dir, "%.128s/tenure-nemesis-XXXXXX",
             base != NULL ? base : "/tmp");
    if (mkdtemp(process->dir) == NULL) {
        return false;
    }
    snprintf(process->data, sizeof process->data, "%.200s/data", process->dir);
    return true;
}

void nm_process_flag(struct nm_process *process, const char *name, uint64_t value) {
    TN_ASSERT(process->flag_count + 2 <= NM_FLAGS);
    snprintf(process->flags[process->flag_count++], sizeof process->flags[0], "%s", name);
    snprintf(process->flags[process->flag_count++], sizeof process->flags[0], "%" PRIu64, value);
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as a data directory is
static void directory_remove(const char *path) {
    DIR *dir = opendir(path);
    struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        char inside[2 * NM_PATH];
        snprintf(inside, sizeof inside, "%.200s/%s", path, entry->d_name);
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        if (unlink(inside) != 0 && (errno == EISDIR || errno == EPERM)) {
            directory_remove(inside);
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    (void)rmdir(path);
}

void nm_process_remove(const struct nm_process *process) {
    directory_remove(process->dir);
}

/* ---- Starting ---- */

static void child_run(struct nm_process *process, const char *port_file) {
    const char *build = getenv("TENURE_BUILD_DIR");
    char program[NM_PATH];
    char path[NM_PATH + 8];
    char *argv[NM_FLAGS + 16];
    uint32_t count = 0;
    char listen[32];
    char http[32] = "off";
    snprintf(listen, sizeof listen, "127.0.0.1:%u", process->listen_port);
    if (process->http_port != 0) {
        snprintf(http, sizeof http, "127.0.0.1:%u", process->http_port);
    }
    char *const fixed[] = {"--listen", listen, "--http", http, "--port-file"};
    snprintf(program, sizeof program, "%.200s/tenured", build != NULL ? build : "build");
    snprintf(path, sizeof path, "%s/stderr", process->dir);
    argv[count++] = program;
    argv[count++] = "--data";
    argv[count++] = process->data;
    for (uint32_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++) {
        argv[count++] = fixed[i];
    }
    argv[count++] = (char *)(uintptr_t)port_file;
    for (uint32_t i = 0; i < process->flag_count; i++) {
        argv[count++] = process->flags[i];
    }
    if (process->config[0] != '\0') {
        argv[count++] = "--config";
        argv[count++] = process->config;
    }
    if (process->init) {
        argv[count++] = "--cluster-init";
    }
    argv[count] = NULL;
    int out = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (out < 0 || dup2(out, STDOUT_FILENO) < 0 || dup2(out, STDERR_FILENO) < 0) {
        _exit(126);
    }
    (void)execv(program, argv);
    _exit(127);
}

/* It appears whole. */
static bool port_read(const char *path, uint16_t *ret_port) {
    char text[16] = "";
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return false;
    }
    bool got = fgets(text, sizeof text, file) != NULL;
    (void)fclose(file);
    *ret_port = (uint16_t)strtoul(text, NULL, 10);
    return got && *ret_port > 0;
}

static void port_file_of(const struct nm_process *process, char out[NM_PATH + 8]) {
    snprintf(out, NM_PATH + 8, "%s/port", process->dir);
}

bool nm_process_spawn(struct nm_process *process) {
    char port_file[NM_PATH + 8];
    port_file_of(process, port_file);
    (void)unlink(port_file);
    pid_t parent = getpid();
    pid_t child = fork();
    if (child == 0) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) {
            _exit(126);
        }
        child_run(process, port_file);
    }
    process->id = child > 0 ? child : 0;
    return child > 0;
}

bool nm_process_start(struct nm_process *process) {
    char port_file[NM_PATH + 8];
    int status;
    port_file_of(process, port_file);
    if (!nm_process_spawn(process)) {
        return false;
    }
    while (!port_read(port_file, &process->port)) {
        if (nm_process_ended(process, &status)) {
            return false;
        }
        struct timespec pause = {.tv_nsec = 1000000};
        nanosleep(&pause, NULL);
    }
    return true;
}

/* ---- Ending ---- */

bool nm_process_ended(struct nm_process *process, int *ret_status) {
    if (process->id == 0 || waitpid(process->id, ret_status, WNOHANG) != process->id) {
        return false;
    }
    process->id = 0;
    return true;
}

int nm_process_end(struct nm_process *process, int signal) {
    int status = 0;
    TN_ASSERT(process->id > 0);
    (void)kill(process->id, signal);
    while (waitpid(process->id, &status, 0) < 0 && errno == EINTR) {
    }
    process->id = 0;
    return status;
}
