/* One state again, by its name; see explore.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "crash/after.h"
#include "crash/explore.h"
#include "crash/name.h"

/* What the disk is, and what was promised, before the next start. */
struct replay {
    struct workload work;
    struct tape *tape;
    struct ledger *ledger;
    struct image image;
    bool has_image;
    const struct ledger_batch *tip;
    size_t acked;
};

/* The last operations before the power went. */
static void ops_print(const struct tape_op *ops, size_t last) {
    static const char *const kinds[] = {"write", "resize", "sync", "sync failed", "name", "note"};
    for (size_t op = last < 40 ? 0 : last - 40; op <= last; op++) {
        const struct tape_op *at = &ops[op];
        fprintf(stderr, "  %4zu %s", op, kinds[at->kind]);
        if (at->kind == TAPE_NOTE) {
            const struct ledger_batch *tip = at->tip;
            fprintf(stderr, " %zu of %zu\n", at->acked, tip == NULL ? 0 : tip->number);
        } else if (at->kind == TAPE_NAME) {
            fprintf(stderr, " %s -> %s, inode %d\n", at->from, at->to, at->inode);
        } else {
            fprintf(stderr, " inode %d %s sectors %zu+%zu, %zu bytes in all\n", at->inode, at->to,
                    at->first, at->count, at->size);
        }
    }
}

/* Cuts the tape at the operation that the name says. */
static bool replay_cut(struct replay *r, const char **at) {
    size_t wanted;
    size_t given;
    size_t count;
    static uint8_t picks[CHOICES_MAX];
    if (!name_read_state(at, &wanted, picks, CHOICES_MAX, &given)) {
        return false;
    }
    const struct tape_op *ops = tape_ops(r->tape, &count);
    if (wanted >= count) {
        return false;
    }
    struct after *after = after_new(r->has_image ? &r->image : NULL);
    for (size_t op = 0; op <= wanted; op++) {
        after_apply(after, &ops[op]);
        if (ops[op].kind == TAPE_NOTE) {
            r->acked = ops[op].acked;
            r->tip = ops[op].tip;
        }
    }
    size_t choices;
    (void)after_choices(after, &choices);
    bool fits = choices == given;
    if (fits) {
        struct image image;
        after_image(after, picks, &image);
        image_free(&r->image);
        r->image = image;
        r->has_image = true;
        ops_print(ops, wanted);
        fprintf(stderr, "operation %zu of %zu: %zu acknowledged, %zu tried, %d names\n", wanted,
                count, r->acked, r->tip == NULL ? 0 : r->tip->number, image.names.count);
        for (int i = 0; i < image.names.count; i++) {
            const struct blob *blob = image.blobs[image.names.at[i].inode];
            fprintf(stderr, "  %s %zu\n", image.names.at[i].path, blob == NULL ? 0 : blob->size);
        }
    }
    after_free(after);
    return fits;
}

static bool replay_start(struct replay *r, char start) {
    struct ledger *fork = calloc(1, sizeof *fork);
    TN_ASSERT(fork != NULL);
    ledger_fork(fork, r->ledger, r->tip, r->acked);
    struct ledger before;
    ledger_fork(&before, r->ledger, r->tip, r->acked);
    struct tape *tape = tape_new(&r->image, r->image.hash + (uint64_t)start);
    struct workload_result result;
    bool right = workload_start(&r->work, tape, fork, (enum workload_start)start, &result);
    fprintf(stderr, "start %c: %s, %zu batches%s%s\n", start, right ? "right" : "WRONG",
            result.loaded, right ? "" : ": ", result.text);
    bool fits = right && result.loaded >= before.acked && result.loaded <= before.tried &&
                ledger_hash(&before, result.loaded) == result.hash;
    ledger_free(&before);
    r->tape = tape; /* the tapes before it stay: they are few, and the process ends */
    r->ledger = fork;
    return fits;
}

bool explore_replay(const char *name) {
    static struct replay r;
    char *after_seed;
    enum workload_kind kind = WORKLOAD_LOG;
    const char *slash = strchr(name, '/');
    if (slash == NULL) {
        return false;
    }
    while (kind < WORKLOAD_COUNT &&
           (strlen(workload_name(kind)) != (size_t)(slash - name) ||
            strncmp(name, workload_name(kind), (size_t)(slash - name)) != 0)) {
        kind += 1;
    }
    uint64_t seed = strtoull(slash + 1, &after_seed, 10);
    if (kind == WORKLOAD_COUNT || strncmp(after_seed, "/w", 2) != 0) {
        return false;
    }
    workload_run(&r.work, kind, seed);
    r.tape = r.work.tape;
    r.ledger = &r.work.ledger;
    const char *at = after_seed + 2;
    bool right = true;
    while (right && *at != '\0') {
        right = replay_cut(&r, &at);
        if (right && *at == '/') {
            right = replay_start(&r, at[1]);
            at += 2;
        }
    }
    return right;
}
