/* The families of the engine, the server and the process. */
#include <stdio.h>
#include <string.h>

#include "server/metrics.h"

static void labelled(struct metrics_text *text, const char *label, const char *value,
                     uint64_t number) {
    metrics_sample(text, "", label, tn_bytes_of(value, strlen(value)), NULL, NULL);
    metrics_number(text, number, 0);
}

static void render_appends(struct metrics_text *text, const struct engine_stats *stats) {
    uint64_t bounds_ns[ENGINE_APPEND_BUCKETS];
    for (unsigned i = 0; i < ENGINE_APPEND_BUCKETS; i++) {
        bounds_ns[i] = engine_append_bound_ns(i);
    }
    metrics_family(text, SERVER_METRIC_ENGINE_APPEND);
    metrics_histogram(text, NULL, NULL,
                      &(struct metrics_buckets){.bounds_ns = bounds_ns,
                                                .counts = stats->append_histogram,
                                                .count = ENGINE_APPEND_BUCKETS,
                                                .sum = stats->append_ns_sum,
                                                .sum_digits = 9});
}

static void render_batches(struct metrics_text *text, const struct engine_stats *stats) {
    uint64_t bounds[ENGINE_BATCH_BUCKETS];
    for (unsigned i = 0; i < ENGINE_BATCH_BUCKETS; i++) {
        bounds[i] = engine_batch_bound(i) * 1000000000u; /* bounds are written in billionths */
    }
    metrics_family(text, SERVER_METRIC_ENGINE_BATCH);
    metrics_histogram(text, NULL, NULL,
                      &(struct metrics_buckets){.bounds_ns = bounds,
                                                .counts = stats->batch_histogram,
                                                .count = ENGINE_BATCH_BUCKETS,
                                                .sum = stats->commands});
}

static void render_cluster(struct metrics_text *text, const struct metrics_view *view) {
    const struct log_stats *log = &view->stats.log;
    uint64_t bounds_ns[LOG_CALL_BUCKETS];
    for (unsigned i = 0; i < LOG_CALL_BUCKETS; i++) {
        bounds_ns[i] = log_call_bound_ns(i);
    }
    metrics_single(text, SERVER_METRIC_OWNER, view->owns, 0);
    metrics_single(text, SERVER_METRIC_TAKEOVERS, view->takeovers, 0);
    metrics_single(text, SERVER_METRIC_LAG, log->stale_ms, 3);
    metrics_family(text, SERVER_METRIC_ETCD_CALL);
    metrics_histogram(text, NULL, NULL,
                      &(struct metrics_buckets){.bounds_ns = bounds_ns,
                                                .counts = log->call_histogram,
                                                .count = LOG_CALL_BUCKETS,
                                                .sum = log->call_ns_sum,
                                                .sum_digits = 9});
    metrics_single(text, SERVER_METRIC_ETCD_DOUBTS, log->doubts, 0);
    metrics_single(text, SERVER_METRIC_ETCD_BYTES, log->store_bytes, 0);
}

static void render_engine(struct metrics_text *text, const struct metrics_view *view) {
    const struct engine_stats *stats = &view->stats;
    bool halted = stats->stopped == TN_R_HALTED;
    metrics_family(text, SERVER_METRIC_BUILD_INFO);
    labelled(text, "version", view->version, 1);
    metrics_single(text, SERVER_METRIC_UP_HALTED, halted, 0);
    metrics_single(text, SERVER_METRIC_LSN, stats->lsn, 0);
    metrics_single(text, SERVER_METRIC_ENGINE_TIME, stats->now_ms, 3);
    metrics_single(text, SERVER_METRIC_LOG_AHEAD, stats->log_ahead_ms, 3);
    metrics_single(text, SERVER_METRIC_LOG_WAITING, stats->append_ns_waiting, 9);
    render_cluster(text, view);
    metrics_single(text, SERVER_METRIC_ENGINE_OVERDUE, stats->overdue_ms, 3);
    metrics_single(text, SERVER_METRIC_ENGINE_BATCHES, stats->batches, 0);
    metrics_single(text, SERVER_METRIC_ENGINE_COMMANDS, stats->commands, 0);
    metrics_single(text, SERVER_METRIC_ENGINE_BATCH_MAX, stats->batch_commands_max, 0);
    render_batches(text, stats);
    metrics_single(text, SERVER_METRIC_ENGINE_QUEUE, stats->queue_commands, 0);
    metrics_single(text, SERVER_METRIC_ENGINE_OVERLOADS, stats->overloads, 0);
    metrics_single(text, SERVER_METRIC_ENGINE_REFUSALS, stats->refusals, 0);
    render_appends(text, stats);
    metrics_single(text, SERVER_METRIC_ENGINE_SYNC, stats->log.sync_ns_last, 9);
    metrics_single(text, SERVER_METRIC_EVENTS_KEPT, stats->events_kept, 0);
    metrics_single(text, SERVER_METRIC_EVENTS_BYTES, stats->events_bytes, 0);
    metrics_single(text, SERVER_METRIC_EVENTS_LOST, stats->events_lost, 0);
    metrics_single(text, SERVER_METRIC_EVENTS_FAILING, stats->events_failing, 0);
    metrics_single(text, SERVER_METRIC_RECOVERY_SECONDS, stats->recovery_ns, 9);
    metrics_single(text, SERVER_METRIC_RECOVERY_COMMANDS, stats->recovery_commands, 0);
}

