/* What a crash may leave: at a point of a tape, everything that the crash decides, and the disk that
 * each decision gives.
 *
 * What it believes about disks is what fakeos.h says, taken to the end: every unsynced sector by itself
 * is as it was, as any of the writes since made it, or garbage, with the physical sector around it or
 * without; every unsynced size, and every unsynced
 * change of a name, is there or not, in any selection. A directory that is not there takes what is
 * in it with it. After a sync that failed all this stays open for ever: no later sync settles it,
 * but only new writes and names do. */
#ifndef TESTS_CRASH_AFTER_H
#define TESTS_CRASH_AFTER_H

#include "crash/image.h"

#define VERSIONS_MAX 6
#define CHOICES_MAX 1024

/* Picks beyond the versions, for sectors only. PICK_PHYSICAL: the disk was rewriting the whole physical
 * sector around it and has lost all of that, what was synced before included; for the files of the
 * log only, which promise to survive it. */
enum { PICK_GARBAGE = 60, PICK_HALF = 61, PICK_PHYSICAL = 62 };

enum choice_kind { CHOICE_SECTOR, CHOICE_SIZE, CHOICE_NAME };

/* One thing that the crash decides. Pick 0 is the durable version, pick n the n-th version
 * since. */
struct choice {
    enum choice_kind kind;
    int inode;
    size_t sector;
    size_t change;    /* of a name */
    unsigned options; /* at least 2 */
    size_t versions[VERSIONS_MAX];
};

struct after;

struct after *after_new(const struct image *image);
void after_free(struct after *after);
void after_apply(struct after *after, const struct tape_op *op);

/* Whether the file is one of the log, so that PICK_PHYSICAL may be picked for its sectors. */
bool after_is_log(const struct after *after, int inode);

/* All that is open now; valid until the next apply. */
const struct choice *after_choices(struct after *after, size_t *ret_count);

/* The same for the same visible contents, whatever led to them. */
uint64_t after_hash(struct after *after, const uint8_t *picks);
/* Freed by image_free. */
void after_image(struct after *after, const uint8_t *picks, struct image *ret_image);

#endif
