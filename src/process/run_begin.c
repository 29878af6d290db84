/* The beginning of a run: its user, its environment, its guardian. */
#include "process/run_begin.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "process/cgroup.h"
#include "process/pidns.h"
#include "process/run_files.h"
#include "process/run_output.h"

#define GUARDIAN_PROGRAM "tenure-guardian"

/* What is being put together; `texts` is where variables lie that are made here. */
struct beginning {
    struct run *run;
    const struct run_options *options;
    struct run_frame_start start;
    struct tn_writer texts;
    char token_file[RUN_RECORD_PATH_MAX];
    char rules_file[RUN_RECORD_PATH_MAX];
};

/* False, so that it can be returned. */
static bool stop(struct run *run, enum run_frame_step step, int error) {
    run->early_step = step;
    run->early_error = error != 0 ? error : EIO;
    return false;
}

static int error_of(enum tn_status status) {
    switch (status) {
    case TN_NOSPACE:
        return ENOSPC;
    case TN_DENIED:
        return EACCES;
    case TN_NOMEM:
        return ENOMEM;
    case TN_NOTFOUND:
        return ENOENT;
    default:
        return EIO;
    }
}

/* ---- The user ---- */

/* The child of the guardian looks the user up: a directory service may take long. */
static bool user_take(struct beginning *b) {
    const struct sensor_spec *spec = b->options->spec;
    b->start.user = spec->user != NULL ? spec->user : "";
    b->start.group = spec->group != NULL ? spec->group : "";
    b->run->has_user = spec->user != NULL || spec->group != NULL;
    if (b->run->has_user && geteuid() != 0) {
        return stop(b->run, spec->user != NULL ? RUN_FRAME_STEP_USER : RUN_FRAME_STEP_GROUP, EPERM);
    }
    return true;
}

/* ---- Variables ---- */

static size_t name_len(const char *variable) {
    return (size_t)(strchrnul(variable, '=') - variable);
}

/* The last of a name wins. */
static bool variable_put(struct beginning *b, const char *variable) {
    struct run_frame_start *start = &b->start;
    size_t len = name_len(variable);
    for (uint32_t i = 0; i < start->envc; i++) {
        if (name_len(start->env[i]) == len && memcmp(start->env[i], variable, len) == 0) {
            start->env[i] = variable;
            return true;
        }
    }
    if (start->envc == RUN_FRAME_VARIABLES_MAX) {
        return stop(b->run, RUN_FRAME_STEP_EXEC, E2BIG);
    }
    start->env[start->envc++] = variable;
    return true;
}

static bool variable_make(struct beginning *b, const char *name, struct tn_bytes value) {
    const char *at = (const char *)b->texts.at + b->texts.len;
    tn_write_raw(&b->texts, name, strlen(name));
    tn_write8(&b->texts, '=');
    tn_write_raw(&b->texts, value.at, value.len);
    tn_write8(&b->texts, 0);
    if (b->texts.overflow) {
        return stop(b->run, RUN_FRAME_STEP_EXEC, E2BIG);
    }
    return variable_put(b, at);
}

static bool text_put(struct beginning *b, const char *name, const char *value) {
    return value == NULL || variable_make(b, name, tn_bytes_of(value, strlen(value)));
}

static bool variables_put(struct beginning *b, const char *const *variables, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (!variable_put(b, variables[i])) {
            return false;
        }
    }
    return true;
}

static bool rules_variable_take(struct beginning *b) {
    if (b->options->rules.len == 0) {
        return true;
    }
    if (snprintf(b->rules_file, sizeof b->rules_file, "%s/" RUN_FILES_RULES, b->run->path) >=
        (int)sizeof b->rules_file) {
        return stop(b->run, RUN_FRAME_STEP_RULES, ENAMETOOLONG);
    }
    return text_put(b, "TENURE_RULES_FILE", b->rules_file);
}

