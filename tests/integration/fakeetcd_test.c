/* The fake etcd of the simulations answers as the real one does: the same random requests to both. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/etcdkit.h"
#include "lib/etcdscript.h"
#include "lib/fakeetcd.h"

#define REQUESTS 1500u

/* What a watch reported, without how it was split into messages. */
struct told {
    char *text;
    size_t len;
    bool ended;
    int64_t revision;
};

static void watched(void *ctx, const struct etcd_news *news) {
    struct told *told = ctx;
    for (uint32_t i = 0; i < news->change_count; i++) {
        const struct etcd_change *change = &news->changes[i];
        assert_true(told->len + 128 < 1 << 20);
        told->revision = change->kv.mod_revision;
        told->len += (size_t)snprintf(
            told->text + told->len, 128, "%" PRId64 "%s%.*s=%.*s(%" PRId64 ",%" PRId64 ")\n",
            change->kv.mod_revision, change->deleted ? " deleted " : " ", (int)change->kv.key.len,
            (const char *)change->kv.key.at, (int)change->kv.value.len,
            (const char *)change->kv.value.at, change->kv.create_revision, change->kv.version);
    }
    if (news->kind == ETCD_WATCH_ENDED) {
        told->ended = true;
        told->len += (size_t)snprintf(told->text + told->len, 128, "ended %s %" PRId64 "\n",
                                      etcd_reason_name(news->reason), news->compact_revision);
    }
}

static void watch(struct etcd *etcd, struct told *told, int64_t start) {
    uint64_t id;
    struct etcd_watch_options options = {
        .keys = {etcdkit_text("/s/"), etcdkit_text("/s0")},
        .start_revision = start,
        .deadline_ms = etcdkit_now() + 60000,
    };
    told->text = calloc(1, 1 << 20);
    assert_non_null(told->text);
    assert_int_equal(etcd_watch(etcd, &options, watched, told, &id), TN_OK);
}

static bool is_complete(void *ctx) {
    const struct told *const *both = ctx;
    return both[0]->ended || both[0]->revision >= both[1]->revision;
}

static bool has_ended(void *ctx) {
    return ((struct told *)ctx)->ended;
}

static void fake_run(struct fakeetcd *fake, struct etcd *etcd) {
    while (etcd_next_ms(etcd) == 0 || fakeetcd_next_ms(fake) != ETCD_NEVER) {
        uint64_t next_ms = fakeetcd_next_ms(fake);
        if (next_ms != ETCD_NEVER) {
            fakeetcd_advance(fake, next_ms);
        }
        etcd_step(etcd, 0);
    }
}

static void compare(unsigned n, const struct etcdkit_reply *real,
                    const struct etcdkit_reply *fake) {
    bool same = real->outcome == fake->outcome && real->reason == fake->reason &&
                real->count == fake->count && real->total == fake->total &&
                real->more == fake->more && real->deleted == fake->deleted;
    bool good = real->outcome == ETCD_DONE || real->outcome == ETCD_COMPARE_FAILED;
    same &= !good || real->header.revision == fake->header.revision;
    same &= memcmp(real->kvs, fake->kvs, sizeof real->kvs) == 0;
    if (!same) {
        fail_msg("request %u: real %s %s %s, revision %" PRId64 ", %u keys; fake %s %s, %" PRId64
                 ", %u keys",
                 n, etcd_outcome_name(real->outcome), etcd_reason_name(real->reason), real->message,
                 real->header.revision, real->count, etcd_outcome_name(fake->outcome),
                 etcd_reason_name(fake->reason), fake->header.revision, fake->count);
    }
}

static void the_fake_answers_as_the_real_one(void **state) {
    struct etcdkit kit;
    struct etcdkit_options options = {.members = 1};
    struct etcdkit_reply real = {0}, made = {0};
    struct etcdscript script;
    struct told told[2] = {{0}}, late[2] = {{0}};
    (void)state;
    etcdkit_open(&kit, &options);
    struct etcd_options client = etcdkit_client(&kit);
    struct etcd *etcd = NULL;
    char error[ETCD_MESSAGE_MAX];
    assert_int_equal(etcd_open(&client, &etcd, error), TN_OK);
    struct fakeetcd *fake = fakeetcd_new(1, 1);
    struct etcd *made_client = fakeetcd_client(fake, 0);
    etcdkit_range(etcd, "/none", &real); /* it is there */
    watch(etcd, &told[0], 1);
    watch(made_client, &told[1], 1);
    etcdscript_begin(&script, 42);
    for (unsigned i = 0; i < REQUESTS; i++) {
        const struct etcd_request *request = etcdscript_next(&script, fakeetcd_revision(fake));
        etcdkit_call(etcd, request, 60000, &real);
        made.done = false;
        assert_int_equal(etcd_submit(made_client, request, 1, etcdkit_done, &made), TN_OK);
        fake_run(fake, made_client);
        assert_true(made.done);
        compare(i, &real, &made);
        const struct told *both[] = {&told[0], &told[1]};
        etcdkit_wait_until(etcd, is_complete, both); /* a compaction must not overtake it */
    }
    assert_string_equal(told[0].text, told[1].text);
    assert_true(told[0].len > 1000);
    /* A watch that begins at a compacted revision. */
    watch(etcd, &late[0], 2);
    watch(made_client, &late[1], 2);
    fake_run(fake, made_client);
    assert_true(late[1].ended);
    etcdkit_wait_until(etcd, has_ended, &late[0]);
    assert_string_equal(late[0].text, late[1].text);
    etcd_close(made_client);
    etcd_close(etcd);
    fakeetcd_free(fake);
    etcdkit_close(&kit);
    for (unsigned i = 0; i < 2; i++) {
        free(told[i].text);
        free(late[i].text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fake_answers_as_the_real_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
