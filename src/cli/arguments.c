/* Options to tokens. A request is assembled in the order of the protocol: arguments without
 * a keyword, COUNT or VALUES, other words in the protocol's spelling, claims on several pools,
 * options. */
#include "cli/arguments.h"

#include <stdio.h>
#include <stdlib.h>

#include "cli/spell.h"
#include "kernel/option.h"

/* ---- Words ---- */

void cli_words_add(struct cli_words *words, struct tn_bytes word) {
    if (words->count == words->capacity) {
        uint32_t capacity = 2 * words->capacity + 16;
        struct tn_bytes *at = realloc(words->at, capacity * sizeof at[0]);
        if (at == NULL) {
            words->failed = true;
            return;
        }
        words->at = at;
        words->capacity = capacity;
    }
    words->at[words->count++] = word;
}

void cli_words_put(struct cli_words *words, const char *word) {
    cli_words_add(words, tn_bytes_of(word, strlen(word)));
}

void cli_words_free(struct cli_words *words) {
    free(words->at);
    *words = (struct cli_words){.at = NULL};
}

/* ---- Arguments on the way ---- */

struct maker {
    struct cli_request *request;
    const struct protocol_command *row;
    int argc, at;
    char **argv;
    bool plain_only; /* after -- */
    struct cli_words plain, claims, options;
    /* The claim, or the amount, that is being parsed. */
    struct tn_bytes pool;
    bool in_claim;
    const char *count;
    struct cli_words values;
};

static bool complain(const struct maker *m, const char *what, const char *which) {
    struct cli_text text = {.at = NULL};
    struct cli_text name = {.at = NULL};
    cli_spell_name(&name, m->row);
    cli_spell_usage(&text, m->row, &m->row->form);
    if (m->row->other.count > 0) {
        cli_text_put(&text, "\n       ");
        cli_spell_usage(&text, m->row, &m->row->other);
    }
    if (!text.failed && !name.failed) {
        (void)fprintf(stderr, "tenure %s: %s%s\nusage: %s\n", name.at, what, which, text.at);
    }
    cli_text_free(&text);
    cli_text_free(&name);
    return false;
}

/* Writes the number of VALUES n into memory of the request. */
static void put_number(struct maker *m, struct cli_words *out, uint32_t number) {
    char digits[KERNEL_VALUE_TEXT_MAX];
    uint32_t len = kernel_value_format(KERNEL_DEC, number, digits);
    cli_text_add(&m->request->numbers, digits, len + 1);
    /* The text's place is set when nothing is added any more. Until then, the length says which
     * number it is. */
    cli_words_add(out, tn_bytes_of(NULL, len));
}

static void put_amount(struct maker *m, struct cli_words *out) {
    if (m->values.count > 0) {
        cli_words_put(out, "VALUES");
        put_number(m, out, m->values.count);
        for (uint32_t i = 0; i < m->values.count; i++) {
            cli_words_add(out, m->values.at[i]);
        }
    } else if (m->count != NULL || m->in_claim) {
        cli_words_put(out, "COUNT");
        cli_words_put(out, m->count != NULL ? m->count : "1");
    }
    m->values.count = 0;
    m->count = NULL;
}

static void claim_end(struct maker *m) {
    if (m->in_claim) {
        cli_words_put(&m->claims, "FROM");
        cli_words_add(&m->claims, m->pool);
        put_amount(m, &m->claims);
    }
    m->in_claim = false;
}

/* ---- Options ---- */

/* The value of an option, after its '=' or in the next argument. NULL: it is missing. */
static const char *value_next(struct maker *m, const char *option, const char *value) {
    if (value == NULL && m->at < m->argc) {
        value = m->argv[m->at++];
    }
    if (value == NULL) {
        (void)complain(m, "a value is missing after ", option);
    }
    return value;
}

/* The same, as the value of the token before it. */
static bool put_value(struct maker *m, const char *option, const char *value) {
    value = value_next(m, option, value);
    if (value != NULL) {
        cli_words_put(&m->options, value);
    }
    return value != NULL;
}

static const struct protocol_argument *token_argument(const struct protocol_command *row,
                                                      const char *option, size_t len) {
    for (unsigned f = 0; f < 2; f++) {
        const struct protocol_form *form = f == 0 ? &row->form : &row->other;
        for (uint32_t i = 0; i < form->count; i++) {
            if (form->arguments[i].token != NULL &&
                cli_option_is(option, len, form->arguments[i].token)) {
                return &form->arguments[i];
            }
        }
    }
    return NULL;
}

static bool has_bind(const struct protocol_command *row, enum protocol_bind bind) {
    for (unsigned f = 0; f < 2; f++) {
        const struct protocol_form *form = f == 0 ? &row->form : &row->other;
        for (uint32_t i = 0; i < form->count; i++) {
            if (form->arguments[i].bind == bind) {
                return true;
            }
        }
    }
    return false;
}

