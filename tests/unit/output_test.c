/* Output that is rotated between two reads. */
#include "unit/unit.h"

#include "lib/fakeos.h"
#include "process/run_files.h"
#include "process/run_output.h"

#define DIR "/d"
#define BASE DIR "/s"

/* A machine on which, right after the names of files were read, some go and some come. */
struct busy {
    struct os os;
    const struct os *calm;
    struct fakeos *machine;
    unsigned after; /* how many looks at the names later; 0: never */
    uint64_t remove_first, remove_last, add;
};

static void path_of(uint64_t number, char out[64]) {
    (void)snprintf(out, 64, BASE "/" RUN_FILES_LOG_PREFIX "%llu", (unsigned long long)number);
}

static void put(const struct busy *busy, uint64_t number, const char *text) {
    const struct os *os = busy->calm;
    char path[64];
    int file;
    path_of(number, path);
    assert_int_equal(os->open(os->ctx, path, OS_WRITE | OS_CREATE, &file), TN_OK);
    assert_int_equal(os->write_at(os->ctx, file, text, strlen(text), 0), TN_OK);
    assert_int_equal(os->close(os->ctx, file), TN_OK);
}

static void rotate(struct busy *busy) {
    char path[64];
    char text[32];
    if (busy->after == 0 || --busy->after > 0) {
        return;
    }
    for (uint64_t n = busy->remove_first; n <= busy->remove_last; n++) {
        path_of(n, path);
        assert_int_equal(busy->calm->remove(busy->calm->ctx, path), TN_OK);
    }
    (void)snprintf(text, sizeof text, "of %llu ", (unsigned long long)busy->add);
    put(busy, busy->add, text);
}

static enum tn_status busy_list(void *ctx, const char *path, os_list_entry *entry,
                                void *entry_ctx) {
    struct busy *busy = ctx;
    enum tn_status status = busy->calm->list(busy->calm->ctx, path, entry, entry_ctx);
    rotate(busy);
    return status;
}

static enum tn_status busy_open(void *ctx, const char *path, unsigned flags, int *ret_file) {
    const struct busy *busy = ctx;
    return busy->calm->open(busy->calm->ctx, path, flags, ret_file);
}

static enum tn_status busy_close(void *ctx, int file) {
    const struct busy *busy = ctx;
    return busy->calm->close(busy->calm->ctx, file);
}

static enum tn_status busy_read(void *ctx, int file, void *out, size_t len, uint64_t offset,
                                size_t *ret_len) {
    const struct busy *busy = ctx;
    return busy->calm->read_at(busy->calm->ctx, file, out, len, offset, ret_len);
}

static enum tn_status busy_size(void *ctx, int file, uint64_t *ret_bytes) {
    const struct busy *busy = ctx;
    return busy->calm->size(busy->calm->ctx, file, ret_bytes);
}

static int busy_make(void **state) {
    struct busy *busy = calloc(1, sizeof *busy);
    assert_non_null(busy);
    busy->machine = fakeos_new(1);
    busy->calm = fakeos_table(busy->machine);
    busy->os = (struct os){.ctx = busy,
                           .list = busy_list,
                           .open = busy_open,
                           .close = busy_close,
                           .read_at = busy_read,
                           .size = busy_size};
    assert_int_equal(busy->calm->make_dir(busy->calm->ctx, DIR), TN_OK);
    assert_int_equal(busy->calm->make_dir(busy->calm->ctx, BASE), TN_OK);
    *state = busy;
    return 0;
}

static int busy_drop(void **state) {
    struct busy *busy = *state;
    fakeos_free(busy->machine);
    free(busy);
    return 0;
}

/* What is read from there on, and that it is this. */
static void reads(struct busy *busy, struct run_output_position *position, const char *text,
                  bool lost) {
    char out[256];
    size_t len = 0;
    bool is_lost;
    assert_int_equal(
        run_output_read(&busy->os, DIR, "s", position, out, sizeof out - 1, &len, &is_lost), TN_OK);
    out[len] = '\0';
    assert_string_equal(out, text);
    assert_int_equal(is_lost, lost);
}

static void the_only_file_may_be_replaced_meanwhile(void **state) {
    struct busy *busy = *state;
    struct run_output_position position = {.file = 0};
    put(busy, 1, "first ");
    reads(busy, &position, "first ", false);
    busy->after = 1;
    busy->remove_first = busy->remove_last = 1;
    busy->add = 2;
    /* What was printed before it went is not known to have been read. */
    reads(busy, &position, "", true);
    reads(busy, &position, "of 2 ", false);
    reads(busy, &position, "", false);
}

static void all_may_be_replaced_while_they_are_read(void **state) {
    struct busy *busy = *state;
    struct run_output_position position = {.file = 0};
    put(busy, 3, "three ");
    put(busy, 4, "four ");
    put(busy, 5, "five ");
    busy->after = 1;
    busy->remove_first = 3;
    busy->remove_last = 5;
    busy->add = 6;
    reads(busy, &position, "", true);
    reads(busy, &position, "of 6 ", false);
    /* Some of the files: the others are read. */
    put(busy, 7, "seven ");
    position = (struct run_output_position){.file = 0};
    busy->after = 1;
    busy->remove_first = busy->remove_last = 6;
    busy->add = 8;
    reads(busy, &position, "seven ", true);
    reads(busy, &position, "of 8 ", false);
}

static void the_end_of_it_may_be_replaced_while_it_is_looked_for(void **state) {
    struct busy *busy = *state;
    struct run_output_position position;
    put(busy, 1, "first ");
    busy->after = 1;
    busy->remove_first = busy->remove_last = 1;
    busy->add = 2;
    assert_int_equal(run_output_tail(&busy->os, DIR, "s", 100, &position), TN_OK);
    reads(busy, &position, "of 2 ", true);
}

static void a_sensor_that_is_deleted_has_none(void **state) {
    struct busy *busy = *state;
    struct run_output_position position = {.file = 1, .offset = 3};
    char out[8];
    size_t len;
    bool lost;
    assert_int_equal(run_output_read(&busy->os, DIR, "s", &position, out, sizeof out, &len, &lost),
                     TN_NOTFOUND);
    assert_int_equal(run_output_tail(&busy->os, DIR, "s", 100, &position), TN_NOTFOUND);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, busy_make, busy_drop)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(the_only_file_may_be_replaced_meanwhile),
        TEST(all_may_be_replaced_while_they_are_read),
        TEST(the_end_of_it_may_be_replaced_while_it_is_looked_for),
        TEST(a_sensor_that_is_deleted_has_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
