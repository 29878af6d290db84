/* Images whose records contradict each other: refused, or loaded and found out by the checker;
 * never followed anywhere. Each test changes one thing in the image of a state with a bit of
 * everything. */
#include "unit.h"

#include "kernel/state.h"
#include "lib/image.h"

struct fixture {
    struct kit kit;
    struct image image;
};

static int setup(void **state) {
    static struct fixture f;
    kit_open(&f.kit, NULL);
    image_state_make(&f.kit);
    image_take(f.kit.kernel, &f.image);
    *state = &f;
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;
    image_free(&f->image);
    kit_close(&f->kit);
    return 0;
}

enum verdict { REFUSED, UNSOUND, SOUND };

static enum verdict judge(const struct image *image) {
    struct kit kit;
    char why[256];
    kit_open(&kit, NULL);
    enum verdict verdict = !image_load(image, kit.kernel)               ? REFUSED
                           : !kernel_check(kit.kernel, why, sizeof why) ? UNSOUND
                                                                        : SOUND;
    kit_close(&kit);
    return verdict;
}

/* The first record of a table whose byte at `offset` is `value`. */
static uint32_t record_with(const struct image *image, uint32_t table, size_t offset,
                            uint8_t value) {
    for (uint32_t i = 0; i < image->headers[table].used; i++) {
        if (((uint8_t *)image_record(image, table, i))[offset] == value) {
            return i;
        }
    }
    fail_msg("table %u has no such record", table);
    return 0;
}

/* The change is made, judged and taken back. */
#define EXPECT(verdict, f, field, forged)              \
    do {                                               \
        __typeof__(field) kept = (field);              \
        (field) = (__typeof__(field))(forged);         \
        assert_int_equal(judge(&(f)->image), verdict); \
        (field) = kept;                                \
    } while (0)

static struct lease *lease_in(struct fixture *f, enum kernel_state state) {
    return image_record(
        &f->image, TABLE_LEASE,
        record_with(&f->image, TABLE_LEASE, offsetof(struct lease, state), (uint8_t)state));
}

static struct member *member_in(struct fixture *f, enum member_state state) {
    return image_record(
        &f->image, TABLE_MEMBER,
        record_with(&f->image, TABLE_MEMBER, offsetof(struct member, state), (uint8_t)state));
}

static struct root *root_of(struct fixture *f) {
    return image_record(&f->image, TABLE_ROOT, 0);
}

static void an_image_as_it_was_taken_is_sound(void **state) {
    struct fixture *f = *state;
    assert_int_equal(judge(&f->image), SOUND);
}

static void a_reference_out_of_range_is_refused(void **state) {
    struct fixture *f = *state;
    struct lease *l = lease_in(f, KERNEL_ACTIVE);
    EXPECT(REFUSED, f, l->holder, f->image.headers[TABLE_NAME].used);
    EXPECT(REFUSED, f, l->pool, f->image.headers[TABLE_POOL].used);
    EXPECT(REFUSED, f, l->first_member, TN_NONE);
    EXPECT(REFUSED, f, l->meta, f->image.headers[TABLE_TEXT].used);
    EXPECT(REFUSED, f, root_of(f)->op_head, 1000);
    EXPECT(REFUSED, f, root_of(f)->job_tail, 1000);
    struct grant *g = image_record(&f->image, TABLE_GRANT, 0);
    EXPECT(REFUSED, f, g->pool, TN_NONE - 1);
    struct rule *r = image_record(&f->image, TABLE_RULE, 1);
    EXPECT(REFUSED, f, r->trigger, 99);
}

static void a_reference_to_a_free_record_is_refused(void **state) {
    struct fixture *f = *state;
    uint32_t nobody = f->image.headers[TABLE_MEMBER].free_head;
    assert_true(nobody > 0);
    struct lease *l = lease_in(f, KERNEL_ACTIVE);
    EXPECT(REFUSED, f, l->first_member, nobody - 1);
    struct rule *r = image_record(&f->image, TABLE_RULE, 0);
    assert_int_equal(r->in_use, 0); /* the deleted one */
    EXPECT(REFUSED, f, r->in_use, 1);
}

static void a_record_that_is_neither_in_use_nor_free_is_refused(void **state) {
    struct fixture *f = *state;
    struct rule *r = image_record(&f->image, TABLE_RULE, 1);
    EXPECT(REFUSED, f, r->in_use, 0);
    EXPECT(REFUSED, f, f->image.headers[TABLE_RULE].live, 3);
    EXPECT(REFUSED, f, f->image.headers[TABLE_RULE].free_head, 2);
}

