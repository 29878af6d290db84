/* Parses arguments: first those without a keyword, in order, then those with one, in any order,
 * each at most once (except FROM). Each kind of argument has one function that stores it. */
#include "protocol/parse_parts.h"

#include <string.h>

#include "protocol/text.h"

/* ---- Amounts and claims ---- */

static bool requested_values(struct parse_cursor *c, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        struct tn_bytes word;
        if (!parse_next(c, "a value", &word)) {
            return false;
        }
        kernel_requested_write_text(&c->scratch, word);
    }
    return true;
}

/* COUNT n | VALUES n value...: true and *ret_given false if neither stands here. */
static bool claim_amount(struct parse_cursor *c, struct tn_bytes pool, bool *ret_given) {
    uint64_t count;
    *ret_given = true;
    if (c->at < c->argc && protocol_word_is(c->argv[c->at], "COUNT", 5)) {
        c->at++;
        if (!parse_next_number(c, "COUNT", UINT32_MAX, &count)) {
            return false;
        }
        if (count == 0) {
            return parse_refuse(c, TN_R_MALFORMED, "COUNT must be at least 1");
        }
        kernel_claim_write(&c->scratch, pool, true, (uint32_t)count);
    } else if (c->at < c->argc && protocol_word_is(c->argv[c->at], "VALUES", 6)) {
        c->at++;
        if (!parse_next_number(c, "VALUES", KERNEL_BUNDLE_MAX, &count)) {
            return false;
        }
        if (count == 0) {
            return parse_refuse(c, TN_R_MALFORMED, "VALUES must be at least 1");
        }
        kernel_claim_write(&c->scratch, pool, false, (uint32_t)count);
        if (!requested_values(c, (uint32_t)count)) {
            return false;
        }
    } else {
        *ret_given = false;
    }
    return true;
}

static bool claim_add(struct parse_cursor *c) {
    struct kernel_command *command = &c->call->command;
    struct tn_bytes pool;
    bool given;
    if (!parse_next_name(c, "the pool", KERNEL_POOL_MAX, &pool) || !claim_amount(c, pool, &given)) {
        return false;
    }
    if (!given) {
        return parse_usage(c, "FROM a pool needs COUNT n or VALUES n value...");
    }
    if (command->claim_count == KERNEL_CLAIMS_MAX) {
        return parse_refuse(c, TN_R_TOO_LARGE, "at most %u FROM clauses", KERNEL_CLAIMS_MAX);
    }
    c->call->from = pool;
    command->claim_count++;
    command->fields |= KERNEL_F_CLAIMS;
    return true;
}

/* The amount of `ALLOC pool holder`: without one, "one, or whatever a returning holder has". */
static bool claim_alone(struct parse_cursor *c) {
    bool given;
    if (!claim_amount(c, c->call->from, &given)) {
        return false;
    }
    if (!given) {
        kernel_claim_write(&c->scratch, c->call->from, true, 0);
    }
    c->call->command.claim_count = 1;
    c->call->command.fields |= KERNEL_F_CLAIMS;
    return true;
}

/* ---- Options of pools ---- */

static bool option_put(struct parse_cursor *c, const char *name, struct tn_bytes word) {
    char text[KERNEL_OPTION_TEXT_MAX];
    if (!parse_lower_copy(word, text, sizeof text)) {
        return parse_refuse(c, TN_R_BAD_POLICY, "%s: invalid value '%.*s'", name,
                            PARSE_SHOWN(word));
    }
    if (!kernel_option_set(name, text, &c->call->policy, c->call->detail)) {
        c->code = TN_R_BAD_POLICY;
        return false;
    }
    return true;
}

