/* Disks that lie: what they claimed to have written is not there, or is elsewhere, or has rotted.
 *
 * One lie at a time, on the disk of a log that was closed, and of one that was left in the middle of its
 * work. A start from it must be right, or be refused with the name of a file and a remedy. What may
 * pass: the last batch, if nothing that follows shows that it was there, and of a log that was closed
 * not even that. One rare lie costs a few of the last ones: see tail_may_go. Prints how each ended. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the headers above first */
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crash/after.h"
#include "crash/workload.h"

#define SEEDS 12u
#define TRIES 150u

#define LIE_TABLE(X)                                            \
    X(ROT, "one bit turned")                                    \
    X(SECTOR, "a sector of garbage")                            \
    X(ZERO, "a sector of zeros")                                \
    X(LOST, "a write that never happened")                      \
    X(PART, "a write of which some sectors never happened")     \
    X(ASTRAY, "a write that went to another place of its file") \
    X(ELSEWHERE, "a write that went to another file")           \
    X(UNNAMED, "a new name, or a removal, that never happened") \
    X(GONE, "a file that is gone")                              \
    X(SHORT, "a file that has lost its end")

enum lie {
#define LIE_ENUM(name, text) LIE_##name,
    LIE_TABLE(LIE_ENUM)
#undef LIE_ENUM
        LIE_COUNT
};

static const char *const lie_texts[] = {
#define LIE_TEXT(name, text) text,
    LIE_TABLE(LIE_TEXT)
#undef LIE_TEXT
};

enum ending { RIGHT, REFUSED, LAST, TAIL, WRONG, ENDINGS };

struct scene {
    struct workload work;
    struct tn_prng prng;
    const struct tape_op *ops;
    size_t point;       /* the operation after which the machine stopped */
    size_t lied;        /* the operation that was lied about; SIZE_MAX: none */
    struct tape_op lie; /* what happened instead */
    bool skipped;       /* nothing did */
    size_t acked;
    const struct ledger_batch *tip;
    char text[700];
};

static size_t below(struct scene *scene, size_t n) {
    return (size_t)tn_prng_below(&scene->prng, n);
}

/* ---- Lies about operations ---- */

static size_t op_choose(struct scene *scene, enum tape_kind kind) {
    for (unsigned tries = 0; tries < 500; tries++) {
        size_t op = below(scene, scene->point + 1);
        /* The directory itself is another matter: without it there is nothing that could be missed. */
        bool directory = kind == TAPE_NAME && strcmp(scene->ops[op].to, "/data") == 0;
        if (scene->ops[op].kind == kind && !directory) {
            return op;
        }
    }
    return SIZE_MAX;
}

/* The same write at another place, or in the file of another write. */
static void lie_astray(struct scene *scene, bool elsewhere) {
    size_t other = op_choose(scene, TAPE_WRITE);
    if (elsewhere && other != SIZE_MAX) {
        scene->lie.inode = scene->ops[other].inode;
        scene->lie.first = scene->ops[other].first;
    } else {
        scene->lie.first = below(scene, 128 - (scene->lie.count < 128 ? scene->lie.count : 127));
    }
    scene->lie.grows = false;
}

/* Some sectors, at the front or at the end, are not written. */
static void lie_part(struct scene *scene) {
    size_t kept = below(scene, scene->lie.count);
    if (kept == 0) {
        scene->skipped = true;
    } else if (below(scene, 2) == 0) {
        scene->lie.count = kept;
    } else {
        scene->lie.first += scene->lie.count - kept;
        scene->lie.sectors += scene->lie.count - kept;
        scene->lie.count = kept;
    }
}