static void render_storage(struct metrics_text *text, const struct metrics_view *view) {
    const struct engine_stats *stats = &view->stats;
    metrics_single(text, SERVER_METRIC_LOG_BYTES, stats->log.log_bytes, 0);
    metrics_single(text, SERVER_METRIC_LOG_SEGMENTS, stats->log.segments, 0);
    metrics_single(text, SERVER_METRIC_LOG_SINCE, stats->log.bytes_since_snapshot, 0);
    metrics_single(text, SERVER_METRIC_SNAPSHOT_BYTES, stats->log.snapshot_bytes, 0);
    metrics_single(text, SERVER_METRIC_SNAPSHOT_LSN, stats->log.snapshot_lsn, 0);
    metrics_single(text, SERVER_METRIC_SNAPSHOT_TIME, stats->log.snapshot_ms, 3);
    if (view->has_disk_free) {
        metrics_single(text, SERVER_METRIC_DISK_FREE, view->disk_free, 0);
    } else {
        metrics_family(text, SERVER_METRIC_DISK_FREE);
    }
    metrics_single(text, SERVER_METRIC_SNAPSHOT_SECONDS, stats->snapshot_ns_last, 9);
    metrics_single(text, SERVER_METRIC_SNAPSHOT_HOLD, stats->snapshot_hold_ns_max, 9);
    metrics_single(text, SERVER_METRIC_SNAPSHOTS, stats->snapshots, 0);
    metrics_single(text, SERVER_METRIC_SNAPSHOTS_FAILED, stats->snapshots_failed, 0);
}

/* How full the tables are, and their limits. */
static void render_tables(struct metrics_text *text, const struct metrics_view *view) {
    const struct kernel_usage *usage = &view->usage;
    const uint64_t *limit = view->limits.of;
    const struct {
        const char *name;
        uint64_t entries, most;
    } tables[] = {
        {"leases", usage->leases, limit[KERNEL_LIMIT_LEASES]},
        {"members", usage->members + usage->cooling, limit[KERNEL_LIMIT_MEMBERS]},
        {"history", usage->history, limit[KERNEL_LIMIT_HISTORY]},
        {"pools", usage->pools, limit[KERNEL_LIMIT_POOLS]},
        {"resources", usage->resources, limit[KERNEL_LIMIT_RESOURCES]},
        {"names", usage->names, limit[KERNEL_LIMIT_NAMES]},
        {"text_chunks", usage->text_chunks, usage->text_chunks_max},
        {"operations", usage->ops, limit[KERNEL_LIMIT_OPS]},
        {"disowns", usage->disowns, limit[KERNEL_LIMIT_DISOWNS]},
        {"sticky_pools", usage->rates, limit[KERNEL_LIMIT_RATES]},
        {"cold_values", usage->cold, limit[KERNEL_LIMIT_COLD]},
        {"rules", usage->rules, limit[KERNEL_LIMIT_RULES]},
        {"sensors", usage->sensors, limit[KERNEL_LIMIT_SENSORS]},
        {"users", usage->users, limit[KERNEL_LIMIT_USERS]},
    };
    enum { TABLES = sizeof tables / sizeof tables[0] };
    metrics_family(text, SERVER_METRIC_TABLE_ENTRIES);
    for (unsigned i = 0; view->has_usage && i < TABLES; i++) {
        labelled(text, "table", tables[i].name, tables[i].entries);
    }
    metrics_family(text, SERVER_METRIC_TABLE_LIMIT);
    for (unsigned i = 0; view->has_usage && i < TABLES; i++) {
        labelled(text, "table", tables[i].name, tables[i].most);
    }
}

