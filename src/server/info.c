/* Figures of the server and its connections, in the format that tools for Redis read. */
#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/glob.h"
#include "engine/engine.h"
#include "engine/read.h"
#include "protocol/render.h"
#include "server/connection.h"
#include "server/count.h"
#include "server/http_listen.h"
#include "server/listen.h"
#include "server/memory.h"
#include "server/metrics.h"
#include "server/output.h"
#include "server/owners.h"
#include "server/server.h"
#include "server/server_role.h"
#include "server/server_tls.h"
#include "server/session.h"
#include "server/slots.h"
#include "server/stream.h"

#define REDIS_VERSION "7.4.0" /* for clients that choose their commands by the version */

__attribute__((format(printf, 2, 3))) static void line(struct tn_writer *w, const char *format,
                                                       ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    int len = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    tn_write_raw(w, text, len < (int)sizeof text ? (size_t)len : sizeof text - 1);
}

static void reply_text(struct server_connection *connection, const struct tn_writer *text) {
    struct protocol_writer w = server_reply_begin(connection);
    protocol_write_verbatim(&w, (const char *)text->at, text->len);
    server_reply_end(connection, &w);
}

/* ---- INFO ---- */

static void info_replication(struct server_owners *owners, struct tn_writer *w) {
    const struct server_role *role = owners->role;
    struct server_node_address owner = {.port = 0};
    struct engine_stats stats;
    server_role_refresh(owners->role, owners->engine);
    engine_stats_read(owners->engine, &stats);
    line(w, "\r\n# Replication\r\nrole:%s\r\n", role->follows ? "slave" : "master");
    if (role->follows) {
        bool up = server_node_address_split(role->leader, &owner);
        if (!up && !server_node_address_split(role->owner, &owner)) {
            owner.host[0] = '\0';
        }
        line(w, "master_host:%s\r\nmaster_port:%u\r\nmaster_link_status:%s\r\n", owner.host,
             owner.port, up ? "up" : "down");
        line(w, "slave_read_only:1\r\nstale_ms:%" PRIu64 "\r\n", stats.log.stale_ms);
        line(w, "connected_slaves:0\r\n");
    } else {
        line(w, "connected_slaves:%u\r\n", server_role_replicas(owners->engine));
    }
    line(w, "takeovers:%" PRIu64 "\r\n", role->promotions);
}

static void info_server(struct server_owners *owners, struct tn_writer *w) {
    line(w, "# Server\r\nredis_version:" REDIS_VERSION "\r\nredis_mode:standalone\r\n");
    line(w, "tenure_version:%s\r\nprocess_id:%ld\r\ntcp_port:%u\r\n", owners->options->version,
         (long)getpid(), server_listen_port(owners, SERVER_LISTEN_TCP));
    line(w, "\r\n# Clients\r\nconnected_clients:%u\r\nmaxclients:%u\r\n",
         owners->connections->count, owners->options->connections_max);
    line(w, "clients_memory:%zu\r\nclients_memory_max:%zu\r\n", owners->memory->used,
         owners->options->client_memory);
    line(w, "\r\n# Persistence\r\nloading:0\r\n");
    line(w, "\r\n# Stats\r\ntotal_connections_received:%" PRIu64 "\r\n",
         owners->counters->connections + owners->counters->http_connections);
    line(w, "total_commands_processed:%" PRIu64 "\r\nrejected_connections:%" PRIu64 "\r\n",
         server_count_commands(owners->counters),
         owners->counters->rejected[SERVER_REJECT_CONNECTIONS]);
    line(w, "total_net_input_bytes:%" PRIu64 "\r\ntotal_net_output_bytes:%" PRIu64 "\r\n",
         owners->counters->bytes_in, owners->counters->bytes_out);
    line(w, "total_error_replies:%" PRIu64 "\r\n", owners->counters->errors);
    for (unsigned i = 0; i < SERVER_DROP_COUNT; i++) {
        line(w, "%s_clients_dropped:%" PRIu64 "\r\n", server_drop_name((enum server_drop)i),
             owners->counters->dropped[i]);
    }
    line(w, "pubsub_channels:%u\r\npubsub_patterns:%u\r\n",
         owners->streams->subscriptions - owners->streams->pattern_count,
         owners->streams->pattern_count);
    info_replication(owners, w);
    line(w, "\r\n# Cluster\r\ncluster_enabled:0\r\n");
}

