/* The configuration of tenured: settings, users, and declared pools, sensors and rules.
 *
 * A setting comes from the configuration file, or from the environment, which goes before it, or from
 * a flag, which goes before both. One table says for each its section and key in the file, and from
 * the key follow the name in the environment (slow_seconds: TENURE_SLOW_SECONDS) and the flag
 * (--slow-seconds); help, the printout of --check-config and docs/operations.md are made from it.
 * The kernel's limits are settings too; their rows come from the kernel's own table. */
#ifndef TN_CONFIG_CONFIG_H
#define TN_CONFIG_CONFIG_H

#include <stdio.h>

#include "kernel/option.h"
#include "kernel/types.h"
#include "os/os.h"
#include "process/sensor_spec.h"
#include "server/access.h"
#include "server/tls_files.h"

#define CONFIG_NAME_MAX 64u
#define CONFIG_REASON_MAX 256u
#define CONFIG_FILE_MAX (1u << 20)
#define CONFIG_DECLARED_MAX 4096u /* of each kind */

enum config_type {
    CONFIG_TEXT, /* of at least `least` bytes and, if `most` is not 0, at most `most` */
    CONFIG_ADDRESS, /* HOST:PORT to listen on. Beyond loopback, `least` says what it needs: 1: users and
                        allow_plaintext, 2: udp_allow, 3: users. If `most` is 1 also off */
    CONFIG_BROKER,   /* the URL of RabbitMQ; or empty */
    CONFIG_VARIABLE, /* the name of a variable that may have a token */
    CONFIG_NETWORKS, /* addresses and ADDRESS/BITS, with blanks or commas between them */
    CONFIG_NUMBER,
    CONFIG_BYTES,    /* a number, with K, M or G for 2^10, 2^20, 2^30 */
    CONFIG_DURATION, /* whole seconds, or with a unit: 15m */
    CONFIG_SECONDS,  /* or up to three decimals; its number, `least` and `most` are milliseconds */
    CONFIG_FORM,     /* of the log: logfmt or json */
    CONFIG_CONTAINMENT, /* of runs: see sensor_containment_parse */
    CONFIG_SWITCH,      /* on or off */
    CONFIG_CONSENT,     /* yes or no */
    CONFIG_CLIENTS,     /* certificates of clients: no, optional or required */
    CONFIG_DEFINER,     /* of sensors: file or admin */
    CONFIG_FENCING,     /* of sensors on a lost node: timed or proven */
    CONFIG_CURRENCY,    /* of reads by the owner of a cluster: local or quorum */
    CONFIG_FLAG, /* a flag without a value, on the command line only: nothing to be left in a file */
};

/* Key, section, type, default, least, most, whether a reload changes it, placeholder of the value, text.
 * Settings of the section "" cannot be in a file. */
