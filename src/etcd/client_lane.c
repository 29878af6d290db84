/* Which endpoint, which connection.
 *
 *   ACTIVE dies, is silent or is left            the next endpoint is tried
 *   ACTIVE says that another member leads        BETTER is opened towards it, and replaces ACTIVE when
 *                                                that member says of itself that it leads
 *   ACTIVE was replaced, or the server wants     OLD: its calls end there
 *   to close it */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "etcd/client_parts.h"

#define BACKOFF_MS_MIN 50u
#define DRAIN_MS 10000u
/* Between two attempts to reach a leader that cannot be reached from here. */
#define BETTER_PAUSE_MS 5000u

/* ---- Opening and closing ---- */

static void lane_open(struct etcd_client *client, struct client_lane *lane, unsigned endpoint) {
    struct etcd_link_options options = {
        .endpoint = &client->endpoints[endpoint],
        .files = {.ca = client->options.ca_file,
                  .certificate = client->options.certificate_file,
                  .key = client->options.key_file},
        .answer_bytes_max = client->options.answer_bytes_max,
        .ready_by_ms = client->now_ms + client->options.connect_ms,
    };
    TN_ASSERT(lane->link == NULL && lane->probe.state == CLIENT_FREE);
    lane->endpoint = endpoint;
    lane->connection = lane->member_id = lane->leader = 0;
    lane->version[0] = '\0';
    lane->probe_next_ms = 0;
    lane->link = etcd_link_open(&options);
}

/* Its streams end, which marks their calls and watches. */
static void lane_close(struct client_lane *lane) {
    if (lane->link != NULL) {
        etcd_link_close(lane->link);
        lane->link = NULL;
    }
    lane->connection = 0;
    lane->probe.state = CLIENT_FREE;
}

/* Moves a lane with everything but the memory of its probe, which stays where it is. */
static void lane_move(struct client_lane *to, struct client_lane *from) {
    TN_ASSERT(to->link == NULL);
    etcd_session_detach(&from->probe.stream);
    from->probe.state = CLIENT_FREE;
    to->link = from->link;
    to->endpoint = from->endpoint;
    to->connection = from->connection;
    to->member_id = from->member_id;
    to->leader = from->leader;
    to->db_bytes = from->db_bytes;
    memcpy(to->version, from->version, sizeof to->version);
    to->probe_next_ms = 0;
    to->heard_ms = from->heard_ms;
    from->link = NULL;
    from->connection = 0;
}

static void lane_retire(struct etcd_client *client) {
    struct client_lane *old = &client->lanes[LANE_OLD];
    lane_close(old);
    lane_move(old, &client->lanes[LANE_ACTIVE]);
    old->drain_by_ms = client->now_ms + DRAIN_MS;
}

void client_trouble(struct etcd_client *client, enum etcd_reason reason, const char *text) {
    client->trouble = reason;
    if (text != client->trouble_text) {
        (void)snprintf(client->trouble_text, sizeof client->trouble_text, "%s", text);
    }
}

void client_answered(struct etcd_client *client) {
    client->failures = 0;
    client->trouble = ETCD_NONE;
    client->trouble_text[0] = '\0';
}

/* Leaves the endpoint for the next one, after a pause if all of them have failed. */
static void endpoint_failed(struct etcd_client *client, unsigned endpoint, enum etcd_reason reason,
                            const char *text) {
    char message[ETCD_MESSAGE_MAX];
    (void)snprintf(message, sizeof message, "%.100s: %.140s", client->endpoints[endpoint].authority,
                   text[0] != '\0' ? text : etcd_reason_text(reason));
    client_trouble(client, reason, message);
    client->endpoint_next = (endpoint + 1) % client->endpoint_count;
    client->connect_at_ms = client->now_ms;
    if (++client->failures % client->endpoint_count == 0) {
        unsigned rounds = client->failures / client->endpoint_count - 1;
        uint64_t pause_ms = (uint64_t)BACKOFF_MS_MIN << (rounds < 16 ? rounds : 16);
        client->connect_at_ms += client_min(pause_ms, client->options.backoff_ms_max);
    }
}

static void active_fail(struct etcd_client *client, enum etcd_reason reason, const char *text) {
    struct client_lane *lane = &client->lanes[LANE_ACTIVE];
    endpoint_failed(client, lane->endpoint, reason, text);
    lane_close(lane);
}

void client_leave(struct etcd_client *client, uint64_t connection, enum etcd_reason reason,
                  const char *text) {
    if (connection != 0 && client->lanes[LANE_ACTIVE].connection == connection) {
        active_fail(client, reason, text);
    }
}

