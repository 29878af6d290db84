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
    assert_int_equal(r->in_use, 0); /* the one that was deleted */
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
    struct meter *m = image_record(&f->image, TABLE_METER, 0);
    EXPECT(REFUSED, f, m->pool1, 1);
    EXPECT(REFUSED, f, m->rate.slots, 1);
    EXPECT(REFUSED, f, m->rate.second, UINT64_MAX);
    EXPECT(UNSOUND, f, m->rate.sum, m->rate.sum + 1);
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
        cmocka_unit_test(no_forged_number_leads_the_checker_astray),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
