/* Text on its way to a person: a buffer that grows, characters counted in columns, times as people
 * read them.
 *
 * Names and metadata come from outside and may hold anything. What is added with cli_text_clean can
 * neither move the cursor nor end a line: control characters and bytes that are not UTF-8 become the
 * replacement character. */
#ifndef TN_CLI_DISPLAY_H
#define TN_CLI_DISPLAY_H

#include "base/bytes.h"

/* A text that always ends with a NUL. If memory runs out, it keeps what it has, and `failed` stays
 * set. */
struct cli_text {
    char *at;
    size_t len, capacity;
    bool failed;
};

void cli_text_free(struct cli_text *text);
void cli_text_add(struct cli_text *text, const void *bytes, size_t len);
void cli_text_put(struct cli_text *text, const char *words);
__attribute__((format(printf, 2, 3))) void cli_text_printf(struct cli_text *text,
                                                           const char *format, ...);
void cli_text_clean(struct cli_text *text, struct tn_bytes bytes);
/* Appends a word for a shell, quoted if necessary. */
void cli_text_shell(struct cli_text *text, const char *word);
/* Appends a JSON string. Bytes that are not UTF-8 become the replacement character. */
void cli_text_json(struct cli_text *text, struct tn_bytes bytes);
/* What is JSON already, on one line. Blanks between its parts may be anything below a space; other
 * characters that need to be escaped here can only be in its strings. */
void cli_text_json_text(struct cli_text *text, struct tn_bytes json);

/* Decodes the first character and returns its length; 0: the bytes are not a character. */
uint32_t cli_char_next(const uint8_t *at, size_t left, uint32_t *ret_char);
/* Whether the character could move the cursor of a terminal, or reverse the direction of text. */
bool cli_char_is_control(uint32_t character);

/* How many columns a clean text takes on a terminal. */
size_t cli_columns(const char *text, size_t len);
/* How many bytes of the text fit into this many columns. */
size_t cli_columns_fit(const char *text, size_t len, size_t columns);

/* Adds the words to a line that has `indent` columns already, and begins a new line, with as many
 * blanks, before a word that does not fit into `width`. Brackets with blanks inside are one word. */
void cli_text_wrap(struct cli_text *out, const char *text, size_t indent, size_t width);

/* "2026-11-15 13:04:05 (in 59 s)": local time, and how far from now. */
void cli_text_time(struct cli_text *text, uint64_t ms, uint64_t now_ms);
/* Appends a time such as "in 59 s" or "3 min ago". */
void cli_text_relative(struct cli_text *text, uint64_t ms, uint64_t now_ms);
/* "13:04:05.123", local. */
void cli_text_clock(struct cli_text *text, uint64_t ms);
/* The same, with its date instead of its milliseconds if it is more than a day ago. */
void cli_text_when(struct cli_text *text, uint64_t ms, uint64_t now_ms);

/* As short as is unambiguous: "13:04:05" within a day, "11-15 13:04:05" within this year. */
void cli_text_moment(struct cli_text *text, uint64_t ms, uint64_t now_ms);

/* Parses a whole number without anything else. */
bool cli_number_parse(struct tn_bytes text, uint64_t *ret_number);

#endif
