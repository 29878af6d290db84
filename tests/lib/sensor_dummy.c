/* A sensor for tests: does what its arguments say, with or without manners.
 *
 *     sensor_dummy obey                 lives until SIGTERM, then exits with 0
 *     sensor_dummy ignore-term          lives on
 *     sensor_dummy fork-ignore N        obeys, with N children that ignore SIGTERM
 *     sensor_dummy leave N              exits with 0 and leaves N children that ignore SIGTERM
 *     sensor_dummy leave-obey N         the same with children that obey
 *     sensor_dummy daemonise            exits with 0; a grandchild in a session of its own, without a
 *                                       descriptor, ignores SIGTERM
 *     sensor_dummy storm N              N processes beget each other, each in a session of its own, then
 *                                       ignore SIGTERM
 *     sensor_dummy exit CODE            exits
 *     sensor_dummy crash SIGNAL         dies of it
 *     sensor_dummy print BYTES          prints lines of 64 bytes, numbered, then obeys
 *     sensor_dummy print-on FILE BYTES  the same, after FILE has appeared
 *     sensor_dummy show                 prints its descriptors, limits, user, groups, directory, group
 *                                       and session, signals, then its environment, then obeys
 *     sensor_dummy lock FILE            takes FILE for itself, writes "pid epoch" to it, then obeys; if
 *                                       another has it, makes FILE.twice and exits with 99
 *     sensor_dummy lock-child FILE      the same by a child in a session of its own that ignores SIGTERM
 *     sensor_dummy lock-forget FILE     the same by a daemon whose environment is empty; it obeys itself
 *     sensor_dummy lock-chain FILE      the same, and every millisecond the daemon forks and exits
 *     sensor_dummy hold FILE | chain FILE   what those two become; not for use by themselves
 *     sensor_dummy babble               says to descriptor 3 what no guardian says, then ignores SIGTERM
 *
 * Every process that comes of it appends its pid and a newline to the file in SENSOR_DUMMY_PIDS, if that
 * is set, once it is as it is going to stay. The epoch is that of TENURE_EPOCH. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static _Noreturn void leave(int signal) {
    (void)signal;
    _exit(0);
}

static void note(void) {
    const char *path = getenv("SENSOR_DUMMY_PIDS");
    char line[32];
    int fd = path != NULL ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666) : -1;
    if (fd >= 0) {
        int len = snprintf(line, sizeof line, "%d\n", (int)getpid());
        if (write(fd, line, (size_t)len) != len) {
            _exit(98);
        }
        close(fd);
    }
}

static _Noreturn void live(bool obeys) {
    signal(SIGTERM, obeys ? leave : SIG_IGN);
    note();
    for (;;) {
        pause();
    }
}

static void children(long count, bool obey) {
    for (long i = 0; i < count; i++) {
        if (fork() == 0) {
            live(obey);
        }
    }
}

static void daemonise(void) {
    if (fork() != 0) {
        _exit(0);
    }
    setsid();
    if (fork() != 0) {
        _exit(0);
    }
    for (int fd = 0; fd < 256; fd++) {
        close(fd);
    }
    live(false);
}

/* Each process forks two more until the count is used up. */
static void storm(long count) {
    setsid();
    signal(SIGTERM, SIG_IGN);
    while (count > 1) {
        long half = count / 2;
        pid_t child = fork();
        if (child < 0) {
            break;
        }
        if (child == 0) {
            setsid();
            count = half;
        } else {
            count -= half;
        }
    }
    live(false);
}

static void print(long bytes) {
    char line[65];
    for (long n = 0; n * 64 < bytes; n++) {
        snprintf(line, sizeof line, "%-62ld|\n", n);
        if (fputs(line, stdout) < 0) {
            _exit(97);
        }
    }
    fflush(stdout);
}

static void wait_for(const char *file) {
    struct timespec moment = {.tv_nsec = 1000000};
    while (access(file, F_OK) != 0) {
        nanosleep(&moment, NULL);
    }
}

static void show_limit(const char *name, int resource) {
    struct rlimit limit;
    getrlimit((__rlimit_resource_t)resource, &limit);
    printf("limit %s %llu %llu\n", name, (unsigned long long)limit.rlim_cur,
           (unsigned long long)limit.rlim_max);
}

static void show_files(void) {
    const struct dirent *entry;
    char path[300];
    char target[300];
    DIR *dir = opendir("/proc/self/fd");
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] != '.' && strtol(entry->d_name, NULL, 10) != dirfd(dir)) {
            snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
            ssize_t len = readlink(path, target, sizeof target - 1);
            target[len > 0 ? len : 0] = '\0';
            *strchrnul(target, ':') = '\0'; /* the number of a pipe says nothing */
            printf("fd %s %s\n", entry->d_name, target);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
}

