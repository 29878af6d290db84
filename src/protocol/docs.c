/* COMMAND INFO, DOCS, LIST, COUNT. Rows with a common first word are shown as one command with
 * subcommands, as Redis does. */
#include "protocol/docs.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "protocol/table.h"

/* The rows of one first word. */
struct family {
    const struct protocol_command *first;
    uint32_t count;
};

static struct family family_at(uint32_t row) {
    struct family family = {.first = &protocol_table[row], .count = 1};
    while (row + family.count < PROTOCOL_COMMANDS &&
           strcmp(protocol_table[row + family.count].word, family.first->word) == 0) {
        family.count++;
    }
    return family;
}

/* Rows that are subcommands: all but a leading one without a second word. */
static struct family family_subs(struct family family) {
    if (family.first->sub_len == 0) {
        return (struct family){.first = family.first + 1, .count = family.count - 1};
    }
    return family;
}

uint32_t protocol_docs_count(void) {
    uint32_t count = 0;
    for (uint32_t row = 0; row < PROTOCOL_COMMANDS; row += family_at(row).count) {
        count++;
    }
    return count;
}

static void word_write(struct protocol_writer *w, const struct protocol_command *command) {
    struct protocol_command alone = {.word = command->word, .sub = ""};
    char name[PROTOCOL_NAME_MAX];
    protocol_command_full_name(&alone, name);
    protocol_write_text(w, name);
}

static void full_name_write(struct protocol_writer *w, const struct protocol_command *command) {
    char name[PROTOCOL_NAME_MAX];
    protocol_command_full_name(command, name);
    protocol_write_text(w, name);
}

void protocol_docs_list(struct protocol_writer *w) {
    protocol_write_array(w, protocol_docs_count());
    for (uint32_t row = 0; row < PROTOCOL_COMMANDS; row += family_at(row).count) {
        word_write(w, &protocol_table[row]);
    }
}

/* ---- INFO ---- */

struct nature {
    const char *flag, *category;
};

/* What Redis would call it; proxies and clients look whether a command subscribes. */
static struct nature nature_of(const struct protocol_command *command) {
    if (protocol_command_has(command, PROTOCOL_PUBSUB)) {
        return (struct nature){"pubsub", "@pubsub"};
    }
    return command->kind == PROTOCOL_WRITE  ? (struct nature){"write", "@write"}
           : command->kind == PROTOCOL_READ ? (struct nature){"readonly", "@read"}
                                            : (struct nature){"fast", "@connection"};
}

/* Writes everything before the list of subcommands, which the caller writes. There are no keys. The
 * required role is a category of its own. */
static void info_head(struct protocol_writer *w, const struct protocol_command *command,
                      int32_t arity) {
    struct nature nature = nature_of(command);
    char role[32];
    protocol_write_integer(w, arity);
    protocol_write_set(w, 1);
    protocol_write_simple(w, nature.flag);
    for (unsigned i = 0; i < 3; i++) {
        protocol_write_integer(w, 0);
    }
    protocol_write_set(w, 2);
    protocol_write_simple(w, nature.category);
    (void)snprintf(role, sizeof role, "@%s", protocol_role_name((enum protocol_role)command->role));
    protocol_write_simple(w, role);
    protocol_write_array(w, 0);
    protocol_write_array(w, 0);
}

static void info_sub(struct protocol_writer *w, const struct protocol_command *command) {
    protocol_write_array(w, 10);
    full_name_write(w, command);
    info_head(w, command, protocol_command_arity(command));
    protocol_write_array(w, 0);
}

static void info_family(struct protocol_writer *w, struct family family) {
    struct family subs = family_subs(family);
    bool alone = subs.count == 0;
    protocol_write_array(w, 10);
    word_write(w, family.first);
    info_head(w, family.first,
              alone                        ? protocol_command_arity(family.first)
              : family.first->sub_len == 0 ? -1
                                           : -2);
    protocol_write_array(w, subs.count);
    for (uint32_t i = 0; i < subs.count; i++) {
        info_sub(w, &subs.first[i]);
    }
}

/* ---- DOCS ---- */

static uint32_t argument_fields(const struct protocol_argument *argument) {
    return 2u + (argument->part_count == 0) + (argument->token != NULL) +
           (argument->optional || argument->multiple) + (argument->part_count > 0);
}

/* One argument, without its parts. */
static void argument_write(struct protocol_writer *w, const struct protocol_argument *argument) {
    protocol_write_map(w, argument_fields(argument));
    protocol_write_text(w, "name");
    protocol_write_text(w, argument->name);
    protocol_write_text(w, "type");
    protocol_write_text(w, protocol_type_name((enum protocol_type)argument->type));
    if (argument->part_count == 0) {
        protocol_write_text(w, "display_text");
        protocol_write_text(w, argument->name);
    }
    if (argument->token != NULL) {
        protocol_write_text(w, "token");
        protocol_write_text(w, argument->token);
    }
    if (argument->optional || argument->multiple) {
        protocol_write_text(w, "flags");
        bool again = argument->multiple && argument->token != NULL; /* its token is repeated, too */
        protocol_write_array(w, (uint32_t)argument->optional + argument->multiple + again);
        if (argument->optional) {
            protocol_write_simple(w, "optional");
        }
        if (argument->multiple) {
            protocol_write_simple(w, "multiple");
        }
        if (again) {
            protocol_write_simple(w, "multiple_token");
        }
    }
}