static void lie_plan(struct scene *scene, enum lie lie) {
    scene->lied = SIZE_MAX;
    scene->skipped = false;
    if (lie == LIE_UNNAMED) {
        scene->lied = op_choose(scene, TAPE_NAME);
        scene->skipped = true;
    } else if (lie == LIE_LOST || lie == LIE_PART || lie == LIE_ASTRAY || lie == LIE_ELSEWHERE) {
        scene->lied = op_choose(scene, TAPE_WRITE);
        scene->skipped = lie == LIE_LOST;
    }
    if (scene->lied == SIZE_MAX) {
        return;
    }
    scene->lie = scene->ops[scene->lied];
    if (lie == LIE_ASTRAY || lie == LIE_ELSEWHERE) {
        lie_astray(scene, lie == LIE_ELSEWHERE);
    } else if (lie == LIE_PART) {
        lie_part(scene);
    }
}

/* The disk at the point: everything that was written arrived, but for the lie. */
static void scene_image(struct scene *scene, struct image *ret_image) {
    struct after *after = after_new(NULL);
    static uint8_t picks[CHOICES_MAX];
    size_t count;
    scene->acked = 0;
    scene->tip = NULL;
    for (size_t op = 0; op <= scene->point; op++) {
        const struct tape_op *at = &scene->ops[op];
        if (at->kind == TAPE_NOTE) {
            scene->acked = at->acked;
            scene->tip = at->tip;
        }
        if (op == scene->lied) {
            /* A write that is lost still makes the file as long as it should be. */
            struct tape_op size = {.kind = TAPE_RESIZE, .inode = at->inode, .size = at->size};
            if (at->kind == TAPE_WRITE && at->grows) {
                after_apply(after, &size);
            }
            at = scene->skipped ? NULL : &scene->lie;
        }
        if (at != NULL) {
            after_apply(after, at);
        }
    }
    const struct choice *choices = after_choices(after, &count);
    for (size_t i = 0; i < count; i++) {
        picks[i] = (uint8_t)(choices[i].options - 1);
    }
    after_image(after, picks, ret_image);
    after_free(after);
}

/* ---- Lies about contents ---- */

/* Chooses the name of a file that matters; -1: no such file. */
static int name_choose(struct scene *scene, const struct image *image) {
    for (unsigned tries = 0; tries < 100 && image->names.count > 0; tries++) {
        int name = (int)below(scene, (size_t)image->names.count);
        const struct blob *blob = image->blobs[image->names.at[name].inode];
        if (blob != NULL && blob->size > 0) {
            return name;
        }
    }
    return -1;
}

static void image_damage(struct scene *scene, struct image *image, enum lie lie) {
    int name = name_choose(scene, image);
    if (name < 0) {
        return;
    }
    int inode = image->names.at[name].inode;
    struct blob *blob = image->blobs[inode] = blob_own(image->blobs[inode], 0);
    /* Where something is, if it can be found: most of a segment is empty. */
    size_t byte = below(scene, blob->size);
    for (unsigned i = 0; i < 200 && blob->bytes[byte] == 0; i++) {
        byte = below(scene, blob->size);
    }
    size_t sector = byte / SECTOR_BYTES * SECTOR_BYTES;
    size_t len = blob->size - sector < SECTOR_BYTES ? blob->size - sector : SECTOR_BYTES;
    switch (lie) {
    case LIE_ROT:
        blob->bytes[byte] ^= (uint8_t)(1u << below(scene, 8));
        break;
    case LIE_SECTOR:
        for (size_t i = 0; i < len; i++) {
            blob->bytes[sector + i] = (uint8_t)tn_prng_next(&scene->prng);
        }
        break;
    case LIE_ZERO:
        memset(blob->bytes + sector, 0, len);
        break;
    case LIE_GONE:
        image->names.count -= 1;
        image->names.at[name] = image->names.at[image->names.count];
        break;
    case LIE_SHORT:
        blob_resize(blob, sector);
        break;
    default:
        break;
    }
}

/* ---- Endings ---- */

