/* /proc, read with plain calls: nothing here is data of ours. */
#include "process/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CHUNK_BYTES 4096u

static int file_open(const char *path) {
    int fd;
    do {
        fd = open(path, O_RDONLY | O_CLOEXEC);
    } while (fd < 0 && errno == EINTR);
    return fd;
}

bool process_streams_open(void) {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd) { /* the lowest free one */
            return false;
        }
    }
    return true;
}

/* 0: the end, or it cannot be read. */
static size_t file_read(int fd, char *out, size_t capacity) {
    ssize_t n;
    do {
        n = read(fd, out, capacity);
    } while (n < 0 && errno == EINTR);
    return n > 0 ? (size_t)n : 0;
}

/* Of the last call that failed. */
static enum process_answer answer_of_error(void) {
    return errno == EMFILE || errno == ENFILE || errno == ENOMEM ? PROCESS_UNKNOWN : PROCESS_NO;
}

static size_t file_whole(const char *path, char *out, size_t capacity) {
    size_t len = 0;
    size_t n;
    int fd = file_open(path);
    if (fd < 0) {
        return 0;
    }
    errno = 0;
    while (len < capacity && (n = file_read(fd, out + len, capacity - len)) > 0) {
        len += n;
    }
    (void)close(fd);
    return len;
}

/* ---- One process ---- */

/* Skips blanks and reads a number that may be negative; *at stops behind it. */
static int64_t number_next(const char **at, const char *end) {
    int64_t value = 0;
    while (*at < end && **at == ' ') {
        (*at)++;
    }
    bool negative = *at < end && **at == '-';
    *at += negative;
    while (*at < end && **at >= '0' && **at <= '9') {
        value = (int64_t)((uint64_t)value * 10 + (uint64_t)(**at - '0'));
        (*at)++;
    }
    return negative ? -value : value;
}

bool process_stat_parse(const char *text, size_t len, struct process_stat *ret_stat) {
    const char *end = text + len;
    /* The name is between the first ( and the last ), and may have both and blanks in it. */
    const char *at = len > 0 ? memrchr(text, ')', len) : NULL;
    struct process_stat stat;
    if (at == NULL || end - at < 4 || at[1] != ' ') {
        return false;
    }
    stat.state = at[2];
    at += 3;
    stat.parent = (pid_t)number_next(&at, end);
    stat.group = (pid_t)number_next(&at, end);
    stat.session = (pid_t)number_next(&at, end);
    for (int field = 7; field < 22; field++) { /* as proc(5) counts them */
        (void)number_next(&at, end);
    }
    if (at >= end) {
        return false;
    }
    stat.start = (uint64_t)number_next(&at, end);
    *ret_stat = stat;
    return true;
}

enum process_answer process_stat_read(pid_t pid, struct process_stat *ret_stat) {
    char path[32];
    char text[1024];
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    size_t len = file_whole(path, text, sizeof text);
    if (len == 0) {
        return answer_of_error();
    }
    return process_stat_parse(text, len, ret_stat) ? PROCESS_YES : PROCESS_NO;
}

/* The mask of signals that this line of /proc/PID/status shows. */
static uint64_t mask_of(const char *text, const char *name) {
    const char *at = strstr(text, name);
    return at != NULL ? strtoull(at + strlen(name), NULL, 16) : 0;
}

bool process_takes_signal(pid_t pid, int number) {
    char path[32];
    char text[8192];
    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    size_t len = file_whole(path, text, sizeof text - 1);
    text[len] = '\0';
    return number > 0 && number <= 64 &&
           ((mask_of(text, "\nSigCgt:") | mask_of(text, "\nSigIgn:")) >> (number - 1) & 1) != 0;
}

enum process_answer process_switches(pid_t pid, uint64_t *ret_switches) {
    static const char *const names[] = {"\nvoluntary_ctxt_switches:",
                                        "\nnonvoluntary_ctxt_switches:"};
    char path[32];
    char text[8192];
    uint64_t sum = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    size_t len = file_whole(path, text, sizeof text - 1);
    if (len == 0) {
        return answer_of_error();
    }
    text[len] = '\0';
    for (size_t i = 0; i < 2; i++) {
        const char *at = strstr(text, names[i]);
        if (at == NULL) {
            return PROCESS_UNKNOWN;
        }
        sum += strtoull(at + strlen(names[i]), NULL, 10);
    }
    *ret_switches = sum;
    return PROCESS_YES;
}

/* ---- Variables ---- */

void process_variable_begin(struct process_variable_scan *scan, const char *name,
                            char out[PROCESS_VALUE_MAX]) {
    out[0] = '\0';
    *scan = (struct process_variable_scan){.name = name, .out = out};
}

bool process_variable_feed(struct process_variable_scan *scan, const char *bytes, size_t count) {
    size_t name_len = strlen(scan->name);
    for (size_t i = 0; i < count; i++) {
        char c = bytes[i];
        if (scan->matched == name_len + 1) {
            scan->out[scan->len] = c;
            if (c == '\0' || ++scan->len == PROCESS_VALUE_MAX - 1) {
                scan->out[scan->len] = '\0';
                return true;
            }
        } else if (c == '\0') {
            scan->matched = 0;
        } else if (scan->matched <= name_len &&
                   c == (scan->matched < name_len ? scan->name[scan->matched] : '=')) {
            scan->matched++;
        } else {
            scan->matched = SIZE_MAX;
        }
    }
    return false;
}

