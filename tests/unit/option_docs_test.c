/* The tables of pool options in docs/semantics.md are those of the kernel: every option with its default,
 * the options of sticky pools in a table of their own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/option.h"
#include "unit/unit.h"

static char document[1 << 17];

static bool document_read(void) {
    const char *root = getenv("TENURE_SOURCE_DIR");
    char path[4096];
    if (root == NULL) {
        return false;
    }
    (void)snprintf(path, sizeof path, "%s/docs/semantics.md", root);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    document[fread(document, 1, sizeof document - 1, file)] = '\0';
    (void)fclose(file);
    return true;
}

/* The n-th cell of this row, counted from 0. */
static void cell(const char *row, unsigned n, char *out, size_t capacity) {
    const char *end = strchr(row, '\n');
    for (unsigned i = 0; i < n + 1; i++) {
        row = strchr(row, '|') + 1;
    }
    const char *next = strchr(row, '|');
    assert_true(next != NULL && next < end);
    (void)snprintf(out, capacity, "%.*s", (int)(next - row), row);
}

/* The only row of a table that begins with this option, among others perhaps. */
static const char *row_find(const char *name) {
    char quoted[80], first[256];
    const char *found = NULL;
    (void)snprintf(quoted, sizeof quoted, "`%s`", name);
    const char *end = strstr(document, "\n## Identity");
    assert_non_null(end);
    for (const char *at = strstr(document, "\n## Pools\n");
         (at = strstr(at + 1, "\n| `")) != NULL;) {
        if (at > end) {
            break;
        }
        cell(at + 1, 0, first, sizeof first);
        if (strstr(first, quoted) != NULL) {
            assert_null(found);
            found = at + 1;
        }
    }
    if (found == NULL) {
        fail_msg("docs/semantics.md has no row for the option %s", name);
    }
    return found;
}

/* 60.000000 is documented as 60. */
static void zeros_trim(char *text) {
    size_t len = strlen(text);
    while (text[len - 1] == '0') {
        len--;
    }
    text[text[len - 1] == '.' ? len - 1 : len] = '\0';
}

static void every_option_is_documented_with_its_default(void **state) {
    struct kernel_policy policy = kernel_policy_default();
    const char *sticky = NULL;
    (void)state;
    if (!document_read()) {
        skip();
    }
    sticky = strstr(document, "\nA sticky pool also has these options");
    assert_non_null(sticky);
    for (unsigned i = 0; i < KERNEL_OPTION_COUNT; i++) {
        const char *name = kernel_option_rows[i].name;
        char text[KERNEL_OPTION_TEXT_MAX], standard[256];
        if (i == KERNEL_OPTION_LO || i == KERNEL_OPTION_HI) {
            continue; /* described as the range */
        }
        const char *row = row_find(name);
        assert_int_equal(row > sticky, !kernel_option_applies(&policy, i));
        assert_true(kernel_option_format(&policy, name, text, sizeof text));
        if (kernel_option_rows[i].type == KERNEL_TYPE_MICRO) {
            zeros_trim(text);
        }
        cell(row, 2, standard, sizeof standard);
        if (strstr(standard, text) == NULL) {
            fail_msg("docs/semantics.md: the default of %s is %s, not%s", name, text, standard);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_option_is_documented_with_its_default),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
