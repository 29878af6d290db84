/* Spares: files ready to become segments, made ahead of time so that an append never waits for
 * sixteen megabytes of zeros.
 *
 * A spare is a file of full size whose every block is written and synced. It is either filled with
 * zeros by the background thread (or by the thread that needs it, if there is none or it is late), or a
 * segment that no snapshot needs any more. At most LOG_SPARES_MAX are kept.
 *
 * States of one spare, each under its own name:
 *
 *     spare-N.tmp --filled, synced--> spare-N.log --taken, header synced--> SEQ.log
 *                                          ^                                  |
 *                                          +--retired, directory synced-------+
 *
 * The directory is synced before a retired segment is given here: otherwise a crash could bring its
 * old name back after its bytes belong to a new segment. */
#ifndef TN_LOG_SPARE_H
#define TN_LOG_SPARE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "log/dir.h"

#define LOG_SPARES_MAX 2

struct log_spare {
    uint64_t number;
    bool recycled; /* holds bytes of an earlier life, not zeros */
    int file;      /* open for writing since it was made; -1 if that was not possible */
};

struct log_spares {
    const struct log_dir *dir;
    uint64_t segment_bytes;
    uint64_t reserve_bytes;

    pthread_mutex_t mutex; /* guards all below; never held during I/O */
    pthread_cond_t changed;
    pthread_t thread;
    bool thread_running;
    struct log_spare ready[LOG_SPARES_MAX];
    unsigned count;
    uint64_t number_next;
    bool filling; /* a thread is making one */
    bool wanted;  /* the background thread should have one ready */
    bool stop;
};

void log_spares_init(struct log_spares *spares, const struct log_dir *dir, uint64_t segment_bytes,
                     uint64_t reserve_bytes);
/* Ends the thread, if there is one, and closes the spares; the files stay for the next start. */
void log_spares_destroy(struct log_spares *spares);

/* From now on a thread keeps one spare ready. Failing to start it costs speed, nothing else. */
void log_spares_background(struct log_spares *spares);

/* Numbers up to this one are in use on disk. */
void log_spares_reserve_number(struct log_spares *spares, uint64_t number);

/* A number for a file that is about to be retired, if there is room for it besides `promised`
 * others that have been offered and not yet given. */
bool log_spares_offer(struct log_spares *spares, unsigned promised, uint64_t *ret_number);
/* The offered file now is spare-N.log, durably. */
void log_spares_give(struct log_spares *spares, uint64_t number);

/* Takes a spare, making one if there is none. The file is spare-N.log and the caller's.
 * `bytes` is its size: another than the usual one is always made afresh. `urgent` may use the
 * reserved space. TN_NOSPACE leaves nothing behind. */
enum tn_status log_spares_take(struct log_spares *spares, uint64_t bytes, bool urgent,
                               struct log_spare *ret_spare);

/* One that was taken and did not become a segment: better gone than used half written. */
void log_spares_discard(struct log_spares *spares, const struct log_spare *spare);

#endif