static void a_list_that_turns_in_a_circle_is_refused(void **state) {
    struct fixture *f = *state;
    struct root *root = root_of(f);
    struct lease *oldest = image_record(&f->image, TABLE_LEASE, root->history_head);
    EXPECT(REFUSED, f, oldest->holder_next, root->history_head);
    struct op *o = image_record(&f->image, TABLE_OP, root->op_head);
    EXPECT(REFUSED, f, o->next, root->op_head);
    struct job *j = image_record(&f->image, TABLE_JOB, root->job_head);
    EXPECT(REFUSED, f, j->next, root->job_head);
    struct pool *gone = image_record(&f->image, TABLE_POOL, root->drain_head);
    EXPECT(REFUSED, f, gone->drain_next, root->drain_head);
    struct resource *first = image_record(&f->image, TABLE_RESOURCE, gone->first_resource);
    EXPECT(REFUSED, f, first->next, gone->first_resource);
    struct lease *l = lease_in(f, KERNEL_RESERVED);
    struct member *m = image_record(&f->image, TABLE_MEMBER, l->first_member);
    EXPECT(REFUSED, f, m->next, l->first_member);
    m = member_in(f, MEMBER_COLD);
    EXPECT(REFUSED, f, m->cold.next,
           record_with(&f->image, TABLE_MEMBER, offsetof(struct member, state), MEMBER_COLD));
    struct trigger *t = image_record(&f->image, TABLE_TRIGGER, 0);
    struct sensor *s = image_record(&f->image, TABLE_SENSOR, t->first_sensor);
    EXPECT(REFUSED, f, s->next, t->first_sensor);
}

static void a_list_that_leaves_its_owner_is_refused(void **state) {
    struct fixture *f = *state;
    struct lease *l = lease_in(f, KERNEL_OFFLINE);
    struct lease *other = lease_in(f, KERNEL_RESERVED);
    EXPECT(REFUSED, f, l->holder, other->holder);
    EXPECT(REFUSED, f, l->first_member, other->first_member);
    EXPECT(REFUSED, f, l->state, KERNEL_EXPIRED);
    EXPECT(REFUSED, f, l->member_count, 2);
    struct member *held = member_in(f, MEMBER_HELD);
    EXPECT(REFUSED, f, held->state, MEMBER_COOLING);
    struct job *j = image_record(&f->image, TABLE_JOB, 0);
    EXPECT(REFUSED, f, j->cursor, TN_NONE - 5);
    EXPECT(REFUSED, f, j->holder, other->holder);
}

static void a_text_whose_chunks_do_not_add_up_is_refused(void **state) {
    struct fixture *f = *state;
    struct op *o = image_record(&f->image, TABLE_OP, 0);
    struct lease *l;
    uint32_t at = 0;
    do {
        l = image_record(&f->image, TABLE_LEASE, at++);
    } while (l->state == KERNEL_NO_STATE || l->meta == TN_NONE);
    uint32_t *meta = image_record(&f->image, TABLE_TEXT, l->meta); /* next, length, ... */
    EXPECT(REFUSED, f, meta[0], 0);
    EXPECT(REFUSED, f, meta[0], l->meta + 1);
    EXPECT(REFUSED, f, meta[0], UINT32_MAX);
    EXPECT(REFUSED, f, meta[1], 20);
    EXPECT(REFUSED, f, meta[1], UINT32_MAX);
    uint32_t *result = image_record(&f->image, TABLE_OP_TEXT, o->result);
    EXPECT(REFUSED, f, result[1], result[1] - 1); /* not a result any more */
    EXPECT(REFUSED, f, result[2], 0x0000ffffu);   /* a code that there is not */
}

static void texts_that_share_a_chunk_are_found_by_the_checker(void **state) {
    struct fixture *f = *state;
    struct name *a = image_record(&f->image, TABLE_NAME, 0);
    struct name *b = image_record(&f->image, TABLE_NAME, 1);
    EXPECT(UNSOUND, f, a->text, b->text);
}

