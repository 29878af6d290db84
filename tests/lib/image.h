/* The image of a kernel as plain memory, to be changed at will and loaded again. */
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
/* A record of the image, to be written to. */
void *image_record(const struct image *image, uint32_t table, uint32_t index);

/* Into a kernel that is new: false if it is refused. */
bool image_load(const struct image *image, struct kernel *kernel);

/* A state with a bit of everything: leases in each state, bundles, history, cooling and cold
 * values, sets, scopes, a disown and a dropped set that are not done yet, operations, rules and
 * sensors. For a kit that was just opened with kit_limits. */
void image_state_make(struct kit *kit);

#endif
