/* `tenured`: the server. Opens the engine on a data directory, makes what the configuration declares,
 * and serves until told to stop.
 *
 * Exit codes: 0 stopped by SIGTERM or SIGINT, 1 the engine halted or the last snapshot failed, 2 it
 * could not start. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/certificate.h"
#include "config/config.h"
#include "config/reconcile.h"
#include "config/secret.h"
#include "log/local.h"
#include "main/local_open.h"
#include "main/node.h"
#include "main/notify.h"
#include "main/restored.h"
#include "main/wire_broker.h"
#include "process/proc.h"
#include "server/log_line.h"
#include "server/server.h"
#include "tenure.h"

#define DAY_MS 86400000u
#define UNIX_PATH_ROOM 8192u

/* `config` is in effect. A reload reads `next` on a thread of its own; then the loop takes over
 * what can be changed. */
struct daemon {
    int argc;
    char **argv;
    const struct os *os;
    struct engine *engine;
    struct server_feed feed;
    struct supervisor_feed sensor_feed;
    struct token_issuer tokens;
    struct broker *amqp; /* NULL: none, or the node has it */
    bool clustered;
    struct node node; /* if this server is a node of a cluster */
    struct restored restored;
    char sensor_dir[4096];
    char unix_path[UNIX_PATH_ROOM], http_unix[UNIX_PATH_ROOM];
    struct supervisor_options sensors; /* of config */
    struct config config;
    uint32_t connections_room; /* max_connections at the start */
    struct config next;
    bool next_is_good;
    struct config_reconcile_report declared;
    struct access_option *users; /* of config */
};

/* ---- Mistakes ---- */

/* Reports an error in the configuration: --check-config prints it, otherwise it is logged. */
static void mistake(void *ctx, const char *where, const char *what) {
    const struct config *config = ctx;
    if (config->action == CONFIG_CHECK) {
        (void)fprintf(stderr, "%s: %s\n", where, what);
    } else {
        server_log("config_error", "where=%s reason=%s", where, what);
    }
}

/* ---- Reload ---- */

/* A standby applies its declarations when it becomes the owner. */
static bool leads(struct daemon *daemon) {
    struct engine_standing standing;
    engine_standing_read(daemon->engine, &standing);
    return standing.role == ENGINE_LEADING;
}

static void reload(void *ctx) {
    struct daemon *daemon = ctx;
    notify_reloading();
    daemon->declared = (struct config_reconcile_report){0};
    daemon->next_is_good =
        config_load(&daemon->next, daemon->os, daemon->argc, daemon->argv, mistake, &daemon->next);
    node_config_read(&daemon->node, daemon->next_is_good ? &daemon->next : &daemon->config);
    if (daemon->next_is_good && leads(daemon)) {
        daemon->declared = config_reconcile(daemon->engine, &daemon->next);
    }
}

/* Room for the names of all settings and of users, separated by commas. */
enum {
#define NAME_BYTES(id, name, ...) +sizeof(name)
    NAMES_ROOM = sizeof "users" CONFIG_TABLE(NAME_BYTES) KERNEL_LIMIT_TABLE(NAME_BYTES)
#undef NAME_BYTES
};

static void list_add(char *list, size_t room, const char *name) {
    size_t len = strlen(list);
    (void)snprintf(list + len, room - len, "%s%s", len > 0 ? "," : "", name);
}

static bool setting_is_live(const struct daemon *daemon, unsigned setting) {
    if (setting == CONFIG_MAX_CONNECTIONS &&
        daemon->next.values[setting].number > daemon->connections_room) {
        return false;
    }
    return config_row(setting).live;
}

static bool setting_differs(const struct config_value *a, const struct config_value *b) {
    if (a->text == NULL || b->text == NULL) {
        return a->text != b->text;
    }
    return strcmp(a->text, b->text) != 0;
}

