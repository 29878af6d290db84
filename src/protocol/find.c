/* Looks up commands in the table and formats their usage. */
#include <stdio.h>

#include "base/assert.h"
#include "protocol/table.h"

static uint8_t upper(uint8_t c) {
    return c >= 'a' && c <= 'z' ? (uint8_t)(c - 'a' + 'A') : c;
}

bool protocol_word_is(struct tn_bytes argument, const char *word, size_t len) {
    if (argument.len != len) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        if (upper(argument.at[i]) != (uint8_t)word[i]) {
            return false;
        }
    }
    return true;
}

bool protocol_word_ends_list(struct tn_bytes word) {
    return protocol_word_is(word, "OPID", 4) || protocol_word_is(word, "REASON", 6);
}

/* The commands that clients send most often, in their usual spelling. None of them has a second
 * word. */
static const struct {
    char word[sizeof(uint64_t) + 1]; /* and zeros */
    uint8_t len;
    uint8_t id; /* enum protocol_id */
} often[] = {
#define OFTEN(name) \
    { #name, sizeof(#name) - 1, PROTOCOL_##name }
    OFTEN(ALLOC), OFTEN(RELEASE), OFTEN(TOUCH), OFTEN(RESERVE), OFTEN(ACTIVATE), OFTEN(PING),
#undef OFTEN
};

static const struct protocol_command *find_often(struct tn_bytes word) {
    char key[sizeof(uint64_t)] = {0};
    if (word.len > sizeof key) {
        return NULL;
    }
    memcpy(key, word.at, word.len);
    for (size_t i = 0; i < sizeof often / sizeof often[0]; i++) {
        if (word.len == often[i].len && memcmp(key, often[i].word, sizeof key) == 0) {
            return &protocol_table[often[i].id];
        }
    }
    return NULL;
}

/* The first row whose word begins with this letter or a later one. */
static uint32_t first_row(uint8_t letter) {
    uint32_t low = 0;
    uint32_t high = PROTOCOL_COMMANDS;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if ((uint8_t)protocol_table[middle].word[0] < letter) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* A row without a second word stands before those of the same word that have one, and is found only
 * if nothing follows: COMMAND alone is a command, COMMAND FOO is not. */
const struct protocol_command *protocol_command_find(const struct tn_bytes *argv, uint32_t argc,
                                                     bool *ret_container) {
    *ret_container = false;
    if (argc == 0 || argv[0].len == 0) {
        return NULL;
    }
    const struct protocol_command *found = find_often(argv[0]);
    if (found != NULL) {
        *ret_container = true;
        return found;
    }
    uint8_t letter = upper(argv[0].at[0]);
    for (uint32_t i = first_row(letter); i < PROTOCOL_COMMANDS; i++) {
        const struct protocol_command *row = &protocol_table[i];
        if ((uint8_t)row->word[0] != letter) {
            break;
        }
        if (!protocol_word_is(argv[0], row->word, row->word_len)) {
            continue;
        }
        *ret_container = true;
        if (row->sub_len == 0) {
            if (argc == 1 || i + 1 == PROTOCOL_COMMANDS || protocol_table[i + 1].sub_len == 0 ||
                strcmp(protocol_table[i + 1].word, row->word) != 0) {
                return row;
            }
        } else if (argc > 1 && protocol_word_is(argv[1], row->sub, row->sub_len)) {
            return row;
        }
    }
    return NULL;
}

bool protocol_family_has(struct tn_bytes word, enum protocol_trait trait) {
    uint8_t letter = word.len > 0 ? upper(word.at[0]) : 0;
    for (uint32_t i = first_row(letter); i < PROTOCOL_COMMANDS; i++) {
        const struct protocol_command *row = &protocol_table[i];
        if ((uint8_t)row->word[0] != letter) {
            break;
        }
        if (protocol_command_has(row, trait) && protocol_word_is(word, row->word, row->word_len)) {
            return true;
        }
    }
    return false;
}

/* ---- Arity ---- */

/* The fewest words that an argument's parts take; parts go one level deeper than this at most. */
static int32_t words_least(const struct protocol_argument *argument) {
    int32_t least = argument->token != NULL;
    switch (argument->type) {
    case PROTOCOL_T_TOKEN:
        return least;
    case PROTOCOL_T_BLOCK:
        /* Of a claim: the pool and the shorter of COUNT n and VALUES n value. */
        return least + (argument->bind == PROTOCOL_B_CLAIM ? 3 : (int32_t)argument->part_count);
    default:
        return least + 1;
    }
}

static int32_t form_arity(const struct protocol_form *form, bool *ret_open) {
    int32_t least = 0;
    for (uint32_t i = 0; i < form->count; i++) {
        const struct protocol_argument *argument = &form->arguments[i];
        *ret_open = *ret_open || argument->optional || argument->multiple;
        least += argument->optional ? 0 : words_least(argument);
    }
    return least;
}

const struct protocol_form *protocol_command_form(const struct protocol_command *row, bool also) {
    if (also && row->also_form.count > 0) {
        return &row->also_form;
    }
    return also && row->other.count > 0 ? &row->other : &row->form;
}

int32_t protocol_command_arity(const struct protocol_command *command) {
    bool open = false;
    int32_t least = form_arity(&command->form, &open);
    if (command->other.count > 0) {
        int32_t other = form_arity(&command->other, &open);
        least = other < least ? other : least;
    }
    least += command->sub_len > 0 ? 2 : 1;
    return open ? -least : least;
}

/* ---- Names and usage ---- */

void protocol_command_name(const struct protocol_command *command, char out[PROTOCOL_NAME_MAX]) {
    (void)snprintf(out, PROTOCOL_NAME_MAX, "%s%s%s", command->word, command->sub_len > 0 ? " " : "",
                   command->sub);
}

void protocol_command_full_name(const struct protocol_command *command,
                                char out[PROTOCOL_NAME_MAX]) {
    int len = snprintf(out, PROTOCOL_NAME_MAX, "%s%s%s", command->word,
                       command->sub_len > 0 ? "|" : "", command->sub);
    TN_ASSERT(len > 0 && (uint32_t)len < PROTOCOL_NAME_MAX);
    for (; *out != '\0'; out++) {
        *out = *out >= 'A' && *out <= 'Z' ? (char)(*out - 'A' + 'a') : *out;
    }
}

static void put(struct tn_writer *w, const char *text) {
    tn_write_raw(w, text, strlen(text));
}

/* A list of arguments being walked: what is left of it, and whose parts they are. */
struct usage_level {
    const struct protocol_argument *owner; /* NULL: the command itself */
    const struct protocol_argument *next;
    uint32_t left;
    bool begun;
};

static void usage_close(struct tn_writer *w, const struct protocol_argument *argument) {
    bool group = argument->type == PROTOCOL_T_ONEOF && !argument->optional;
    put(w, group ? ")" : "");
    put(w, argument->multiple ? (argument->part_count > 0 ? " ..." : "...") : "");
    put(w, argument->optional ? "]" : "");
}

/* Writes an argument up to its parts; true if it has some. */
static bool usage_open(struct tn_writer *w, const struct protocol_argument *argument) {
    bool group = argument->type == PROTOCOL_T_ONEOF && !argument->optional;
    bool token = argument->token != NULL;
    put(w, argument->optional ? "[" : "");
    put(w, token ? argument->token : "");
    put(w, token && argument->type != PROTOCOL_T_TOKEN ? " " : "");
    put(w, group ? "(" : "");
    if (argument->part_count > 0) {
        return true;
    }
    put(w, argument->type != PROTOCOL_T_TOKEN ? argument->name : "");
    usage_close(w, argument);
    return false;
}

bool protocol_usage_write(const struct protocol_command *command, const struct protocol_form *form,
                          char *out, size_t capacity) {
    struct usage_level stack[PROTOCOL_ARGUMENTS_MAX];
    uint32_t depth = 1;
    struct tn_writer w = tn_writer_of(out, capacity - 1);
    put(&w, command->word);
    put(&w, command->sub_len > 0 ? " " : "");
    put(&w, command->sub);
    put(&w, form->count > 0 ? " " : "");
    stack[0] = (struct usage_level){.next = form->arguments, .left = form->count};
    while (depth > 0) {
        struct usage_level *level = &stack[depth - 1];
        if (level->left == 0) {
            if (level->owner != NULL) {
                usage_close(&w, level->owner);
            }
            depth--;
            continue;
        }
        const struct protocol_argument *argument = level->next++;
        bool choice = level->owner != NULL && level->owner->type == PROTOCOL_T_ONEOF;
        put(&w, !level->begun ? "" : (choice ? " | " : " "));
        level->begun = true;
        level->left--;
        if (usage_open(&w, argument)) {
            TN_ASSERT(depth < PROTOCOL_ARGUMENTS_MAX);
            stack[depth++] = (struct usage_level){
                .owner = argument, .next = argument->parts, .left = argument->part_count};
        }
    }
    out[w.len] = '\0';
    return !w.overflow;
}

const char *protocol_role_name(enum protocol_role role) {
    static const char *const names[] = {"none", "reader", "holder", "operator", "admin"};
    return names[role];
}

enum protocol_role protocol_role_parse(struct tn_bytes word) {
    for (int role = PROTOCOL_READER; role <= PROTOCOL_ADMIN; role++) {
        const char *name = protocol_role_name((enum protocol_role)role);
        if (tn_bytes_equal(word, tn_bytes_of(name, strlen(name)))) {
            return (enum protocol_role)role;
        }
    }
    return PROTOCOL_NOBODY;
}

const char *protocol_type_name(enum protocol_type type) {
    static const char *const names[] = {"string",     "integer", "string",
                                        "pure-token", "oneof",   "block"};
    return names[type];
}