/* RANGE again and again: each adds spans. */
static bool range_put(struct parse_cursor *c, struct tn_bytes first, struct tn_bytes last) {
    char text[KERNEL_OPTION_TEXT_MAX];
    size_t len = 0;
    if (last.len > 0 && parse_lower_copy(first, text, sizeof text - 1)) {
        len = first.len;
        text[len++] = '-';
    }
    if ((last.len > 0 && len == 0) ||
        !parse_lower_copy(last.len > 0 ? last : first, text + len, sizeof text - len)) {
        return parse_refuse(c, TN_R_BAD_POLICY, "range: invalid value '%.*s'", PARSE_SHOWN(first));
    }
    if (!kernel_range_add(text, &c->call->policy, c->call->detail)) {
        c->code = TN_R_BAD_POLICY;
        return false;
    }
    return true;
}

static bool option_next(struct parse_cursor *c) {
    struct tn_bytes word = c->argv[c->at++];
    struct tn_bytes value;
    char name[64];
    if (protocol_word_is(word, "SET", 3)) {
        return option_put(c, "kind", tn_bytes_of("set", 3));
    }
    if (protocol_word_is(word, "RANGE", 5)) {
        struct tn_bytes hi = {.len = 0};
        return parse_next(c, "the range's first value", &value) &&
               (kernel_range_is_whole(value) || parse_next(c, "the range's last value", &hi)) &&
               range_put(c, value, hi);
    }
    if (!parse_lower_copy(word, name, sizeof name)) {
        return parse_refuse(c, TN_R_BAD_POLICY, "unknown option '%.*s'", PARSE_SHOWN(word));
    }
    return parse_next(c, name, &value) && option_put(c, name, value);
}

/* The list at the cursor ends where an argument with one of these tokens, or the request, ends it.
 * */
static bool list_ends(const struct parse_cursor *c, uint32_t at) {
    return at >= c->argc || protocol_word_ends_list(c->argv[at]);
}

static bool options_all(struct parse_cursor *c) {
    while (!list_ends(c, c->at)) {
        if (!option_next(c)) {
            return false;
        }
    }
    c->call->command.policy = &c->call->policy;
    c->call->command.fields |= KERNEL_F_POLICY;
    return true;
}

static bool values_all(struct parse_cursor *c) {
    uint32_t count = 0;
    while (!list_ends(c, c->at + count)) {
        count++;
    }
    if (count == 0) {
        return parse_usage(c, "a name is missing");
    }
    if (count > KERNEL_BUNDLE_MAX) {
        return parse_refuse(c, TN_R_TOO_LARGE, "at most %u names in one command",
                            KERNEL_BUNDLE_MAX);
    }
    c->call->command.value_count = count;
    c->call->command.fields |= KERNEL_F_VALUES;
    return requested_values(c, count);
}

/* ---- Single arguments ---- */

bool parse_bind_lease(struct parse_cursor *c) {
    struct tn_bytes word;
    if (!parse_next(c, "the lease", &word)) {
        return false;
    }
    if (!protocol_lease_parse(word, &c->call->command.lease)) {
        return parse_refuse(c, TN_R_MALFORMED, "'%.*s' is not a lease id such as 0-1042",
                            PARSE_SHOWN(word));
    }
    c->call->command.fields |= KERNEL_F_LEASE;
    return true;
}

static bool bind_holder(struct parse_cursor *c) {
    struct protocol_call *call = c->call;
    if (!parse_next_name(c, "the holder", KERNEL_HOLDER_MAX, &call->command.holder)) {
        return false;
    }
    call->command.fields |= KERNEL_F_HOLDER;
    call->derive = protocol_command_has(call->row, PROTOCOL_DERIVES) &&
                   call->command.holder.len == 1 && call->command.holder.at[0] == '*';
    return true;
}

static bool bind_seconds(struct parse_cursor *c, const char *what, uint32_t field,
                         uint32_t *ret_seconds) {
    uint64_t seconds;
    if (!parse_next_seconds(c, what, &seconds)) {
        return false;
    }
    *ret_seconds = (uint32_t)seconds;
    c->call->command.fields |= field;
    return true;
}

/* WAIT 0 does not wait. */
static bool bind_wait(struct parse_cursor *c) {
    struct kernel_command *command = &c->call->command;
    uint64_t seconds;
    if (!parse_next_seconds(c, "WAIT", &seconds)) {
        return false;
    }
    if (seconds > KERNEL_WAIT_MAX_S) {
        return parse_refuse(c, TN_R_MALFORMED, "WAIT: at most %u seconds", KERNEL_WAIT_MAX_S);
    }
    command->wait_s = (uint32_t)seconds;
    command->fields |= seconds > 0 ? KERNEL_F_WAIT : 0;
    return true;
}

