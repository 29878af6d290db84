/* NODE LIST, STEP-DOWN, CLOSE and FORGET: commands of administrators about the nodes of a
 * cluster. */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "engine/engine.h"
#include "protocol/render.h"
#include "server/answer.h"
#include "server/jobs.h"
#include "server/log_line.h"
#include "server/owners.h"
#include "server/server.h"
#include "server/server_role.h"
#include "server/slots.h"

/* ---- NODE LIST ---- */

static void node_write(struct protocol_writer *w, const struct log_node *node, bool owner) {
    bool down = !node->self && node->age_ms > SERVER_NODE_DOWN_MS;
    protocol_write_map(w, 7);
    protocol_pair_text(w, "name", node->name);
    protocol_pair_text(w, "role", owner ? "owner" : down ? "down" : "follower");
    protocol_pair_text(w, "address", node->address);
    protocol_pair_text(w, "http", node->http);
    protocol_pair_number(w, "lsn", node->applied_lsn);
    protocol_pair_number(w, "age_ms", node->age_ms);
    protocol_pair_flag(w, "self", node->self);
}

/* Without a cluster, or before etcd has answered for the first time, this server shows itself as the only node. */
static void self_write(const struct server_cluster *cluster, struct log_node *ret_node) {
    bool clustered = cluster->node != NULL;
    *ret_node = (struct log_node){.self = true};
    (void)snprintf(ret_node->name, sizeof ret_node->name, "%s",
                   clustered ? cluster->node : "local");
    if (clustered) {
        (void)snprintf(ret_node->address, sizeof ret_node->address, "%s", cluster->address);
        (void)snprintf(ret_node->http, sizeof ret_node->http, "%s", cluster->http);
    }
}

enum tn_result read_nodes(struct server_request *request) {
    struct server_owners *owners = request->owners;
    struct protocol_writer *w = request->w;
    struct log_node nodes[LOG_NODES_MAX];
    struct engine_stats stats;
    uint32_t count = engine_nodes(owners->engine, nodes, LOG_NODES_MAX);
    engine_stats_read(owners->engine, &stats);
    server_role_refresh(owners->role, owners->engine);
    if (count == 0) {
        self_write(&owners->options->cluster, &nodes[count++]);
    }
    protocol_write_map(w, 3);
    protocol_write_text(w, "nodes");
    protocol_write_array(w, count);
    for (uint32_t i = 0; i < count; i++) {
        struct log_node *node = &nodes[i];
        if (node->self) {
            node->applied_lsn = stats.lsn;
            node->age_ms = 0;
        }
        node_write(w, node,
                   node->self ? !owners->role->follows
                              : owners->role->leader[0] != '\0' &&
                                    strcmp(node->address, owners->role->leader) == 0);
    }
    protocol_pair_number(w, "stale_ms", stats.log.stale_ms);
    protocol_pair_number(w, "lsn", stats.lsn);
    request->lsn = stats.lsn;
    return TN_R_OK;
}

/* ---- What changes something ---- */

static void work_run(uv_work_t *work) {
    struct server_owners *owners = work->data;
    owners->jobs->node.status = owners->jobs->node.call(
        owners->options->cluster.ctx, owners->jobs->node.node, &owners->jobs->node.error);
}

static void work_done(uv_work_t *work, int status) {
    struct server_owners *owners = work->data;
    struct server_slot *slot = owners->jobs->node.slot;
    struct protocol_writer w = server_slot_writer(slot);
    const char *name = slot->row->sub;
    TN_ASSERT(status == 0); /* libuv never cancels it */
    owners->jobs->node.slot = NULL;
    if (owners->jobs->node.status == TN_OK) {
        slot->answer.http_status = 200;
        protocol_write_map(&w, 1);
        protocol_pair_text(&w, "result", "OK");
        server_log("node_command", "command=%s node=%s", name, owners->jobs->node.node);
    } else {
        enum tn_result code = owners->jobs->node.status == TN_NOTFOUND ? TN_R_NOTFOUND
                              : owners->jobs->node.status == TN_LOST   ? TN_R_MASTERDOWN
                                                                       : TN_R_OVERLOADED;
        slot->answer.code = code;
        slot->answer.http_status = (uint16_t)tn_result_http(code);
        char detail[200];
        (void)snprintf(detail, sizeof detail, "%.190s", owners->jobs->node.error.text);
        protocol_render_refusal(&w, code, detail);
        server_log("node_command_failed", "command=%s node=%s reason=\"%s\"", name,
                   owners->jobs->node.node, detail);
    }
    server_answer_job(owners, slot, &w);
}

static void work_begin(struct server_request *request,
                       enum tn_status (*call)(void *, const char *, struct log_error *)) {
    struct server_owners *owners = request->owners;
    struct tn_bytes name = request->call.command.name;
    if (call == NULL) {
        server_slot_refuse(request->slot, TN_R_BAD_REQUEST,
                           "this server is not a node of a cluster");
    } else if (owners->jobs->node.slot != NULL) {
        server_slot_refuse(request->slot, TN_R_OVERLOADED,
                           "another command about nodes is being executed; try again");
    } else if (name.len > LOG_NODE_MAX) {
        server_slot_refuse(request->slot, TN_R_BAD_NAME, "a node has a name of at most 52 bytes");
    } else {
        (void)snprintf(owners->jobs->node.node, sizeof owners->jobs->node.node, "%.*s",
                       (int)name.len, name.len > 0 ? (const char *)name.at : "");
        owners->jobs->node.call = call;
        owners->jobs->node.slot = request->slot;
        owners->jobs->node.error.text[0] = '\0';
        owners->jobs->node.work.data = owners;
        (void)uv_queue_work(owners->loop, &owners->jobs->node.work, work_run, work_done);
    }
}

void job_node_close(struct server_request *request) {
    work_begin(request, request->owners->options->cluster.close);
}

void job_node_forget(struct server_request *request) {
    work_begin(request, request->owners->options->cluster.forget);
}

void job_node_step_down(struct server_request *request) {
    work_begin(request, request->owners->options->cluster.step_down);
}
