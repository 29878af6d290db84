/* Converts the table's spelling to the command line's. The bind of an argument determines how a
 * group is written; the rest follows from keyword and type. */
#include "cli/spell.h"

#include <ctype.h>
#include <stdio.h>

#define AMOUNT_TEXT "--count N | --values VALUE,..."

bool cli_offers(const struct protocol_command *row) {
    return row->kind != PROTOCOL_CONNECTION || protocol_command_has(row, PROTOCOL_CLI);
}

const struct protocol_command *cli_command_find(int argc, char **argv) {
    struct tn_bytes words[2];
    bool container;
    for (int i = 0; i < argc && i < 2; i++) {
        words[i] = tn_bytes_of(argv[i], strlen(argv[i]));
    }
    const struct protocol_command *row =
        protocol_command_find(words, argc < 2 ? (uint32_t)argc : 2, &container);
    return row != NULL && cli_offers(row) ? row : NULL;
}

static void put_case(struct cli_text *text, const char *word, bool upper) {
    for (; *word != '\0'; word++) {
        char c = (char)(upper ? toupper((unsigned char)*word) : tolower((unsigned char)*word));
        cli_text_add(text, &c, 1);
    }
}

void cli_spell_option(const char *word, char out[CLI_OPTION_MAX]) {
    size_t len = 2;
    out[0] = out[1] = '-';
    for (; *word != '\0' && len + 1 < CLI_OPTION_MAX; word++) {
        out[len++] = *word == '_' ? '-' : (char)tolower((unsigned char)*word);
    }
    out[len] = '\0';
}

bool cli_option_is(const char *given, size_t len, const char *word) {
    char name[CLI_OPTION_MAX];
    cli_spell_option(word, name);
    if (strlen(name) != len) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        char c = given[i] == '_' ? '-' : (char)tolower((unsigned char)given[i]);
        if (c != name[i]) {
            return false;
        }
    }
    return true;
}

void cli_spell_name(struct cli_text *text, const struct protocol_command *row) {
    put_case(text, row->word, false);
    cli_text_put(text, row->sub_len > 0 ? " " : "");
    put_case(text, row->sub, false);
}

/* ---- Usage ---- */

static void usage_argument(struct cli_text *text, const struct protocol_argument *argument) {
    char option[CLI_OPTION_MAX];
    switch (argument->bind) {
    case PROTOCOL_B_AMOUNT:
        cli_text_put(text, argument->optional ? "[" AMOUNT_TEXT "]" : "--values VALUE,...");
        return;
    case PROTOCOL_B_CLAIM:
        cli_text_put(text, "--from POOL [" AMOUNT_TEXT "] ...");
        return;
    case PROTOCOL_B_OPTIONS:
        cli_text_put(text, "[--range LO HI | --set] [--OPTION VALUE ...]");
        return;
    default:
        break;
    }
    cli_text_put(text, argument->optional ? "[" : "");
    if (argument->token != NULL) {
        cli_spell_option(argument->token, option);
        cli_text_put(text, option);
        cli_text_put(text, argument->type == PROTOCOL_T_TOKEN ? "" : " ");
    }
    if (argument->type != PROTOCOL_T_TOKEN) {
        put_case(text, argument->name, true);
    }
    cli_text_put(text, argument->multiple ? "..." : "");
    cli_text_put(text, argument->optional ? "]" : "");
}

void cli_spell_usage(struct cli_text *text, const struct protocol_command *row,
                     const struct protocol_form *form) {
    cli_text_put(text, "tenure ");
    cli_spell_name(text, row);
    for (uint32_t i = 0; i < form->count; i++) {
        cli_text_put(text, " ");
        usage_argument(text, &form->arguments[i]);
    }
}

/* ---- Options ---- */

