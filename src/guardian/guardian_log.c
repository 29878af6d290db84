/* The output of a sensor. A file that is full is followed by the next number, and the one that is too
 * many is removed: files never change but at their end, so a reader's position stays good. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guardian/guardian.h"
#include "process/run_files.h"

#define PUMP_BYTES 16384u
#define PUMP_ROUNDS 16 /* rounds before other work gets a turn */

static void name_of(uint64_t number, char out[32]) {
    (void)snprintf(out, 32, RUN_FILES_LOG_PREFIX "%llu", (unsigned long long)number);
}

static void file_open(struct guardian_log *log) {
    char name[32];
    struct stat st;
    name_of(log->number, name);
    log->file = openat(log->dir, name,
                       O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    log->size = log->file >= 0 && fstat(log->file, &st) == 0 ? (uint64_t)st.st_size : 0;
}

/* Creates the new file first, so that a reader finds one at any time. */
static void file_next(struct guardian_log *log) {
    char name[32];
    (void)close(log->file);
    log->number++;
    file_open(log);
    if (log->number > log->files) {
        name_of(log->number - log->files, name);
        (void)unlinkat(log->dir, name, 0);
    }
}

int guardian_log_open(struct guardian_log *log, const struct run_frame_start *start,
                      int *ret_sink) {
    int ends[2];
    *log = (struct guardian_log){.dir = -1,
                                 .file = -1,
                                 .source = -1,
                                 .files = start->log_files,
                                 .number = start->log_number,
                                 .bytes_max = start->log_bytes};
    if (start->log_dir[0] == '\0') {
        *ret_sink = open("/dev/null", O_WRONLY | O_CLOEXEC);
        return *ret_sink >= 0 ? 0 : errno;
    }
    log->dir = open(start->log_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (log->dir < 0 || pipe2(ends, O_CLOEXEC) != 0) {
        return errno;
    }
    /* Only our end: programs do not expect that their output blocks or fails. */
    (void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
    log->source = ends[0];
    *ret_sink = ends[1];
    file_open(log);
    return 0;
}

/* Returns how many bytes were written. */
static size_t some_write(struct guardian_log *log, const char *bytes, size_t len) {
    if (log->file < 0) {
        file_open(log);
    }
    if (log->file >= 0 && log->size >= log->bytes_max) {
        file_next(log);
    }
    if (log->file < 0) {
        return 0;
    }
    uint64_t room = log->bytes_max > log->size ? log->bytes_max - log->size : 1;
    ssize_t n;
    do {
        n = write(log->file, bytes, len < room ? len : (size_t)room);
    } while (n < 0 && errno == EINTR);
    if (n <= 0) {
        return 0;
    }
    log->size += (uint64_t)n;
    return (size_t)n;
}

static bool all_write(struct guardian_log *log, const char *bytes, size_t len) {
    size_t done = 0;
    while (done < len) {
        size_t n = some_write(log, bytes + done, len - done);
        if (n == 0) {
            log->lost += len - done;
            return false;
        }
        done += n;
    }
    return true;
}

/* Writes a line into the log that says how many bytes are missing there. */
static void lost_tell(struct guardian_log *log) {
    char text[80];
    uint64_t lost = log->lost;
    int len = snprintf(text, sizeof text, "\n[tenure: %llu bytes of output could not be written]\n",
                       (unsigned long long)lost);
    log->lost = 0;
    if (!all_write(log, text, (size_t)len)) {
        log->lost = lost;
    }
}

bool guardian_log_pump(struct guardian_log *log) {
    static char bytes[PUMP_BYTES];
    for (int round = 0; round < PUMP_ROUNDS && log->source >= 0; round++) {
        ssize_t n = read(log->source, bytes, sizeof bytes);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n == 0) {
            (void)close(log->source);
            log->source = -1;
        }
        if (n <= 0) {
            return false;
        }
        if (log->lost > 0) {
            lost_tell(log);
        }
        if (log->lost > 0) {
            log->lost += (uint64_t)n;
        } else {
            (void)all_write(log, bytes, (size_t)n);
        }
    }
    return log->source >= 0;
}
