/* Making, keeping and handing out spares; the states are in spare.h. */
#include "log/spare.h"

#include <signal.h>
#include <string.h>

#include "base/assert.h"

/* Zeros are synced in steps of this size, so that the sync of an append waits for one step at most,
 * not for a whole segment. */
#define SPARE_STEP_BYTES ((size_t)1 << 20)

static const uint8_t spare_zeros[SPARE_STEP_BYTES];

static void spares_lock(struct log_spares *spares) {
    int rc = pthread_mutex_lock(&spares->mutex);
    TN_ASSERT(rc == 0);
}

static void spares_unlock(struct log_spares *spares) {
    int rc = pthread_mutex_unlock(&spares->mutex);
    TN_ASSERT(rc == 0);
}

void log_spares_init(struct log_spares *spares, const struct log_dir *dir, uint64_t segment_bytes,
                     uint64_t reserve_bytes) {
    TN_ASSERT(segment_bytes > 0);
    memset(spares, 0, sizeof *spares);
    spares->dir = dir;
    spares->segment_bytes = segment_bytes;
    spares->reserve_bytes = reserve_bytes;
    spares->number_next = 1;
    int rc = pthread_mutex_init(&spares->mutex, NULL);
    TN_ASSERT(rc == 0);
    rc = pthread_cond_init(&spares->changed, NULL);
    TN_ASSERT(rc == 0);
}

void log_spares_destroy(struct log_spares *spares) {
    if (spares->thread_running) {
        spares_lock(spares);
        spares->stop = true;
        pthread_cond_broadcast(&spares->changed);
        spares_unlock(spares);
        int rc = pthread_join(spares->thread, NULL);
        TN_ASSERT(rc == 0);
    }
    for (unsigned i = 0; i < spares->count; i++) {
        if (spares->ready[i].file >= 0) {
            (void)spares->dir->os->close(spares->dir->os->ctx, spares->ready[i].file);
        }
    }
    pthread_cond_destroy(&spares->changed);
    pthread_mutex_destroy(&spares->mutex);
}

/* The syncs are for the speed of what comes later, not for safety: header and first batch of a segment
 * are synced, with all of its zeros, before it gets its name. Without them that one sync would write
 * the whole file while a client waits. */
static enum tn_status spare_fill(const struct log_dir *dir, int file, uint64_t bytes) {
    const struct os *os = dir->os;
    for (uint64_t offset = 0; offset < bytes; offset += SPARE_STEP_BYTES) {
        uint64_t left = bytes - offset;
        size_t step = left < SPARE_STEP_BYTES ? (size_t)left : SPARE_STEP_BYTES;
        enum tn_status status = os->write_at(os->ctx, file, spare_zeros, step, offset);
        if (status == TN_OK) {
            status = os->sync(os->ctx, file);
        }
        if (status != TN_OK) {
            return status;
        }
    }
    return TN_OK;
}

/* Checked before anything is written: on a full disk, every refused append comes here, and must
 * not fill the last bytes with zeros each time. If the system cannot tell, the writes will be
 * refused. */
static bool spare_space(const struct log_spares *spares, uint64_t bytes) {
    const struct os *os = spares->dir->os;
    uint64_t space = 0;
    if (os->space_free(os->ctx, spares->dir->path, &space) != TN_OK) {
        return true;
    }
    return space >= bytes && space - bytes >= spares->reserve_bytes;
}

/* It stays open: when its time comes, no descriptor needs to be free. */
static enum tn_status spare_make(const struct log_spares *spares, uint64_t number, uint64_t bytes,
                                 bool urgent, struct log_spare *ret_spare) {
    const struct log_dir *dir = spares->dir;
    if (!urgent && !spare_space(spares, bytes)) {
        return TN_NOSPACE;
    }
    char tmp[LOG_NAME_MAX];
    char name[LOG_NAME_MAX];
    log_spare_tmp_name(number, tmp);
    log_spare_name(number, name);
    int file;
    enum tn_status status = log_dir_open(dir, tmp, OS_WRITE | OS_CREATE | OS_TRUNCATE, &file);
    if (status != TN_OK) {
        return status;
    }
    status = spare_fill(dir, file, bytes);
    if (status == TN_OK) {
        status = log_dir_rename(dir, tmp, name);
    }
    if (status != TN_OK) {
        (void)dir->os->close(dir->os->ctx, file);
        (void)log_dir_remove(dir, tmp);
        return status;
    }
    *ret_spare = (struct log_spare){.number = number, .file = file};
    return TN_OK;
}