static void options_of_form(const struct protocol_form *form, const struct protocol_form *before,
                            cli_option_fn *each, void *ctx) {
    char option[CLI_OPTION_MAX];
    for (uint32_t i = 0; i < form->count; i++) {
        const struct protocol_argument *argument = &form->arguments[i];
        bool told = false;
        for (uint32_t b = 0; before != NULL && b < before->count; b++) {
            told = told || (argument->token != NULL && before->arguments[b].token != NULL &&
                            strcmp(argument->token, before->arguments[b].token) == 0);
        }
        if (argument->token != NULL && !told) {
            bool claim = argument->bind == PROTOCOL_B_CLAIM;
            cli_spell_option(argument->token, option);
            each(ctx, option,
                 claim ? "pool" : (argument->type == PROTOCOL_T_TOKEN ? "" : argument->name));
        }
        if (argument->bind == PROTOCOL_B_AMOUNT ||
            (argument->bind == PROTOCOL_B_CLAIM && before == NULL)) {
            if (argument->optional || argument->bind == PROTOCOL_B_CLAIM) {
                each(ctx, "--count", "n");
            }
            each(ctx, "--values", "value,...");
        }
    }
}

/* What an option of a pool takes. */
static const char *pool_value(enum kernel_option_type type) {
    switch (type) {
    case KERNEL_TYPE_FLAG:
        return "yes|no";
    case KERNEL_TYPE_SECONDS:
        return "seconds";
    case KERNEL_TYPE_MICRO:
        return "fraction";
    case KERNEL_TYPE_STRATEGY:
        return "lowest|random|next|coldest";
    case KERNEL_TYPE_FORMAT:
        return "dec|hex|mac|ipv4";
    case KERNEL_TYPE_FALLBACK:
        return "none|json";
    case KERNEL_TYPE_FIELDS:
        return "field,...";
    default:
        return "n";
    }
}

static void options_of_pools(cli_option_fn *each, void *ctx) {
    char option[CLI_OPTION_MAX];
    each(ctx, "--range", "lo hi|lo-hi,...|address/bits");
    each(ctx, "--set", "");
    for (unsigned i = 0; i < KERNEL_OPTION_COUNT; i++) {
        if (i == KERNEL_OPTION_KIND || i == KERNEL_OPTION_LO || i == KERNEL_OPTION_HI) {
            continue; /* --range and --set */
        }
        cli_spell_option(kernel_option_rows[i].name, option);
        each(ctx, option, pool_value(kernel_option_rows[i].type));
    }
    each(ctx, "--exclude", "lo-hi,...");
}

void cli_spell_options(const struct protocol_command *row, cli_option_fn *each, void *ctx) {
    for (uint32_t i = 0; i < row->form.count; i++) {
        if (row->form.arguments[i].bind == PROTOCOL_B_OPTIONS) {
            options_of_pools(each, ctx);
        }
    }
    options_of_form(&row->form, NULL, each, ctx);
    if (row->other.count > 0) {
        options_of_form(&row->other, &row->form, each, ctx);
    }
}

/* ---- The example ---- */

struct example {
    struct cli_text *text;
    char words[512]; /* the example, a NUL after each word */
    const char *at[64];
    uint32_t count, next;
};

static void example_split(struct example *example, const char *from) {
    (void)snprintf(example->words, sizeof example->words, "%s", from);
    char *rest = NULL;
    for (char *word = strtok_r(example->words, " ", &rest);
         word != NULL && example->count < sizeof example->at / sizeof example->at[0];
         word = strtok_r(NULL, " ", &rest)) {
        example->at[example->count++] = word;
    }
}

static void example_word(struct example *example) {
    if (example->next < example->count) {
        cli_text_put(example->text, " ");
        cli_text_shell(example->text, example->at[example->next++]);
    }
}

/* VALUES n a b becomes --values a,b. */
static void example_values(struct example *example) {
    uint64_t count = 0;
    const char *digits = example->next < example->count ? example->at[example->next++] : "";
    (void)cli_number_parse(tn_bytes_of(digits, strlen(digits)), &count);
    for (uint64_t i = 0; i < count && example->next < example->count; i++) {
        cli_text_put(example->text, i == 0 ? " " : ",");
        cli_text_shell(example->text, example->at[example->next++]);
    }
}

