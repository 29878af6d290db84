#include "lib/image.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void chunk_keep(void *ctx, const struct tn_table_chunk *chunk) {
    struct image *image = ctx;
    size_t record = image->headers[chunk->table_id].record_bytes;
    memcpy(image->bytes[chunk->table_id] + chunk->first * record, chunk->bytes,
           chunk->count * record);
}

size_t image_table_bytes(const struct image *image, uint32_t table) {
    return (size_t)image->headers[table].used * image->headers[table].record_bytes;
}

void image_take(struct kernel *kernel, struct image *ret_image) {
    *ret_image = (struct image){.count = 0};
    kernel_image_begin(kernel, chunk_keep, ret_image, ret_image->headers, &ret_image->count);
    for (uint32_t i = 0; i < ret_image->count; i++) {
        assert_int_equal(ret_image->headers[i].id, i);
        ret_image->bytes[i] = calloc(1, image_table_bytes(ret_image, i) + 1);
        assert_non_null(ret_image->bytes[i]);
    }
    while (kernel_image_step(kernel, 1 << 20)) {
    }
}

void image_copy(const struct image *from, struct image *ret_image) {
    *ret_image = *from;
    for (uint32_t i = 0; i < from->count; i++) {
        size_t len = image_table_bytes(from, i);
        ret_image->bytes[i] = malloc(len + 1);
        assert_non_null(ret_image->bytes[i]);
        memcpy(ret_image->bytes[i], from->bytes[i], len);
    }
}

void image_free(struct image *image) {
    for (uint32_t i = 0; i < image->count; i++) {
        free(image->bytes[i]);
    }
}

void *image_record(const struct image *image, uint32_t table, uint32_t index) {
    assert_true(table < image->count && index < image->headers[table].used);
    return image->bytes[table] + (size_t)index * image->headers[table].record_bytes;
}

bool image_load(const struct image *image, struct kernel *kernel) {
    for (uint32_t i = 0; i < image->count; i++) {
        if (!kernel_load_header(kernel, &image->headers[i])) {
            return false;
        }
    }
    for (uint32_t i = 0; i < image->count; i++) {
        struct tn_table_chunk chunk = {
            .table_id = i, .count = image->headers[i].used, .bytes = image->bytes[i]};
        if (!kernel_load_chunk(kernel, &chunk, image_table_bytes(image, i))) {
            return false;
        }
    }
    return kernel_load_end(kernel);
}

/* ---- a bit of everything ---- */

static void ok(enum tn_result result) {
    assert_int_equal(result, TN_R_OK);
}

/* With metadata of some chunks, a user and an operation id. */
static void alloc_known(struct kit *kit, const char *holder, const char *pool, const char *opid) {
    static char meta[301];
    uint8_t claims[128];
    struct tn_writer w = tn_writer_of(claims, sizeof claims);
    struct kernel_command c = kit_command(KERNEL_VERB_ALLOC);
    memset(meta, 'm', sizeof meta - 1);
    kernel_claim_write(&w, kit_text(pool), true, 2);
    c.claims = tn_bytes_of(claims, w.len);
    c.claim_count = 1;
    c.holder = kit_text(holder);
    c.meta = kit_text(meta);
    c.fields |= KERNEL_F_META;
    c.user = kit_text("alice");
    c.opid = kit_text(opid);
    ok(kit_run(kit, &c));
}

static void pools_make(struct kit *kit) {
    ok(kit_pool(kit, "range", "lo=1 hi=1000 lease=60 grace=5"));
    ok(kit_pool(kit, "cool", "lo=1 hi=50 lease=60 cooldown=600"));
    ok(kit_pool(kit, "cold", "lo=1 hi=5 lease=60 strategy=3"));
    ok(kit_pool(kit, "gpu", "kind=1 lease=60"));
    ok(kit_pool(kit, "frozen", "kind=1 lease=60 strategy=3 cooldown=0"));
    ok(kit_pool(kit, "gone", "kind=1 lease=60"));
    ok(kit_pool(kit, "sticky", "lo=1 hi=50 lease=600 sticky=1"));
    ok(kit_pool(kit, "zone", "lo=1 hi=50 lease=60 scoped=1 max_per_holder=3"));
    ok(kit_add(kit, "gpu", "a b c a-name-that-takes-more-than-one-chunk-of-text"));
    ok(kit_add(kit, "frozen", "x y z"));
    ok(kit_add(kit, "gone", "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20"));
}