static void info_engine(struct server_owners *owners, struct tn_writer *w) {
    struct engine_stats stats;
    struct kernel_usage usage;
    struct kernel_limits limits;
    engine_stats_read(owners->engine, &stats);
    line(w, "\r\n# Tenure\r\nlsn:%" PRIu64 "\r\nnow:%" PRIu64 "\r\n", stats.lsn, stats.now_ms);
    line(w, "overdue_seconds:%" PRIu64 "\r\nlog_ahead_seconds:%" PRIu64 "\r\n",
         stats.overdue_ms / 1000, stats.log_ahead_ms / 1000);
    line(w, "batches:%" PRIu64 "\r\ncommands:%" PRIu64 "\r\nbatch_commands_max:%" PRIu64 "\r\n",
         stats.batches, stats.commands, stats.batch_commands_max);
    line(w, "queue_commands:%" PRIu64 "\r\noverloads:%" PRIu64 "\r\nrefusals:%" PRIu64 "\r\n",
         stats.queue_commands, stats.overloads, stats.refusals);
    line(w, "log_bytes:%" PRIu64 "\r\nsnapshots:%" PRIu64 "\r\nsnapshots_failed:%" PRIu64 "\r\n",
         stats.log.log_bytes, stats.snapshots, stats.snapshots_failed);
    line(w, "sync_us_last:%" PRIu64 "\r\nwrites_in_flight:%u\r\n", stats.log.sync_ns_last / 1000,
         owners->slots->used);
    if (engine_usage(owners->engine, &usage, &limits) == TN_R_OK) {
        line(w, "leases:%" PRIu64 "\r\nmembers:%" PRIu64 "\r\npools:%" PRIu64 "\r\n",
             (uint64_t)usage.leases, (uint64_t)usage.members, (uint64_t)usage.pools);
    }
}

static void info_amqp(struct broker *amqp, struct tn_writer *w) {
    struct broker_stats stats;
    if (amqp == NULL) {
        return;
    }
    broker_stats_read(amqp, &stats);
    line(w, "\r\n# RabbitMQ\r\namqp_consume_connected:%d\r\namqp_publish_connected:%d\r\n",
         stats.consume_connected, stats.publish_connected);
    line(w, "amqp_connects:%" PRIu64 "\r\namqp_failures:%" PRIu64 "\r\namqp_last_error:%s\r\n",
         stats.connects, stats.failures, stats.error);
}

static void info_tls(const struct server_owners *owners, struct tn_writer *w) {
    if (owners->tls->context == NULL) {
        return;
    }
    line(w, "\r\n# TLS\r\ntls_port:%u\r\nhttps_port:%u\r\n",
         server_listen_port(owners, SERVER_LISTEN_TLS),
         server_listen_port(owners, SERVER_LISTEN_HTTPS));
    line(w, "tls_certificate_expiry:%" PRIu64 "\r\n", owners->tls->expires_s);
    line(w, "tls_handshakes:%" PRIu64 "\r\ntls_handshakes_failed:%" PRIu64 "\r\n",
         owners->counters->handshakes, owners->counters->handshakes_failed);
}

static void info_commands(const struct server_counters *counters, struct tn_writer *w) {
    line(w, "\r\n# Commandstats\r\n");
    for (uint32_t i = 0; i < PROTOCOL_COMMANDS; i++) {
        char name[PROTOCOL_NAME_MAX];
        uint64_t failed = 0;
        uint64_t count = server_histogram_count(&counters->latency[i]);
        uint64_t us = counters->latency[i].sum_ns / 1000;
        if (counters->calls[i] == 0) {
            continue;
        }
        for (unsigned code = 0; code < TN_R_COUNT; code++) {
            failed += counters->refusals[i][code];
        }
        protocol_command_full_name(&protocol_table[i], name);
        line(w,
             "cmdstat_%s:calls=%" PRIu64 ",usec=%" PRIu64 ",usec_per_call=%.2f,rejected_calls=0,"
             "failed_calls=%" PRIu64 "\r\n",
             name, counters->calls[i], us, count > 0 ? (double)us / (double)count : 0.0, failed);
    }
}