/* The last chunk of the free chain has no link and no length: it reads as an empty text. */
static void a_text_in_a_free_chunk_is_found_by_the_checker(void **state) {
    struct fixture *f = *state;
    struct name *a = image_record(&f->image, TABLE_NAME, 0);
    uint32_t at = f->image.headers[TABLE_TEXT].free_head - 1;
    const uint32_t *chunk = image_record(&f->image, TABLE_TEXT, at);
    for (; chunk[0] != 0; chunk = image_record(&f->image, TABLE_TEXT, at)) {
        at = chunk[0] - 1;
    }
    EXPECT(UNSOUND, f, a->text, at);
}

static void what_is_from_the_future_is_found_by_the_checker(void **state) {
    struct fixture *f = *state;
    struct op *o = image_record(&f->image, TABLE_OP, 0);
    EXPECT(UNSOUND, f, o->lsn, UINT64_MAX);
    EXPECT(UNSOUND, f, root_of(f)->retired_lsn, UINT64_MAX);
}

static void a_value_of_a_set_that_is_no_resource_of_it_is_refused(void **state) {
    struct fixture *f = *state;
    for (uint32_t i = 0; i < f->image.headers[TABLE_RESOURCE].used; i++) {
        struct resource *r = image_record(&f->image, TABLE_RESOURCE, i);
        if (r->in_use && r->member != TN_NONE) {
            struct member *m = image_record(&f->image, TABLE_MEMBER, r->member);
            EXPECT(REFUSED, f, m->value, i + 1);
            EXPECT(REFUSED, f, m->value, UINT64_MAX);
            EXPECT(REFUSED, f, r->member, TN_NONE);
            EXPECT(REFUSED, f, r->ordinal, UINT64_MAX);
        }
    }
}

static void a_policy_or_limits_that_make_no_sense_are_refused(void **state) {
    struct fixture *f = *state;
    struct pool *p = image_record(&f->image, TABLE_POOL, 0);
    EXPECT(REFUSED, f, p->policy.exclude_count, 17);
    EXPECT(REFUSED, f, p->policy.of[KERNEL_OPTION_LO], UINT64_MAX);
    EXPECT(REFUSED, f, p->policy.of[KERNEL_OPTION_KIND], 2);
    EXPECT(REFUSED, f, p->template, 0);
    EXPECT(REFUSED, f, p->mapped, 0);
    EXPECT(REFUSED, f, root_of(f)->limits.of[KERNEL_LIMIT_LEASES], 511);
    EXPECT(REFUSED, f, root_of(f)->limits.of[KERNEL_LIMIT_BUNDLE], 31);
    EXPECT(REFUSED, f, root_of(f)->restored_count, KERNEL_RESTORES_MAX + 1);
    EXPECT(REFUSED, f, root_of(f)->now_ms, 0);
    struct meter *m = image_record(&f->image, TABLE_METER, 0);
    EXPECT(REFUSED, f, m->pool1, 1);
    EXPECT(REFUSED, f, m->rate.slots, 1);
    EXPECT(REFUSED, f, m->rate.second, UINT64_MAX);
    EXPECT(UNSOUND, f, m->rate.sum, m->rate.sum + 1);
}

static struct pool *pool_with(struct fixture *f, size_t offset, uint8_t value) {
    return image_record(&f->image, TABLE_POOL, record_with(&f->image, TABLE_POOL, offset, value));
}

static void a_lease_with_impossible_numbers_is_refused(void **state) {
    struct fixture *f = *state;
    struct lease *l = lease_in(f, KERNEL_ACTIVE);
    EXPECT(REFUSED, f, l->state, KERNEL_STATE_COUNT);
    EXPECT(REFUSED, f, l->bits, l->bits | LEASE_REASON_MASK);
    EXPECT(REFUSED, f, l->timer_ms, UINT64_MAX);
    EXPECT(REFUSED, f, l->member_count, 33);
    /* One that claims more members than are left beside those of all before it. */
    struct lease *last = l;
    for (uint32_t i = 0; i < f->image.headers[TABLE_LEASE].used; i++) {
        l = image_record(&f->image, TABLE_LEASE, i);
        last = l->state == KERNEL_NO_STATE ? last : l;
    }
    EXPECT(REFUSED, f, last->member_count, 32);
}

static void a_member_with_impossible_numbers_is_refused(void **state) {
    struct fixture *f = *state;
    struct member *m = member_in(f, MEMBER_COOLING);
    EXPECT(REFUSED, f, m->cool_ms, UINT64_MAX);
    EXPECT(REFUSED, f, m->state, MEMBER_COLD + 1);
    EXPECT(REFUSED, f, root_of(f)->members_live, root_of(f)->members_live + 1);
    EXPECT(REFUSED, f, root_of(f)->cold_count, root_of(f)->cold_count + 1);
}

