/* Drives a client from a thread that has nothing else to wait for. */
#ifndef TN_ETCD_WAIT_H
#define TN_ETCD_WAIT_H

#include "etcd/etcd.h"
#include "os/os.h"

/* Waits until a client has something to do, `wake` (a descriptor, or -1) can be read, or until_ms of
 * os->clock_boot_ms has come; then steps all clients. At most ETCD_WAIT_CLIENTS. */
#define ETCD_WAIT_CLIENTS 4u
void etcd_wait(struct etcd *const *clients, unsigned count, const struct os *os, int wake,
               uint64_t until_ms);

#endif