static bool variables_take(struct beginning *b) {
    const struct run_options *options = b->options;
    const struct sensor_spec *spec = options->spec;
    if (!text_put(b, "PATH", getenv("PATH")) || !text_put(b, "LANG", getenv("LANG")) ||
        !text_put(b, "TZ", getenv("TZ")) ||
        /* The guardian adds HOME, USER and LOGNAME, if they are not set here: it looks the user up. */
        !text_put(b, "HOME", spec->user != NULL ? NULL : getenv("HOME")) ||
        !variables_put(b, spec->env, spec->envc) ||
        !variables_put(b, options->env, options->env_count)) {
        return false;
    }
    if (options->token.len > 0) {
        if (snprintf(b->token_file, sizeof b->token_file, "%s/" RUN_FILES_TOKEN, b->run->path) >=
            (int)sizeof b->token_file) {
            return stop(b->run, RUN_FRAME_STEP_TOKEN, ENAMETOOLONG);
        }
        if (!variable_make(b, spec->token_env, options->token) ||
            !text_put(b, "TENURE_TOKEN_ENV", spec->token_env) ||
            !text_put(b, "TENURE_TOKEN_FILE", b->token_file)) {
            return false;
        }
    }
    return rules_variable_take(b) && text_put(b, RUN_RECORD_VARIABLE, b->run->record.id);
}

/* ---- Files ---- */

/* NOMEM and INVALID are the caller's, the rest is a step that failed. */
static bool dir_take(struct beginning *b) {
    const struct os *os = b->options->os;
    struct run *run = b->run;
    char name[RUN_RECORD_PATH_MAX];
    char *base = NULL;
    enum tn_status status = os->make_dir(os->ctx, b->options->dir);
    if (status == TN_OK) {
        base = realpath(b->options->dir, NULL);
        status = base == NULL ? TN_IO : TN_OK;
    }
    if (status == TN_OK &&
        (!run_dir_name(b->options->ref, name, sizeof name) ||
         snprintf(run->path, sizeof run->path, "%s/%s", base, name) >= (int)sizeof run->path)) {
        status = TN_INVALID;
    }
    if (status == TN_OK) {
        status = os->make_dir(os->ctx, run->path);
    }
    if (status == TN_OK && run->has_user) {
        /* Its own files are still its own only; but it must get to its token. */
        if (chmod(base, 0711) != 0 || chmod(run->path, 0711) != 0) {
            status = TN_DENIED;
        }
    }
    free(base);
    return status == TN_OK || stop(run, RUN_FRAME_STEP_RECORD, error_of(status));
}

static bool log_take(struct beginning *b) {
    const struct sensor_spec *spec = b->options->spec;
    b->start.log_dir = "";
    if (b->run->is_check) {
        return true;
    }
    b->start.log_dir = b->run->path;
    b->start.log_bytes = spec->log_bytes;
    b->start.log_files = spec->log_files;
    enum tn_status status =
        run_output_begin(b->options->os, b->run->path, spec->log_files, &b->start.log_number);
    return status == TN_OK || stop(b->run, RUN_FRAME_STEP_STDIO, error_of(status));
}

static bool id_take(struct beginning *b) {
    struct run_record *record = &b->run->record;
    const struct os *os = b->options->os;
    uint8_t random[(RUN_RECORD_ID_TEXT - 1) / 2];
    if (b->run->is_check) {
        memcpy(record->id, b->options->check_of->record.id, sizeof record->id);
        return true;
    }
    enum tn_status status = os->random(os->ctx, random, sizeof random);
    for (size_t i = 0; i < sizeof random; i++) {
        (void)snprintf(record->id + 2 * i, 3, "%02x", random[i]);
    }
    return (status == TN_OK && process_boot_id(record->boot)) ||
           stop(b->run, RUN_FRAME_STEP_RECORD, EIO);
}