/* A value of a queue of cold ones that has another behind it in the table. */
static void a_queue_of_cold_values_that_does_not_hang_together_is_refused(void **state) {
    struct fixture *f = *state;
    for (uint32_t i = 0; i < f->image.headers[TABLE_MEMBER].used; i++) {
        struct member *m = image_record(&f->image, TABLE_MEMBER, i);
        if (m->state != MEMBER_COLD || m->cold.prev == TN_NONE) {
            continue;
        }
        EXPECT(REFUSED, f, m->cold.prev, TN_NONE);
        EXPECT(REFUSED, f, m->cold.prev, f->image.headers[TABLE_MEMBER].used);
        EXPECT(REFUSED, f, m->cold.prev, i);
        return;
    }
    fail_msg("no queue of cold values");
}

static void a_pool_that_its_parts_do_not_know_is_refused(void **state) {
    struct fixture *f = *state;
    struct meter *m = image_record(&f->image, TABLE_METER, 0);
    struct pool *sticky = image_record(&f->image, TABLE_POOL, m->pool1 - 1);
    EXPECT(REFUSED, f, m->rate.window, m->rate.slots);
    EXPECT(REFUSED, f, sticky->meter, TN_NONE);
    uint32_t nobody = f->image.headers[TABLE_POOL].used;
    sticky->meter = TN_NONE;
    EXPECT(REFUSED, f, m->pool1, nobody + 1);
    sticky->meter = 0;
    struct pool *gone = pool_with(f, offsetof(struct pool, state), POOL_DROPPED);
    EXPECT(REFUSED, f, gone->resources, 0);
    /* A template that goes before its scopes. */
    for (uint32_t i = 0; i < f->image.headers[TABLE_POOL].used; i++) {
        struct pool *scope = image_record(&f->image, TABLE_POOL, i);
        if (scope->state == POOL_LIVE && scope->template != TN_NONE) {
            struct pool *of = image_record(&f->image, TABLE_POOL, scope->template);
            of->mapped = 0;
            EXPECT(REFUSED, f, of->state, POOL_DROPPED);
            of->mapped = 1;
            EXPECT(REFUSED, f, of->kept_scopes, (uint64_t)of->scopes + 1);
        }
    }
}

/* A resource whose record names a lease that has ended as its owner. */
static void a_resource_owned_by_the_past_is_refused(void **state) {
    struct fixture *f = *state;
    unsigned tried = 0;
    for (uint32_t i = 0; i < f->image.headers[TABLE_MEMBER].used; i++) {
        const struct member *m = image_record(&f->image, TABLE_MEMBER, i);
        const struct pool *p =
            m->state != MEMBER_ENDED ? NULL : image_record(&f->image, TABLE_POOL, m->pool);
        if (p != NULL && p->policy.of[KERNEL_OPTION_KIND] == KERNEL_SET) {
            struct resource *r = image_record(&f->image, TABLE_RESOURCE, (uint32_t)m->value);
            EXPECT(REFUSED, f, r->member, i);
            tried++;
        }
    }
    assert_true(tried > 0);
}

static void a_value_of_a_set_that_is_nowhere_is_refused(void **state) {
    struct fixture *f = *state;
    for (uint32_t i = 0; i < f->image.headers[TABLE_RESOURCE].used; i++) {
        const struct resource *r = image_record(&f->image, TABLE_RESOURCE, i);
        if (r->in_use && r->member != TN_NONE) {
            struct member *m = image_record(&f->image, TABLE_MEMBER, r->member);
            EXPECT(REFUSED, f, m->value, f->image.headers[TABLE_RESOURCE].used);
        }
    }
}

static void a_grant_of_somebody_elses_lease_is_refused(void **state) {
    struct fixture *f = *state;
    const struct meter *m = image_record(&f->image, TABLE_METER, 0);
    for (uint32_t i = 0; i < f->image.headers[TABLE_GRANT].used; i++) {
        struct grant *g = image_record(&f->image, TABLE_GRANT, i);
        if (g->values != 0 && g->pool == m->pool1 - 1) {
            EXPECT(REFUSED, f, g->lease,
                   record_with(&f->image, TABLE_LEASE, offsetof(struct lease, state),
                               KERNEL_RESERVED));
            EXPECT(REFUSED, f, g->lease, f->image.headers[TABLE_LEASE].used);
        }
    }
}