/* clang-format off */
#define CONFIG_TABLE(X) \
    X(CONFIG,            "config",              "",       TEXT,    "",               0, 0, 0, "FILE", "read settings and declarations from this file") \
    X(LISTEN,            "listen",              "server", ADDRESS, "127.0.0.1:7411", 1, 0, 0, "HOST:PORT", "the address of the RESP listener without TLS; beyond loopback it needs users and allow_plaintext; port 0 selects a free port") \
    X(HTTP,              "http",                "server", ADDRESS, "127.0.0.1:7412", 1, 1, 0, "HOST:PORT", "the address of the HTTP listener, likewise; off: none") \
    X(UNIX,              "unix",                "server", TEXT,    "tenure.sock",    1, 4095, 0, "PATH", "the Unix-domain socket for RESP, for root and the server's own user; a name without a slash is in the data directory; off: none") \
    X(HTTP_UNIX,         "http_unix",           "server", TEXT,    "off",            1, 4095, 0, "PATH", "the Unix-domain socket for HTTP, for root and the server's own user; a name without a slash is in the data directory; off: none") \
    X(ALLOW_PLAINTEXT,   "allow_plaintext",     "server", CONSENT, "no",             0, 0, 0, "CONSENT", "let listen and http be beyond loopback, where secrets and replies can be read on the network: yes or no") \
    X(TLS_LISTEN,        "tls_listen",          "tls",    ADDRESS, "off",            3, 1, 0, "HOST:PORT", "the address of the RESP listener with TLS; beyond loopback it needs users; off: none") \
    X(HTTPS,             "https",               "tls",    ADDRESS, "off",            3, 1, 0, "HOST:PORT", "the address of the HTTP listener with TLS, likewise; off: none") \
    X(TLS_CERT,          "tls_cert_file",       "tls",    TEXT,    "",               0, 4095, 1, "FILE", "the server's certificate with its chain, in PEM") \
    X(TLS_KEY,           "tls_key_file",        "tls",    TEXT,    "",               0, 4095, 1, "FILE", "the key of that certificate, in PEM, without a passphrase") \
    X(TLS_CA,            "tls_ca_file",         "tls",    TEXT,    "",               0, 4095, 1, "FILE", "the certificate authorities of client certificates, in PEM") \
    X(TLS_CLIENTS,       "tls_client_certificates", "tls", CLIENTS, "no",            0, 0, 1, "WHICH", "client certificates: no, optional or required; a certificate with the name of a user is that user's log-in") \
    X(PORT_FILE,         "port_file",           "server", TEXT,    "",               0, 0, 0, "FILE", "write the port numbers to this file, one per line, when the server is ready") \
    X(MAX_CONNECTIONS,   "max_connections",     "server", NUMBER,  "10000",          1, 1000000, 1, "N", "the maximum number of connected clients") \
    X(SLOW_SECONDS,      "slow_seconds",        "server", DURATION, "30",            1, 1000000, 1, "DURATION", "disconnect a client that does not read its replies, or does not finish its first request, within this time") \
    X(IDLE_SECONDS,      "idle_seconds",        "server", DURATION, "0",             0, 1000000, 1, "DURATION", "disconnect a client that sends no request for this time; 0: never") \
    X(CLIENT_MEMORY,     "client_memory",       "server", BYTES,   "256M",           1048576, 1099511627776, 1, "BYTES", "memory for unfinished requests and unread replies of all clients; above it, clients that use more than their share are disconnected") \
    X(CORE_FILES,        "core_files",          "server", SWITCH,  "off",            0, 0, 0, "SWITCH", "write a core file after a crash: on or off; it contains client data, including secrets") \
    X(LOG_FORMAT,        "log_format",          "server", FORM,    "logfmt",         0, 0, 1, "FORM", "the format of log lines on standard error: logfmt or json") \
    X(DATA,              "data",                "engine", TEXT,    "./data",         1, 0, 0, "DIR", "the data directory") \
    X(MAX_DOWNTIME_DAYS, "max_downtime_days",   "engine", NUMBER,  "30",             1, 36500, 0, "N", "refuse to start if the clock is ahead of the log by more days than this") \
    X(SNAPSHOT_BYTES,    "snapshot_bytes",      "engine", BYTES,   "64M",            1048576, 1099511627776, 0, "BYTES", "take a snapshot after this many bytes of log") \
    X(SEGMENT_BYTES,     "segment_bytes",       "engine", BYTES,   "16M",            65536, 1073741824, 0, "BYTES", "the size of a log file") \
    X(SPACE_RESERVE,     "space_reserve_bytes", "engine", BYTES,   "0",              0, 1099511627776, 0, "BYTES", "reject writes that would leave less free space than this on the disk") \
    X(EVENTS_MAX,        "events_max",          "engine", NUMBER,  "1000000",        1, 1000000000, 0, "N", "the minimum number of retained events") \
    X(UDP_LISTEN,        "udp_listen",          "udp",    ADDRESS, "off",            2, 1, 0, "HOST:PORT", "the address of the UDP listener for OpenSynaptic nodes; beyond loopback it needs udp_allow; off: none") \
    X(UDP_POOL,          "udp_pool",            "udp",    TEXT,    "",               0, 0, 0, "POOL", "the sticky pool for the ids of the UDP listener") \
    X(UDP_RATE,          "udp_rate",            "udp",    NUMBER,  "20",             0, 1000000, 0, "N", "requests per second from one address; 0: no limit") \
    X(UDP_BURST,         "udp_burst",           "udp",    NUMBER,  "40",             1, 1000000, 0, "N", "requests in a burst from one address") \
    X(UDP_ALLOW,         "udp_allow",           "udp",    NETWORKS, "",              0, 0, 0, "ADDRESSES", "addresses that may get replies longer than their requests; beyond loopback, the only addresses that may use the UDP listener") \
    X(TOKEN_TTL,         "token_ttl_seconds",   "tokens", DURATION, "7776000",       1, 315360000, 0, "DURATION", "the maximum lifetime of a token") \
    X(TOKEN_ISSUER,      "token_issuer",        "tokens", TEXT,    "tenure",         1, 128, 0, "NAME", "the issuer of tokens: their claim iss") \
    X(AMQP_URL,          "amqp_url",            "amqp",   BROKER,  "",               0, 0, 0, "URL", "the RabbitMQ broker: amqp[s]://[USER@]HOST[:PORT][/VHOST]; empty: none") \
    X(AMQP_PASSWORD,     "amqp_password_file",  "amqp",   TEXT,    "",               0, 0, 0, "FILE", "a file with the broker's password; without it, TENURE_AMQP_PASSWORD, else guest") \
    X(AMQP_CA,           "amqp_ca_file",        "amqp",   TEXT,    "",               0, 0, 0, "FILE", "for amqps: the certificate authorities for the broker's certificate") \
    X(AMQP_CERT,         "amqp_cert_file",      "amqp",   TEXT,    "",               0, 0, 0, "FILE", "for amqps: the client certificate, if the broker requires one") \
    X(AMQP_KEY,          "amqp_key_file",       "amqp",   TEXT,    "",               0, 0, 0, "FILE", "for amqps: the key of the client certificate") \
    X(AMQP_EXCHANGE,     "amqp_exchange",       "amqp",   TEXT,    "attune.events",  1, 255, 0, "NAME", "the topic exchange for messages about rules") \
    X(AMQP_QUEUE,        "amqp_queue",          "amqp",   TEXT,    "tenure.rules",   0, 255, 0, "NAME", "the durable queue for messages about rules; empty: none") \
    X(AMQP_KEYS,         "amqp_keys",           "amqp",   TEXT,    "rule.created rule.enabled rule.disabled rule.deleted", 1, 1024, 0, "KEYS", "the routing keys that bind the queue") \
    X(AMQP_DEAD_LETTER,  "amqp_dead_letter",    "amqp",   TEXT,    "tenure.rules.dead", 1, 255, 0, "NAME", "the exchange and queue for malformed and refused messages") \
    X(AMQP_PREFETCH,     "amqp_prefetch",       "amqp",   NUMBER,  "64",             1, 10000, 0, "N", "unacknowledged messages that the broker may send ahead") \
    X(AMQP_HEARTBEAT,    "amqp_heartbeat_seconds", "amqp", DURATION, "30",           1, 3600, 0, "DURATION", "the heartbeat interval; a broker that is silent for twice this time counts as lost") \
    X(AMQP_RETRY,        "amqp_retry_ms",       "amqp",   NUMBER,  "1000",           10, 3600000, 0, "N", "the delay before the first reconnect; doubles with each attempt") \
    X(AMQP_RETRY_MAX,    "amqp_retry_max_ms",   "amqp",   NUMBER,  "60000",          10, 3600000, 0, "N", "the maximum delay before a reconnect") \
    X(AMQP_PUBLISH,      "amqp_publish_exchange", "amqp", TEXT,    "",               0, 255, 0, "NAME", "the topic exchange for published events; empty: none") \
    X(AMQP_PREFIX,       "amqp_publish_prefix", "amqp",   TEXT,    "tenure.",        0, 128, 0, "TEXT", "the prefix of the routing keys of published events; the kind of the event follows") \
    X(SENSORS,           "sensors",             "sensors", SWITCH, "on",             0, 0, 0, "SWITCH", "run sensors: on or off") \
    X(SENSOR_COMMANDS,   "sensor_commands",     "sensors", DEFINER, "admin",         0, 0, 0, "WHO", "who may define sensors: file (only the configuration file) or admin (also root and the server's user on the Unix-domain socket, and users with the role admin)") \
    X(SENSOR_STOP,       "sensor_stop_seconds", "sensors", SECONDS, "30",            0, 86400000, 1, "DURATION", "default of stop_seconds: the time from SIGTERM to SIGKILL") \
    X(SENSOR_SETTLE,     "sensor_settle_seconds", "sensors", SECONDS, "5",           0, 86400000, 1, "DURATION", "default of settle_seconds: the delay between a change of rules and the reaction") \
    X(SENSOR_RESTARTS,   "sensor_max_restarts", "sensors", NUMBER, "10",             0, 1000000, 1, "N", "default of max_restarts: restarts in a row before a crash is an error") \
    X(SENSOR_BACKOFF,    "sensor_backoff_seconds", "sensors", SECONDS, "1",          0, 86400000, 1, "DURATION", "default of backoff_seconds: the delay before the first restart; doubles with each restart") \
    X(SENSOR_BACKOFF_MAX, "sensor_backoff_max_seconds", "sensors", SECONDS, "60",    0, 86400000, 1, "DURATION", "default of backoff_max_seconds: the maximum delay before a restart") \
    X(SENSOR_STABLE,     "sensor_stable_seconds", "sensors", SECONDS, "60",          0, 86400000, 1, "DURATION", "default of stable_seconds: a run that lasts this long resets the count of crashes") \
    X(SENSOR_LOG_BYTES,  "sensor_log_bytes",    "sensors", BYTES,  "1M",             4096, 1099511627776, 1, "BYTES", "default of log_bytes: the maximum size of an output file") \
    X(SENSOR_LOG_FILES,  "sensor_log_files",    "sensors", NUMBER, "5",              1, 1000, 1, "N", "default of log_files: the number of retained output files") \
    X(SENSOR_TOKEN_ENV,  "sensor_token_env",    "sensors", VARIABLE, "TENURE_TOKEN", 1, 64, 1, "NAME", "default of token_env: the environment variable with the token of a run") \
    X(SENSOR_GUARDIAN,   "sensor_guardian",     "sensors", TEXT,   "",               0, 4095, 0, "FILE", "the path of tenure-guardian, if it is not next to tenured or in libexec") \
    X(SENSOR_CONTAINMENT, "sensor_containment", "sensors", CONTAINMENT, "auto",      0, 0, 1, "KIND", "default of containment: how a run is contained and proven dead: auto, pidns, cgroup or none") \
    X(SENSOR_CGROUP,     "sensor_cgroup",       "sensors", TEXT,   "",               0, 4095, 0, "DIR", "a cgroup v2 directory in which each run gets a cgroup; empty: the server's own cgroup, if it was delegated") \
    X(NODE,              "node",                "cluster", TEXT,   "",               0, 52, 0, "NAME", "the name of this node in its cluster; empty: no cluster") \
    X(ADVERTISE,         "advertise",           "cluster", TEXT,   "",               0, 127, 0, "HOST:PORT", "the RESP address that clients of the cluster use for this node; empty: listen") \
    X(ADVERTISE_HTTP,    "advertise_http",      "cluster", TEXT,   "",               0, 127, 0, "HOST:PORT", "the HTTP address that clients and other nodes use for this node; empty: http") \
    X(ETCD_ENDPOINTS,    "etcd_endpoints",      "cluster", TEXT,   "",               0, 4095, 0, "URLS", "the members of etcd, separated by blanks or commas: http://HOST:PORT or https://HOST:PORT") \
    X(ETCD_CA,           "etcd_ca_file",        "cluster", TEXT,   "",               0, 4095, 0, "FILE", "for https: the certificate authorities for etcd's certificates; empty: those of the system") \
    X(ETCD_CERT,         "etcd_cert_file",      "cluster", TEXT,   "",               0, 4095, 0, "FILE", "for https: the client certificate, if etcd requires one") \
    X(ETCD_KEY,          "etcd_key_file",       "cluster", TEXT,   "",               0, 4095, 0, "FILE", "for https: the key of the client certificate") \
    X(ETCD_USER,         "etcd_user",           "cluster", TEXT,   "",               0, 255, 0, "NAME", "the user of etcd; empty: none") \
    X(ETCD_PASSWORD,     "etcd_password_file",  "cluster", TEXT,   "",               0, 4095, 0, "FILE", "a file with the password of etcd_user") \
    X(ETCD_PREFIX,       "etcd_prefix",         "cluster", TEXT,   "/tenure/default/", 2, 200, 0, "PREFIX", "the prefix of the cluster's keys in etcd; begins and ends with a slash") \
    X(LEADER_TTL,        "leader_ttl",          "cluster", SECONDS, "2",             500, 60000, 0, "DURATION", "the time after which another node takes over from an owner that does not renew its ownership; the same on all nodes") \
    X(ETCD_LOG_BYTES,    "etcd_log_bytes",      "cluster", BYTES,  "256M",           1048576, 1099511627776, 0, "BYTES", "the part of the log that is kept in etcd for nodes that are behind") \
    X(ETCD_QUOTA,        "etcd_quota",          "cluster", BYTES,  "2G",             0, 1099511627776, 0, "BYTES", "the quota of etcd's database (its --quota-backend-bytes); writes are refused at 85 % of it; 0: not checked") \
    X(ETCD_COMPACT,      "etcd_compact",        "cluster", SWITCH, "on",             0, 0, 0, "SWITCH", "compact etcd's history: on or off; off if etcd is shared with other programs") \
    X(CLUSTER_SECRET,    "cluster_secret_file", "cluster", TEXT,   "",               0, 4095, 0, "FILE", "a file with the secret that the nodes share, the same on all nodes, mode 0600") \
    X(SENSOR_FENCING,    "sensor_fencing",      "cluster", FENCING, "timed",         0, 0, 0, "KIND", "when a sensor that ran on a lost node is started elsewhere: timed (after sensor_fence_seconds) or proven (only when that node says that the run is dead)") \
    X(SENSOR_FENCE,      "sensor_fence_seconds", "cluster", SECONDS, "5",            0, 3600000, 0, "DURATION", "with sensor_fencing = timed: the time that a guardian may take to kill a run after its node has lost the log") \
    X(READS,             "reads",               "cluster", CURRENCY, "local",        0, 0, 0, "KIND", "how the owner makes sure that what it reads is current: local (by its clock) or quorum (it also asks etcd)") \
    X(STALE_MAX,         "stale_max",           "cluster", SECONDS, "10",            100, 3600000, 0, "DURATION", "the maximum age of the state that a standby shows to clients that sent READONLY") \
    X(CONFIRM_TIME_JUMP, "confirm_time_jump",   "",       FLAG,    "no",             0, 0, 0, "", "start even if the clock is ahead of the log by more than max_downtime_days") \
    X(OLDER_SNAPSHOT,    "use_older_snapshot",  "",       FLAG,    "no",             0, 0, 0, "", "recover from the previous snapshot instead of the newest one") \
    X(RESTORED,          "restored",            "",       FLAG,    "no",             0, 0, 0, "", "required once, at the first start from a restored backup") \
    X(CLUSTER_INIT,      "cluster_init",        "",       FLAG,    "no",             0, 0, 0, "", "begin a cluster with this data directory: once, on one node; the prefix in etcd must be empty")
