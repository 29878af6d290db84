/* Looks up the table of outcomes in result.h. */
#include "kernel/result.h"

#include "base/assert.h"

struct result_row {
    const char *name, *text;
    enum tn_outcome outcome;
    int http, exit_code;
};

static const struct result_row rows[TN_R_COUNT] = {
#define RESULT_ROW(id, class, status, code, words) \
    [TN_R_##id] = {                                \
        .name = #id, .text = words, .outcome = TN_##class, .http = status, .exit_code = code},
    TN_RESULT_TABLE(RESULT_ROW)
#undef RESULT_ROW
};

static const struct result_row *result_row(enum tn_result result) {
    TN_ASSERT((unsigned)result < TN_R_COUNT);
    return &rows[result];
}

const char *tn_result_name(enum tn_result result) {
    return (unsigned)result < TN_R_COUNT ? rows[result].name : "?";
}

const char *tn_result_text(enum tn_result result) {
    return (unsigned)result < TN_R_COUNT ? rows[result].text : "?";
}

enum tn_outcome tn_result_outcome(enum tn_result result) {
    return result_row(result)->outcome;
}

int tn_result_http(enum tn_result result) {
    return result_row(result)->http;
}

int tn_result_exit(enum tn_result result) {
    return result_row(result)->exit_code;
}