static void a_trigger_with_the_sensors_of_another_is_refused(void **state) {
    (void)state;
    struct fixture own;
    kit_open(&own.kit, NULL);
    image_state_make(&own.kit);
    struct kernel_command c = kit_command(KERNEL_VERB_RULE_SET);
    c.name = kit_text("unheard"); /* its trigger has no sensor */
    c.trigger = kit_text("unheard");
    assert_int_equal(kit_run(&own.kit, &c), TN_R_OK);
    image_take(own.kit.kernel, &own.image);
    struct trigger *t =
        image_record(&own.image, TABLE_TRIGGER, own.image.headers[TABLE_TRIGGER].used - 1);
    assert_int_equal(t->first_sensor, TN_NONE);
    EXPECT(REFUSED, &own, t->first_sensor, 0);
    assert_int_equal(judge(&own.image), SOUND);
    image_free(&own.image);
    kit_close(&own.kit);
}

static void a_user_without_a_name_or_of_an_unknown_role_is_refused(void **state) {
    struct fixture *f = *state;
    struct user *u = image_record(&f->image, TABLE_USER, 1);
    EXPECT(REFUSED, f, u->role, KERNEL_ROLES + 1);
    EXPECT(REFUSED, f, u->name, TN_NONE);
    EXPECT(REFUSED, f, u->secret, f->image.headers[TABLE_TEXT].used);
    EXPECT(REFUSED, f, u->pools, f->image.headers[TABLE_TEXT].used);
    EXPECT(UNSOUND, f, u->lsn, UINT64_MAX);
    uint8_t *name = image_record(&f->image, TABLE_TEXT, u->name); /* next, length, text */
    EXPECT(REFUSED, f, name[8], ':');
    EXPECT(REFUSED, f, name[8], '\0');
    EXPECT(REFUSED, f, name[4], 0);
    uint8_t *secret = image_record(&f->image, TABLE_TEXT, u->secret);
    EXPECT(REFUSED, f, secret[4], 0);
}

/* ---- answers that are remembered ---- */

/* Byte `at` of a text. */
static uint8_t *text_byte(const struct image *image, uint32_t ref, uint32_t at) {
    uint8_t *chunk = image_record(image, TABLE_OP_TEXT, ref);
    uint32_t skip = 8;
    while (at >= TN_TEXT_CHUNK_BYTES - skip) {
        at -= TN_TEXT_CHUNK_BYTES - skip;
        skip = 4;
        chunk = image_record(image, TABLE_OP_TEXT, tn_load32(chunk) - 1);
    }
    return chunk + skip + at;
}

/* Two numbers: 64 bytes, then 12 for each. */
static void an_answer_whose_values_make_no_sense_is_refused(void **state) {
    struct fixture *f = *state;
    const struct op *o = image_record(&f->image, TABLE_OP, 0);
    uint32_t *len = (uint32_t *)image_record(&f->image, TABLE_OP_TEXT, o->result) + 1;
    assert_int_equal(*len, 64 + 2 * 12);
    for (uint32_t cut = *len - 7; cut <= *len + 4; cut++) { /* in as many chunks */
        if (cut != *len) {
            EXPECT(REFUSED, f, *len, cut);
        }
    }
    EXPECT(REFUSED, f, *text_byte(&f->image, o->result, 35), KERNEL_STATE_COUNT);
    EXPECT(REFUSED, f, *text_byte(&f->image, o->result, 60), 3);   /* values */
    EXPECT(REFUSED, f, *text_byte(&f->image, o->result, 60), 33);  /* more than a bundle */
    EXPECT(REFUSED, f, *text_byte(&f->image, o->result, 66), 4);   /* a format */
    EXPECT(REFUSED, f, *text_byte(&f->image, o->result, 67), 255); /* a name's length */
    EXPECT(REFUSED, f, *text_byte(&f->image, o->result, 79), 20);
}

/* Operations with ids of zeros, of each length from 1 to 63. */
static void operations_make(struct kit *kit) {
    static const uint8_t zeros[KERNEL_OPID_MAX];
    kit_open(kit, NULL);
    assert_int_equal(kit_pool(kit, "p", "lo=1 hi=9"), TN_R_OK);
    assert_int_equal(kit_alloc(kit, "h", "p:1", 0), TN_R_OK);
    for (uint32_t len = 1; len < KERNEL_OPID_MAX; len++) {
        struct kernel_command c = kit_command(KERNEL_VERB_TICK);
        c.opid = tn_bytes_of(zeros, len);
        assert_int_equal(kit_run(kit, &c), TN_R_OK);
    }
}