void log_spares_discard(struct log_spares *spares, const struct log_spare *spare) {
    const struct os *os = spares->dir->os;
    char name[LOG_NAME_MAX];
    log_spare_name(spare->number, name);
    if (spare->file >= 0) {
        (void)os->close(os->ctx, spare->file);
    }
    (void)log_dir_remove(spares->dir, name);
}

/* Puts a spare on the shelf, or removes its file if the shelf is full. */
static void spares_keep(struct log_spares *spares, struct log_spare spare) {
    spares_lock(spares);
    TN_ASSERT(spare.number > 0 && spare.number < spares->number_next);
    bool room = spares->count < LOG_SPARES_MAX;
    if (room) {
        spares->ready[spares->count] = spare;
        spares->count += 1;
    }
    pthread_cond_broadcast(&spares->changed);
    spares_unlock(spares);
    if (!room) {
        log_spares_discard(spares, &spare);
    }
}

static void *spares_main(void *ctx) {
    struct log_spares *spares = ctx;
    spares_lock(spares);
    while (!spares->stop) {
        if (!spares->wanted || spares->filling || spares->count > 0) {
            pthread_cond_wait(&spares->changed, &spares->mutex);
            continue;
        }
        /* One attempt for each request: on a full disk, the appender, which reports to its caller,
         * is the one to try again. */
        spares->wanted = false;
        spares->filling = true;
        uint64_t number = spares->number_next;
        spares->number_next += 1;
        spares_unlock(spares);
        struct log_spare spare;
        if (spare_make(spares, number, spares->segment_bytes, false, &spare) == TN_OK) {
            spares_keep(spares, spare);
        }
        spares_lock(spares);
        spares->filling = false;
        pthread_cond_broadcast(&spares->changed);
    }
    spares_unlock(spares);
    return NULL;
}

void log_spares_background(struct log_spares *spares) {
    TN_ASSERT(!spares->thread_running);
    spares->wanted = true;
    /* Signals are for the threads of the host. */
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    spares->thread_running = pthread_create(&spares->thread, NULL, spares_main, spares) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void log_spares_reserve_number(struct log_spares *spares, uint64_t number) {
    spares_lock(spares);
    if (number >= spares->number_next && number < UINT64_MAX) {
        spares->number_next = number + 1;
    }
    spares_unlock(spares);
}

bool log_spares_offer(struct log_spares *spares, unsigned promised, uint64_t *ret_number) {
    spares_lock(spares);
    bool room = spares->count + promised < LOG_SPARES_MAX;
    if (room) {
        *ret_number = spares->number_next;
        spares->number_next += 1;
    }
    spares_unlock(spares);
    return room;
}

void log_spares_give(struct log_spares *spares, uint64_t number) {
    struct log_spare spare = {.number = number, .recycled = true, .file = -1};
    char name[LOG_NAME_MAX];
    log_spare_name(number, name);
    if (log_dir_open(spares->dir, name, OS_WRITE, &spare.file) != TN_OK) {
        spare.file = -1;
    }
    spares_keep(spares, spare);
}

enum tn_status log_spares_take(struct log_spares *spares, uint64_t bytes, bool urgent,
                               struct log_spare *ret_spare) {
    TN_ASSERT(bytes >= spares->segment_bytes);
    spares_lock(spares);
    while (spares->filling) {
        pthread_cond_wait(&spares->changed, &spares->mutex);
    }
    if (bytes == spares->segment_bytes && spares->count > 0) {
        spares->count -= 1;
        *ret_spare = spares->ready[spares->count];
        spares->wanted = true;
        pthread_cond_broadcast(&spares->changed);
        spares_unlock(spares);
        return TN_OK;
    }
    uint64_t number = spares->number_next;
    spares->number_next += 1;
    spares->filling = true;
    spares_unlock(spares);

    struct log_spare spare;
    enum tn_status status = spare_make(spares, number, bytes, urgent, &spare);

    spares_lock(spares);
    spares->filling = false;
    spares->wanted = status == TN_OK;
    pthread_cond_broadcast(&spares->changed);
    spares_unlock(spares);
    if (status == TN_OK) {
        *ret_spare = spare;
    }
    return status;
}
