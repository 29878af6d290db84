/* Shared by the two files of the operating system in memory only. */
#ifndef TESTS_LIB_FAKEOS_STATE_H
#define TESTS_LIB_FAKEOS_STATE_H

#include <pthread.h>

#include "base/assert.h"
#include "lib/fakedisk.h"
#include "lib/fakeos.h"

#define HANDLES_MAX 256

struct fake_handle {
    bool used;
    bool writable;
    bool has_lock;
    int inode;
};

struct fakeos {
    struct os os;
    pthread_mutex_t mutex;
    struct fakedisk disk;
    struct fake_handle handles[HANDLES_MAX];

    uint64_t calls;
    uint64_t fail_call;
    enum tn_status fail_status;
    uint64_t cut_call;
    bool cut;
    const char *fault_name;
    uint64_t space;        /* UINT64_MAX: unlimited */
    uint64_t sector_bytes; /* what the device tells; 0: nothing */
    uint64_t reservations;
    uint64_t fail_memory; /* the reservation with this number */

    uint64_t boot_ms;
    uint64_t wall_ms;
};

static inline void fake_lock(struct fakeos *fake) {
    int rc = pthread_mutex_lock(&fake->mutex);
    TN_ASSERT(rc == 0);
}

static inline void fake_unlock(struct fakeos *fake) {
    int rc = pthread_mutex_unlock(&fake->mutex);
    TN_ASSERT(rc == 0);
}

static inline struct fake_inode *inode_at(struct fakeos *fake, int inode) {
    TN_ASSERT(inode >= 0 && (size_t)inode < fake->disk.inode_count);
    return &fake->disk.inodes[inode];
}

/* fakeos_table.c */
struct os fakeos_verbs(struct fakeos *fake);

#endif