static uint32_t values_after(const struct protocol_form *form, const char *token) {
    for (uint32_t i = 0; i < form->count; i++) {
        if (form->arguments[i].token != NULL && strcmp(form->arguments[i].token, token) == 0) {
            return form->arguments[i].type == PROTOCOL_T_TOKEN ? 0 : 1;
        }
    }
    return strcmp(token, "RANGE") == 0 ? 2 : (strcmp(token, "SET") == 0 ? 0 : 1);
}

static bool is_token(const char *word) {
    return word[0] != '\0' && strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") == strlen(word);
}

void cli_spell_example(struct cli_text *text, const struct protocol_command *row) {
    struct example example = {.text = text};
    char option[CLI_OPTION_MAX];
    example_split(&example, row->example);
    example.next = row->sub_len > 0 ? 2 : 1;
    cli_text_put(text, protocol_command_has(row, PROTOCOL_PROGRAMS) ? "tenure -s data/tenure.sock "
                                                                    : "tenure ");
    cli_spell_name(text, row);
    while (example.next < example.count) {
        const char *word = example.at[example.next];
        if (row->kind == PROTOCOL_CONNECTION || !is_token(word)) {
            example_word(&example);
            continue;
        }
        example.next++;
        cli_spell_option(word, option);
        cli_text_printf(text, " %s", option);
        if (strcmp(word, "VALUES") == 0) {
            example_values(&example);
            continue;
        }
        for (uint32_t i = values_after(&row->form, word); i > 0; i--) {
            example_word(&example);
        }
    }
}

/* ---- Guesses ---- */

#define GUESS_MAX 40u

struct cli_guess cli_guess_for(const char *word) {
    return (struct cli_guess){.word = word, .distance = 3};
}

static char lower(char c) {
    return (char)tolower((unsigned char)c);
}

/* How many letters have to be changed, added, left out or swapped with their neighbour. */
static unsigned distance(const char *a, const char *b) {
    unsigned rows[3][GUESS_MAX + 1];
    size_t a_len = strlen(a);
    size_t b_len = strlen(b);
    if (a_len > GUESS_MAX || b_len > GUESS_MAX) {
        return GUESS_MAX;
    }
    for (unsigned j = 0; j <= b_len; j++) {
        rows[0][j] = j;
    }
    for (unsigned i = 1; i <= a_len; i++) {
        unsigned *row = rows[i % 3];
        const unsigned *above = rows[(i + 2) % 3];
        row[0] = i;
        for (unsigned j = 1; j <= b_len; j++) {
            bool same = lower(a[i - 1]) == lower(b[j - 1]);
            unsigned least = above[j - 1] + !same;
            least = above[j] + 1 < least ? above[j] + 1 : least;
            least = row[j - 1] + 1 < least ? row[j - 1] + 1 : least;
            if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
                lower(a[i - 2]) == lower(b[j - 1]) && rows[(i + 1) % 3][j - 2] + 1 < least) {
                least = rows[(i + 1) % 3][j - 2] + 1;
            }
            row[j] = least;
        }
    }
    return rows[a_len % 3][b_len];
}

void cli_guess_try(struct cli_guess *guess, const char *candidate) {
    size_t len = strlen(guess->word);
    unsigned away = distance(guess->word, candidate);
    /* The beginning of a word stands for the word. */
    if (away > 1 && len >= 3 && strncasecmp(guess->word, candidate, len) == 0) {
        away = 1;
    }
    if (away < guess->distance && away < strlen(candidate)) {
        guess->distance = away;
        (void)snprintf(guess->best, sizeof guess->best, "%s", candidate);
    }
}

bool cli_guess_found(const struct cli_guess *guess) {
    return guess->best[0] != '\0';
}