static void info_errors(const struct server_counters *counters, struct tn_writer *w) {
    line(w, "\r\n# Errorstats\r\n");
    for (unsigned code = 0; code < TN_R_COUNT; code++) {
        uint64_t count = 0;
        for (uint32_t i = 0; i < PROTOCOL_COMMANDS; i++) {
            count += counters->refusals[i][code];
        }
        if (count > 0) {
            line(w, "errorstat_%s:count=%" PRIu64 "\r\n", tn_result_name((enum tn_result)code),
                 count);
        }
    }
}

static bool section_wanted(const struct tn_bytes *sections, uint32_t count, const char *upper) {
    for (uint32_t i = 0; i < count; i++) {
        if (protocol_word_is(sections[i], upper, strlen(upper)) ||
            protocol_word_is(sections[i], "ALL", 3) ||
            protocol_word_is(sections[i], "EVERYTHING", 10)) {
            return true;
        }
    }
    return false;
}

/* INFO, with optional sections. Most sections are small, and clients ignore sections that they did
 * not request. The lines of single commands are written only on request, as in Redis. */
enum server_step session_info(struct server_connection *connection, const struct tn_bytes *argv,
                              uint32_t argc) {
    char text[4096 + PROTOCOL_COMMANDS * 160 + TN_R_COUNT * 64];
    struct tn_writer w = tn_writer_of(text, sizeof text);
    if (!session_words_fit(connection, argc)) {
        return SERVER_DONE;
    }
    info_server(connection->client.owners, &w);
    info_engine(connection->client.owners, &w);
    info_amqp(connection->client.owners->options->amqp, &w);
    info_tls(connection->client.owners, &w);
    if (section_wanted(argv + 1, argc - 1, "COMMANDSTATS")) {
        info_commands(connection->client.owners->counters, &w);
    }
    if (section_wanted(argv + 1, argc - 1, "ERRORSTATS")) {
        info_errors(connection->client.owners->counters, &w);
    }
    reply_text(connection, &w);
    return SERVER_DONE;
}

/* ---- CONFIG GET ---- */

static void config_get(struct server_connection *connection, const struct tn_bytes *patterns,
                       uint32_t count) {
    char clients[16];
    char timeout[16];
    const char *const settings[][2] = {
        {"appendfsync", "always"},    {"appendonly", "yes"}, {"databases", "1"},
        {"maxclients", clients},      {"maxmemory", "0"},    {"proto-max-bulk-len", "524288"},
        {"replica-read-only", "yes"}, {"save", ""},          {"slave-read-only", "yes"},
        {"timeout", timeout},
    };
    enum { SETTINGS = sizeof settings / sizeof settings[0] };
    bool wanted[SETTINGS] = {false};
    uint32_t found = 0;
    (void)snprintf(clients, sizeof clients, "%u",
                   connection->client.owners->options->connections_max);
    (void)snprintf(timeout, sizeof timeout, "%u", connection->client.owners->options->idle_seconds);
    for (uint32_t i = 0; i < count; i++) {
        char pattern[64];
        if (patterns[i].len > sizeof pattern) {
            continue;
        }
        for (uint32_t at = 0; at < patterns[i].len; at++) {
            pattern[at] = (char)tolower(patterns[i].at[at]);
        }
        for (unsigned s = 0; s < SETTINGS; s++) {
            const char *name = settings[s][0];
            if (!wanted[s] && tn_glob_match(tn_bytes_of(pattern, patterns[i].len),
                                            tn_bytes_of(name, strlen(name)))) {
                wanted[s] = true;
                found++;
            }
        }
    }
    struct protocol_writer w = server_reply_begin(connection);
    protocol_write_map(&w, found);
    for (unsigned s = 0; s < SETTINGS; s++) {
        if (wanted[s]) {
            protocol_pair_text(&w, settings[s][0], settings[s][1]);
        }
    }
    server_reply_end(connection, &w);
}

