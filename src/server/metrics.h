/* The metrics, in the text format of Prometheus.
 *
 * All families are in the table below: name, type, labels, help. The renderers write families in its
 * order, each with all its samples together, and docs/metrics.md has a line for each (a test compares).
 *
 * A scrape costs the loop two short steps, a copy of the counters at its beginning and the hand-over
 * at its end. In between a worker thread asks the engine for the pools, a few at a time, and
 * renders. One scrape runs at a time; all clients that ask meanwhile share the next one, so a scrape is
 * never older than its request. */
#ifndef TN_SERVER_METRICS_H
#define TN_SERVER_METRICS_H

#include "broker/broker.h"
#include "engine/engine.h"
#include "server/count.h"
#include "server/refusal.h"
#include "supervisor/supervisor.h"

/* The maximum length of one scrape. Pools whose samples may not fit are left out and counted in
 * tenure_metrics_pools_omitted. */
#define SERVER_METRICS_BYTES (64u << 20)
#define SERVER_METRICS_SAMPLE_SECONDS 15u /* the growth of pools is sampled at least this often */

/* clang-format off */
#define SERVER_METRIC_TABLE(X) \
    X(BUILD_INFO, "tenure_build_info", "gauge", "version", "Always 1; the version is in the label") \
    X(UP_HALTED, "tenure_engine_halted", "gauge", "", "1 if storage failed and the engine has halted, else 0") \
    X(LSN, "tenure_engine_lsn", "gauge", "", "Log position of the last applied command") \
    X(ENGINE_TIME, "tenure_engine_time_seconds", "gauge", "", "The engine's clock, seconds since 1970") \
    X(LOG_AHEAD, "tenure_log_ahead_seconds", "gauge", "", "Lead of the log's time over the wall clock; a lead found at start shrinks by an eighth of the elapsed time") \
    X(LOG_WAITING, "tenure_log_waiting_seconds", "gauge", "", "Time for which the disk has owed an answer to a write or a sync; 0 if it owes none") \
    X(OWNER, "tenure_owner", "gauge", "", "1 on the node that owns the log, else 0; a server without a cluster owns its log") \
    X(TAKEOVERS, "tenure_takeovers_total", "counter", "", "Times that this node became the owner of the log, its start included") \
    X(LAG, "tenure_lag_seconds", "gauge", "", "Time since a node that follows last had everything that the owner had committed; 0 on the owner") \
    X(ETCD_CALL, "tenure_etcd_call_seconds", "histogram", "", "Duration of the calls to etcd that were answered") \
    X(ETCD_DOUBTS, "tenure_etcd_doubts_total", "counter", "", "Calls to etcd whose outcome was in doubt; they are repeated until it is known") \
    X(ETCD_BYTES, "tenure_etcd_db_bytes", "gauge", "", "Size of etcd's database, as etcd reports it") \
    X(ENGINE_OVERDUE, "tenure_engine_overdue_seconds", "gauge", "", "Time since the earliest deadline that the log has not recorded; more than a second means that the log cannot record it, and that pools count ended leases") \
    X(ENGINE_BATCHES, "tenure_engine_batches_total", "counter", "", "Batches committed") \
    X(ENGINE_COMMANDS, "tenure_engine_commands_total", "counter", "", "Commands committed, including ticks") \
    X(ENGINE_BATCH_MAX, "tenure_engine_batch_commands_max", "gauge", "", "Commands in the largest batch since start") \
    X(ENGINE_BATCH, "tenure_engine_batch_commands", "histogram", "", "Commands in a batch") \
    X(ENGINE_QUEUE, "tenure_engine_queue_commands", "gauge", "", "Commands waiting or being committed") \
    X(ENGINE_OVERLOADS, "tenure_engine_overloads_total", "counter", "", "Commands rejected because the queue was full") \
    X(ENGINE_REFUSALS, "tenure_engine_refusals_total", "counter", "", "Commands that the committed state refused without logging them") \
    X(ENGINE_APPEND, "tenure_engine_append_duration_seconds", "histogram", "", "Time to make a batch durable: write and sync") \
    X(ENGINE_SYNC, "tenure_engine_last_sync_seconds", "gauge", "", "Duration of the last sync of the log") \
    X(EVENTS_KEPT, "tenure_events_kept", "gauge", "", "Retained events") \
    X(EVENTS_BYTES, "tenure_events_bytes", "gauge", "", "Bytes of the event files") \
    X(EVENTS_LOST, "tenure_events_lost_total", "counter", "", "Events lost because memory or disk was full") \
    X(EVENTS_FAILING, "tenure_events_failing", "gauge", "", "1 while the disk does not accept events, else 0") \
    X(RECOVERY_SECONDS, "tenure_engine_recovery_seconds", "gauge", "", "Duration of the recovery at start") \
    X(RECOVERY_COMMANDS, "tenure_engine_recovery_commands", "gauge", "", "Commands replayed at start") \
    X(LOG_BYTES, "tenure_log_bytes", "gauge", "", "Bytes of all log segments") \
    X(LOG_SEGMENTS, "tenure_log_segments", "gauge", "", "Log segments") \
    X(LOG_SINCE, "tenure_log_bytes_since_snapshot", "gauge", "", "Bytes logged after the newest snapshot") \
    X(SNAPSHOT_BYTES, "tenure_snapshot_bytes", "gauge", "", "Bytes of the newest snapshot") \
    X(SNAPSHOT_LSN, "tenure_snapshot_lsn", "gauge", "", "Log position of the newest snapshot, 0 if there is none") \
    X(SNAPSHOT_TIME, "tenure_snapshot_time_seconds", "gauge", "", "Time of the log at the newest snapshot, seconds since 1970; 0 if there is none") \
    X(DISK_FREE, "tenure_disk_free_bytes", "gauge", "", "Free space of the file system of the data directory; omitted if it is unknown") \
    X(SNAPSHOT_SECONDS, "tenure_snapshot_last_seconds", "gauge", "", "Duration of the last snapshot of this process") \
    X(SNAPSHOT_HOLD, "tenure_snapshot_hold_seconds_max", "gauge", "", "Longest time that a snapshot step locked the state") \
    X(SNAPSHOTS, "tenure_snapshots_total", "counter", "", "Snapshots taken by this process") \
    X(SNAPSHOTS_FAILED, "tenure_snapshots_failed_total", "counter", "", "Snapshots that failed") \
    X(TABLE_ENTRIES, "tenure_table_entries", "gauge", "table", "Entries of a state table") \
    X(TABLE_LIMIT, "tenure_table_entries_limit", "gauge", "table", "Maximum entries of the table") \
    X(CONNECTIONS, "tenure_server_connections", "gauge", "protocol", "Connected clients") \
    X(CONNECTIONS_LIMIT, "tenure_server_connections_limit", "gauge", "", "Maximum number of connected clients") \
    X(CONNECTIONS_TOTAL, "tenure_server_connections_total", "counter", "protocol", "Accepted client connections") \
    X(DROPPED, "tenure_server_clients_dropped_total", "counter", "reason", "Clients disconnected by the server") \
    X(CLIENT_MEMORY, "tenure_server_client_memory_bytes", "gauge", "", "Unfinished requests and unread replies") \
    X(CLIENT_MEMORY_LIMIT, "tenure_server_client_memory_limit_bytes", "gauge", "", "The setting client_memory") \
    X(LOGINS, "tenure_server_logins_total", "counter", "outcome", "Secrets checked, without those remembered from an earlier check") \
    X(TLS_HANDSHAKES, "tenure_server_tls_handshakes_total", "counter", "outcome", "TLS handshakes that ended, by outcome") \
    X(TLS_EXPIRY, "tenure_tls_certificate_expiry_timestamp_seconds", "gauge", "", "End of the TLS certificate's validity, seconds since 1970; 0 without TLS") \
    X(RECEIVED, "tenure_server_received_bytes_total", "counter", "protocol", "Bytes read from clients; RESP only") \
    X(SENT, "tenure_server_sent_bytes_total", "counter", "protocol", "Bytes of replies to clients; RESP only") \
    X(WRITES, "tenure_server_writes_in_flight", "gauge", "", "Writes in flight") \
    X(SUBSCRIPTIONS, "tenure_server_subscriptions", "gauge", "", "Subscriptions to channels and patterns") \
    X(STREAMS, "tenure_server_event_streams", "gauge", "", "Event streams over HTTP") \
    X(REJECTED, "tenure_server_rejected_total", "counter", "reason", "Requests rejected before they became a command") \
    X(UDP, "tenure_server_udp_datagrams_total", "counter", "outcome", "Datagrams received by the UDP listener, by outcome") \
    X(HTTP, "tenure_server_http_responses_total", "counter", "status", "HTTP responses by status; unused statuses are omitted") \
    X(COMMANDS, "tenure_server_commands_total", "counter", "command", "Client commands; unused commands are omitted") \
    X(REFUSALS, "tenure_server_refusals_total", "counter", "command, result", "Refused commands; zeros are omitted") \
    X(LATENCY, "tenure_server_command_duration_seconds", "histogram", "command", "Time from reading a request to writing its reply; unused commands are omitted") \
    X(TOKENS_ISSUED, "tenure_tokens_issued_total", "counter", "", "Tokens signed, including refreshed ones") \
    X(TOKENS_REVOKED, "tenure_tokens_revoked_total", "counter", "", "Leases revoked by TOKEN REVOKE") \
    X(INTROSPECTIONS, "tenure_token_introspections_total", "counter", "outcome", "Token introspections, by outcome") \
    X(AMQP_CONNECTED, "tenure_amqp_connected", "gauge", "connection", "1 while connected to RabbitMQ, else 0") \
    X(AMQP_CONNECTS, "tenure_amqp_connects_total", "counter", "", "Connections to RabbitMQ") \
    X(AMQP_FAILURES, "tenure_amqp_failures_total", "counter", "", "Connections to RabbitMQ that were lost or refused") \
    X(AMQP_MESSAGES, "tenure_amqp_messages_total", "counter", "outcome", "Messages about rules, by outcome") \
    X(AMQP_RETRIES, "tenure_amqp_retries_total", "counter", "", "Retries of messages because nothing could be committed") \
    X(AMQP_PUBLISHED, "tenure_amqp_published_total", "counter", "", "Events that RabbitMQ has confirmed") \
    X(AMQP_GAPS, "tenure_amqp_publish_gaps_total", "counter", "", "Gaps in the published events, because events were dropped before they could be published") \
    X(SENSORS, "tenure_sensors", "gauge", "state", "Sensors by state") \
    X(SENSORS_RUNNING, "tenure_sensors_running", "gauge", "", "Running sensors") \
    X(SENSORS_UNPROVEN, "tenure_sensors_unproven", "gauge", "", "Sensors that do not start before SENSOR RESET, because nothing proves an earlier run dead") \
    X(SENSOR_STARTS, "tenure_sensor_starts_total", "counter", "", "Started runs of sensors") \
    X(SENSOR_STOPS, "tenure_sensor_stops_total", "counter", "", "Ended runs of sensors, proven dead, for any reason") \
    X(SENSOR_CRASHES, "tenure_sensor_crashes_total", "counter", "", "Runs that ended unexpectedly or were unhealthy") \
    X(SENSOR_TOKENS_ISSUED, "tenure_sensor_tokens_issued_total", "counter", "", "Tokens issued to runs of sensors, including refreshed ones") \
    X(SENSOR_TOKENS_REVOKED, "tenure_sensor_tokens_revoked_total", "counter", "", "Runs whose tokens were revoked") \
    X(SENSOR_ATTEMPTS, "tenure_sensor_restart_attempts", "histogram", "", "Restarts after a crash, by their number in a row") \
    X(SENSOR_EVENTS, "tenure_sensor_events_total", "counter", "", "Events emitted by sensors") \
    X(PROCESS_CPU, "process_cpu_seconds_total", "counter", "", "Processor time, user and system") \
    X(PROCESS_FDS, "process_open_fds", "gauge", "", "Open file descriptors") \
    X(PROCESS_MAX_FDS, "process_max_fds", "gauge", "", "Maximum number of open file descriptors") \
    X(PROCESS_RSS, "process_resident_memory_bytes", "gauge", "", "Resident memory") \
    X(PROCESS_VSIZE, "process_virtual_memory_bytes", "gauge", "", "Virtual memory") \
    X(PROCESS_START, "process_start_time_seconds", "gauge", "", "Start time of the process, seconds since 1970") \
    X(COLLECTION, "tenure_metrics_collection_seconds", "gauge", "", "Time to read all pools from the engine") \
    X(OMITTED, "tenure_metrics_pools_omitted", "gauge", "", "Pools omitted because the text would be too long") \
    X(POOL_SIZE, "tenure_pool_size", "gauge", "pool", "Values that the pool can give") \
    X(POOL_VALUES, "tenure_pool_values", "gauge", "pool, state", "Values held or cooling, by state") \
    X(POOL_FREE, "tenure_pool_free", "gauge", "pool", "Free values") \
    X(POOL_OCCUPANCY, "tenure_pool_occupancy_ratio", "gauge", "pool", "Fraction of the values that is not free, 0 to 1") \
    X(POOL_EXHAUSTION, "tenure_pool_exhaustion_seconds", "gauge", "pool", "Seconds until no value is free at the current growth; +Inf without growth") \
    X(POOL_NEXT_FREE, "tenure_pool_next_free_time_seconds", "gauge", "pool", "Time at which a value becomes free by itself, seconds since 1970; omitted if unknown") \
    X(POOL_SCOPES, "tenure_pool_scopes", "gauge", "pool", "Scopes of a template; omitted for other pools") \
    X(POOL_WAITING, "tenure_pool_waiting", "gauge", "pool", "Leases that wait in line for values; of a template: in all its scopes") \
    X(POOL_WAITING_SINCE, "tenure_pool_waiting_since_time_seconds", "gauge", "pool", "Time at which the first in line began to wait, seconds since 1970; omitted without a line") \
    X(POOL_ALLOCATIONS, "tenure_pool_allocations_total", "counter", "pool", "Values allocated to new leases") \
    X(POOL_RETURNS, "tenure_pool_returns_total", "counter", "pool", "Values of returning sticky holders") \
    X(POOL_RELEASES, "tenure_pool_releases_total", "counter", "pool", "Values released by their holders") \
    X(POOL_EXPIRIES, "tenure_pool_expiries_total", "counter", "pool", "Values whose lease expired") \
    X(POOL_REVOCATIONS, "tenure_pool_revocations_total", "counter", "pool", "Values whose lease was revoked") \
    X(POOL_RECLAIMS, "tenure_pool_reclaims_total", "counter", "pool", "Values reclaimed by expiry or by force") \
    X(POOL_REFUSALS, "tenure_pool_refusals_total", "counter", "pool, result", "Refused requests that name the pool; zeros are omitted") \
    X(POOL_AWAY, "tenure_pool_return_away_seconds", "histogram", "pool", "Time that returning holders of a sticky pool were offline") \
    X(POOL_RATE, "tenure_pool_new_leases_per_second", "gauge", "pool", "Rate of new leases that the adaptive lease uses; sticky pools only") \
    X(POOL_LEASE, "tenure_pool_effective_lease_seconds", "gauge", "pool", "Current effective lease; sticky pools only") \
    X(POOL_ULTRA, "tenure_pool_ultra_rate_active", "gauge", "pool", "1 while the rate of new leases is at the ultra threshold; sticky pools only") \
    X(POOL_FORCE_ZERO, "tenure_pool_force_zero_active", "gauge", "pool", "1 while the effective lease is forced to zero; sticky pools only")
