/* Replies as JSON: one pass over the flat tree, with a stack of what is open. */
#include "cli/show_json.h"

#include <string.h>

#include "protocol/text.h"

struct level {
    uint32_t end; /* the node after it */
    bool map;
    bool value; /* of a map: the next is a value */
};

/* Metadata is a JSON object by contract. */
static bool put_embedded(struct cli_text *out, struct tn_bytes text) {
    if (protocol_json_fault(text) != NULL) {
        return false;
    }
    cli_text_json_text(out, text);
    return true;
}

static void put_scalar(struct cli_text *out, const struct cli_reader *reader, uint32_t node,
                       bool embed) {
    struct tn_bytes text = cli_node_text(reader, node);
    switch (reader->nodes[node].type) {
    case CLI_DOUBLE:
        cli_text_json_text(out, text);
        break;
    case CLI_BOOLEAN:
        cli_text_put(out, text.at[0] == 't' ? "true" : "false");
        break;
    case CLI_NULL:
        cli_text_put(out, "null");
        break;
    default:
        if (!embed || !put_embedded(out, text)) {
            cli_text_json(out, text);
        }
    }
}

static bool is_group(const struct cli_node *node) {
    return node->type == CLI_ARRAY || node->type == CLI_MAP || node->type == CLI_PUSH;
}

void cli_json_node(struct cli_text *out, const struct cli_reader *reader, uint32_t node) {
    struct level levels[CLI_DEPTH_MAX + 1];
    uint32_t depth = 0;
    bool embed = false;
    bool first = true;
    for (uint32_t at = node; at < reader->nodes[node].end; at++) {
        bool key = false;
        while (depth > 0 && at == levels[depth - 1].end) {
            cli_text_put(out, levels[--depth].map ? "}" : "]");
            first = false;
        }
        if (depth > 0) {
            struct level *level = &levels[depth - 1];
            cli_text_put(out, level->map && level->value ? ":" : (first ? "" : ","));
            key = level->map && !level->value;
            level->value = !level->value;
        }
        if (is_group(&reader->nodes[at])) {
            bool map = reader->nodes[at].type == CLI_MAP;
            cli_text_put(out, map ? "{" : "[");
            levels[depth++] = (struct level){.end = reader->nodes[at].end, .map = map};
            first = true;
            embed = false;
        } else {
            if (key) {
                cli_text_json(out, cli_node_text(reader, at));
                embed = cli_node_is(reader, at, "meta") || cli_node_is(reader, at, "spec");
            } else {
                put_scalar(out, reader, at, embed);
                embed = false;
            }
            first = false;
        }
    }
    while (depth > 0) {
        cli_text_put(out, levels[--depth].map ? "}" : "]");
    }
}

/* ---- Refusals ---- */

static struct tn_bytes trimmed(struct tn_bytes text) {
    while (text.len > 0 && text.at[text.len - 1] == ' ') {
        text.len--;
    }
    return text;
}

/* What facts are made of: numbers, leases, states, holders, addresses. Words that the server quotes end in
 * a quote. */
static bool fact_is_plain(struct tn_bytes value) {
    for (uint32_t i = 0; i < value.len; i++) {
        uint8_t c = value.at[i];
        if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') &&
            (c == '\0' || strchr("-_.:/%[]", c) == NULL)) {
            return false;
        }
    }
    return value.len > 0;
}

/* The last word that is key=value, and everything after it, ends the words for people. */
static uint32_t facts_begin(struct tn_bytes text) {
    uint32_t begin = text.len;
    while (begin > 0) {
        uint32_t word = begin;
        while (word > 0 && text.at[word - 1] != ' ') {
            word--;
        }
        uint32_t key = word;
        while (key < begin &&
               ((text.at[key] >= 'a' && text.at[key] <= 'z') || text.at[key] == '_')) {
            key++;
        }
        if (key == word || key == begin || text.at[key] != '=' ||
            !fact_is_plain(tn_bytes_of(text.at + key + 1, begin - key - 1))) {
            break;
        }
        begin = word;
        while (begin > 0 && text.at[begin - 1] == ' ') {
            begin--;
        }
    }
    return begin;
}

struct cli_refusal cli_refusal_of(struct tn_bytes text) {
    const uint8_t *blank = text.len > 0 ? memchr(text.at, ' ', text.len) : NULL;
    uint32_t name = blank != NULL ? (uint32_t)(blank - text.at) : text.len;
    struct cli_refusal refusal = {.name = tn_bytes_of(text.at, name), .outcome = TN_REJECTED};
    struct tn_bytes rest = tn_bytes_of(text.at + name, text.len - name);
    uint32_t facts = facts_begin(rest);
    refusal.words = trimmed(tn_bytes_of(rest.at, facts));
    while (refusal.words.len > 0 && refusal.words.at[0] == ' ') {
        refusal.words = tn_bytes_of(refusal.words.at + 1, refusal.words.len - 1);
    }
    refusal.facts = tn_bytes_of(rest.at + facts, rest.len - facts);
    for (unsigned i = 0; i < TN_R_COUNT; i++) {
        const char *known = tn_result_name((enum tn_result)i);
        if (tn_bytes_equal(refusal.name, tn_bytes_of(known, strlen(known)))) {
            refusal.known = true;
            refusal.code = (enum tn_result)i;
        }
    }
    struct tn_bytes left = refusal.facts;
    struct tn_bytes key;
    struct tn_bytes value;
    if (refusal.known && tn_result_outcome(refusal.code) == TN_UNKNOWN) {
        refusal.outcome = TN_UNKNOWN;
    }
    while (cli_refusal_fact(&left, &key, &value)) {
        if (tn_bytes_equal(key, tn_bytes_of("lsn", 3))) {
            refusal.outcome = TN_COMMITTED;
        }
    }
    return refusal;
}

bool cli_refusal_fact(struct tn_bytes *inout_facts, struct tn_bytes *ret_key,
                      struct tn_bytes *ret_value) {
    struct tn_bytes facts = *inout_facts;
    while (facts.len > 0 && facts.at[0] == ' ') {
        facts = tn_bytes_of(facts.at + 1, facts.len - 1);
    }
    const uint8_t *equal = facts.len > 0 ? memchr(facts.at, '=', facts.len) : NULL;
    if (equal == NULL) {
        return false;
    }
    uint32_t key = (uint32_t)(equal - facts.at);
    const uint8_t *blank = memchr(facts.at, ' ', facts.len);
    uint32_t end = blank != NULL && blank > equal ? (uint32_t)(blank - facts.at) : facts.len;
    *ret_key = tn_bytes_of(facts.at, key);
    *ret_value = tn_bytes_of(equal + 1, end - key - 1);
    *inout_facts = tn_bytes_of(facts.at + end, facts.len - end);
    return true;
}

const char *cli_outcome_name(enum tn_outcome outcome) {
    static const char *const names[] = {"committed", "rejected", "unknown"};
    return names[outcome];
}

void cli_json_refusal(struct cli_text *out, const struct cli_refusal *refusal) {
    struct tn_bytes facts = refusal->facts;
    struct tn_bytes key;
    struct tn_bytes value;
    cli_text_put(out, "{\"result\":");
    cli_text_json(out, refusal->name);
    cli_text_printf(out, ",\"outcome\":\"%s\",\"detail\":", cli_outcome_name(refusal->outcome));
    cli_text_json(out, refusal->words);
    while (cli_refusal_fact(&facts, &key, &value)) {
        cli_text_put(out, ",");
        cli_text_json(out, key);
        cli_text_put(out, ":");
        cli_text_json(out, value);
    }
    cli_text_put(out, "}");
}
