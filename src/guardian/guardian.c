/* `tenure-guardian`: the parent of one run of a sensor, or of a command of `tenure run`, so that nothing
 * of it outlives the server or the lease.
 *
 * Started by the server with a socket as descriptor 3, the directory of the run's record as descriptor 4,
 * and the sensor's name, for people, as its only argument; without it, it only says by its exit code
 * whether it could work as the first process of a pid namespace. `tenure run` is a server with one job:
 * a name, then the command, and no record. The guardian is a child subreaper: a descendant that
 * loses its parent becomes its child. It has only the state below, needs no heap once the main process
 * runs, and ignores all signals that can be ignored.
 *
 *     waiting --START--> guarding --TERM, KILL--> guarding --no descendant left: GONE--> ends
 *        |                   |
 *        | the socket closes | the socket closes, or the time of LIVE is over: as KILL, at once
 *        v                   v
 *       ends            guarding, killing
 *
 * 1. The main process is waited for last. Until then no other process can get its pid, which is also the
 *    id of its group and session, so it can be signalled safely.
 * 2. Only children that were not waited for are signalled: no other process can have their pids.
 * 3. While killing, every child that is seen gets SIGKILL. Its death wakes the guardian, which becomes the
 *    parent of its children. So a pass that finds no child, and ECHILD, are the end. A group or a cgroup
 *    is killed in one step, which fork() cannot outrun.
 * 4. ECHILD proves that nothing of the run lives: every process of the run is a descendant, and a process
 *    without children has none. Then the record is removed, before the server is told, because the server
 *    may be gone: if a record outlives its guardian, the run was not proven dead. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guardian/guardian.h"
#include "process/cgroup.h"
#include "process/proc.h"
#include "process/run_files.h"

#define CGROUP_BYTES 4096u
#define AGAIN_MS 50 /* repeats a pass, in case it missed a process */
/* First interval between checks whether the main process handles a signal; doubled up to. */
#define SIGNAL_MS 20
#define SIGNAL_MAX_MS 5120
#define SIGNAL_WAKES 64u /* output of the run must not postpone these checks */
#define LAST_PUMPS 64    /* a process that is not a descendant may have the output open */

enum main_state { MAIN_NONE, MAIN_RUNS, MAIN_ENDED, MAIN_WAITED_FOR };

static struct {
    pid_t main_pid;
    enum main_state main;
    bool killing;
    bool asked;     /* to end: TERM */
    bool is_first;  /* the first process of its pid namespace, which is the run's */
    bool own_proc;  /* it is in another pid namespace than the server */
    char **job;     /* the command of a job; NULL: a sensor */
    uint64_t early; /* signals for the job that came before its program ran, one bit each */
    int signals;
    int signal;    /* sent as soon as the main process handles it; 0: none */
    int signal_ms; /* until the next check whether it does */
    unsigned signal_wakes;
    struct guardian_log log;
    char cgroup[CGROUP_BYTES]; /* empty: none */
} guardian;

/* ---- Messages to the server ---- */

/* If the server is gone, the closed socket will show it. The kernel translates the pid into the one
 * that the server sees; 0: none is sent. */