/* clang-format on */

enum server_metric {
#define SERVER_METRIC_ENUM(id, name, type, labels, help) SERVER_METRIC_##id,
    SERVER_METRIC_TABLE(SERVER_METRIC_ENUM)
#undef SERVER_METRIC_ENUM
        SERVER_METRIC_COUNT
};

struct server_metric_row {
    const char *name, *type, *labels, *help;
};

extern const struct server_metric_row server_metric_rows[SERVER_METRIC_COUNT];

/* ---- The text: metrics_text.c ---- */

/* A text that grows up to SERVER_METRICS_BYTES. After a failure nothing more is written. */
struct metrics_text {
    char *at;
    size_t len, capacity;
    bool failed;
    enum server_metric family; /* the family being written */
};

void metrics_family(struct metrics_text *text, enum server_metric family);
/* Writes a sample: its name and up to two labels, escaped. A label whose name is NULL is omitted. A
 * number must follow. */
void metrics_sample(struct metrics_text *text, const char *suffix, const char *label,
                    struct tn_bytes value, const char *label2, const char *value2);
/* Writes value / 10^digits, exactly, and ends the line. */
void metrics_number(struct metrics_text *text, uint64_t value, unsigned digits);
void metrics_infinity(struct metrics_text *text);
/* Writes a family with one sample and no labels. */
void metrics_single(struct metrics_text *text, enum server_metric family, uint64_t value,
                    unsigned digits);