static bool bind_u64(struct parse_cursor *c, const char *what, uint32_t field,
                     uint64_t *ret_number) {
    c->call->command.fields |= field;
    return parse_next_number(c, what, UINT64_MAX, ret_number);
}

static bool bind_meta(struct parse_cursor *c, const char *what) {
    struct tn_bytes word;
    if (!parse_next(c, what, &word)) {
        return false;
    }
    if (word.len > KERNEL_META_MAX) {
        return parse_refuse(c, TN_R_TOO_LARGE, "%s: at most %u bytes", what, KERNEL_META_MAX);
    }
    const char *why = protocol_json_fault(word);
    if (why != NULL) {
        return parse_refuse(c, TN_R_MALFORMED, "%s: %s", what, why);
    }
    c->call->command.meta = word;
    c->call->command.fields |= KERNEL_F_META;
    return true;
}

static bool bind_reason(struct parse_cursor *c) {
    struct kernel_command *command = &c->call->command;
    if (!parse_next(c, "REASON", &command->note)) {
        return false;
    }
    if (command->note.len > KERNEL_NOTE_MAX) {
        return parse_refuse(c, TN_R_TOO_LARGE, "REASON: at most %u bytes", KERNEL_NOTE_MAX);
    }
    const char *why = protocol_name_fault(command->note, KERNEL_NOTE_MAX);
    if (why != NULL) {
        return parse_refuse(c, TN_R_MALFORMED, "REASON: %s", why);
    }
    command->fields |= KERNEL_F_NOTE;
    return true;
}

static bool bind_spec(struct parse_cursor *c) {
    struct tn_bytes word;
    if (!parse_next(c, "the description", &word)) {
        return false;
    }
    if (word.len > KERNEL_SENSOR_SPEC_MAX) {
        return parse_refuse(c, TN_R_TOO_LARGE, "the description: at most %u bytes",
                            KERNEL_SENSOR_SPEC_MAX);
    }
    const char *why = protocol_json_fault(word);
    if (why != NULL) {
        return parse_refuse(c, TN_R_MALFORMED, "the description: %s", why);
    }
    c->call->command.spec = word;
    c->call->command.fields |= KERNEL_F_SPEC;
    return true;
}
static bool bind_name(struct parse_cursor *c, const char *what, uint32_t max, uint32_t field,
                      struct tn_bytes *ret_name) {
    c->call->command.fields |= field;
    return parse_next_name(c, what, max, ret_name);
}

static bool bind_token_id(struct parse_cursor *c) {
    struct kernel_command *command = &c->call->command;
    struct tn_bytes word;
    if (!parse_next(c, "the token's id", &word)) {
        return false;
    }
    if (!protocol_token_id_parse(word, &command->lease, &command->epoch)) {
        return parse_refuse(c, TN_R_MALFORMED, "'%.*s' is not a token id such as 0-1042.1",
                            PARSE_SHOWN(word));
    }
    command->fields |= KERNEL_F_LEASE | KERNEL_F_EPOCH;
    return true;
}

static bool bind_user(struct parse_cursor *c, enum protocol_bind to) {
    struct tn_bytes word;
    return parse_next(c, "a value", &word) &&
           (c->code = protocol_user_parse(to, word, c->call)) == TN_R_OK;
}