enum server_step session_config_get(struct server_connection *connection,
                                    const struct tn_bytes *argv, uint32_t argc) {
    if (session_words_fit(connection, argc)) {
        config_get(connection, argv + 2, argc - 2);
    }
    return SERVER_DONE;
}

/* ---- CLIENT LIST, CLIENT KILL ---- */

static void client_line(const struct server_connection *c, struct tn_writer *w) {
    char address[TRANSPORT_PEER_MAX];
    char command[PROTOCOL_NAME_MAX] = "NULL";
    uint64_t now = uv_now(c->client.owners->loop);
    transport_name(&c->transport, address);
    if (c->last_command != NULL) {
        protocol_command_full_name(c->last_command, command);
    }
    line(w, "id=%" PRIu64 " addr=%s name=%s age=%" PRIu64 " idle=%" PRIu64 " flags=%c db=0 ", c->id,
         address, c->name, (now - c->created_ms) / 1000, (now - c->active_ms) / 1000,
         c->subscriber != NULL ? 'P' : 'N');
    line(w, "sub=%u psub=%u ", c->subscriber != NULL ? c->subscriber->channels : 0,
         c->subscriber != NULL ? c->subscriber->patterns : 0);
    line(w, "qbuf=%u omem=%zu inflight=%u cmd=%s user=%s resp=%u lib-name=%s lib-ver=%s\n",
         c->in_len, server_output_waiting(c), c->client.inflight, command,
         c->client.login.user != NULL ? c->client.login.user->name : "default",
         c->client.encoding == PROTOCOL_RESP3 ? 3 : 2, c->library, c->library_version);
}

/* As many lines as fit into a reply, the newest connections first. */
enum server_step session_client_list(struct server_connection *connection,
                                     const struct tn_bytes *argv, uint32_t argc) {
    uint8_t *text = malloc(SERVER_REPLY_MAX - 64);
    struct tn_writer w = tn_writer_of(text, text != NULL ? SERVER_REPLY_MAX - 64 : 0);
    (void)argv;
    (void)argc;
    for (const struct server_connection *c =
             LIST_FIRST(&connection->client.owners->connections->live);
         c != NULL; c = LIST_NEXT(c, place)) {
        size_t before = w.len;
        client_line(c, &w);
        if (w.overflow) {
            w.len = before;
            break;
        }
    }
    reply_text(connection, &w);
    free(text);
    return SERVER_DONE;
}

/* CLIENT KILL address, CLIENT KILL ID id, CLIENT KILL ADDR address. */
enum server_step session_client_kill(struct server_connection *connection,
                                     const struct tn_bytes *argv, uint32_t argc) {
    bool by_id = argc == 4 && protocol_word_is(argv[2], "ID", 2);
    bool by_address = argc == 3 || (argc == 4 && protocol_word_is(argv[2], "ADDR", 4));
    struct tn_bytes what = argv[argc - 1];
    uint64_t id = 0;
    uint64_t killed = 0;
    if ((!by_id && !by_address) || (by_id && !kernel_value_parse(KERNEL_DEC, what, &id))) {
        server_reply_error(connection, "ERR syntax error");
        return SERVER_DONE;
    }
    for (struct server_connection *c = LIST_FIRST(&connection->client.owners->connections->live);
         c != NULL; c = LIST_NEXT(c, place)) {
        char address[TRANSPORT_PEER_MAX] = "";
        if (by_address) {
            transport_name(&c->transport, address);
        }
        if (c->closing ||
            (by_id ? c->id != id : !tn_bytes_equal(what, tn_bytes_of(address, strlen(address))))) {
            continue;
        }
        killed++;
        if (c == connection) {
            c->leaving = true; /* after this reply */
        } else {
            server_connection_close(c);
        }
    }
    if (argc == 3 && killed == 0) {
        server_reply_error(connection, "ERR No such client");
        return SERVER_DONE;
    }
    struct protocol_writer w = server_reply_begin(connection);
    if (argc == 3) {
        protocol_write_simple(&w, "OK");
    } else {
        protocol_write_u64(&w, killed);
    }
    server_reply_end(connection, &w);
    return SERVER_DONE;
}
