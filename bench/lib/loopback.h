/* Connections to servers on this machine. */
#ifndef TN_BENCH_LOOPBACK_H
#define TN_BENCH_LOOPBACK_H

#include <stdint.h>

/* Connects to a port of 127.0.0.1 and sends small packets at once. Negative: errno tells why not. */
int loopback_connect(uint16_t port);

#endif