/* The id of another operation in place of an answer reads as one that ends too early. Chunks are made
 * to add up by an id that is longer than it was. */
static void an_answer_that_is_cut_anywhere_is_refused(void **state) {
    (void)state;
    struct kit kit;
    struct image image;
    operations_make(&kit);
    image_take(kit.kernel, &image);
    assert_int_equal(judge(&image), SOUND);
    struct op *last = image_record(&image, TABLE_OP, 62),
              *first = image_record(&image, TABLE_OP, 0);
    const uint32_t result = last->result, opid = first->opid;
    for (uint32_t len = 2; len < KERNEL_OPID_MAX; len++) {
        const struct op *cut = image_record(&image, TABLE_OP, len - 1);
        uint32_t missing = tn_text_chunks(64) - tn_text_chunks(len);
        const struct op *longer = image_record(&image, TABLE_OP, missing * 28 + 1);
        last->result = cut->opid;
        first->opid = missing == 0 ? opid : longer->opid;
        assert_int_equal(judge(&image), REFUSED);
    }
    last->result = result;
    first->opid = opid;
    assert_int_equal(judge(&image), SOUND);
    image_free(&image);
    kit_close(&kit);
}

/* ---- images in pieces ---- */

static void an_image_that_is_not_whole_is_refused(void **state) {
    struct fixture *f = *state;
    for (uint32_t table = 0; table < f->image.count; table++) {
        struct kit kit;
        kit_open(&kit, NULL);
        for (uint32_t i = 0; i < f->image.count; i++) {
            assert_true(kernel_load_header(kit.kernel, &f->image.headers[i]));
        }
        for (uint32_t i = 0; i < f->image.count; i++) {
            struct tn_table_chunk chunk = {
                .table_id = i, .count = f->image.headers[i].used, .bytes = f->image.bytes[i]};
            if (i != table) {
                assert_true(kernel_load_chunk(kit.kernel, &chunk, image_table_bytes(&f->image, i)));
            }
        }
        assert_false(kernel_load_end(kit.kernel));
        kit_close(&kit);
    }
}

static void tables_that_there_are_not_are_refused(void **state) {
    struct fixture *f = *state;
    struct kit kit;
    kit_open(&kit, NULL);
    struct tn_table_header header = f->image.headers[TABLE_LEASE];
    header.id = f->image.count;
    assert_false(kernel_load_header(kit.kernel, &header));
    struct tn_table_chunk chunk = {.table_id = f->image.count, .bytes = &header};
    assert_false(kernel_load_chunk(kit.kernel, &chunk, 0));
    /* Not twice, and not over existing records. */
    assert_true(kernel_load_header(kit.kernel, &f->image.headers[TABLE_LEASE]));
    assert_false(kernel_load_header(kit.kernel, &f->image.headers[TABLE_LEASE]));
    chunk = (struct tn_table_chunk){.table_id = TABLE_LEASE,
                                    .first = f->image.headers[TABLE_LEASE].used,
                                    .count = 1,
                                    .bytes = f->image.bytes[TABLE_LEASE]};
    assert_false(kernel_load_chunk(kit.kernel, &chunk, f->image.headers[TABLE_LEASE].record_bytes));
    kit_close(&kit);
    kit_open(&kit, NULL);
    assert_int_equal(kit_pool(&kit, "p", "lo=1 hi=9"), TN_R_OK);
    assert_false(kernel_load_header(kit.kernel, &f->image.headers[TABLE_ROOT]));
    assert_false(kernel_load_header(kit.kernel, &f->image.headers[TABLE_POOL]));
    kit_close(&kit);
}

static void an_image_without_a_root_or_of_other_limits_is_refused(void **state) {
    struct fixture *f = *state;
    EXPECT(REFUSED, f, root_of(f)->version, KERNEL_STATE_VERSION + 1);
    EXPECT(REFUSED, f, root_of(f)->limits.of[KERNEL_LIMIT_LEASES], 0);
    EXPECT(REFUSED, f, root_of(f)->limits.of[KERNEL_LIMIT_RATE_WINDOW], 3600);
    struct tn_table_header kept = f->image.headers[TABLE_ROOT];
    f->image.headers[TABLE_ROOT].used = f->image.headers[TABLE_ROOT].live = 0;
    assert_int_equal(judge(&f->image), REFUSED);
    f->image.headers[TABLE_ROOT] = kept;
    assert_int_equal(judge(&f->image), SOUND);
}