/* clang-format on */

enum config_setting {
#define CONFIG_ENUM(id, name, section, type, standard, low, high, live, meta, text) CONFIG_##id,
    CONFIG_TABLE(CONFIG_ENUM)
#undef CONFIG_ENUM
        CONFIG_OWN_COUNT
};

/* Those above, and after them the kernel's limits. */
#define CONFIG_COUNT (CONFIG_OWN_COUNT + KERNEL_LIMIT_COUNT)

struct config_row {
    const char *name, *section;
    enum config_type type;
    const char *standard; /* NULL for limits: the logged value, or `number` in a new log */
    uint64_t number, low, high;
    bool live;
    const char *meta, *text;
};

struct config_row config_row(unsigned setting);
/* CONFIG_COUNT if there is none. */
unsigned config_find(const char *name);
void config_flag_name(const struct config_row *row, char out[CONFIG_NAME_MAX]);
void config_environment_name(const struct config_row *row, char out[CONFIG_NAME_MAX]);
/* Whether the server reads this environment variable. */
bool config_is_variable(const char *name);
#define CONFIG_AMQP_PASSWORD_VARIABLE "TENURE_AMQP_PASSWORD" /* a secret, so it is no setting */
/* False: the value is invalid, with the `reason`. */
bool config_parse(const struct config_row *row, const char *text, uint64_t *ret_number,
                  char reason[CONFIG_REASON_MAX]);

