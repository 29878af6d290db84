/* The image of a kernel as plain memory, which tests change freely and load again. */
#ifndef TN_TESTS_IMAGE_H
#define TN_TESTS_IMAGE_H

#include "lib/kit.h"

struct image {
    struct tn_table_header headers[KERNEL_TABLES_MAX];
    uint8_t *bytes[KERNEL_TABLES_MAX]; /* records, one after the other; by table id */
    uint32_t count;
};

void image_take(struct kernel *kernel, struct image *ret_image);
void image_copy(const struct image *from, struct image *ret_image);
void image_free(struct image *image);

size_t image_table_bytes(const struct image *image, uint32_t table);
/* A record of the image, for writing. */
void *image_record(const struct image *image, uint32_t table, uint32_t index);

/* Loads the image into a new kernel. False: the kernel refuses it. */
bool image_load(const struct image *image, struct kernel *kernel);

/* Makes a state with a bit of everything: leases in each state, bundles, history, cooling and cold
 * values, sets, scopes, an unfinished disown and an unfinished drop of a set, operations, rules and
 * sensors. The kit must have just been opened with kit_limits. */
void image_state_make(struct kit *kit);

#endif