void client_lanes_free(struct etcd_client *client) {
    for (unsigned i = 0; i < LANE_COUNT; i++) {
        lane_close(&client->lanes[i]);
        etcd_stream_free(&client->lanes[i].probe.stream);
    }
}

/* ---- The member behind it ---- */

static void probe_begin(struct etcd_client *client, struct client_lane *lane) {
    struct etcd_request request = {.verb = ETCD_STATUS};
    struct client_call *probe = &lane->probe;
    lane->probe_next_ms = client->now_ms + client->options.probe_ms;
    lane->heard_ms = client->now_ms;
    if (etcd_message_request(&probe->stream.out, &client->arena_out, UINT32_MAX, &request) !=
        TN_OK) {
        return;
    }
    probe->stream.events = &client_call_events;
    probe->stream.path = etcd_message_path(ETCD_STATUS);
    (void)client_call_send(client, lane, probe);
}

/* The endpoint of the leader if it is known, else one whose member is not known; -1: none. */
static int better_endpoint(const struct etcd_client *client, uint64_t leader) {
    int unknown = -1;
    for (unsigned i = 0; i < client->endpoint_count; i++) {
        if (i == client->lanes[LANE_ACTIVE].endpoint) {
            continue;
        }
        if (client->member_ids[i] == leader) {
            return (int)i;
        }
        if (client->member_ids[i] == 0 && unknown < 0) {
            unknown = (int)i;
        }
    }
    return unknown;
}

static void follow_leader(struct etcd_client *client) {
    const struct client_lane *active = &client->lanes[LANE_ACTIVE];
    struct client_lane *better = &client->lanes[LANE_BETTER];
    if (!client->options.prefer_leader || active->leader == 0 ||
        active->leader == active->member_id || better->link != NULL || client_has_watches(client) ||
        client->now_ms < client->better_at_ms) {
        return;
    }
    int endpoint = better_endpoint(client, active->leader);
    if (endpoint >= 0) {
        lane_open(client, better, (unsigned)endpoint);
    }
}

/* The member of the lane has reported its state. */
static void better_judge(struct etcd_client *client) {
    struct client_lane *better = &client->lanes[LANE_BETTER];
    if (better->leader != better->member_id || client_has_watches(client)) {
        lane_close(better); /* the next status of ACTIVE names another one to try */
        return;
    }
    if (client->lanes[LANE_ACTIVE].link != NULL) {
        lane_retire(client);
    }
    lane_move(&client->lanes[LANE_ACTIVE], better);
}

static void probe_ended(struct etcd_client *client, unsigned kind) {
    struct client_lane *lane = &client->lanes[kind];
    struct etcd_verdict verdict = etcd_verdict_of(&lane->probe.stream.end);
    struct etcd_answer answer = {0};
    struct tn_bytes message;
    lane->probe.state = CLIENT_FREE;
    if (verdict.outcome != ETCD_DONE || !client_call_message(&lane->probe, &message) ||
        !etcd_message_answer(&answer, &client->arena_in, ETCD_STATUS, message)) {
        if (kind == LANE_ACTIVE) {
            active_fail(client, verdict.outcome == ETCD_DONE ? ETCD_PROTOCOL : verdict.reason,
                        lane->probe.stream.end.message);
        } else {
            lane_close(lane);
        }
        return;
    }
    lane->member_id = client->member_ids[lane->endpoint] = answer.header.member_id;
    lane->leader = answer.status.leader;
    lane->db_bytes = answer.status.db_bytes;
    (void)snprintf(lane->version, sizeof lane->version, "%.*s", (int)answer.status.version.len,
                   (const char *)answer.status.version.at);
    if (kind == LANE_BETTER) {
        better_judge(client);
    } else if (kind == LANE_ACTIVE) {
        follow_leader(client);
    }
}

/* ---- One step ---- */

static void lane_died(struct etcd_client *client, unsigned kind) {
    struct client_lane *lane = &client->lanes[kind];
    if (kind == LANE_ACTIVE) {
        char text[ETCD_MESSAGE_MAX];
        (void)snprintf(text, sizeof text, "%s", etcd_link_error(lane->link));
        active_fail(client, etcd_link_reason(lane->link), text);
        return;
    }
    if (kind == LANE_BETTER) {
        client->better_at_ms = client->now_ms + BETTER_PAUSE_MS;
    }
    lane_close(lane);
}