/* A setting that needs a restart keeps its old value, and each reload until then names it. */
static void settings_take(struct daemon *daemon, struct server_options *options, char *changed,
                          char *restart, size_t room) {
    for (unsigned i = 0; i < CONFIG_COUNT; i++) {
        struct config_value *is = &daemon->config.values[i];
        struct config_value *wanted = &daemon->next.values[i];
        if (!setting_differs(is, wanted)) {
            continue;
        }
        if (setting_is_live(daemon, i)) {
            struct config_value old = *is;
            *is = *wanted;
            *wanted = old; /* freed with the other texts */
            list_add(changed, room, config_row(i).name);
            options->sensors_changed |= strcmp(config_row(i).section, "sensors") == 0;
        } else {
            list_add(restart, room, config_row(i).name);
        }
    }
    daemon->sensors.defaults = config_sensor_defaults(&daemon->config);
}

/* Makes the list of users for the server. False: out of memory; nothing has changed. */
static bool users_apply(struct daemon *daemon, struct server_options *options) {
    uint32_t count = daemon->config.declared[CONFIG_KIND_USER].count;
    struct access_option *users = calloc((size_t)count + 1, sizeof *users);
    if (users == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct config_user *user = config_user_at(&daemon->config, i);
        users[i] = (struct access_option){.name = user->head.name,
                                          .hash = user->hash,
                                          .role = user->role,
                                          .pools = user->pools,
                                          .holders = user->holders,
                                          .max_values = user->max_values};
    }
    free(daemon->users);
    daemon->users = users;
    options->users = users;
    options->user_count = count;
    return true;
}

/* Takes over the users of the next configuration. If it has none and the server listens beyond
 * loopback, a restart is required. */
static void users_take(struct daemon *daemon, struct server_options *options, char *restart,
                       size_t room) {
    struct config_list *is = &daemon->config.declared[CONFIG_KIND_USER];
    struct config_list *wanted = &daemon->next.declared[CONFIG_KIND_USER];
    if (wanted->count == 0 && !config_is_local(&daemon->config)) {
        list_add(restart, room, "users");
        return;
    }
    struct config_list old = *is;
    *is = *wanted;
    *wanted = old; /* freed with the other texts */
    if (!users_apply(daemon, options)) {
        *wanted = *is;
        *is = old;
        list_add(restart, room, "users");
    }
}

static void live_apply(const struct config *config, struct server_options *options) {
    options->connections_max = (uint32_t)config_number(config, CONFIG_MAX_CONNECTIONS);
    options->slow_seconds = (uint32_t)config_number(config, CONFIG_SLOW_SECONDS);
    options->client_memory = (size_t)config_number(config, CONFIG_CLIENT_MEMORY);
    options->idle_seconds = (uint32_t)config_number(config, CONFIG_IDLE_SECONDS);
    options->tls_files = config_tls_files(config);
    server_log_json(config_number(config, CONFIG_LOG_FORMAT) != 0);
}

static void reloaded(void *ctx, struct server_options *options) {
    struct daemon *daemon = ctx;
    char changed[NAMES_ROOM] = "";
    char restart[NAMES_ROOM] = "";
    if (daemon->next_is_good) {
        settings_take(daemon, options, changed, restart, sizeof changed);
        users_take(daemon, options, restart, sizeof restart);
        live_apply(&daemon->config, options);
        const struct config_reconcile_report *declared = &daemon->declared;
        server_log("reloaded",
                   "changed=%s needs_restart=%s pools_created=%u pools_altered=%u pools_refused=%u "
                   "sensors_set=%u sensors_refused=%u rules_set=%u rules_refused=%u",
                   *changed != '\0' ? changed : "none", *restart != '\0' ? restart : "none",
                   declared->pools_created, declared->pools_altered,
                   declared->refused[CONFIG_KIND_POOL], declared->sensors_set,
                   declared->refused[CONFIG_KIND_SENSOR], declared->rules_set,
                   declared->refused[CONFIG_KIND_RULE]);
    } else {
        server_log("reload_refused", "mistakes=%u reason=\"nothing was changed\"",
                   daemon->next.mistakes);
    }
    config_free(&daemon->next);
    notify_ready(daemon->next_is_good ? "Serving." : "Serving; the last reload was refused.");
}

/* ---- What the server tells us ---- */