enum config_source { CONFIG_FROM_DEFAULT, CONFIG_FROM_FILE, CONFIG_FROM_ENV, CONFIG_FROM_FLAG };

struct config_value {
    char *text; /* NULL: a limit that is not set */
    uint64_t number;
    enum config_source source;
    uint32_t line; /* in the file */
};

/* What the file declares in sections of their own: [pool NAME], [sensor REF], [rule ID],
 * [user NAME]. */
enum config_kind {
    CONFIG_KIND_POOL,
    CONFIG_KIND_SENSOR,
    CONFIG_KIND_RULE,
    CONFIG_KIND_USER,
    CONFIG_KINDS
};

/* Begins each of those below. */
struct config_head {
    char name[KERNEL_RULE_MAX + 1];
    uint32_t line;
};

/* Options that the section does not set have their defaults. */
struct config_pool {
    struct config_head head;
    struct kernel_policy_patch patch;
    char exclude[KERNEL_OPTION_TEXT_MAX];
    char *names; /* of a set, with a blank after each; NULL: none */
};

/* A declaration that does not set `enabled` leaves it to commands; a new sensor or rule is enabled. */
struct config_demand {
    char trigger[KERNEL_RULE_MAX + 1];
    bool enabled, has_enabled;
};

struct config_sensor {
    struct config_head head;
    struct config_demand demand;
    struct json_t *description; /* as SENSOR SET takes it */
    char *lines;                /* the keys of the description as written, a line each */
};