/* Its name only: it is made when the record has it. */
static bool cgroup_take(struct beginning *b) {
    struct run_record *record = &b->run->record;
    b->start.cgroup = "";
    record->proof = b->options->proof;
    if (record->proof != RUN_RECORD_CGROUP) {
        return true;
    }
    if (b->options->cgroup == NULL) {
        return stop(b->run, RUN_FRAME_STEP_CGROUP, ENOENT);
    }
    if (snprintf(record->cgroup, sizeof record->cgroup, "%s/tenure-%s%s", b->options->cgroup,
                 record->id, b->run->is_check ? RUN_RECORD_CHECK : "") >=
        (int)(sizeof record->cgroup - sizeof RUN_RECORD_CHECK)) {
        record->cgroup[0] = '\0';
        return stop(b->run, RUN_FRAME_STEP_CGROUP, ENAMETOOLONG);
    }
    b->start.cgroup = record->cgroup;
    return true;
}

static bool token_take(struct beginning *b) {
    if (b->options->token.len == 0 || b->run->is_check) {
        return true;
    }
    enum tn_status status = run_token_write(b->run, b->options->token);
    return status == TN_OK || stop(b->run, RUN_FRAME_STEP_TOKEN, error_of(status));
}

static bool rules_take(struct beginning *b) {
    if (b->options->rules.len == 0 || b->run->is_check) {
        return true;
    }
    enum tn_status status = run_rules_write(b->run, b->options->rules);
    return status == TN_OK || stop(b->run, RUN_FRAME_STEP_RULES, error_of(status));
}

/* ---- The guardian ---- */

static int spawn(struct run *run, const struct run_options *options, int theirs) {
    char *argv[] = {GUARDIAN_PROGRAM, (char *)(uintptr_t)options->ref, NULL};
    char *env[] = {NULL};
    bool has_record = !run->is_check;
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t all;
    sigset_t none;
    (void)sigfillset(&all);
    (void)sigemptyset(&none);
    (void)posix_spawnattr_init(&attributes);
    (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF |
                                                    POSIX_SPAWN_SETSIGMASK);
    (void)posix_spawnattr_setsigdefault(&attributes, &all);
    (void)posix_spawnattr_setsigmask(&attributes, &none);
    int error = posix_spawn_file_actions_init(&files);
    /* The socket first: it may lie where the others are going to be. */
    if (error == 0) {
        error = posix_spawn_file_actions_adddup2(&files, theirs, RUN_FRAME_SOCKET);
    }
    if (error == 0 && has_record) {
        error = posix_spawn_file_actions_addopen(&files, RUN_FRAME_DIR, run->path,
                                                 O_RDONLY | O_DIRECTORY, 0);
    }
    for (int fd = 0; fd < 3 && error == 0; fd++) {
        error = posix_spawn_file_actions_addopen(&files, fd, "/dev/null", O_RDWR, 0);
    }
    if (error == 0) {
        error = posix_spawn_file_actions_addclosefrom_np(&files, RUN_FRAME_DIR + has_record);
    }
    if (error == 0) {
        error = posix_spawn(&run->guardian, options->guardian, &files, &attributes, argv, env);
    }
    (void)posix_spawn_file_actions_destroy(&files);
    (void)posix_spawnattr_destroy(&attributes);
    return error;
}

/* The parent of the server may have made it ignore SIGCHLD; then it could not wait for its children. */
static void children_are_kept(void) {
    struct sigaction action;
    if (sigaction(SIGCHLD, NULL, &action) == 0 &&
        (action.sa_handler == SIG_IGN || (action.sa_flags & SA_NOCLDWAIT) != 0)) {
        action = (struct sigaction){.sa_handler = SIG_DFL};
        (void)sigaction(SIGCHLD, &action, NULL);
    }
}

/* A check is born in the namespace of its run, to see what that sees and to die with it. */
static int spawn_contained(struct run *run, const struct run_options *options, int theirs) {
    int error = 0;
    if (options->proof == RUN_RECORD_PIDNS) {
        error = process_pidns_enter(run->is_check ? options->check_of->guardian : 0);
    }
    if (error != 0) {
        run->early_step = RUN_FRAME_STEP_CONTAINMENT;
        return error;
    }
    run->early_step = RUN_FRAME_STEP_GUARDIAN;
    if (options->proof != RUN_RECORD_PIDNS && !process_pidns_leave()) {
        return EAGAIN;
    }
    error = spawn(run, options, theirs);
    (void)process_pidns_leave(); /* if not now, then before the next one */
    return error;
}