/* An argument's parts are the last thing in its map, so a stack of lists is enough. */
static void arguments_write(struct protocol_writer *w, const struct protocol_form *form) {
    struct protocol_form stack[PROTOCOL_ARGUMENTS_MAX];
    uint32_t depth = 1;
    stack[0] = *form;
    protocol_write_array(w, form->count);
    while (depth > 0) {
        struct protocol_form *list = &stack[depth - 1];
        if (list->count == 0) {
            depth--;
            continue;
        }
        const struct protocol_argument *argument = list->arguments++;
        list->count--;
        argument_write(w, argument);
        if (argument->part_count > 0) {
            TN_ASSERT(depth < PROTOCOL_ARGUMENTS_MAX);
            protocol_write_text(w, "arguments");
            protocol_write_array(w, argument->part_count);
            stack[depth++] =
                (struct protocol_form){.arguments = argument->parts, .count = argument->part_count};
        }
    }
}

/* Two ways to write it are one argument: one of two blocks. */
static void forms_write(struct protocol_writer *w, const struct protocol_command *command) {
    if (command->other.count == 0) {
        arguments_write(w, &command->form);
        return;
    }
    struct protocol_argument forms[] = {
        {.name = "one",
         .type = PROTOCOL_T_BLOCK,
         .parts = command->form.arguments,
         .part_count = (uint8_t)command->form.count},
        {.name = "bundle",
         .type = PROTOCOL_T_BLOCK,
         .parts = command->other.arguments,
         .part_count = (uint8_t)command->other.count},
    };
    struct protocol_argument either = {
        .name = "form", .type = PROTOCOL_T_ONEOF, .parts = forms, .part_count = 2};
    struct protocol_form whole = {.arguments = &either, .count = 1};
    arguments_write(w, &whole);
}

/* Up to the map of subcommands, which the caller writes if there are any. */
static void docs_head(struct protocol_writer *w, const struct protocol_command *command,
                      bool container, bool more) {
    bool arguments = !container && command->form.count > 0;
    protocol_write_map(w, 3u + arguments + more);
    protocol_write_text(w, "summary");
    protocol_write_text(w, container ? "A family of commands" : command->summary);
    protocol_write_text(w, "since");
    protocol_write_text(w, command->since);
    protocol_write_text(w, "group");
    protocol_write_text(w, command->kind == PROTOCOL_CONNECTION ? "connection" : "tenure");
    if (arguments) {
        protocol_write_text(w, "arguments");
        forms_write(w, command);
    }
}

static void docs_family(struct protocol_writer *w, struct family family) {
    struct family subs = family_subs(family);
    word_write(w, family.first);
    docs_head(w, family.first, family.first->sub_len > 0, subs.count > 0);
    if (subs.count > 0) {
        protocol_write_text(w, "subcommands");
        protocol_write_map(w, subs.count);
        for (uint32_t i = 0; i < subs.count; i++) {
            full_name_write(w, &subs.first[i]);
            docs_head(w, &subs.first[i], false, false);
        }
    }
}

/* ---- Those that were asked for ---- */

/* The row that "word" or "word|sub" names; PROTOCOL_COMMANDS: none. */
static uint32_t row_named(struct tn_bytes name) {
    const uint8_t *bar = name.len > 0 ? memchr(name.at, '|', name.len) : NULL;
    size_t word = bar != NULL ? (size_t)(bar - name.at) : name.len;
    for (uint32_t row = 0; row < PROTOCOL_COMMANDS; row++) {
        const struct protocol_command *command = &protocol_table[row];
        if (protocol_word_is(tn_bytes_of(name.at, word), command->word, command->word_len) &&
            (bar == NULL || protocol_word_is(tn_bytes_of(bar + 1, name.len - word - 1),
                                             command->sub, command->sub_len))) {
            return row;
        }
    }
    return PROTOCOL_COMMANDS;
}

static bool is_full(struct tn_bytes name) {
    return memchr(name.at, '|', name.len) != NULL;
}

void protocol_docs_info(struct protocol_writer *w, const struct tn_bytes *names, uint32_t count) {
    if (count == 0) {
        protocol_write_array(w, protocol_docs_count());
        for (uint32_t row = 0; row < PROTOCOL_COMMANDS; row += family_at(row).count) {
            info_family(w, family_at(row));
        }
        return;
    }
    protocol_write_array(w, count);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t row = row_named(names[i]);
        if (row == PROTOCOL_COMMANDS) {
            protocol_write_null(w);
        } else if (is_full(names[i])) {
            info_sub(w, &protocol_table[row]);
        } else {
            info_family(w, family_at(row));
        }
    }
}

void protocol_docs_docs(struct protocol_writer *w, const struct tn_bytes *names, uint32_t count) {
    uint32_t found = 0;
    if (count == 0) {
        protocol_write_map(w, protocol_docs_count());
        for (uint32_t row = 0; row < PROTOCOL_COMMANDS; row += family_at(row).count) {
            docs_family(w, family_at(row));
        }
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        found += row_named(names[i]) != PROTOCOL_COMMANDS;
    }
    protocol_write_map(w, found);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t row = row_named(names[i]);
        if (row == PROTOCOL_COMMANDS) {
            continue;
        }
        if (is_full(names[i])) {
            full_name_write(w, &protocol_table[row]);
            docs_head(w, &protocol_table[row], false, false);
        } else {
            docs_family(w, family_at(row));
        }
    }
}