enum process_answer process_variable(pid_t pid, const char *name, char out[PROCESS_VALUE_MAX]) {
    struct process_variable_scan scan;
    char path[32];
    char chunk[CHUNK_BYTES];
    size_t n;
    bool found = false;
    (void)snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    int fd = file_open(path);
    if (fd < 0) {
        return answer_of_error();
    }
    errno = 0;
    process_variable_begin(&scan, name, out);
    while (!found && (n = file_read(fd, chunk, sizeof chunk)) > 0) {
        found = process_variable_feed(&scan, chunk, n);
    }
    enum process_answer answer = found ? PROCESS_YES : answer_of_error();
    (void)close(fd);
    return answer;
}

/* ---- Many processes ---- */

static bool children_visit(const char *path, process_visit *visit, void *ctx) {
    char chunk[CHUNK_BYTES];
    size_t n;
    pid_t pid = 0;
    int fd = file_open(path);
    if (fd < 0) {
        return false;
    }
    while ((n = file_read(fd, chunk, sizeof chunk)) > 0) {
        for (size_t i = 0; i < n; i++) {
            if (chunk[i] >= '0' && chunk[i] <= '9') {
                pid = pid * 10 + (chunk[i] - '0');
            } else if (pid != 0) {
                visit(ctx, pid);
                pid = 0;
            }
        }
    }
    (void)close(fd);
    return true;
}

bool process_children_known(void) {
    return access("/proc/thread-self/children", R_OK) == 0;
}

bool process_children_of_thread(process_visit *visit, void *ctx) {
    return children_visit("/proc/thread-self/children", visit, ctx);
}

bool process_children_of(pid_t pid, process_visit *visit, void *ctx) {
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    return children_visit(path, visit, ctx);
}

/* Calls for every entry of a directory that is a number. */
static bool numbers_visit(const char *path, process_visit *visit, void *ctx) {
    const struct dirent *entry;
    DIR *dir = opendir(path);
    if (dir == NULL) {
        return false;
    }
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9') {
            visit(ctx, (pid_t)strtol(entry->d_name, NULL, 10));
        }
    }
    (void)closedir(dir);
    return true;
}

struct threads_walk {
    process_visit *visit;
    void *ctx;
    bool good;
};

static void thread_visit(void *ctx, pid_t tid) {
    struct threads_walk *walk = ctx;
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)tid);
    /* A thread that has just ended has given its children to another. */
    if (!children_visit(path, walk->visit, walk->ctx) && errno != ENOENT && errno != ESRCH) {
        walk->good = false;
    }
}

bool process_children(process_visit *visit, void *ctx) {
    struct threads_walk walk = {.visit = visit, .ctx = ctx, .good = true};
    return process_children_known() && numbers_visit("/proc/self/task", thread_visit, &walk) &&
           walk.good;
}

bool process_all(process_visit *visit, void *ctx) {
    return numbers_visit("/proc", visit, ctx);
}

bool process_boot_id(char out[PROCESS_BOOT_TEXT]) {
    if (file_whole("/proc/sys/kernel/random/boot_id", out, PROCESS_BOOT_TEXT - 1) !=
        PROCESS_BOOT_TEXT - 1) {
        return false;
    }
    out[PROCESS_BOOT_TEXT - 1] = '\0';
    return true;
}

uint64_t process_namespace(void) {
    struct stat is;
    return stat("/proc/self/ns/pid", &is) == 0 ? (uint64_t)is.st_ino : 0;
}

int process_namespace_open(pid_t pid) {
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/ns/pid", (int)pid);
    return file_open(pid == 0 ? "/proc/self/ns/pid" : path);
}

/* ---- Descriptors ---- */

enum process_answer process_open(pid_t pid, uint64_t start, int *ret_descriptor) {
    struct process_stat stat;
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0) {
        /* No process has the pid, or only a thread has. Any other error says nothing about it. */
        return errno == ESRCH || errno == EINVAL ? PROCESS_NO : PROCESS_UNKNOWN;
    }
    enum process_answer answer = process_stat_read(pid, &stat);
    if (answer == PROCESS_NO && !process_ended(fd)) {
        answer = PROCESS_UNKNOWN; /* it lives, and /proc does not show it to us */
    }
    /* Not ended even now: so the pid was its own when the start time was read. */
    if (answer == PROCESS_YES && (stat.start != start || process_ended(fd))) {
        answer = PROCESS_NO;
    }
    if (answer == PROCESS_YES) {
        *ret_descriptor = fd;
    } else {
        (void)close(fd);
    }
    return answer;
}

bool process_ended(int descriptor) {
    struct pollfd fd = {.fd = descriptor, .events = POLLIN};
    return poll(&fd, 1, 0) == 1;
}

void process_signal(int descriptor, int signal) {
    (void)syscall(SYS_pidfd_send_signal, descriptor, signal, NULL, 0);
}
