/* Internal: the records of waiting leases (waiting.h). */
#ifndef TN_KERNEL_WAITER_H
#define TN_KERNEL_WAITER_H

#include <stdint.h>

/* A waiting lease: what it wants and how it stands in line (waiting.h). */
struct waiter {
    uint32_t lease;
    uint32_t claims; /* text: as in the command */
    uint32_t first_want;
    uint32_t op;       /* the operation that remembers the command, or TN_NONE */
    uint64_t until_ms; /* the end of its wait; never 0 in use */
    uint64_t since_ms;
    uint64_t number;      /* of the refusal */
    uint32_t claim_count; /* in `claims` */
    uint32_t total;       /* values wanted */
    uint16_t code;        /* enum tn_result: the refusal so far */
    uint8_t attended;
    uint8_t reserve; /* a RESERVE: it becomes reserved, not active */
    uint8_t rights;  /* of the command */
    uint8_t reserved[3];
    uint32_t quota; /* the command's quota; 0: none */
    uint32_t reserved2;
};

_Static_assert(sizeof(struct waiter) == 64, "a waiter is 64 bytes");

/* A place in the line of a pool. */
struct want {
    uint32_t pool;
    uint32_t next;    /* next place of the same waiter */
    uint32_t waiter1; /* + 1; never 0 in use */
};

/* Of a remembered operation. */
#define OP_UNMAPPED 1u /* expired and replaced before it was purged */
#define OP_ASIDE 2u    /* its lease waits: it is in no queue, and stays until it is answered */

#endif