static bool take_token(struct maker *m, const struct protocol_argument *argument,
                       const char *option, const char *value) {
    if (argument->type == PROTOCOL_T_TOKEN) {
        if (value != NULL) {
            return complain(m, "unexpected value for ", option);
        }
        cli_words_put(&m->options, argument->token);
        return true;
    }
    value = value_next(m, option, value);
    if (value == NULL) {
        return false;
    }
    if (argument->bind == PROTOCOL_B_CLAIM) {
        claim_end(m);
        m->in_claim = true;
        m->pool = tn_bytes_of(value, strlen(value));
        return true;
    }
    m->request->one_page = m->request->one_page || argument->bind == PROTOCOL_B_CURSOR ||
                           argument->bind == PROTOCOL_B_COUNT;
    cli_words_put(&m->options, argument->token);
    cli_words_put(&m->options, value);
    return true;
}

/* --count and --values, for the claim that they follow or for the only pool. */
static bool take_amount(struct maker *m, bool count, const char *option, const char *value) {
    value = value_next(m, option, value);
    if (value == NULL) {
        return false;
    }
    if (count) {
        m->count = value;
        return true;
    }
    for (const char *at = value;; at++) {
        size_t len = strcspn(at, ",");
        cli_words_add(&m->values, tn_bytes_of(at, len));
        at += len;
        if (*at == '\0') {
            return true;
        }
    }
}

/* "max_lease" of "--max-lease", if it fits. */
static bool option_name(const char *option, size_t len, char out[CLI_OPTION_MAX]) {
    if (len < 3 || len - 2 >= CLI_OPTION_MAX) {
        return false;
    }
    for (size_t i = 2; i < len; i++) {
        char c = option[i];
        out[i - 2] = c == '-' ? '_' : (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    }
    out[len - 2] = '\0';
    return true;
}

/* A flag alone means yes. If a valid value follows, that value is taken. */
static bool take_flag(struct maker *m, const char *name, const char *value) {
    static struct kernel_policy_patch scratch;
    char detail[KERNEL_OPTION_DETAIL];
    if (value == NULL && m->at < m->argc &&
        kernel_option_set(name, m->argv[m->at], &scratch, detail)) {
        value = m->argv[m->at++];
    }
    cli_words_put(&m->options, value != NULL ? value : "yes");
    return true;
}

/* Options of pools. *ret_known: whether it was one. */
static bool take_pool_option(struct maker *m, const char *option, size_t len, const char *value,
                             bool *ret_known) {
    static const char *const others[] = {"exclude", "base_lease_seconds", "offline_hold_days"};
    char name[CLI_OPTION_MAX];
    *ret_known = true;
    if (cli_option_is(option, len, "set")) {
        cli_words_put(&m->options, "SET");
        return true;
    }
    if (cli_option_is(option, len, "range")) {
        value = value_next(m, option, value);
        if (value == NULL) {
            return false;
        }
        cli_words_put(&m->options, "RANGE");
        cli_words_put(&m->options, value);
        if (kernel_range_is_whole(tn_bytes_of(value, strlen(value)))) {
            return true;
        }
        if (m->at >= m->argc) {
            return complain(m, "LO HI, LO-HI or ADDRESS/BITS must follow ", "--range");
        }
        cli_words_put(&m->options, m->argv[m->at++]);
        return true;
    }
    for (unsigned i = 0; i < KERNEL_OPTION_COUNT && option_name(option, len, name); i++) {
        if (strcmp(name, kernel_option_rows[i].name) == 0) {
            cli_words_put(&m->options, kernel_option_rows[i].name);
            if (kernel_option_rows[i].type == KERNEL_TYPE_FLAG) {
                return take_flag(m, name, value);
            }
            return put_value(m, option, value);
        }
    }
    for (unsigned i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (cli_option_is(option, len, others[i])) {
            cli_words_put(&m->options, others[i]);
            return put_value(m, option, value);
        }
    }
    *ret_known = false;
    return true;
}

static void guess_option(void *ctx, const char *name, const char *value) {
    (void)value;
    cli_guess_try(ctx, name);
}

static bool unknown_option(const struct maker *m, const char *option) {
    struct cli_guess guess = cli_guess_for(option);
    char words[160];
    cli_spell_options(m->row, guess_option, &guess);
    if (cli_guess_found(&guess)) {
        (void)snprintf(words, sizeof words, "%.60s; did you mean %s?", option, guess.best);
        return complain(m, "unknown option ", words);
    }
    return complain(m, "unknown option ", option);
}

static bool take_option(struct maker *m) {
    const char *option = m->argv[m->at++];
    size_t len = strcspn(option, "=");
    const char *value = option[len] == '=' ? option + len + 1 : NULL;
    bool amount = has_bind(m->row, PROTOCOL_B_AMOUNT) || has_bind(m->row, PROTOCOL_B_CLAIM);
    const struct protocol_argument *argument = token_argument(m->row, option, len);
    if (argument != NULL) {
        return take_token(m, argument, option, value);
    }
    if (amount && (cli_option_is(option, len, "count") || cli_option_is(option, len, "values"))) {
        return take_amount(m, cli_option_is(option, len, "count"), option, value);
    }
    if (has_bind(m->row, PROTOCOL_B_OPTIONS)) {
        bool known;
        if (!take_pool_option(m, option, len, value, &known)) {
            return false;
        }
        if (known) {
            return true;
        }
    }
    return unknown_option(m, option);
}

/* ---- The whole ---- */

/* How many arguments come before all named ones. */
static uint32_t leading(const struct protocol_form *form) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < form->count; i++) {
        const struct protocol_argument *argument = &form->arguments[i];
        count += argument->token == NULL && argument->part_count == 0 && !argument->multiple;
    }
    return count;
}

