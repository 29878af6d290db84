/* Internal: what the examinations share. Each is a function that says its findings. */
#ifndef TN_DOCTOR_DOCTOR_PARTS_H
#define TN_DOCTOR_DOCTOR_PARTS_H

#include <sys/types.h>

#include "cli/cli.h"
#include "cli/columns.h"
#include "config/config.h"

#define DOCTOR_WORDS_MAX 64u
#define DOCTOR_PATH_MAX 4096u
#define DOCTOR_GROUPS_MAX 32u

enum doctor_level { DOCTOR_OK, DOCTOR_UNKNOWN, DOCTOR_WARNING, DOCTOR_PROBLEM, DOCTOR_LEVELS };

/* What the unit of systemd and its drop-ins say. */
struct doctor_unit {
    char path[DOCTOR_PATH_MAX]; /* empty: there is no unit */
    char text[16384];           /* the texts to which all below points */
    size_t len;
    char *words[DOCTOR_WORDS_MAX]; /* the flags of ExecStart */
    int count;
    uint64_t descriptors;                  /* LimitNOFILE; 0: not set */
    const char *user, *group;              /* NULL: not set */
    const char *groups[DOCTOR_GROUPS_MAX]; /* SupplementaryGroups */
    unsigned group_count;
    bool dynamic_user; /* systemd makes the user when it starts the server */
};

struct doctor {
    const struct os *os;
    const struct cli_settings *settings;
    struct cli_screen screen;
    bool named;      /* the user named a configuration or a data directory */
    bool wrong_flag; /* an error in the command line, which has been reported */
    struct doctor_unit unit;
    struct config config;
    /* What is known of the data directory. */
    bool dir_exists;
    bool lock_known, dir_locked;
    pid_t server;            /* the process that holds its lock; 0: unknown */
    uint64_t snapshot_bytes; /* size of the newest snapshot; 0: none */
    uint64_t log_ms;         /* time of the last batch in its log; 0: unknown */
    uint32_t counts[DOCTOR_LEVELS];
    struct cli_text json;
};

/* Reports one finding. `advice` tells the reader what to do; NULL: nothing. */
__attribute__((format(printf, 5, 6))) void doctor_say(struct doctor *doctor,
                                                      enum doctor_level level, const char *area,
                                                      const char *advice, const char *format, ...);
/* Formats an advice; valid until the next call. */
__attribute__((format(printf, 1, 2))) const char *doctor_advice(const char *format, ...);

/* Writes a size such as "12 KiB" or "3.4 GiB". */
const char *doctor_bytes(uint64_t bytes, char out[32]);
/* Reads the first line of a small file, without its end. False: it cannot be read. */
bool doctor_line_read(const char *path, char *out, size_t room);

/* Called before the configuration is read. */
void doctor_unit_find(struct doctor_unit *unit, const struct os *os);
/* Whether the server of the unit is the one that is examined. */
bool doctor_unit_is_meant(const struct doctor *doctor);
void doctor_unit(struct doctor *doctor);
void doctor_files(struct doctor *doctor);
void doctor_dir(struct doctor *doctor);
void doctor_clock(struct doctor *doctor);
void doctor_disk(struct doctor *doctor);
void doctor_limits(struct doctor *doctor);
void doctor_ports(struct doctor *doctor);
void doctor_tls(struct doctor *doctor);

#endif