struct config_rule {
    struct config_head head;
    struct config_demand demand;
    char *meta; /* JSON, as written; NULL: metadata is left to commands */
};

struct config_user {
    struct config_head head;
    enum protocol_role role;
    char hash[ACCESS_HASH_MAX];
    char *pools, *holders; /* patterns with blanks between them; NULL: all */
    uint32_t max_values;   /* 0: no quota */
};

struct config_list {
    void *items;
    uint32_t count;
};

enum config_action {
    CONFIG_SERVE,
    CONFIG_CHECK,
    CONFIG_HELP,
    CONFIG_VERSION,
    CONFIG_HASH,
    CONFIG_CERTIFICATE
};

/* The flags with which the program does not serve. NULL: there are no more. */
struct config_action_row {
    const char *flag;
    const char *also; /* another spelling, or "" */
    enum config_action action;
    const char *meta; /* placeholder of its value; "": it has none */
    const char *text;
};
const struct config_action_row *config_action_row(unsigned row);

/* Called for each mistake: where (FILE:LINE, a variable, a flag) and what. */
typedef void config_mistake(void *ctx, const char *where, const char *what);

struct config {
    enum config_action action;
    const char *action_value; /* the word after its flag; NULL: none */
    struct config_value values[CONFIG_COUNT];
    struct config_list declared[CONFIG_KINDS];
    uint32_t mistakes;
    config_mistake *mistake;
    void *mistake_ctx;
};

