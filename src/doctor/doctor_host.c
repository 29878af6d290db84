/* The clock and the limits of the machine. Limits are those of the running server if that is known, else
 * those that its unit would give it, else those of the shell. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/timex.h>
#include <unistd.h>

#include "doctor/doctor_parts.h"

#define DAY_MS 86400000u
#define BEHIND_MS 5000u         /* a clock that was set back by less is not reported */
#define OWN_DESCRIPTORS 100u    /* besides those of clients: log, events, sensors, listeners */
#define OWN_MEMORY (128u << 20) /* besides client_memory */
#define TASKS_MIN 64u

/* ---- The clock ---- */

static void clock_synchronized(struct doctor *doctor) {
    struct timex status = {.modes = 0};
    int state = adjtimex(&status);
    if (state < 0) {
        doctor_say(doctor, DOCTOR_UNKNOWN, "clock", "timedatectl",
                   "cannot look: the system does not say whether the clock is synchronized");
    } else if (state == TIME_ERROR || (status.status & STA_UNSYNC) != 0) {
        doctor_say(
            doctor, DOCTOR_WARNING, "clock",
            "timedatectl set-ntp true, or install chrony; in a container or a virtual machine, "
            "look at the host",
            "the clock is not synchronized: leases end at its times");
    } else {
        doctor_say(doctor, DOCTOR_OK, "clock", NULL, "synchronized; the estimated error is %ld ms",
                   status.esterror / 1000);
    }
}

/* Compares the clock with the time of the last batch in the log. */
static void clock_against_log(struct doctor *doctor) {
    uint64_t now = doctor->os->clock_wall_ms(doctor->os->ctx);
    uint64_t days = config_number(&doctor->config, CONFIG_MAX_DOWNTIME_DAYS);
    uint64_t ahead = now > doctor->log_ms ? now - doctor->log_ms : 0;
    uint64_t behind = doctor->log_ms > now ? doctor->log_ms - now : 0;
    if (doctor->log_ms == 0) {
        return;
    }
    if (ahead > days * DAY_MS) {
        doctor_say(doctor, DOCTOR_PROBLEM, "clock",
                   "correct the clock; if it is right, start once with --confirm-time-jump",
                   "the clock is %" PRIu64 " days ahead of the log (max_downtime_days = %" PRIu64
                   "): tenured refuses to start",
                   ahead / DAY_MS, days);
    } else if (behind > BEHIND_MS) {
        doctor_say(
            doctor, DOCTOR_WARNING, "clock", "correct the clock",
            "the clock is %" PRIu64
            " s behind the log: tenured goes on from the time of the log, ahead of the clock",
            behind / 1000);
    } else {
        doctor_say(doctor, DOCTOR_OK, "clock", NULL,
                   "the last batch of the log is %" PRIu64 " s old", ahead / 1000);
    }
}

void doctor_clock(struct doctor *doctor) {
    clock_synchronized(doctor);
    clock_against_log(doctor);
}

/* ---- Descriptors ---- */