static bool lane_is_silent(const struct etcd_client *client, const struct client_lane *lane) {
    return lane->probe.state == CLIENT_SENT &&
           client->now_ms - lane->heard_ms >= client->options.silence_ms;
}

/* Works on a ready lane. True: something was sent, or the lane was closed. */
static bool lane_look(struct etcd_client *client, unsigned kind) {
    struct client_lane *lane = &client->lanes[kind];
    if (etcd_link_is_closing(lane->link)) {
        if (kind == LANE_ACTIVE) {
            endpoint_failed(client, lane->endpoint, ETCD_LOST, "the server is closing");
            lane_retire(client);
        } else {
            lane_close(lane);
        }
        return true;
    }
    if (lane->connection == 0) {
        lane->connection = ++client->connections;
        if (kind == LANE_ACTIVE && client->trouble != ETCD_DENIED) {
            client_trouble(client, ETCD_NONE, "");
        }
    }
    if (lane->probe.state == CLIENT_FREE && client->now_ms >= lane->probe_next_ms) {
        probe_begin(client, lane);
        return true;
    }
    if (!lane_is_silent(client, lane)) {
        return false;
    }
    if (kind == LANE_ACTIVE) {
        active_fail(client, ETCD_TIMEOUT, "the member does not answer");
    } else {
        lane_close(lane);
    }
    return true;
}

static bool lane_step(struct etcd_client *client, unsigned kind) {
    struct client_lane *lane = &client->lanes[kind];
    if (lane->link == NULL) {
        return false;
    }
    bool more = etcd_link_step(lane->link, client->now_ms);
    if (etcd_link_heard(lane->link)) {
        lane->heard_ms = client->now_ms;
    }
    if (lane->probe.state == CLIENT_ENDED) {
        probe_ended(client, kind);
        return true;
    }
    if (etcd_link_is_dead(lane->link)) {
        lane_died(client, kind);
        return true;
    }
    if (kind == LANE_OLD) {
        if (etcd_session_streams(etcd_link_session(lane->link)) == 0 ||
            client->now_ms >= lane->drain_by_ms) {
            lane_close(lane);
            return true;
        }
        return more;
    }
    if (etcd_link_is_ready(lane->link) || etcd_link_is_closing(lane->link)) {
        more |= lane_look(client, kind);
    }
    return more;
}

bool client_lanes_step(struct etcd_client *client) {
    bool more = false;
    if (client->leave_now) {
        client->leave_now = false;
        if (client->lanes[LANE_ACTIVE].link != NULL) {
            active_fail(client, ETCD_CANCELED, "left on request");
        }
    }
    for (unsigned kind = 0; kind < LANE_COUNT; kind++) {
        more |= lane_step(client, kind);
    }
    if (client->lanes[LANE_ACTIVE].link == NULL && client->now_ms >= client->connect_at_ms) {
        lane_open(client, &client->lanes[LANE_ACTIVE], client->endpoint_next);
        if (client->lanes[LANE_ACTIVE].link == NULL) {
            endpoint_failed(client, client->endpoint_next, ETCD_UNREACHABLE, "out of memory");
            client->connect_at_ms = client->now_ms + BACKOFF_MS_MIN;
        } else {
            more = true;
        }
    }
    return more;
}

uint64_t client_lanes_next_ms(const struct etcd_client *client) {
    uint64_t next_ms = ETCD_NEVER;
    if (client->lanes[LANE_ACTIVE].link == NULL) {
        next_ms = client->connect_at_ms;
    }
    for (unsigned kind = 0; kind < LANE_COUNT; kind++) {
        const struct client_lane *lane = &client->lanes[kind];
        if (lane->link == NULL) {
            continue;
        }
        next_ms = client_min(next_ms, etcd_link_next_ms(lane->link));
        if (kind == LANE_OLD) {
            next_ms = client_min(next_ms, lane->drain_by_ms);
        } else if (lane->probe.state == CLIENT_SENT) {
            next_ms = client_min(next_ms, lane->heard_ms + client->options.silence_ms);
        } else if (lane->connection != 0) {
            next_ms = client_min(next_ms, lane->probe_next_ms);
        }
    }
    return next_ms;
}

unsigned client_lanes_poll(const struct etcd_client *client, struct pollfd *out, unsigned max) {
    unsigned count = 0;
    for (unsigned kind = 0; kind < LANE_COUNT && count < max; kind++) {
        const struct client_lane *lane = &client->lanes[kind];
        if (lane->link != NULL && etcd_link_poll(lane->link, &out[count])) {
            count++;
        }
    }
    return count;
}
