/* Internal: what the examinations share. Each is a function that says its findings. */
#ifndef TN_DOCTOR_DOCTOR_PARTS_H
#define TN_DOCTOR_DOCTOR_PARTS_H

#include <sys/types.h>

#include "cli/cli.h"
#include "cli/columns.h"
#include "config/config.h"

#define DOCTOR_WORDS_MAX 64u
#define DOCTOR_PATH_MAX 4096u

enum doctor_level { DOCTOR_OK, DOCTOR_UNKNOWN, DOCTOR_WARNING, DOCTOR_PROBLEM, DOCTOR_LEVELS };

/* The unit file of systemd, and the flags of its ExecStart. */
struct doctor_unit {
    char path[DOCTOR_PATH_MAX]; /* empty: there is none */
    char text[16384];           /* what `words` point into */
    char *words[DOCTOR_WORDS_MAX];
    int count;
    uint64_t descriptors; /* LimitNOFILE; 0: it does not say */
};

struct doctor {
    const struct os *os;
    const struct cli_settings *settings;
    struct cli_screen screen;
    bool wrong_flag; /* a mistake in the command line, which has been told */
    struct doctor_unit unit;
    struct config config;
    /* The data directory, as far as it is known. */
    bool dir_exists;
    bool lock_known, dir_locked;
    pid_t server;            /* that holds its lock; 0: not known */
    uint64_t snapshot_bytes; /* of the newest snapshot; 0: none */
    uint64_t log_ms;         /* the time of the last batch in its log; 0: not known */
    uint32_t counts[DOCTOR_LEVELS];
    struct cli_text json;
};

/* One finding. `advice`: what to do, as an order to the reader; NULL: nothing. */
__attribute__((format(printf, 5, 6))) void doctor_say(struct doctor *doctor,
                                                      enum doctor_level level, const char *area,
                                                      const char *advice, const char *format, ...);
/* Advice with something in it; valid until the next call. */
__attribute__((format(printf, 1, 2))) const char *doctor_advice(const char *format, ...);

/* "12 KiB", "3.4 GiB". */
const char *doctor_bytes(uint64_t bytes, char out[32]);
/* The first line of a small file, without its end. False: it cannot be read. */
bool doctor_line_read(const char *path, char *out, size_t room);

/* Before the configuration is read. */
void doctor_unit_find(struct doctor_unit *unit);
void doctor_unit(struct doctor *doctor);
void doctor_files(struct doctor *doctor);
void doctor_dir(struct doctor *doctor);
void doctor_clock(struct doctor *doctor);
void doctor_disk(struct doctor *doctor);
void doctor_limits(struct doctor *doctor);
void doctor_ports(struct doctor *doctor);
void doctor_tls(struct doctor *doctor);

#endif