static void show_signals(void) {
    sigset_t mask;
    struct sigaction action;
    sigprocmask(SIG_SETMASK, NULL, &mask);
    for (int i = 1; i < SIGRTMAX; i++) {
        if (sigaction(i, NULL, &action) == 0 && action.sa_handler == SIG_IGN) {
            printf("ignored %d\n", i);
        }
        if (sigismember(&mask, i) == 1) {
            printf("blocked %d\n", i);
        }
    }
}

static void show(void) {
    char cwd[4096];
    gid_t groups[64];
    show_files();
    show_limit("nofile", RLIMIT_NOFILE);
    show_limit("cpu", RLIMIT_CPU);
    show_limit("processes", RLIMIT_NPROC);
    show_limit("file", RLIMIT_FSIZE);
    show_limit("core", RLIMIT_CORE);
    show_signals();
    printf("user %d %d\n", (int)getuid(), (int)geteuid());
    printf("group %d %d\n", (int)getgid(), (int)getegid());
    int count = getgroups(64, groups);
    for (int i = 0; i < count; i++) {
        printf("groups %d\n", (int)groups[i]);
    }
    printf("cwd %s\n", getcwd(cwd, sizeof cwd));
    printf("leads %d\n", getsid(0) == getpid() && getpgrp() == getpid());
    for (char **variable = environ; *variable != NULL; variable++) {
        printf("env %s\n", *variable);
    }
    fflush(stdout);
}

static void lock(const char *path) {
    char text[64];
    const char *epoch = getenv("TENURE_EPOCH");
    int fd = open(path, O_RDWR | O_CREAT, 0666);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) != 0) {
        char twice[4096];
        snprintf(twice, sizeof twice, "%s.twice", path);
        (void)close(open(twice, O_WRONLY | O_CREAT, 0666));
        _exit(99);
    }
    int len = snprintf(text, sizeof text, "%d %s\n", (int)getpid(), epoch != NULL ? epoch : "-");
    if (ftruncate(fd, 0) != 0 || pwrite(fd, text, (size_t)len, 0) != len) {
        _exit(98);
    }
}

/* A daemon that holds the lock and that nothing in its environment gives away. */
static void forget(const char *program, const char *mode, const char *file) {
    char *const argv[] = {(char *)program, (char *)mode, (char *)file, NULL};
    char *const nothing[] = {NULL};
    if (fork() != 0) {
        return;
    }
    setsid();
    if (fork() != 0) {
        _exit(0);
    }
    signal(SIGTERM, SIG_IGN);
    lock(file);
    note();
    execve("/proc/self/exe", argv, nothing);
    _exit(98);
}

/* Always another pid, and never one that lives for long. */
static _Noreturn void chain(void) {
    struct timespec moment = {.tv_nsec = 1000000};
    for (;;) {
        pid_t child = fork();
        if (child > 0) {
            _exit(0);
        }
        nanosleep(&moment, NULL);
    }
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "obey";
    const char *word = argc > 2 ? argv[2] : "0";
    long number = strtol(word, NULL, 10);
    if (strcmp(mode, "ignore-term") == 0 || strcmp(mode, "hold") == 0) {
        live(false);
    } else if (strcmp(mode, "fork-ignore") == 0) {
        children(number, false);
    } else if (strcmp(mode, "leave") == 0 || strcmp(mode, "leave-obey") == 0) {
        children(number, strcmp(mode, "leave-obey") == 0);
        return 0;
    } else if (strcmp(mode, "daemonise") == 0) {
        daemonise();
    } else if (strcmp(mode, "storm") == 0) {
        storm(number);
    } else if (strcmp(mode, "exit") == 0) {
        return (int)number;
    } else if (strcmp(mode, "crash") == 0) {
        signal((int)number, SIG_DFL);
        raise((int)number);
    } else if (strcmp(mode, "print") == 0) {
        print(number);
    } else if (strcmp(mode, "print-on") == 0) {
        wait_for(word);
        print(argc > 3 ? strtol(argv[3], NULL, 10) : 0);
    } else if (strcmp(mode, "show") == 0) {
        show();
    } else if (strcmp(mode, "lock") == 0) {
        signal(SIGTERM, leave); /* before the file says that it is here */
        lock(word);
    } else if (strcmp(mode, "lock-child") == 0) {
        if (fork() == 0) {
            setsid();
            signal(SIGTERM, SIG_IGN);
            lock(word);
            live(false);
        }
    } else if (strcmp(mode, "lock-forget") == 0) {
        forget(argv[0], "hold", word);
    } else if (strcmp(mode, "lock-chain") == 0) {
        forget(argv[0], "chain", word);
    } else if (strcmp(mode, "chain") == 0) {
        chain();
    } else if (strcmp(mode, "babble") == 0) {
        if (write(3, "babble", 6) == 6) {
            live(false);
        }
    } else if (strcmp(mode, "obey") != 0) {
        return 2;
    }
    live(true);
}