/* `counts` has one more entry than the bounds, and counts each bucket alone. A label that is NULL
 * is omitted. */
struct metrics_buckets {
    const uint64_t *bounds_ns;
    const uint64_t *counts;
    uint32_t count;
    uint64_t sum;
    unsigned sum_digits; /* decimals of the sum: 9 for nanoseconds, 3 for milliseconds */
};

void metrics_histogram(struct metrics_text *text, const char *label, const char *value,
                       const struct metrics_buckets *buckets);

/* ---- Pools: metrics_pools.c ---- */

/* The figures of a pool. */
struct metrics_pool {
    char name[KERNEL_POOL_MAX + 1];
    uint8_t name_len;
    bool sticky, ultra, force_zero;
    uint64_t name_hash;
    uint64_t size, free, used, scopes, next_free_ms, lease_s, waiting, waiting_since_ms;
    uint64_t rate_nano; /* new leases a second, in billionths */
    uint64_t states[5]; /* reserved, active, offline, revoking, cooling */
    struct kernel_pool_counters counters;
    uint64_t exhaustion_ms; /* UINT64_MAX: the pool does not grow */
};

/* How fast a pool fills, kept from one sample to the next by the hash of its name. */
struct metrics_growth {
    uint64_t name_hash; /* 0: an empty place */
    uint32_t pool;      /* index of the row in this sample */
    uint64_t used, at_ms;
    double rate, weight; /* values a second, and how much of the past they represent, 0 to 1 */
};

