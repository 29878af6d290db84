/* A snapshot's content, changed somewhere, with no checksum in the way: it is refused, or loaded
 * and then found sound or not by the checker; but nothing crashes, hangs or reads what is not its
 * own. What is found sound must also go on as a sound state does.
 *
 *   byte 0    bit 0: the state has a bit of everything; else it is made by the commands
 *             bits 1 to 3: how many changes there are
 *   changes   of 5 bytes: table (or header), two of the offset, how, what
 *   the rest  commands: those that make the state, and those that it must go on with */
#include "commands.h"

#include "lib/image.h"

#define CHANGE_BYTES 5u

/* Values that links like to have: none, the neighbour, the first one, itself, the end. */
static uint32_t link_value(uint8_t what, uint32_t old, uint32_t record, uint32_t used) {
    switch (what % 8) {
    case 0:
        return TN_NONE;
    case 1:
        return old + 1;
    case 2:
        return old - 1;
    case 3:
        return 0;
    case 4:
        return record;
    case 5:
        return used;
    case 6:
        return used - 1;
    default:
        return what;
    }
}

static void image_change(struct image *image, const uint8_t *change) {
    uint32_t table = change[0] % image->count;
    size_t offset = change[1] | (size_t)change[2] << 8;
    uint8_t *bytes = image->bytes[table];
    size_t len = image_table_bytes(image, table);
    uint32_t used = image->headers[table].used;
    if (change[0] >= 240) { /* the header; its size is what the buffer holds, so it stays */
        uint32_t *fields[] = {&image->headers[table].live, &image->headers[table].free_head};
        *fields[offset % 2] = link_value(change[4], *fields[offset % 2], 0, used);
    } else if (len >= 4 && change[3] % 2 == 0) {
        uint8_t *at = bytes + offset * 4 % (len & ~(size_t)3);
        uint32_t record = (uint32_t)((size_t)(at - bytes) / image->headers[table].record_bytes);
        tn_store32(at, link_value(change[4], tn_load32(at), record, used));
    } else if (len > 0) {
        bytes[offset % len] = change[4];
    }
}

static void image_of_everything(struct image *ret_image) {
    static struct image made;
    if (made.count == 0) {
        struct kit kit;
        kit_open(&kit, NULL);
        kit.record = false;
        image_state_make(&kit);
        image_take(kit.kernel, &made);
        kit_close(&kit);
    }
    image_copy(&made, ret_image);
}

static void go_on(struct kernel *kernel, const uint8_t *at, const uint8_t *end) {
    char why[256];
    struct commands c = {.kernel = kernel, .lsn = kernel_lsn(kernel), .at = at, .end = end};
    c.now_ms = kernel_now(kernel) > 0 ? kernel_now(kernel) : 1; /* 0: nothing has happened yet */
    while (c.lsn < UINT64_MAX && c.now_ms + 10000000 < KERNEL_TIME_MAX && commands_step(&c)) {
    }
    bool sound = kernel_check(kernel, why, sizeof why);
    TN_ASSERT(sound);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct image image;
    struct kernel *kernel;
    char why[256];
    unsigned changes = size == 0 ? 0 : data[0] >> 1 & 7;
    if (size < 1 + CHANGE_BYTES * changes || size > 4096) {
        return 0;
    }
    const uint8_t *rest = data + 1 + CHANGE_BYTES * (size_t)changes, *end = data + size;
    if (data[0] & 1) {
        struct kernel_limits limits = kit_limits();
        kernel = commands_kernel_of(&limits);
        image_of_everything(&image);
    } else {
        struct commands commands;
        commands_begin(&commands, rest, (size_t)(end - rest));
        while (commands_step(&commands)) {
        }
        image_take(commands.kernel, &image);
        kernel_destroy(commands.kernel);
        kernel = commands_kernel();
    }
    for (unsigned i = 0; i < changes; i++) {
        image_change(&image, data + 1 + CHANGE_BYTES * (size_t)i);
    }
    bool sound = image_load(&image, kernel) && kernel_check(kernel, why, sizeof why);
    TN_ASSERT(sound || changes > 0); /* the unchanged image of a real state is always accepted */
    if (sound) {
        go_on(kernel, rest, end);
    }
    image_free(&image);
    kernel_destroy(kernel);
    return 0;
}
