/* Requests of RESP, written word by word into a buffer that is large enough. */
#ifndef TN_BENCH_WORDS_H
#define TN_BENCH_WORDS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct words {
    char *at;
    size_t len;
};

static inline struct words words_of(char *out) {
    return (struct words){.at = out, .len = 0};
}

static inline void words_raw(struct words *w, const char *bytes, size_t len) {
    memcpy(w->at + w->len, bytes, len);
    w->len += len;
}

#define WORDS(w, literal) words_raw(w, literal, sizeof(literal) - 1)

static inline size_t words_digits(uint64_t number, char out[20]) {
    char turned[20];
    size_t len = 0;
    do {
        turned[len++] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    for (size_t i = 0; i < len; i++) {
        out[i] = turned[len - 1 - i];
    }
    return len;
}

/* The head of a request with this many words. */
static inline void words_count(struct words *w, uint64_t count) {
    char text[20];
    w->at[w->len++] = '*';
    words_raw(w, text, words_digits(count, text));
    words_raw(w, "\r\n", 2);
}

static inline void words_word(struct words *w, const char *bytes, size_t len) {
    char text[20];
    w->at[w->len++] = '$';
    words_raw(w, text, words_digits(len, text));
    words_raw(w, "\r\n", 2);
    words_raw(w, bytes, len);
    words_raw(w, "\r\n", 2);
}

static inline void words_text(struct words *w, const char *text) {
    words_word(w, text, strlen(text));
}

static inline void words_number(struct words *w, uint64_t number) {
    char text[20];
    words_word(w, text, words_digits(number, text));
}

/* A word of two parts: `prefix` and client/INDEX. Each lane is a holder of its own. */
static inline void words_holder(struct words *w, uint32_t index, const char *prefix, size_t len) {
    char text[96];
    struct words name = words_of(text);
    words_raw(&name, prefix, len);
    WORDS(&name, "client/");
    name.len += words_digits(index, text + name.len);
    words_word(w, text, name.len);
}

/* A request of words that are separated by blanks; it ends with a NUL. */
static inline size_t words_split(const char *line, char *out) {
    struct words w = words_of(out);
    size_t count = 1;
    for (const char *at = strchr(line, ' '); at != NULL; at = strchr(at + 1, ' ')) {
        count++;
    }
    words_count(&w, count);
    for (; count > 0; count--) {
        size_t word = strcspn(line, " ");
        words_word(&w, line, word);
        line += word + 1;
    }
    out[w.len] = '\0';
    return w.len;
}

#endif