bool run_can_pidns(const char *guardian) {
    char *argv[] = {GUARDIAN_PROGRAM, NULL};
    char *env[] = {NULL};
    pid_t pid;
    int status = 1;
    if (process_pidns_enter(0) != 0) {
        return false;
    }
    int error = posix_spawn(&pid, guardian, NULL, NULL, argv, env);
    bool left = process_pidns_leave();
    if (error == 0) {
        (void)waitpid(pid, &status, 0);
    }
    return left && status == 0;
}

static bool guardian_take(struct beginning *b) {
    struct run *run = b->run;
    struct process_stat stat;
    int ends[2];
    children_are_kept();
    /* What a guardian that is killed leaves comes to us. */
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0 ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
        return stop(run, RUN_FRAME_STEP_GUARDIAN, errno);
    }
    run->socket = ends[0];
    if (b->options->proof == RUN_RECORD_PIDNS &&
        setsockopt(ends[0], SOL_SOCKET, SO_PASSCRED, &(int){1}, sizeof(int)) != 0) {
        (void)close(ends[1]);
        return stop(run, RUN_FRAME_STEP_CONTAINMENT, errno);
    }
    int error = spawn_contained(run, b->options, ends[1]);
    (void)close(ends[1]);
    if (error != 0) {
        run->guardian = 0;
        return stop(run, run->early_step, error);
    }
    run->is_first = b->options->proof == RUN_RECORD_PIDNS && !run->is_check;
    run->descriptor = (int)syscall(SYS_pidfd_open, run->guardian, 0);
    if (run->descriptor < 0 || process_stat_read(run->guardian, &stat) != PROCESS_YES) {
        (void)stop(run, RUN_FRAME_STEP_GUARDIAN, errno);
        run_begin_undo(run);
        return false;
    }
    run->record.guardian = run->guardian;
    run->record.guardian_start = stat.start;
    run->record.server = getpid();
    run->record.server_namespace = process_namespace();
    return true;
}

static void frame_drop(struct run *run) {
    if (run->frame != NULL) {
        explicit_bzero(run->frame, run->frame_len);
        free(run->frame);
        run->frame = NULL;
    }
}

static bool frame_take(struct beginning *b) {
    const struct sensor_spec *spec = b->options->spec;
    struct run_frame_start *start = &b->start;
    const char **argv = b->run->is_check ? spec->health_argv : spec->argv;
    start->argc = b->run->is_check ? spec->health_argc : spec->argc;
    memcpy(start->argv, argv, start->argc * sizeof *argv);
    memcpy(start->limits, spec->limits, sizeof start->limits);
    start->cwd = spec->cwd;
    start->live = b->options->live;
    start->own_proc = b->options->proof == RUN_RECORD_PIDNS;
    start->token_file = b->run->is_check ? "" : b->token_file;
    start->rules_file = b->run->is_check ? "" : b->rules_file;
    b->run->frame_len = run_frame_start_encode(start, b->run->frame, RUN_FRAME_MAX);
    return b->run->frame_len > 0 || stop(b->run, RUN_FRAME_STEP_EXEC, E2BIG);
}

enum tn_status run_begin(struct run *run, const struct run_options *options) {
    struct beginning b = {.run = run, .options = options};
    uint8_t *texts = malloc(RUN_FRAME_MAX);
    run->frame = malloc(RUN_FRAME_MAX);
    if (texts == NULL || run->frame == NULL || strlen(options->ref) > KERNEL_RULE_MAX) {
        enum tn_status status = texts == NULL || run->frame == NULL ? TN_NOMEM : TN_INVALID;
        free(texts);
        free(run->frame);
        return status;
    }
    b.texts = tn_writer_of(texts, RUN_FRAME_MAX);
    run->record.lease = options->lease;
    run->record.epoch = options->epoch;
    memcpy(run->record.ref, options->ref, strlen(options->ref) + 1);
    if (!user_take(&b) || !dir_take(&b) || !id_take(&b) || !log_take(&b) || !variables_take(&b) ||
        !token_take(&b) || !rules_take(&b) || !cgroup_take(&b) || !frame_take(&b) ||
        !guardian_take(&b)) {
        frame_drop(run);
    }
    explicit_bzero(texts, b.texts.len);
    free(texts);
    return TN_OK;
}

