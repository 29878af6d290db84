/* The network between clients and the server: late, lossy, and fond of repeating itself. */
#include <string.h>

#include "sim/world.h"

#define LATE_MS 6000u

static struct world_message *message_new(struct world *w) {
    for (unsigned i = 0; i < WORLD_MESSAGES; i++) {
        if (!w->messages[i].used) {
            w->messages[i] = (struct world_message){.used = true};
            return &w->messages[i];
        }
    }
    return NULL; /* counts as lost */
}

/* How long it takes, or that it never arrives. */
static bool message_travels(struct world *w, struct world_message *m) {
    uint32_t late = world_below(w, LATE_MS);
    m->at_ms = w->true_ms + world_below(w, 20);
    if (world_trouble(w, WORLD_NETWORK, 60)) {
        m->at_ms = w->true_ms + late;
    }
    m->used = !world_trouble(w, WORLD_NETWORK, 60);
    return m->used;
}

static void message_send(struct world *w, const struct world_message *content) {
    unsigned copies = world_trouble(w, WORLD_NETWORK, 60) ? 2 : 1;
    for (unsigned i = 0; i < copies; i++) {
        struct world_message *m = message_new(w);
        if (m != NULL) {
            *m = *content;
            (void)message_travels(w, m);
        }
    }
}

void world_network_send(struct world *w, unsigned client, uint32_t number, struct tn_bytes bytes) {
    struct world_message m = {.client = client, .number = number, .len = bytes.len};
    TN_ASSERT(bytes.len <= sizeof m.bytes);
    memcpy(m.bytes, bytes.at, bytes.len);
    message_send(w, &m);
}

void world_network_reply(struct world *w, unsigned client, uint32_t number,
                         const struct model_result *result) {
    struct world_message m = {.reply = true, .client = client, .number = number, .result = *result};
    message_send(w, &m);
}

struct world_request *world_group_add(struct world *w, unsigned client, uint32_t number,
                                      struct tn_bytes bytes) {
    if (w->group_count == WORLD_GROUP || bytes.len > GENERATE_BYTES) {
        return NULL;
    }
    struct world_request *q = &w->group[w->group_count++];
    *q = (struct world_request){.client = client, .number = number, .len = bytes.len};
    memcpy(q->bytes, bytes.at, bytes.len);
    return q;
}

void world_network_deliver(struct world *w) {
    for (unsigned i = 0; i < WORLD_MESSAGES; i++) {
        struct world_message *m = &w->messages[i];
        if (!m->used || m->at_ms > w->true_ms) {
            continue;
        }
        m->used = false;
        if (m->reply) {
            struct world_message reply = *m;
            world_client_hear(w, reply.client, reply.number, &reply.result);
        } else if (w->engine != NULL) { /* else the connection is refused */
            (void)world_group_add(w, m->client, m->number, tn_bytes_of(m->bytes, m->len));
        }
    }
}