static bool bind(struct parse_cursor *c, enum protocol_bind to) {
    struct kernel_command *command = &c->call->command;
    switch (to) {
    case PROTOCOL_B_LEASE:
        return parse_bind_lease(c);
    case PROTOCOL_B_TOKEN_ID:
        return bind_token_id(c);
    case PROTOCOL_B_EPOCH:
        command->fields |= KERNEL_F_EPOCH;
        return parse_next_number(c, "the epoch", UINT64_MAX, &command->epoch);
    case PROTOCOL_B_HOLDER:
        return bind_holder(c);
    case PROTOCOL_B_TTL:
        return bind_seconds(c, "TTL", KERNEL_F_TTL, &command->ttl_s);
    case PROTOCOL_B_WAIT:
        return bind_wait(c);
    case PROTOCOL_B_AFTER:
        return bind_seconds(c, "AFTER", KERNEL_F_AFTER, &command->after_s);
    case PROTOCOL_B_DEADLINE:
        return bind_u64(c, "DEADLINE", KERNEL_F_DEADLINE, &command->deadline_ms);
    case PROTOCOL_B_CREATED:
        return bind_u64(c, "CREATED", KERNEL_F_TIMES, &command->created_ms);
    case PROTOCOL_B_SEEN:
        return bind_u64(c, "SEEN", KERNEL_F_TIMES, &command->seen_ms);
    case PROTOCOL_B_OFFLINE:
        return bind_u64(c, "OFFLINE", KERNEL_F_TIMES, &command->offline_ms);
    case PROTOCOL_B_GIVEN:
        return bind_u64(c, "GIVEN", KERNEL_F_FIGURES, &command->given_values);
    case PROTOCOL_B_RECLAIMED:
        return bind_u64(c, "RECLAIMED", KERNEL_F_FIGURES, &command->reclaimed);
    case PROTOCOL_B_META:
        return bind_meta(c, "META");
    case PROTOCOL_B_PAYLOAD:
        return bind_meta(c, "PAYLOAD");
    case PROTOCOL_B_NOW:
        command->fields |= KERNEL_F_IMMEDIATE;
        return true;
    case PROTOCOL_B_POOL:
        return bind_name(c, "the pool", KERNEL_POOL_MAX, KERNEL_F_POOL, &command->pool);
    case PROTOCOL_B_FROM:
        return parse_next_name(c, "the pool", KERNEL_POOL_MAX, &c->call->from);
    case PROTOCOL_B_AMOUNT:
        return claim_alone(c);
    case PROTOCOL_B_CLAIM:
        return claim_add(c);
    case PROTOCOL_B_VALUES:
        return values_all(c);
    case PROTOCOL_B_OPTIONS:
        return options_all(c);
    case PROTOCOL_B_NAME:
        return bind_name(c, "the name", KERNEL_RULE_MAX, KERNEL_F_NAME, &command->name);
    case PROTOCOL_B_TRIGGER:
        return bind_name(c, "the trigger", KERNEL_RULE_MAX, KERNEL_F_TRIGGER, &command->trigger);
    case PROTOCOL_B_DISABLED:
        command->enabled = false;
        return true;
    case PROTOCOL_B_SPEC:
        return bind_spec(c);
    case PROTOCOL_B_REASON:
        return bind_reason(c);
    case PROTOCOL_B_OPID:
        return parse_next_name(c, "OPID", KERNEL_OPID_MAX, &command->opid);
    default:
        return to >= PROTOCOL_B_ROLE && to <= PROTOCOL_B_MAX_VALUES ? bind_user(c, to)
                                                                    : parse_bind_read(c, to);
    }
}

/* ---- Forms ---- */

/* The argument whose token stands here; form->count: none. */
static uint32_t token_find(const struct parse_cursor *c, const struct protocol_form *form) {
    uint32_t i = 0;
    while (i < form->count && (form->arguments[i].token == NULL ||
                               !protocol_word_is(c->argv[c->at], form->arguments[i].token,
                                                 strlen(form->arguments[i].token)))) {
        i++;
    }
    return i;
}