/* Blocks SIGHUP: one that arrives before the server handles it waits. One that arrives after the
 * server has stopped, while the last snapshot is being taken, must not end the process. */
static void hangup_block(int how) {
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGHUP);
    (void)pthread_sigmask(how, &set, NULL);
}

static void ready(void *ctx) {
    (void)ctx;
    hangup_block(SIG_UNBLOCK);
    notify_ready("Serving.");
}

static void stopping(void *ctx) {
    (void)ctx;
    hangup_block(SIG_BLOCK);
    notify_stopping();
}

static void alive(void *ctx) {
    (void)ctx;
    notify_alive();
}

/* Called on a thread of the engine, once for each request. */
static void events_ready(void *ctx) {
    struct daemon *daemon = ctx;
    server_feed_events(&daemon->feed);
    if (daemon->clustered) {
        node_wake(&daemon->node);
    } else if (daemon->amqp != NULL) {
        broker_wake(daemon->amqp);
    }
}

/* On any thread. */
static void role_changed(void *ctx, struct engine *engine) {
    struct daemon *daemon = ctx;
    server_feed_role(&daemon->feed, engine);
    node_told(&daemon->node);
}

/* The file may have changed while this node was a standby. If it has errors now, the configuration
 * of the start counts. */
static void declare(void *ctx) {
    struct daemon *daemon = ctx;
    struct config fresh;
    bool good = config_load(&fresh, daemon->os, daemon->argc, daemon->argv, mistake, &fresh);
    const struct config *config = good ? &fresh : &daemon->config;
    node_config_read(&daemon->node, config);
    (void)config_reconcile(daemon->engine, config);
    config_free(&fresh);
}

static bool owns(void *ctx, struct server_options *options) {
    struct daemon *daemon = ctx;
    return node_owns(&daemon->node, options, &daemon->sensors);
}

static void notice(void *ctx, const char *line) {
    (void)ctx;
    server_log_line(line);
}

/* ---- Start ---- */

/* Memory contains what clients have sent, including secrets, and not all of it is wiped. */
static void core_files_forbid(void) {
    struct rlimit none = {0, 0};
    (void)setrlimit(RLIMIT_CORE, &none);
    (void)prctl(PR_SET_DUMPABLE, 0);
}