/* Finds what matters here in a command written in plain words. */
static void look_at_plain(struct maker *m) {
    struct cli_request *request = m->request;
    for (uint32_t i = leading(&m->row->form); i < m->plain.count; i++) {
        struct tn_bytes word = m->plain.at[i];
        if (protocol_word_is(word, "REASON", 6)) {
            i++; /* the next word is text, whatever it is */
            continue;
        }
        if (protocol_word_is(word, "OPID", 4) && i + 1 < m->plain.count) {
            /* An argument, so it ends with a NUL. */
            request->opid = (const char *)m->plain.at[i + 1].at;
        }
        request->one_page = request->one_page || protocol_word_is(word, "CURSOR", 6) ||
                            protocol_word_is(word, "COUNT", 5);
    }
}

static void join(struct maker *m) {
    struct cli_words *out = &m->request->words;
    uint32_t lead = leading(&m->row->form);
    bool bundle = m->in_claim || m->claims.count > 0;
    cli_words_put(out, m->row->word);
    if (m->row->sub_len > 0) {
        cli_words_put(out, m->row->sub);
    }
    claim_end(m);
    for (uint32_t i = 0; i < m->plain.count; i++) {
        if (i == lead && !bundle) {
            put_amount(m, out);
        }
        cli_words_add(out, m->plain.at[i]);
    }
    if (!bundle) {
        put_amount(m, out);
    }
    for (uint32_t i = 0; i < m->claims.count; i++) {
        cli_words_add(out, m->claims.at[i]);
    }
    for (uint32_t i = 0; i < m->options.count; i++) {
        cli_words_add(out, m->options.at[i]);
    }
    size_t number = 0;
    for (uint32_t i = 0; i < out->count && !m->request->numbers.failed; i++) {
        if (out->at[i].at == NULL && out->at[i].len > 0) {
            out->at[i].at = (const uint8_t *)m->request->numbers.at + number;
            number += out->at[i].len + 1;
        }
    }
    m->request->words.failed = out->failed || m->plain.failed || m->claims.failed ||
                               m->options.failed || m->values.failed || m->request->numbers.failed;
}

static bool arity_check(const struct maker *m) {
    int32_t arity = protocol_command_arity(m->row);
    uint32_t count = m->request->words.count;
    if (m->request->words.failed) {
        (void)fprintf(stderr, "tenure: out of memory\n");
        return false;
    }
    if (count < (uint32_t)(arity < 0 ? -arity : arity)) {
        return complain(m, "an argument is missing", "");
    }
    if (arity > 0 && count > (uint32_t)arity) {
        return complain(m, "unexpected arguments follow", "");
    }
    return true;
}

static bool arguments_take(struct maker *m) {
    while (m->at < m->argc) {
        const char *argument = m->argv[m->at];
        if (!m->plain_only && strcmp(argument, "--") == 0) {
            m->plain_only = true;
            m->at++;
        } else if (!m->plain_only && strncmp(argument, "--", 2) == 0) {
            if (!take_option(m)) {
                return false;
            }
        } else {
            cli_words_put(&m->plain, argument);
            m->at++;
        }
    }
    return true;
}

bool cli_request_make(int argc, char **argv, struct cli_request *ret_request) {
    *ret_request = (struct cli_request){.row = cli_command_find(argc, argv)};
    if (ret_request->row == NULL) {
        return false;
    }
    struct maker m = {.request = ret_request,
                      .row = ret_request->row,
                      .argc = argc,
                      .argv = argv,
                      .at = ret_request->row->sub_len > 0 ? 2 : 1};
    ret_request->takes_opid = has_bind(m.row, PROTOCOL_B_OPID);
    ret_request->is_list = has_bind(m.row, PROTOCOL_B_CURSOR);
    bool good = arguments_take(&m);
    if (good) {
        look_at_plain(&m);
        join(&m);
        good = arity_check(&m);
    }
    cli_words_free(&m.plain);
    cli_words_free(&m.claims);
    cli_words_free(&m.options);
    cli_words_free(&m.values);
    return good;
}

void cli_request_free(struct cli_request *request) {
    cli_words_free(&request->words);
    cli_text_free(&request->numbers);
}
