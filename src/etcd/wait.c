#include "etcd/wait.h"

#include <limits.h>
#include <poll.h>

#include "base/assert.h"

void etcd_wait(struct etcd *const *clients, unsigned count, const struct os *os, int wake,
               uint64_t until_ms) {
    struct pollfd fds[ETCD_WAIT_CLIENTS * ETCD_POLL_MAX + 1];
    unsigned used = 0;
    TN_ASSERT(count <= ETCD_WAIT_CLIENTS);
    for (unsigned i = 0; i < count; i++) {
        uint64_t next_ms = etcd_next_ms(clients[i]);
        until_ms = next_ms < until_ms ? next_ms : until_ms;
        used += etcd_poll_set(clients[i], fds + used, ETCD_POLL_MAX);
    }
    if (wake >= 0) {
        fds[used++] = (struct pollfd){.fd = wake, .events = POLLIN};
    }
    uint64_t now_ms = os->clock_boot_ms(os->ctx);
    uint64_t left_ms = until_ms > now_ms ? until_ms - now_ms : 0;
    /* An interrupted wait is like a wake-up: the caller checks and waits again. */
    (void)poll(fds, used, left_ms > INT_MAX ? INT_MAX : (int)left_ms);
    now_ms = os->clock_boot_ms(os->ctx);
    for (unsigned i = 0; i < count; i++) {
        etcd_step(clients[i], now_ms);
    }
}