/* Each client needs a descriptor: raises the limit as far as permitted. */
static void descriptors_raise(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* Whether standard error goes to the journal, which adds the time: see systemd.exec(5). */
static bool is_journal(void) {
    const char *stream = getenv("JOURNAL_STREAM");
    struct stat file;
    char text[64];
    if (stream == NULL || fstat(STDERR_FILENO, &file) != 0) {
        return false;
    }
    (void)snprintf(text, sizeof text, "%llu:%llu", (unsigned long long)file.st_dev,
                   (unsigned long long)file.st_ino);
    return strcmp(stream, text) == 0;
}

/* -1: continue; otherwise the exit code. */
static int config_read(struct daemon *daemon) {
    struct config *config = &daemon->config;
    const struct os *clock = is_journal() ? NULL : daemon->os;
    server_log_setup(clock, false);
    bool good = config_load(config, daemon->os, daemon->argc, daemon->argv, mistake, config);
    switch (config->action) {
    case CONFIG_HELP:
        config_help(stdout);
        return 0;
    case CONFIG_VERSION:
        (void)printf("tenured %s\n", tenure_version());
        return 0;
    case CONFIG_HASH:
        return config_secret_hash();
    case CONFIG_CERTIFICATE:
        return good ? config_certificate_make(daemon->os, config->action_value) : 2;
    case CONFIG_CHECK:
        if (good) {
            config_print(config, stdout);
        }
        return good ? 0 : 2;
    default:
        break;
    }
    if (!good) {
        server_log("refused", "reason=\"the configuration has mistakes: %u\"", config->mistakes);
        return 2;
    }
    server_log_setup(clock, config_number(config, CONFIG_LOG_FORMAT) != 0);
    return -1;
}

static struct engine_options engine_options_of(const struct config *config) {
    struct engine_options options = {
        .max_downtime_ms = config_number(config, CONFIG_MAX_DOWNTIME_DAYS) * DAY_MS,
        .confirm_time_jump = config_number(config, CONFIG_CONFIRM_TIME_JUMP) != 0,
        .snapshot_bytes = config_snapshot_bytes(config),
        .events_max = config_number(config, CONFIG_EVENTS_MAX),
        .events_dir = config_text(config, CONFIG_DATA),
        .events_reserve_bytes = config_number(config, CONFIG_SPACE_RESERVE),
        .notice = notice};
    for (unsigned i = 0; i < KERNEL_LIMIT_COUNT; i++) {
        const struct config_value *value = &config->values[CONFIG_OWN_COUNT + i];
        if (value->text != NULL) {
            options.limits.of[i] = value->number;
            options.limits_mask |= (uint32_t)1 << i;
        }
    }
    return options;
}

static struct supervisor_options sensors_of(struct daemon *daemon) {
    const struct config *config = &daemon->config;
    struct supervisor_options options = {.feed = &daemon->sensor_feed,
                                         .dir = daemon->sensor_dir,
                                         .guardian = config_text(config, CONFIG_SENSOR_GUARDIAN),
                                         .cgroup = config_text(config, CONFIG_SENSOR_CGROUP),
                                         .idle = config_number(config, CONFIG_SENSORS) == 0 ||
                                                 daemon->restored.sensors_off,
                                         .defaults = config_sensor_defaults(config)};
    (void)snprintf(daemon->sensor_dir, sizeof daemon->sensor_dir, "%s/sensors",
                   config_text(config, CONFIG_DATA));
    (void)daemon->os->random(daemon->os->ctx, &options.seed, sizeof options.seed);
    return options;
}

/* The path of a Unix-domain socket; NULL: there is none. */
static const char *unix_path_of(struct daemon *daemon, enum config_setting setting,
                                char out[UNIX_PATH_ROOM]) {
    const char *path = config_text(&daemon->config, setting);
    if (strcmp(path, "off") == 0) {
        return NULL;
    }
    if (strchr(path, '/') != NULL) {
        return path;
    }
    (void)snprintf(out, UNIX_PATH_ROOM, "%s/%s", config_text(&daemon->config, CONFIG_DATA), path);
    return out;
}

static int serve(struct daemon *daemon) {
    const struct config *config = &daemon->config;
    daemon->sensors = sensors_of(daemon);
    if (!daemon->sensors.idle) {
        /* Processes that a killed guardian leaves become children of this one, and are ended. */
        (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    }
    const char *port_file = config_text(config, CONFIG_PORT_FILE);
    struct server_options options = {
        .engine = daemon->engine,
        .feed = &daemon->feed,
        .tokens = &daemon->tokens,
        .amqp = daemon->amqp,
        .os = daemon->os,
        .version = tenure_version(),
        .data = config_text(config, CONFIG_DATA),
        .listen = config_text(config, CONFIG_LISTEN),
        .unix_path = unix_path_of(daemon, CONFIG_UNIX, daemon->unix_path),
        .unix_chosen = config->values[CONFIG_UNIX].source != CONFIG_FROM_DEFAULT,
        .http = config_text(config, CONFIG_HTTP),
        .http_unix = unix_path_of(daemon, CONFIG_HTTP_UNIX, daemon->http_unix),
        .tls = config_text(config, CONFIG_TLS_LISTEN),
        .https = config_text(config, CONFIG_HTTPS),
        .allow_plaintext = config_number(config, CONFIG_ALLOW_PLAINTEXT) != 0,
        .stale_max_ms = (uint32_t)config_number(config, CONFIG_STALE_MAX),
        .udp = config_text(config, CONFIG_UDP_LISTEN),
        .udp_pool = config_text(config, CONFIG_UDP_POOL),
        .udp_allow = config_text(config, CONFIG_UDP_ALLOW),
        .udp_rate = (uint32_t)config_number(config, CONFIG_UDP_RATE),
        .udp_burst = (uint32_t)config_number(config, CONFIG_UDP_BURST),
        .sensors_by_file = config_number(config, CONFIG_SENSOR_COMMANDS) == 0,
        .port_file = *port_file != '\0' ? port_file : NULL,
        .sensors = &daemon->sensors,
        .hooks = {.ctx = daemon,
                  .ready = ready,
                  .stopping = stopping,
                  .alive = alive,
                  .alive_ms = notify_alive_ms(),
                  .reload = reload,
                  .reloaded = reloaded,
                  .owns = daemon->clustered ? owns : NULL}};
    if (daemon->clustered) {
        options.cluster = node_admin(&daemon->node);
    }
    live_apply(config, &options);
    if (!users_apply(daemon, &options)) {
        server_log("refused", "reason=\"no memory\"");
        return 2;
    }
    daemon->connections_room = options.connections_max;
    return server_run(&options);
}

/* False: the reason has been logged. */
static bool tokens_open(struct daemon *daemon) {
    const struct config *config = &daemon->config;
    struct token_issuer *tokens = &daemon->tokens;
    char reason[TOKEN_REASON_MAX];
    tokens->engine = daemon->engine;
    tokens->name = config_text(config, CONFIG_TOKEN_ISSUER);
    tokens->ttl_max_s = config_number(config, CONFIG_TOKEN_TTL);
    const char *dir = config_text(config, CONFIG_DATA);
    enum tn_status status = daemon->clustered
                                ? token_keys_read(&tokens->keys, daemon->os, dir, reason)
                                : token_keys_open(&tokens->keys, daemon->os, dir, tokens->ttl_max_s,
                                                  token_now(tokens), reason);
    if (status != TN_OK) {
        server_log("refused", "reason=\"%s\"", reason);
    }
    return status == TN_OK;
}

/* The server does not wait for the broker to be reachable. */
static int serve_with_broker(struct daemon *daemon) {
    if (daemon->amqp == NULL) {
        return serve(daemon);
    }
    int code = 2;
    if (broker_start(daemon->amqp) == TN_OK) {
        code = serve(daemon);
    } else {
        server_log("refused", "reason=\"no thread for the broker\"");
    }
    broker_stop(daemon->amqp);
    return code;
}

static enum tn_status log_start(struct daemon *daemon, struct engine_options *options,
                                struct log_error *error) {
    struct log *local = NULL;
    enum tn_status status = daemon->clustered ? node_seed(&daemon->node, error) : TN_OK;
    if (status == TN_OK) {
        status = local_open(daemon->os, &daemon->config, daemon->clustered,
                            daemon->restored.pending, &local, error);
    }
    if (status != TN_OK) {
        return status;
    }
    if (daemon->clustered) {
        return node_log_open(&daemon->node, local, &options->log, &options->store, error);
    }
    options->log = local;
    options->store = log_local_store(local);
    return TN_OK;
}

static enum tn_status engine_start_alone(struct daemon *daemon, struct engine_options *options,
                                         struct log_error *error) {
    const struct config_value *sensors = &daemon->config.values[CONFIG_SENSORS];
    bool on = sensors->source == CONFIG_FROM_FLAG && sensors->number != 0;
    enum tn_status status = engine_open(options, &daemon->engine, error);
    if (status == TN_OK && (status = engine_lead(daemon->engine, error)) != TN_OK) {
        (void)engine_close(daemon->engine);
    } else if (status == TN_OK) {
        restored_finish(daemon->os, options->events_dir, &daemon->restored, on);
    }
    return status;
}

/* A restored directory begins a cluster: first its new generation is logged without it. */
static enum tn_status restored_alone(struct daemon *daemon, const struct engine_options *options,
                                     struct log_error *error) {
    struct engine_options alone = *options;
    alone.role = NULL;
    daemon->clustered = false;
    enum tn_status status = log_start(daemon, &alone, error);
    status = status == TN_OK ? engine_start_alone(daemon, &alone, error) : status;
    if (status == TN_OK) {
        (void)engine_close(daemon->engine);
    }
    daemon->clustered = true;
    return status;
}

/* A local log is led at once, a cluster's when this node owns it. */
static enum tn_status engine_start(struct daemon *daemon, struct engine_options *options,
                                   struct log_error *error) {
    enum tn_status status = TN_OK;
    if (!restored_read(daemon->os, options->events_dir, &daemon->restored, error)) {
        return TN_DENIED;
    }
    if (daemon->clustered && daemon->restored.pending) {
        if (config_number(&daemon->config, CONFIG_CLUSTER_INIT) == 0) {
            (void)snprintf(error->text, sizeof error->text,
                           "%.300s was restored from a backup: a cluster can begin with it "
                           "(--cluster-init)",
                           options->events_dir);
            return TN_DENIED;
        }
        status = restored_alone(daemon, options, error);
    }
    status = status == TN_OK ? log_start(daemon, options, error) : status;
    if (status != TN_OK) {
        return status;
    }
    return daemon->clustered ? engine_open(options, &daemon->engine, error)
                             : engine_start_alone(daemon, options, error);
}

static int serve_alone(struct daemon *daemon) {
    if (!wire_broker(&daemon->config, daemon->os, daemon->engine, &daemon->amqp)) {
        return 2;
    }
    (void)config_reconcile(daemon->engine, &daemon->config);
    return serve_with_broker(daemon);
}

/* The node runs what must run once, while it owns the log. */
static int serve_as_node(struct daemon *daemon) {
    daemon->node.declare = declare;
    daemon->node.declare_ctx = daemon;
    if (!node_start(&daemon->node, daemon->engine, &daemon->tokens, &daemon->feed)) {
        return 2;
    }
    int code = serve(daemon);
    if (!node_stop(&daemon->node)) {
        return 2;
    }
    return code == 0 && node_has_ended(&daemon->node) ? 1 : code;
}

static int run_engine(struct daemon *daemon) {
    struct log_error error;
    struct engine_options options = engine_options_of(&daemon->config);
    options.events_ready = events_ready;
    options.events_ready_ctx = daemon;
    options.metrics = server_feed_metrics;
    options.metrics_ctx = &daemon->feed;
    if (daemon->clustered) {
        options.role = role_changed;
        options.role_ctx = daemon;
        options.limits_may_stay = true;
    }
    notify_status("Recovering.");
    if (engine_start(daemon, &options, &error) != TN_OK) {
        server_log("refused", "data=%s reason=\"%s\"", config_text(&daemon->config, CONFIG_DATA),
                   error.text);
        return 2;
    }
    supervisor_feed_attach(&daemon->sensor_feed, daemon->engine);
    int code = 2;
    if (tokens_open(daemon)) {
        code = daemon->clustered ? serve_as_node(daemon) : serve_alone(daemon);
        token_keys_close(&daemon->tokens.keys);
    }
    if (!engine_close(daemon->engine) && code == 0) {
        server_log("close_failed", "data=%s", config_text(&daemon->config, CONFIG_DATA));
        code = 1;
    }
    return code;
}

static int run(struct daemon *daemon) {
    daemon->clustered = config_is_clustered(&daemon->config);
    if (daemon->clustered && !node_open(&daemon->node, &daemon->config, daemon->os)) {
        return 2;
    }
    server_feed_init(&daemon->feed);
    supervisor_feed_init(&daemon->sensor_feed);
    int code = run_engine(daemon);
    broker_free(daemon->amqp);
    if (daemon->clustered) {
        node_close(&daemon->node);
    }
    supervisor_feed_free(&daemon->sensor_feed);
    return code;
}

int main(int argc, char **argv) {
    struct daemon daemon = {.argc = argc, .argv = argv, .os = os_posix()};
    hangup_block(SIG_BLOCK);
    (void)process_streams_open();
    int code = config_read(&daemon);
    if (code < 0) {
        descriptors_raise();
        if (config_number(&daemon.config, CONFIG_CORE_FILES) == 0) {
            core_files_forbid();
        }
        (void)signal(SIGPIPE, SIG_IGN);
        (void)signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is a failed write, no more */
        code = run(&daemon);
    }
    config_free(&daemon.config);
    free(daemon.users);
    return code;
}