struct metrics_growths {
    struct metrics_growth *of;
    uint32_t capacity; /* a power of two, or 0 */
};

struct metrics_pools {
    struct metrics_pool *of;
    uint32_t count, capacity;
    uint64_t omitted;
    size_t text_bytes; /* maximum bytes of their samples */
    struct metrics_growths growths;
};

/* False: out of memory. A pool that does not fit is counted as omitted. */
bool metrics_pools_add(struct metrics_pools *pools, const struct kernel_pool_view *view);
/* Estimates when each pool will be exhausted, from earlier samples. */
bool metrics_pools_estimate(struct metrics_pools *pools, uint64_t now_ms);
/* Frees the rows. The figures for the next sample stay. */
void metrics_pools_clear(struct metrics_pools *pools);
void metrics_pools_render(struct metrics_text *text, const struct metrics_pools *pools,
                          const struct server_refusals *refusals);
/* The row of a pool that the last estimate has covered, or NULL. */
const struct metrics_pool *metrics_pools_find(const struct metrics_pools *pools,
                                              uint64_t name_hash);

/* ---- The rest: metrics_render.c ---- */

struct metrics_process {
    uint64_t cpu_ms, fds, fds_max, rss_bytes, vsize_bytes, start_ms;
};

/* Everything that is shown except the pools, as of one moment. */
struct metrics_view {
    const char *version;
    struct engine_stats stats;
    struct kernel_usage usage;
    struct kernel_limits limits;
    bool owns;      /* this node owns the log */
    bool has_usage; /* false if the engine has halted: the use of its tables is unknown */
    struct server_counters counters;
    uint64_t tls_expires_s;
    uint64_t connections, http_connections, connections_max, client_memory, client_memory_max,
        writes_in_flight, subscriptions, streams, takeovers;
    struct broker_stats amqp;
    struct supervisor_totals sensors;
    struct metrics_process process;
    uint64_t disk_free;
    bool has_disk_free;
    uint64_t collection_ns, pools_omitted;
    bool has_pools;
};

void metrics_render(struct metrics_text *text, const struct metrics_view *view);

/* ---- Scrapes: metrics.c ---- */

struct server_owners;

/* The text of one scrape, shared by all clients that requested it; on the loop's thread only. */
struct server_text {
    struct server_owners *owners;
    uint32_t references;
    size_t memory; /* counts as client memory until the slowest client has read it */
    size_t len;
    size_t short_len; /* without the pools */
    char *at;
};

/* A request for a scrape, in the caller's memory until `done` runs or it is cancelled. */
struct server_scrape {
    /* Receives the text with a reference that it must release. NULL: out of memory, or slow clients
     * hold too many texts. */
    void (*done)(struct server_scrape *scrape, struct server_text *text);
    struct server_scrape *next;
    bool pools; /* wanted too */
};

struct server_metrics;

struct server_metrics *server_metrics_make(struct server_owners *owners);
void server_metrics_free(struct server_metrics *metrics);
void server_metrics_request(struct server_owners *owners, struct server_scrape *scrape);
void server_metrics_cancel(struct server_owners *owners, struct server_scrape *scrape);
/* Called every second: samples the pools if that has not been done for some time. */
void server_metrics_second(struct server_owners *owners);
void server_text_release(struct server_text *text);

#endif