static void say_as(const struct run_frame_news *news, pid_t pid) {
    uint8_t bytes[RUN_FRAME_SMALL_MAX];
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(struct ucred))];
    } control = {.room = {0}};
    struct ucred who = {.pid = pid, .uid = geteuid(), .gid = getegid()};
    struct iovec text = {.iov_base = bytes, .iov_len = run_frame_news_encode(news, bytes)};
    struct msghdr message = {.msg_iov = &text, .msg_iovlen = 1};
    ssize_t n;
    if (pid != 0) {
        message.msg_control = control.room;
        message.msg_controllen = sizeof control.room;
        control.head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof who),
                                        .cmsg_level = SOL_SOCKET,
                                        .cmsg_type = SCM_CREDENTIALS};
        memcpy(CMSG_DATA(&control.head), &who, sizeof who);
    }
    do {
        n = sendmsg(RUN_FRAME_SOCKET, &message, MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
}

static void say(const struct run_frame_news *news) {
    say_as(news, 0);
}

/* Nothing of the run is alive. The record is removed last. */
static void record_drop(void) {
    (void)unlinkat(RUN_FRAME_DIR, RUN_FILES_TOKEN, 0);
    (void)unlinkat(RUN_FRAME_DIR, RUN_FILES_RULES, 0);
    (void)unlinkat(RUN_FRAME_DIR, RUN_FILES_RECORD, 0);
}

static _Noreturn void finish(void) {
    for (int i = 0; i < LAST_PUMPS && guardian_log_pump(&guardian.log); i++) {
    }
    record_drop();
    if (guardian.job != NULL && guardian.cgroup[0] != '\0') {
        process_cgroup_remove(guardian.cgroup); /* no later process would remove it */
    }
    say(&(struct run_frame_news){.kind = RUN_FRAME_GONE});
    _exit(0);
}

/* ---- Children ---- */

struct pass {
    uint32_t waited_for;
    uint32_t left; /* children besides the main process */
    int signal;    /* 0: none */
};

static void child_visit(void *ctx, pid_t pid) {
    struct pass *pass = ctx;
    if (pid == guardian.main_pid && guardian.main != MAIN_WAITED_FOR) {
        return;
    }
    if (waitpid(pid, NULL, WNOHANG | __WALL) == pid) {
        pass->waited_for++;
        return;
    }
    pass->left++;
    if (pass->signal != 0) {
        (void)kill(pid, pass->signal);
        if (getpgid(pid) == pid) { /* it leads its group */
            (void)kill(-pid, pass->signal);
        }
    }
}

/* Signals the group of the main process, and the main process itself if it has moved to another
 * group. The group may be empty then, but no other process gets its number while the main process
 * is not waited for. */
static void main_signal(int signal) {
    if (guardian.main != MAIN_RUNS && guardian.main != MAIN_ENDED) {
        return;
    }
    (void)kill(-guardian.main_pid, signal);
    if (getpgid(guardian.main_pid) != guardian.main_pid) {
        (void)kill(guardian.main_pid, signal);
    }
}

/* Waits for children that have ended and signals the others, until no more of them end. */
static uint32_t children_pass(int signal) {
    struct pass pass;
    do {
        pass = (struct pass){.signal = signal};
        if (signal != 0) {
            main_signal(signal);
        }
        if (!process_children_of_thread(child_visit, &pass)) {
            return 1; /* not known now; tried again */
        }
    } while (pass.waited_for > 0);
    return pass.left;
}

static int status_of(const siginfo_t *info) {
    if (info->si_code == CLD_EXITED) {
        return (info->si_status & 0xff) << 8;
    }
    return info->si_status | (info->si_code == CLD_DUMPED ? 0x80 : 0);
}

static void main_look(void) {
    siginfo_t info = {.si_pid = 0};
    if (guardian.main != MAIN_RUNS ||
        waitid(P_PID, (id_t)guardian.main_pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        info.si_pid == 0) {
        return;
    }
    guardian.main = MAIN_ENDED;
    say(&(struct run_frame_news){.kind = RUN_FRAME_EXITED, .status = status_of(&info)});
    if (guardian.asked && !guardian.killing) {
        (void)children_pass(SIGTERM);
    }
}

/* A shell that wants to see its job stop must see it on `tenure run`, which is told here. */
static void stop_look(void) {
    siginfo_t info = {.si_pid = 0};
    if (guardian.job != NULL && guardian.main == MAIN_RUNS &&
        waitid(P_PID, (id_t)guardian.main_pid, &info, WSTOPPED | WNOHANG) == 0 &&
        info.si_pid != 0) {
        say(&(struct run_frame_news){.kind = RUN_FRAME_STOPPED, .status = info.si_status});
    }
}

/* Ends the guardian if nothing is left to guard. */
static void look(void) {
    stop_look();
    main_look();
    if (guardian.killing && guardian.cgroup[0] != '\0') {
        (void)process_cgroup_kill(guardian.cgroup);
    }
    if (guardian.killing && guardian.is_first) {
        (void)kill(-1, SIGKILL); /* kills everything else in the namespace in one step */
    }
    uint32_t left = children_pass(guardian.killing ? SIGKILL : 0);
    main_look();
    if (left > 0 || guardian.main == MAIN_RUNS) {
        return;
    }
    if (guardian.main == MAIN_ENDED) {
        (void)waitpid(guardian.main_pid, NULL, WNOHANG | __WALL);
        guardian.main = MAIN_WAITED_FOR;
    }
    pid_t another = waitpid(-1, NULL, WNOHANG | __WALL);
    if (another < 0 && errno == ECHILD &&
        (guardian.cgroup[0] == '\0' || process_cgroup_empty(guardian.cgroup))) {
        finish();
    }
}

/* ---- Orders ---- */

static void term(void) {
    guardian.asked = true;
    if (guardian.main == MAIN_RUNS) {
        main_signal(SIGTERM);
    } else {
        (void)children_pass(SIGTERM);
    }
    if (guardian.job != NULL) {
        main_signal(SIGCONT); /* it may have been stopped from its terminal */
    }
}

/* A program that has just begun handles no signals yet, and the signal would end it. */
static void signal_try(void) {
    if (guardian.main != MAIN_RUNS || guardian.killing) {
        guardian.signal = 0;
    } else if (process_takes_signal(guardian.main_pid, guardian.signal)) {
        (void)kill(guardian.main_pid, guardian.signal);
        guardian.signal = 0;
    } else if (guardian.signal_ms < SIGNAL_MAX_MS) {
        guardian.signal_ms *= 2;
    }
}

/* The next order. EMPTY: there is none. BROKEN: the server is gone, or the bytes are not an
 * order. */
enum next { NEXT_EMPTY, NEXT_ORDER, NEXT_BROKEN };

static enum next order_receive(struct run_frame_order *ret_order, int flags) {
    uint8_t bytes[RUN_FRAME_SMALL_MAX];
    ssize_t n;
    do {
        n = recv(RUN_FRAME_SOCKET, bytes, sizeof bytes, MSG_DONTWAIT | MSG_TRUNC | flags);
    } while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN) {
        return NEXT_EMPTY;
    }
    if (n <= 0) {
        (void)shutdown(RUN_FRAME_SOCKET, SHUT_RDWR); /* the server is gone */
        return NEXT_BROKEN;
    }
    bool good = (size_t)n <= sizeof bytes && run_frame_order_decode(bytes, (size_t)n, ret_order);
    return good ? NEXT_ORDER : NEXT_BROKEN;
}

bool guardian_order_early(void) {
    struct run_frame_order order;
    for (;;) {
        enum next next = order_receive(&order, MSG_PEEK);
        if (next != NEXT_ORDER || order.kind == RUN_FRAME_TERM || order.kind == RUN_FRAME_KILL) {
            return next != NEXT_EMPTY;
        }
        (void)order_receive(&order, 0);
        if (order.kind == RUN_FRAME_LIVE) {
            guardian_deadline_set(&order.live);
        } else if (order.kind == RUN_FRAME_SIGNAL) {
            guardian.signal = order.signal;
            guardian.signal_ms = SIGNAL_MS;
        } else if (order.signal > 0 && order.signal <= 64) {
            guardian.early |= 1ull << (order.signal - 1);
        }
    }
}

/* Processes all orders that have arrived: a deadline that was moved in time counts, however late
 * the order is read. */
static void orders_take(void) {
    struct run_frame_order order;
    enum next next;
    while (!guardian.killing && (next = order_receive(&order, 0)) != NEXT_EMPTY) {
        if (next == NEXT_BROKEN || order.kind == RUN_FRAME_KILL) {
            guardian.killing = true;
        } else if (order.kind == RUN_FRAME_TERM) {
            term();
        } else if (order.kind == RUN_FRAME_SIGNAL) {
            guardian.signal = order.signal;
            guardian.signal_ms = SIGNAL_MS;
            signal_try();
        } else if (order.kind == RUN_FRAME_PASS) {
            main_signal(order.signal);
        } else {
            guardian_deadline_set(&order.live);
        }
    }
}

/* After the orders. */
static void deadline_look(void) {
    if (guardian_deadline_is_over(guardian_deadline_kill())) {
        guardian.killing = true;
    } else if (guardian_deadline_is_over(guardian_deadline_term())) {
        term();
    }
}

/* ---- The start ---- */

/* False: the server went away before it sent an order. */
static bool start_wait(uint8_t *bytes, size_t *ret_len) {
    struct pollfd socket = {.fd = RUN_FRAME_SOCKET, .events = POLLIN};
    for (;;) {
        if (poll(&socket, 1, -1) < 0 && errno != EINTR) {
            return false;
        }
        ssize_t n = recv(RUN_FRAME_SOCKET, bytes, RUN_FRAME_MAX, MSG_DONTWAIT);
        if (n > 0) {
            *ret_len = (size_t)n;
            return true;
        }
        if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
            return false;
        }
    }
}