static void an_image_can_be_given_up_at_any_time(void **state) {
    struct fixture *f = *state;
    struct image image = {.count = 0};
    uint64_t hash = kernel_hash(f->kit.kernel);
    kernel_image_abandon(f->kit.kernel); /* there is none */
    image_take(f->kit.kernel, &image);
    kernel_image_abandon(f->kit.kernel); /* it is complete */
    assert_int_equal(judge(&image), SOUND);
    assert_int_equal(kernel_hash(f->kit.kernel), hash);
    image_free(&image);
}

/* Four bytes of a record, forged as links would be, again and again: whatever is not refused can be
 * counted through by the checker. */
static void no_forged_number_leads_the_checker_astray(void **state) {
    struct fixture *f = *state;
    unsigned verdicts[3] = {0};
    for (uint32_t table = 0; table < f->image.count; table++) {
        if (table == TABLE_METER || table == TABLE_TEXT || table == TABLE_OP_TEXT) {
            continue; /* large, and the same all over */
        }
        size_t len = image_table_bytes(&f->image, table);
        size_t step = len > 2000 ? 4 * (len / 2000 | 1) : 4;
        for (size_t at = 0; at + 4 <= len; at += step) {
            uint8_t *field = f->image.bytes[table] + at;
            uint32_t kept = tn_load32(field);
            uint32_t forged[] = {TN_NONE, kept + 1, kept ^ 1};
            for (unsigned i = 0; i < 3; i++) {
                tn_store32(field, forged[i]);
                verdicts[judge(&f->image)]++;
            }
            tn_store32(field, kept);
        }
    }
    assert_int_equal(judge(&f->image), SOUND);
    assert_true(verdicts[REFUSED] > verdicts[UNSOUND] && verdicts[UNSOUND] > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_image_as_it_was_taken_is_sound),
        cmocka_unit_test(a_reference_out_of_range_is_refused),
        cmocka_unit_test(a_reference_to_a_free_record_is_refused),
        cmocka_unit_test(a_record_that_is_neither_in_use_nor_free_is_refused),
        cmocka_unit_test(a_list_that_turns_in_a_circle_is_refused),
        cmocka_unit_test(a_list_that_leaves_its_owner_is_refused),
        cmocka_unit_test(a_text_whose_chunks_do_not_add_up_is_refused),
        cmocka_unit_test(a_text_in_a_free_chunk_is_found_by_the_checker),
        cmocka_unit_test(texts_that_share_a_chunk_are_found_by_the_checker),
        cmocka_unit_test(what_is_from_the_future_is_found_by_the_checker),
        cmocka_unit_test(a_value_of_a_set_that_is_no_resource_of_it_is_refused),
        cmocka_unit_test(a_policy_or_limits_that_make_no_sense_are_refused),
        cmocka_unit_test(a_lease_with_impossible_numbers_is_refused),
        cmocka_unit_test(a_member_with_impossible_numbers_is_refused),
        cmocka_unit_test(a_queue_of_cold_values_that_does_not_hang_together_is_refused),
        cmocka_unit_test(a_pool_that_its_parts_do_not_know_is_refused),
        cmocka_unit_test(a_resource_owned_by_the_past_is_refused),
        cmocka_unit_test(a_value_of_a_set_that_is_nowhere_is_refused),
        cmocka_unit_test(a_grant_of_somebody_elses_lease_is_refused),
        cmocka_unit_test(a_trigger_with_the_sensors_of_another_is_refused),
        cmocka_unit_test(a_user_without_a_name_or_of_an_unknown_role_is_refused),
        cmocka_unit_test(an_answer_whose_values_make_no_sense_is_refused),
        cmocka_unit_test(an_answer_that_is_cut_anywhere_is_refused),
        cmocka_unit_test(an_image_that_is_not_whole_is_refused),
        cmocka_unit_test(tables_that_there_are_not_are_refused),
        cmocka_unit_test(an_image_without_a_root_or_of_other_limits_is_refused),
        cmocka_unit_test(an_image_can_be_given_up_at_any_time),
        cmocka_unit_test(no_forged_number_leads_the_checker_astray),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