/* Reads everything, and continues after a mistake, so that all are reported. True: there was none.
 * Call config_free in both cases. */
bool config_load(struct config *config, const struct os *os, int argc, char **argv,
                 config_mistake *mistake, void *ctx);
void config_free(struct config *config);

static inline const char *config_text(const struct config *config, enum config_setting setting) {
    return config->values[setting].text;
}

static inline uint64_t config_number(const struct config *config, enum config_setting setting) {
    return config->values[setting].number;
}

static inline struct config_pool *config_pool_at(const struct config *config, uint32_t i) {
    return (struct config_pool *)config->declared[CONFIG_KIND_POOL].items + i;
}

static inline struct config_sensor *config_sensor_at(const struct config *config, uint32_t i) {
    return (struct config_sensor *)config->declared[CONFIG_KIND_SENSOR].items + i;
}

static inline struct config_rule *config_rule_at(const struct config *config, uint32_t i) {
    return (struct config_rule *)config->declared[CONFIG_KIND_RULE].items + i;
}

static inline struct config_user *config_user_at(const struct config *config, uint32_t i) {
    return (struct config_user *)config->declared[CONFIG_KIND_USER].items + i;
}

/* Strings are the configuration's. */
struct server_tls_files config_tls_files(const struct config *config);
/* Whether this node is one of a cluster. */
static inline bool config_is_clustered(const struct config *config) {
    return *config_text(config, CONFIG_NODE) != '\0';
}
/* The address that other programs use: `setting`, or if it is empty that of `listened`. */
static inline const char *config_advertised(const struct config *config,
                                            enum config_setting setting,
                                            enum config_setting listened) {
    const char *text = config_text(config, setting);
    return *text != '\0' ? text : config_text(config, listened);
}