static _Noreturn void fail(uint32_t error, uint32_t step) {
    record_drop();
    say(&(struct run_frame_news){.kind = RUN_FRAME_FAILED, .error = error, .step = step});
    say(&(struct run_frame_news){.kind = RUN_FRAME_GONE});
    _exit(0);
}

/* The directory and the streams belong to the job: a pipe must close when the job closes it. */
static void places_leave(void) {
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd < 3 && nothing >= 0; fd++) {
        (void)dup2(nothing, fd);
    }
    (void)close(nothing);
    if (chdir("/") != 0) {
        return; /* then the directory of the job cannot be unmounted while it runs */
    }
}

static void start(const uint8_t *bytes, size_t len) {
    struct run_frame_start wanted;
    struct process_stat stat = {.start = 0};
    uint32_t error = 0;
    uint32_t step = 0;
    int sink = -1;
    if (!run_frame_start_decode(bytes, len, &wanted) || strlen(wanted.cgroup) >= CGROUP_BYTES ||
        wanted.is_job != (guardian.job != NULL)) {
        fail(EBADMSG, RUN_FRAME_STEP_GUARDIAN);
    }
    memcpy(guardian.cgroup, wanted.cgroup, strlen(wanted.cgroup) + 1);
    guardian.own_proc = wanted.own_proc;
    guardian_deadline_set(&wanted.live);
    int world_error = wanted.own_proc ? guardian_world_make() : 0;
    if (world_error != 0) {
        fail((uint32_t)world_error, RUN_FRAME_STEP_CONTAINMENT);
    }
    int log_error = wanted.is_job ? 0 : guardian_log_open(&guardian.log, &wanted, &sink);
    if (log_error != 0) {
        fail((uint32_t)log_error, RUN_FRAME_STEP_STDIO);
    }
    guardian.main_pid = guardian_start(&wanted, guardian.job, sink, &error, &step);
    if (guardian.main_pid == 0) {
        fail(error, step);
    }
    if (wanted.is_job) {
        places_leave();
    } else {
        (void)close(sink);
    }
    guardian.main = MAIN_RUNS;
    for (int signal = 1; signal <= 64; signal++) {
        if ((guardian.early >> (signal - 1) & 1) != 0) {
            main_signal(signal);
        }
    }
    (void)process_stat_read(guardian.main_pid, &stat);
    say_as(&(struct run_frame_news){.kind = RUN_FRAME_STARTED,
                                    .pid = (uint32_t)guardian.main_pid,
                                    .start = stat.start},
           guardian.own_proc ? guardian.main_pid : 0);
}