static void render_clients(struct metrics_text *text, const struct metrics_view *view) {
    const struct server_counters *counters = &view->counters;
    metrics_family(text, SERVER_METRIC_CONNECTIONS);
    labelled(text, "protocol", "resp", view->connections);
    labelled(text, "protocol", "http", view->http_connections);
    metrics_single(text, SERVER_METRIC_CONNECTIONS_LIMIT, view->connections_max, 0);
    metrics_family(text, SERVER_METRIC_CONNECTIONS_TOTAL);
    labelled(text, "protocol", "resp", counters->connections);
    labelled(text, "protocol", "http", counters->http_connections);
    metrics_family(text, SERVER_METRIC_DROPPED);
    for (unsigned i = 0; i < SERVER_DROP_COUNT; i++) {
        labelled(text, "reason", server_drop_name((enum server_drop)i), counters->dropped[i]);
    }
    metrics_single(text, SERVER_METRIC_CLIENT_MEMORY, view->client_memory, 0);
    metrics_single(text, SERVER_METRIC_CLIENT_MEMORY_LIMIT, view->client_memory_max, 0);
    metrics_family(text, SERVER_METRIC_LOGINS);
    for (unsigned i = 0; i < SERVER_LOGIN_COUNT; i++) {
        labelled(text, "outcome", server_login_outcome_name((enum server_login_outcome)i),
                 counters->logins[i]);
    }
    metrics_family(text, SERVER_METRIC_TLS_HANDSHAKES);
    labelled(text, "outcome", "completed", counters->handshakes);
    labelled(text, "outcome", "failed", counters->handshakes_failed);
    metrics_single(text, SERVER_METRIC_TLS_EXPIRY, view->tls_expires_s, 0);
    metrics_family(text, SERVER_METRIC_RECEIVED);
    labelled(text, "protocol", "resp", counters->bytes_in);
    metrics_family(text, SERVER_METRIC_SENT);
    labelled(text, "protocol", "resp", counters->bytes_out);
    metrics_single(text, SERVER_METRIC_WRITES, view->writes_in_flight, 0);
    metrics_single(text, SERVER_METRIC_SUBSCRIPTIONS, view->subscriptions, 0);
    metrics_single(text, SERVER_METRIC_STREAMS, view->streams, 0);
    metrics_family(text, SERVER_METRIC_REJECTED);
    for (unsigned i = 0; i < SERVER_REJECT_COUNT; i++) {
        labelled(text, "reason", server_reject_name((enum server_reject)i), counters->rejected[i]);
    }
    metrics_family(text, SERVER_METRIC_UDP);
    for (unsigned i = 0; i < SERVER_UDP_COUNT; i++) {
        labelled(text, "outcome", server_udp_outcome_name((enum server_udp_outcome)i),
                 counters->datagrams[i]);
    }
}

static void render_http(struct metrics_text *text, const struct server_counters *counters) {
    metrics_family(text, SERVER_METRIC_HTTP);
    for (unsigned i = 0; i < SERVER_HTTP_STATUSES; i++) {
        if (counters->http_answers[i] > 0) {
            char status[8];
            (void)snprintf(status, sizeof status, "%u", i);
            labelled(text, "status", status, counters->http_answers[i]);
        }
    }
}

static void render_commands(struct metrics_text *text, const struct server_counters *counters) {
    char name[PROTOCOL_NAME_MAX];
    metrics_family(text, SERVER_METRIC_COMMANDS);
    for (unsigned i = 0; i < PROTOCOL_COMMANDS; i++) {
        if (counters->calls[i] > 0) {
            protocol_command_full_name(&protocol_table[i], name);
            labelled(text, "command", name, counters->calls[i]);
        }
    }
    metrics_family(text, SERVER_METRIC_REFUSALS);
    for (unsigned i = 0; i < PROTOCOL_COMMANDS; i++) {
        protocol_command_full_name(&protocol_table[i], name);
        for (unsigned code = 0; code < TN_R_COUNT; code++) {
            if (counters->refusals[i][code] > 0) {
                metrics_sample(text, "", "command", tn_bytes_of(name, strlen(name)), "result",
                               tn_result_name((enum tn_result)code));
                metrics_number(text, counters->refusals[i][code], 0);
            }
        }
    }
    metrics_family(text, SERVER_METRIC_LATENCY);
    for (unsigned i = 0; i < PROTOCOL_COMMANDS; i++) {
        if (server_histogram_count(&counters->latency[i]) > 0) {
            protocol_command_full_name(&protocol_table[i], name);
            metrics_histogram(text, "command", name,
                              &(struct metrics_buckets){.bounds_ns = server_bucket_ns,
                                                        .counts = counters->latency[i].counts,
                                                        .count = SERVER_BUCKETS,
                                                        .sum = counters->latency[i].sum_ns,
                                                        .sum_digits = 9});
        }
    }
}

static void render_tokens(struct metrics_text *text, const struct server_counters *counters) {
    metrics_single(text, SERVER_METRIC_TOKENS_ISSUED, counters->tokens_issued, 0);
    metrics_single(text, SERVER_METRIC_TOKENS_REVOKED, counters->tokens_revoked, 0);
    metrics_family(text, SERVER_METRIC_INTROSPECTIONS);
    for (unsigned i = 0; i < TOKEN_VERDICTS; i++) {
        labelled(text, "outcome", token_verdict_name((enum token_verdict)i),
                 counters->introspections[i]);
    }
}