static bool tokens_parse(struct parse_cursor *c, const struct protocol_form *form) {
    uint32_t seen = 0;
    while (c->at < c->argc) {
        uint32_t i = token_find(c, form);
        if (i == form->count) {
            return parse_refuse(c, TN_R_MALFORMED, "unexpected '%.*s'; see COMMAND DOCS %s",
                                PARSE_SHOWN(c->argv[c->at]), c->call->row->word);
        }
        if ((seen >> i & 1) != 0 && !form->arguments[i].multiple) {
            return parse_refuse(c, TN_R_MALFORMED, "%s is repeated", form->arguments[i].token);
        }
        seen |= 1u << i;
        c->at++;
        if (!bind(c, (enum protocol_bind)form->arguments[i].bind)) {
            return false;
        }
    }
    for (uint32_t i = 0; i < form->count; i++) {
        if (form->arguments[i].token != NULL && !form->arguments[i].optional &&
            (seen >> i & 1) == 0) {
            return parse_refuse(c, TN_R_MALFORMED, "%s is missing; see COMMAND DOCS %s",
                                form->arguments[i].token, c->call->row->word);
        }
    }
    return true;
}

static bool form_parse(struct parse_cursor *c, const struct protocol_form *form) {
    for (uint32_t i = 0; i < form->count; i++) {
        if (form->arguments[i].token == NULL &&
            !bind(c, (enum protocol_bind)form->arguments[i].bind)) {
            return false;
        }
    }
    return tokens_parse(c, form);
}

/* What the arguments need not say: whether a rule or a sensor is on; that a pool has no past. */
static void fields_set(struct protocol_call *call) {
    const struct kernel_verb_row *verb = &kernel_verb_rows[call->row->verb];
    call->command.fields |= verb->required & KERNEL_F_FIGURES;
    if ((verb->required & KERNEL_F_ENABLED) != 0) {
        call->command.fields |= KERNEL_F_ENABLED;
        call->command.enabled = !protocol_command_has(call->row, PROTOCOL_DISABLES);
    }
}

enum tn_result protocol_call_parse(const struct protocol_command *row, const struct tn_bytes *argv,
                                   uint32_t argc, void *scratch, size_t capacity,
                                   struct protocol_call *ret_call) {
    struct parse_cursor c = {.argv = argv,
                             .argc = argc,
                             .at = row->sub_len > 0 ? 2 : 1,
                             .scratch = tn_writer_of(scratch, capacity),
                             .call = ret_call};
    ret_call->row = row;
    ret_call->command = (struct kernel_command){.verb = (enum kernel_verb)row->verb};
    ret_call->policy.mask = 0;
    ret_call->policy.has_exclude = false;
    ret_call->policy.has_spans = false;
    ret_call->policy.strict = true;
    ret_call->derive = false;
    ret_call->from = ret_call->value = tn_bytes_of(NULL, 0);
    ret_call->token = ret_call->scope = ret_call->secret = tn_bytes_of(NULL, 0);
    ret_call->fence_lsn = ret_call->cursor = 0;
    ret_call->refresh_s = 0;
    ret_call->has_refresh = false;
    ret_call->count = PROTOCOL_PAGE;
    ret_call->bytes = PROTOCOL_LOGS;
    ret_call->position = tn_bytes_of(NULL, 0);
    ret_call->after = (struct protocol_event_id){0};
    ret_call->state = KERNEL_NO_STATE;
    ret_call->value_state = KERNEL_VALUE_ANY;
    ret_call->detail[0] = '\0';
    if (row->kind == PROTOCOL_READ) {
        ret_call->select = (struct protocol_selection){.samples = 0};
    }
    if (row->kind == PROTOCOL_WRITE) {
        fields_set(ret_call);
    }
    /* `ALLOC holder FROM ...` and `ALLOC pool holder` differ in their second word. */
    bool other =
        row->other.count > 0 && argc > c.at + 1 && protocol_word_is(argv[c.at + 1], "FROM", 4);
    if (!form_parse(&c, other ? &row->other : &row->form)) {
        return c.code;
    }
    if (c.scratch.overflow) {
        (void)parse_refuse(&c, TN_R_TOO_LARGE, "a value is longer than 65535 bytes");
        return c.code;
    }
    struct tn_bytes nested = tn_bytes_of(scratch, c.scratch.len);
    if ((ret_call->command.fields & KERNEL_F_CLAIMS) != 0) {
        ret_call->command.claims = nested;
    } else {
        ret_call->command.values = nested;
    }
    return TN_R_OK;
}