/* The hard limit, to which tenured raises its own. False: unknown. */
static bool descriptors_of_server(pid_t pid, uint64_t *ret_limit) {
    char path[64], line[256];
    bool found = false;
    (void)snprintf(path, sizeof path, "/proc/%ld/limits", (long)pid);
    FILE *file = pid > 0 ? fopen(path, "re") : NULL;
    while (file != NULL && !found && fgets(line, sizeof line, file) != NULL) {
        char hard[32];
        if (sscanf(line, "Max open files %*31s %31s", hard) == 1) {
            *ret_limit = hard[0] == 'u' ? UINT64_MAX : strtoull(hard, NULL, 10);
            found = true;
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return found;
}

static void descriptors_judge(struct doctor *doctor) {
    struct rlimit limit = {.rlim_max = 0};
    uint64_t has = 0;
    uint64_t clients = config_number(&doctor->config, CONFIG_MAX_CONNECTIONS);
    const char *whose = "the running server";
    if (!descriptors_of_server(doctor->server, &has)) {
        bool unit = doctor->unit.descriptors > 0;
        whose = unit ? "the unit" : "this shell";
        (void)getrlimit(RLIMIT_NOFILE, &limit);
        has = unit ? doctor->unit.descriptors : limit.rlim_max;
    }
    if (has < clients + OWN_DESCRIPTORS) {
        doctor_say(doctor, DOCTOR_WARNING, "limits",
                   doctor_advice("LimitNOFILE=%" PRIu64 " in the unit (ulimit -Hn), or a lower "
                                 "max_connections",
                                 clients + OWN_DESCRIPTORS),
                   "%s may open %" PRIu64 " files; max_connections = %" PRIu64
                   " needs about %" PRIu64,
                   whose, has, clients, clients + OWN_DESCRIPTORS);
    } else {
        doctor_say(doctor, DOCTOR_OK, "limits", NULL,
                   "%s may open enough files for max_connections = %" PRIu64, whose, clients);
    }
}

/* ---- Control groups ---- */

/* The directory of the process in the unified hierarchy. */
static bool cgroup_find(pid_t pid, char out[DOCTOR_PATH_MAX]) {
    char path[64], line[DOCTOR_PATH_MAX - 64];
    bool found = false;
    (void)snprintf(path, sizeof path, pid > 0 ? "/proc/%ld/cgroup" : "/proc/self/cgroup",
                   (long)pid);
    FILE *file = fopen(path, "re");
    while (file != NULL && !found && fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "0::/", 4) == 0) {
            (void)snprintf(out, DOCTOR_PATH_MAX, "/sys/fs/cgroup%s", line + 3);
            found = true;
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return found;
}

/* The smallest limit of this name from here up to the root; UINT64_MAX: none. */
static uint64_t cgroup_limit(const char *dir, const char *name) {
    char at[DOCTOR_PATH_MAX], path[DOCTOR_PATH_MAX + 32], line[64];
    uint64_t least = UINT64_MAX;
    (void)snprintf(at, sizeof at, "%s", dir);
    while (strlen(at) >= strlen("/sys/fs/cgroup")) {
        (void)snprintf(path, sizeof path, "%s/%s", at, name);
        if (doctor_line_read(path, line, sizeof line) && line[0] >= '0' && line[0] <= '9') {
            uint64_t limit = strtoull(line, NULL, 10);
            least = limit < least ? limit : least;
        }
        *strrchr(at, '/') = '\0';
    }
    return least;
}

static void memory_judge(struct doctor *doctor, uint64_t limit) {
    char has[32], needs[32];
    uint64_t clients = config_number(&doctor->config, CONFIG_CLIENT_MEMORY);
    uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t least = limit < memory ? limit : memory;
    (void)doctor_bytes(least, has);
    (void)doctor_bytes(clients + OWN_MEMORY, needs);
    if (least < clients + OWN_MEMORY) {
        doctor_say(doctor, DOCTOR_WARNING, "limits",
                   "raise MemoryMax of the unit or the container's limit, or lower client_memory",
                   "%s of memory (%s); client_memory and the server itself can need %s", has,
                   limit < memory ? "control group" : "machine", needs);
    } else {
        doctor_say(doctor, DOCTOR_OK, "limits", NULL, "%s of memory (%s)", has,
                   limit < memory ? "control group" : "machine");
    }
}

void doctor_limits(struct doctor *doctor) {
    char dir[DOCTOR_PATH_MAX];
    descriptors_judge(doctor);
    /* If the unit does not run, its control group is unknown. */
    if (!cgroup_find(doctor->server, dir)) {
        memory_judge(doctor, UINT64_MAX);
        return;
    }
    memory_judge(doctor, cgroup_limit(dir, "memory.max"));
    uint64_t tasks = cgroup_limit(dir, "pids.max");
    if (tasks < TASKS_MIN) {
        doctor_say(doctor, DOCTOR_WARNING, "limits",
                   "raise TasksMax of the unit, or the container's limit of processes",
                   "the control group allows %" PRIu64
                   " processes and threads: too few for the server and its sensors",
                   tasks);
    }
}
