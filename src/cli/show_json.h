/* Replies and refusals as JSON. Whole numbers are strings, as over HTTP: they have 64 bits. */
#ifndef TN_CLI_SHOW_JSON_H
#define TN_CLI_SHOW_JSON_H

#include "cli/display.h"
#include "cli/reply_reader.h"
#include "kernel/result.h"

/* One value, without a line's end. Metadata and descriptions are put in as the JSON they are. */
void cli_json_node(struct cli_text *out, const struct cli_reader *reader, uint32_t node);

/* An error reply taken apart: NAME words for people key=value key=value. */
struct cli_refusal {
    struct tn_bytes name, words, facts;
    bool known; /* `code` is its result */
    enum tn_result code;
    enum tn_outcome outcome; /* what may be concluded about a write */
};

struct cli_refusal cli_refusal_of(struct tn_bytes text);
/* The first or next key=value; false after the last. */
bool cli_refusal_fact(struct tn_bytes *inout_facts, struct tn_bytes *ret_key,
                      struct tn_bytes *ret_value);
void cli_json_refusal(struct cli_text *out, const struct cli_refusal *refusal);
const char *cli_outcome_name(enum tn_outcome outcome);

#endif