static void demand_make(struct kit *kit) {
    static const char *const names[] = {"first", "second", "third"};
    for (unsigned i = 0; i < 3; i++) {
        struct kernel_command c = kit_command(KERNEL_VERB_SENSOR_SET);
        c.name = kit_text(names[i]);
        c.trigger = kit_text(i == 2 ? "alone" : "shared");
        c.spec = kit_text("{\"argv\":[\"/usr/bin/sensor\",\"--of\",\"many chunks of text\"]}");
        c.enabled = true;
        ok(kit_run(kit, &c));
        c = kit_command(KERNEL_VERB_RULE_SET);
        c.name = kit_text(names[i]);
        c.trigger = kit_text("shared");
        c.enabled = i > 0;
        ok(kit_run(kit, &c));
    }
}

static void rule_delete(struct kit *kit, const char *name, uint64_t revision) {
    struct kernel_command c = kit_command(KERNEL_VERB_RULE_DELETE);
    c.name = kit_text(name);
    c.fields |= KERNEL_F_EPOCH;
    c.epoch = revision;
    ok(kit_run(kit, &c));
}

static void leases_make(struct kit *kit) {
    struct kit_token t;
    ok(kit_reserve(kit, "h/reserved", "range:2", 60));
    ok(kit_alloc(kit, "h/mixed", "range:1 gpu=a cool:2", 0));
    ok(kit_alloc(kit, "h/many", "gpu=b", 0));
    ok(kit_alloc(kit, "h/many", "zone@north:2", 0));
    ok(kit_alloc(kit, "h/many", "zone@south:1", 0));
    ok(kit_alloc(kit, "h/device", "sticky:1", 0));
    ok(kit_release(kit, kit_token(kit), "h/device", false));
    ok(kit_alloc(kit, "h/other", "sticky:1", 0));
    ok(kit_alloc(kit, "h/revoked", "range:1", 0));
    ok(kit_revoke(kit, kit_token(kit), 30));
    for (unsigned i = 0; i < 3; i++) {
        ok(kit_alloc(kit, "h/gone", "cool:1 cold:1", 0));
        t = kit_token(kit);
        ok(kit_alloc(kit, "h/gone", "frozen:1", 0));
        ok(kit_release(kit, kit_token(kit), "h/gone", true));
        ok(kit_release(kit, t, "h/gone", true));
    }
    for (unsigned i = 0; i < 20; i++) {
        ok(kit_alloc(kit, "h/disowned", "range:1", 0));
    }
}

static void user_add(struct kit *kit, const char *name) {
    struct kernel_command c = kit_command(KERNEL_VERB_USER_ADD);
    c.name = kit_text(name);
    c.role = 2;
    c.spec = kit_text("$argon2id$hash");
    c.fields |= KERNEL_F_POOL;
    c.pool = kit_text("range gpu");
    ok(kit_run(kit, &c));
}

void image_state_make(struct kit *kit) {
    pools_make(kit);
    demand_make(kit);
    user_add(kit, "one");
    user_add(kit, "two");
    rule_delete(kit, "first", 7);
    leases_make(kit);
    alloc_known(kit, "h/known", "range", "op-1");
    alloc_known(kit, "h/known", "range", "op-2");
    kit->now_ms += 1000;
    /* One of the values was cold: its record is free now. */
    ok(kit_alloc(kit, "h/last", "cold:3", 0));
    ok(kit_pool(kit, "line", "lo=1 hi=1"));
    ok(kit_pool(kit, "row", "lo=1 hi=1"));
    ok(kit_alloc(kit, "h/line", "line:1", 0));
    assert_int_equal(kit_wait(kit, "h/waits", "line:1 row=1", 600, "op-3"), TN_R_WAITING);
    assert_int_equal(kit_wait(kit, "h/waits", "line:1", 600, NULL), TN_R_WAITING);
    ok(kit_drop(kit, "gone"));
    ok(kit_disown(kit, "h/disowned", NULL));
    rule_delete(kit, "third", 8);
    kit_check(kit);
}