static enum ending scene_end(struct scene *scene, const struct image *image) {
    struct ledger ledger;
    struct workload_result result;
    struct tape *tape = tape_new(image, tn_prng_next(&scene->prng));
    ledger_fork(&ledger, &scene->work.ledger, scene->tip, 0);
    bool started = workload_start(&scene->work, tape, &ledger, START_NORMAL, &result);
    snprintf(scene->text, sizeof scene->text, "%s", result.text);
    enum ending ending = WRONG;
    if (!started) {
        bool told = strstr(result.text, "/data") != NULL && strchr(result.text, ';') != NULL;
        bool served = strncmp(result.text, "after ", 6) == 0;
        ending = told && !served ? REFUSED : WRONG;
    } else if (result.loaded >= scene->acked) {
        ending = RIGHT;
    } else if (result.loaded + 1 == scene->acked) {
        ending = LAST;
    } else {
        ending = TAIL;
        snprintf(scene->text, sizeof scene->text, "%zu of %zu batches", result.loaded,
                 scene->acked);
    }
    ledger_free(&ledger);
    tape_free(tape);
    return ending;
}

static enum ending lie_once(struct scene *scene, enum lie lie) {
    struct image image;
    lie_plan(scene, lie);
    scene_image(scene, &image);
    image_damage(scene, &image, lie);
    enum ending ending = scene_end(scene, &image);
    image_free(&image);
    return ending;
}

/* The zeros of a new file that go astray over the end of the segment in use look like an end, and a
 * snapshot like a batch that was torn, however many they cover. The header of a segment does not. */
static bool tail_may_go(const struct scene *scene, enum lie lie, bool closed) {
    const struct tape_op *op = &scene->ops[scene->lied];
    return !closed && lie == LIE_ELSEWHERE && op->first == 0 &&
           memcmp(op->sectors[0].bytes, "TENURLOG", 8) != 0;
}

static bool ending_allowed(const struct scene *scene, enum lie lie, enum ending ending,
                           bool closed) {
    switch (ending) {
    case LAST:
        return !closed;
    case TAIL:
        return tail_may_go(scene, lie, closed);
    case WRONG:
        return false;
    default:
        return true;
    }
}

static void play(bool closed) {
    unsigned counts[LIE_COUNT][ENDINGS] = {{0}};
    unsigned wrong = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        static struct scene scene;
        scene = (struct scene){0};
        workload_run(&scene.work, WORKLOAD_LOG, seed);
        assert_string_equal(scene.work.wrong, "");
        if (closed) {
            workload_close_cleanly(&scene.work);
        }
        size_t count;
        scene.ops = tape_ops(scene.work.tape, &count);
        tn_prng_seed(&scene.prng, seed);
        for (unsigned i = 0; i < TRIES; i++) {
            enum lie lie = (enum lie)(i % LIE_COUNT);
            scene.point = closed ? count - 1 : count / 4 + below(&scene, count - count / 4);
            enum ending ending = lie_once(&scene, lie);
            counts[lie][ending] += 1;
            if (!ending_allowed(&scene, lie, ending, closed)) {
                wrong += 1;
                fprintf(stderr, "seed %llu, %s, operation %zu of %zu: %s\n",
                        (unsigned long long)seed, lie_texts[lie], scene.lied, scene.point,
                        scene.text);
            }
        }
        workload_free(&scene.work);
    }
    fprintf(stderr, "  %-50s right refused last more wrong\n", closed ? "closed" : "not closed");
    for (int lie = 0; lie < LIE_COUNT; lie++) {
        fprintf(stderr, "  %-50s %5u %7u %4u %4u %5u\n", lie_texts[lie], counts[lie][RIGHT],
                counts[lie][REFUSED], counts[lie][LAST], counts[lie][TAIL], counts[lie][WRONG]);
    }
    assert_int_equal(wrong, 0);
}

static void a_lie_about_a_closed_log_is_seen_or_does_not_matter(void **state) {
    (void)state;
    play(true);
}

static void a_lie_about_an_open_log_costs_its_last_batch_at_the_most(void **state) {
    (void)state;
    play(false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lie_about_a_closed_log_is_seen_or_does_not_matter),
        cmocka_unit_test(a_lie_about_an_open_log_costs_its_last_batch_at_the_most),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