void run_begin_send(struct run *run) {
    enum tn_status status =
        run->is_check ? TN_OK : run_record_write(run->os, run->path, &run->record);
    int error = status == TN_OK && run->record.cgroup[0] != '\0'
                    ? process_cgroup_make(run->record.cgroup)
                    : 0;
    if (status != TN_OK) {
        (void)stop(run, RUN_FRAME_STEP_RECORD, error_of(status));
    } else if (error != 0) {
        run->record.cgroup[0] = '\0'; /* not ours to remove */
        (void)stop(run, RUN_FRAME_STEP_CGROUP, error);
    } else if (send(run->socket, run->frame, run->frame_len, MSG_NOSIGNAL) < 0) {
        (void)stop(run, RUN_FRAME_STEP_GUARDIAN, errno);
    } else {
        run->start_sent = true;
    }
    if (!run->start_sent) {
        (void)shutdown(run->socket, SHUT_RDWR);
    }
    frame_drop(run);
}

void run_begin_undo(struct run *run) {
    if (run->guardian != 0) {
        (void)kill(run->guardian, SIGKILL);
        (void)waitpid(run->guardian, NULL, 0);
        run->guardian = 0;
    }
    if (run->early_error == 0) {
        (void)stop(run, RUN_FRAME_STEP_GUARDIAN, ENOSPC);
    }
    frame_drop(run);
}

/* ---- Names and places ---- */

bool run_dir_name(const char *ref, char *out, size_t capacity) {
    static const char hex[] = "0123456789ABCDEF";
    struct tn_writer w = tn_writer_of(out, capacity);
    for (const char *at = ref; *at != '\0'; at++) {
        unsigned char c = (unsigned char)*at;
        bool plain = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                     c == '_' || c == '-' || (c == '.' && at != ref);
        if (plain) {
            tn_write8(&w, c);
        } else {
            tn_write8(&w, '%');
            tn_write8(&w, (uint8_t)hex[c >> 4]);
            tn_write8(&w, (uint8_t)hex[c & 15]);
        }
    }
    tn_write8(&w, 0);
    return !w.overflow && w.len > 1;
}

static int hex_value(char c) {
    static const char hex[] = "0123456789ABCDEF";
    const char *at = c != '\0' ? strchr(hex, c) : NULL;
    return at != NULL ? (int)(at - hex) : -1;
}

/* What decodes to a name and back to itself was made by run_dir_name. */
bool run_dir_ref(const char *name, char out[KERNEL_RESOURCE_MAX + 1]) {
    char again[3 * KERNEL_RESOURCE_MAX + 1];
    size_t len = 0;
    for (const char *at = name; *at != '\0'; at++) {
        int c = (unsigned char)*at;
        if (*at == '%') {
            int high = hex_value(at[1]);
            int low = high >= 0 ? hex_value(at[2]) : -1;
            c = high * 16 + low;
            if (low < 0) {
                return false;
            }
            at += 2;
        }
        if (len == KERNEL_RESOURCE_MAX) {
            return false;
        }
        out[len++] = (char)c;
    }
    out[len] = '\0';
    return kernel_name_resource_valid(tn_bytes_of(out, len)) &&
           run_dir_name(out, again, sizeof again) && strcmp(again, name) == 0;
}

bool run_guardian_find(char *out, size_t capacity) {
    static const char *const places[] = {"/" GUARDIAN_PROGRAM,
                                         "/../libexec/tenure/" GUARDIAN_PROGRAM};
    char self[RUN_RECORD_PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    if (len <= 0) {
        return false;
    }
    self[len] = '\0';
    char *slash = strrchr(self, '/');
    *(slash != NULL ? slash : self) = '\0';
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        int n = snprintf(out, capacity, "%s%s", self, places[i]);
        if (n > 0 && (size_t)n < capacity && access(out, X_OK) == 0) {
            return true;
        }
    }
    return false;
}