/* The message contains the token, so it is wiped as soon as it has been passed on. */
static bool start_once(void) {
    size_t len = 0;
    uint8_t *bytes =
        mmap(NULL, RUN_FRAME_MAX, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (bytes == MAP_FAILED) {
        fail(ENOMEM, RUN_FRAME_STEP_GUARDIAN);
    }
    bool wanted = start_wait(bytes, &len);
    if (wanted) {
        start(bytes, len);
    }
    explicit_bzero(bytes, len);
    (void)munmap(bytes, RUN_FRAME_MAX);
    return wanted;
}

/* Only the server gives orders, so all signals are ignored except SIGCHLD, which is blocked and
 * read, so that no child ends unnoticed. */
static bool signals_take(void) {
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct sigaction usual = {.sa_handler = SIG_DFL};
    sigset_t child;
    for (int number = 1; number <= SIGRTMAX; number++) {
        (void)sigaction(number, number == SIGCHLD ? &usual : &ignore, NULL);
    }
    (void)sigemptyset(&child);
    (void)sigaddset(&child, SIGCHLD);
    (void)sigprocmask(SIG_SETMASK, &child, NULL);
    guardian.signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    return guardian.signals >= 0;
}

/* ---- The loop ---- */

static void guard(void) {
    struct signalfd_siginfo news;
    for (;;) {
        bool child = false;
        struct pollfd on[5] = {{.fd = RUN_FRAME_SOCKET, .events = POLLIN},
                               {.fd = guardian_deadline_term(), .events = POLLIN},
                               {.fd = guardian_deadline_kill(), .events = POLLIN},
                               {.fd = guardian.signals, .events = POLLIN},
                               {.fd = guardian.log.source, .events = POLLIN}};
        /* Once all children are gone, the guardian only waits for its cgroup, which causes no
         * wake-up. */
        bool again = guardian.killing || guardian.main == MAIN_WAITED_FOR;
        if (guardian.killing) {
            on[0].fd = on[1].fd = on[2].fd = -1; /* there are no orders any more */
        }
        int signal_ms = guardian.signal != 0 ? guardian.signal_ms : -1;
        int events = poll(on, 5, again ? AGAIN_MS : signal_ms);
        if (guardian.signal != 0 && (events == 0 || ++guardian.signal_wakes % SIGNAL_WAKES == 0)) {
            signal_try();
        }
        bool ordered = (on[0].revents | on[1].revents | on[2].revents) != 0;
        if (ordered) {
            orders_take();
            deadline_look();
        }
        if (on[4].revents != 0) {
            (void)guardian_log_pump(&guardian.log);
        }
        while (read(guardian.signals, &news, sizeof news) == (ssize_t)sizeof news) {
            child = true; /* also a child that has ended since */
        }
        if (ordered || child || again) {
            look();
        }
    }
}

int main(int argc, char **argv) {
    guardian.is_first = getpid() == 1;
    guardian.log = (struct guardian_log){.dir = -1, .file = -1, .source = -1};
    guardian.job = argc > 2 ? argv + 2 : NULL;
    if (argc == 1) { /* only to find out whether it can work in a pid namespace */
        return guardian.is_first && guardian_world_make() == 0 ? 0 : 2;
    }
    if (argc < 2 || !process_streams_open() || close_range(RUN_FRAME_DIR + 1, ~0u, 0) != 0 ||
        !signals_take() || !guardian_deadline_open() || prctl(PR_SET_CHILD_SUBREAPER, 1) != 0 ||
        (guardian.job == NULL && chdir("/") != 0)) {
        return 2;
    }
    if (start_once()) {
        look(); /* it may have ended already */
        guard();
    }
    record_drop(); /* the server went away before it sent an order */
    return 0;
}