/* Whether an address that is listened on is for this machine only. */
bool config_is_local(const struct config *config);

/* A digest of all settings that the nodes of a cluster must share: declared pools, sensors and rules, limits, and
 * the times of ownership. 0: no memory. */
uint64_t config_cluster_digest(const struct config *config);

/* The settings for members that a description does not have. Strings are the configuration's. */
struct sensor_defaults config_sensor_defaults(const struct config *config);
/* The description as JSON, to be freed; NULL: no memory. */
char *config_sensor_json(const struct config_sensor *sensor);

void config_help(FILE *out);
/* Prints the effective settings, each with its source, in the format of a configuration file. */
void config_print(const struct config *config, FILE *out);

/* ---- Among the files of the configuration ---- */

__attribute__((format(printf, 3, 4))) void config_wrong(struct config *config, const char *where,
                                                        const char *format, ...);
void config_set(struct config *config, unsigned setting, const char *text,
                enum config_source source, uint32_t line, const char *where);
void config_file_read(struct config *config, const struct os *os, const char *path);
__attribute__((format(printf, 2, 3))) bool config_refuse(char reason[CONFIG_REASON_MAX],
                                                         const char *format, ...);

/* The words of a key that may be repeated. One that begins like a comment must not become one, and has
 * a line of its own. No word: nothing. */
void config_words_print(const char *key, const char *words, FILE *out);

/* Sets one key of a section; false: it is invalid, with the `reason`. */
bool config_pool_set(struct config_pool *pool, const char *key, const char *text,
                     char reason[CONFIG_REASON_MAX]);
bool config_sensor_set(struct config_sensor *sensor, const char *key, const char *text,
                       char reason[CONFIG_REASON_MAX]);
bool config_rule_set(struct config_rule *rule, const char *key, const char *text,
                     char reason[CONFIG_REASON_MAX]);
bool config_user_set(struct config_user *user, const char *key, const char *text,
                     char reason[CONFIG_REASON_MAX]);
/* Whether the declaration is valid as a whole; false: it is not, with the `reason`. */
bool config_pool_check(const struct config *config, const struct config_pool *pool,
                       char reason[CONFIG_REASON_MAX]);
bool config_sensor_check(const struct config *config, const struct config_sensor *sensor,
                         char reason[CONFIG_REASON_MAX]);
bool config_rule_check(const struct config_rule *rule, char reason[CONFIG_REASON_MAX]);
bool config_user_check(const struct config_user *user, char reason[CONFIG_REASON_MAX]);
void config_pool_print(const struct config_pool *pool, FILE *out);
void config_sensor_print(const struct config_sensor *sensor, FILE *out);
void config_rule_print(const struct config_rule *rule, FILE *out);
void config_user_print(const struct config_user *user, FILE *out);
void config_sensor_free(struct config_sensor *sensor);
void config_rule_free(struct config_rule *rule);
void config_user_free(struct config_user *user);

/* ---- The cluster: config_cluster.c ---- */

/* Checks the settings of the section [cluster] together and reports the mistakes. */
void config_cluster_check(struct config *config);
/* The bytes of log after which a snapshot is due. In a cluster, etcd can forget only what snapshots cover: so at
 * most a quarter of what it may keep. */
uint64_t config_snapshot_bytes(const struct config *config);
/* The source of a setting. */
void config_source_name(const struct config *config, unsigned setting, char out[CONFIG_REASON_MAX]);

/* ---- All kinds: config_declared.c ---- */

/* The kind that the section's word names, or CONFIG_KINDS. */
enum config_kind config_kind_find(const char *word, size_t len);
/* Adds one of that kind; NULL: it is invalid, with the `reason`. */
struct config_head *config_declare(struct config *config, enum config_kind kind,
                                   struct tn_bytes name, uint32_t line,
                                   char reason[CONFIG_REASON_MAX]);
bool config_declared_set(struct config_head *head, enum config_kind kind, const char *key,
                         const char *text, char reason[CONFIG_REASON_MAX]);
/* Checks all declarations and reports the mistakes. */
void config_declared_check(struct config *config);
void config_declared_print(const struct config *config, FILE *out);
void config_declared_free(struct config *config);

#endif
