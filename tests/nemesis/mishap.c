/* What happens to connections and to the running server; see nm_load.h. */
#include "nemesis/mishap.h"

#include <signal.h>
#include <string.h>

#define MISHAP_EVERY 300u /* operations, on average */
#define DEAF_NS 30000000u
#define STOP_NS 20000000u

static uint64_t below(struct nm_load *load, uint64_t n) {
    return tn_prng_below(&load->random, n);
}

void nm_mishap_continue(struct nm_load *load) {
    if (load->continue_at_ns != 0) {
        load->continue_at_ns = 0;
        (void)kill(load->process.id, SIGCONT);
    }
}

/* Cuts a connection with requests in flight, the last one perhaps sent in part. */
static bool cut(struct nm_load *load, uint32_t index) {
    struct nm_client *client = &load->clients[index];
    nm_load_ask(load, index);
    if (client->out_len > 0) {
        (void)nm_client_send(client, 1 + below(load, client->out_len));
    }
    nm_load_disconnect(load, client, below(load, 2) == 0);
    load->done.cuts++;
    return nm_load_connect(load, client);
}

/* At most one snapshot in a life: with two, the log drops its beginning. The load does not wait for
 * the snapshot, so that the server may die while writing it. */
static bool snapshot(struct nm_load *load) {
    static const char request[] = "*1\r\n$8\r\nSNAPSHOT\r\n";
    if (load->snapshot_taken || !load->snapshot_wanted) {
        return true;
    }
    load->snapshot_taken = true;
    load->done.snapshots++;
    memcpy(load->operator.out, request, sizeof request - 1);
    load->operator.out_len = sizeof request - 1;
    return nm_client_send(&load->operator, sizeof request - 1) ||
           nm_load_fail(load, "cannot ask for a snapshot");
}

static bool happen(struct nm_load *load) {
    uint32_t index = (uint32_t)below(load, load->options.clients);
    uint64_t now = nm_now_ns();
    switch (below(load, 8)) {
    case 0:
    case 1:
    case 2:
        load->clients[index].deaf_until_ns = now + below(load, DEAF_NS);
        load->done.deaf++;
        return true;
    case 3:
        (void)kill(load->process.id, SIGSTOP);
        load->continue_at_ns = now + 1 + below(load, STOP_NS);
        load->done.stops++;
        return true;
    case 4:
        return snapshot(load);
    default:
        return cut(load, index);
    }
}

bool nm_mishap(struct nm_load *load) {
    if (load->continue_at_ns != 0) {
        if (nm_now_ns() >= load->continue_at_ns) {
            nm_mishap_continue(load);
        }
        return true; /* one thing at a time */
    }
    if (load->options.calm || !load->generating || load->history.op_count < load->next_mishap) {
        return true;
    }
    load->next_mishap = load->history.op_count + 1 + below(load, 2 * MISHAP_EVERY);
    return happen(load);
}