/* Without a broker, the families exist and have no samples. */
static void render_amqp(struct metrics_text *text, const struct metrics_view *view) {
    const struct broker_stats *stats = &view->amqp;
    metrics_family(text, SERVER_METRIC_AMQP_CONNECTED);
    if (stats->consumes) {
        labelled(text, "connection", "consume", stats->consume_connected);
    }
    if (stats->publishes) {
        labelled(text, "connection", "publish", stats->publish_connected);
    }
    metrics_single(text, SERVER_METRIC_AMQP_CONNECTS, stats->connects, 0);
    metrics_single(text, SERVER_METRIC_AMQP_FAILURES, stats->failures, 0);
    metrics_family(text, SERVER_METRIC_AMQP_MESSAGES);
    for (unsigned i = 0; i < BROKER_OUTCOMES; i++) {
        labelled(text, "outcome", broker_outcome_name((enum broker_outcome)i), stats->outcomes[i]);
    }
    metrics_single(text, SERVER_METRIC_AMQP_RETRIES, stats->retries, 0);
    metrics_single(text, SERVER_METRIC_AMQP_PUBLISHED, stats->published, 0);
    metrics_single(text, SERVER_METRIC_AMQP_GAPS, stats->publish_gaps, 0);
}

static void render_sensors(struct metrics_text *text, const struct supervisor_totals *totals) {
    uint64_t bounds[SUPERVISOR_BUCKETS];
    metrics_family(text, SERVER_METRIC_SENSORS);
    for (unsigned i = 0; i < PLAN_STATES; i++) {
        labelled(text, "state", plan_state_name((enum plan_state)i), totals->by_state[i]);
    }
    metrics_single(text, SERVER_METRIC_SENSORS_RUNNING, totals->by_state[PLAN_STATE_RUNNING], 0);
    metrics_single(text, SERVER_METRIC_SENSORS_UNPROVEN, totals->unproven, 0);
    metrics_single(text, SERVER_METRIC_SENSOR_STARTS, totals->starts, 0);
    metrics_single(text, SERVER_METRIC_SENSOR_STOPS, totals->stops, 0);
    metrics_single(text, SERVER_METRIC_SENSOR_CRASHES, totals->crashes, 0);
    metrics_single(text, SERVER_METRIC_SENSOR_TOKENS_ISSUED, totals->tokens_issued, 0);
    metrics_single(text, SERVER_METRIC_SENSOR_TOKENS_REVOKED, totals->tokens_revoked, 0);
    metrics_family(text, SERVER_METRIC_SENSOR_ATTEMPTS);
    for (unsigned i = 0; i < SUPERVISOR_BUCKETS; i++) {
        /* Converted, because they are written in seconds. */
        bounds[i] = supervisor_bucket(i) * UINT64_C(1000000000);
    }
    metrics_histogram(text, NULL, NULL,
                      &(struct metrics_buckets){.bounds_ns = bounds,
                                                .counts = totals->attempts,
                                                .count = SUPERVISOR_BUCKETS,
                                                .sum = totals->attempts_sum * UINT64_C(1000000000),
                                                .sum_digits = 9});
    metrics_single(text, SERVER_METRIC_SENSOR_EVENTS, totals->emitted, 0);
}

static void render_process(struct metrics_text *text, const struct metrics_process *process) {
    metrics_single(text, SERVER_METRIC_PROCESS_CPU, process->cpu_ms, 3);
    metrics_single(text, SERVER_METRIC_PROCESS_FDS, process->fds, 0);
    metrics_single(text, SERVER_METRIC_PROCESS_MAX_FDS, process->fds_max, 0);
    metrics_single(text, SERVER_METRIC_PROCESS_RSS, process->rss_bytes, 0);
    metrics_single(text, SERVER_METRIC_PROCESS_VSIZE, process->vsize_bytes, 0);
    metrics_single(text, SERVER_METRIC_PROCESS_START, process->start_ms, 3);
}

void metrics_render(struct metrics_text *text, const struct metrics_view *view) {
    render_engine(text, view);
    render_storage(text, view);
    render_tables(text, view);
    render_clients(text, view);
    render_http(text, &view->counters);
    render_commands(text, &view->counters);
    render_tokens(text, &view->counters);
    render_amqp(text, view);
    render_sensors(text, &view->sensors);
    render_process(text, &view->process);
    if (view->has_pools) {
        metrics_single(text, SERVER_METRIC_COLLECTION, view->collection_ns, 9);
        metrics_single(text, SERVER_METRIC_OMITTED, view->pools_omitted, 0);
    }
}
