/* Internal: shared by the two parts of protocol_http_words. words.c finds the fields of a request,
 * and words_put.c writes them as words. */
#ifndef TN_PROTOCOL_WORDS_H
#define TN_PROTOCOL_WORDS_H

#include "protocol/http.h"

enum protocol_given { PROTOCOL_GIVEN_NOT, PROTOCOL_GIVEN_TEXT, PROTOCOL_GIVEN_JSON };

/* The field of an argument. */
struct protocol_field {
    enum protocol_given given;
    bool list;             /* if both "count" and "values" are possible: it is "values" */
    bool query;            /* the query may have more items of a list */
    struct tn_bytes value; /* text, or a value in the body */
};

#define PROTOCOL_OPTIONS_MAX 64u /* maximum options in a body; a pool has fewer */

struct protocol_words {
    const struct protocol_route *route;
    const struct protocol_http *http;
    struct protocol_field fields[PROTOCOL_ARGUMENTS_MAX]; /* in the order of the form's arguments */
    struct tn_writer scratch;
    struct tn_bytes *argv;
    uint32_t argc, capacity;
    struct tn_bytes options[PROTOCOL_OPTIONS_MAX]; /* keys of the body that name some */
    uint32_t option_count;
    char *detail;
    enum tn_result code;
};

/* Always false. */
__attribute__((format(printf, 3, 4))) bool protocol_words_refuse(struct protocol_words *w,
                                                                 enum tn_result code,
                                                                 const char *format, ...);

/* For quoting the start of client data in a message. */
#define PROTOCOL_SHOWN(bytes) (int)((bytes).len < 40 ? (bytes).len : 40), (const char *)(bytes).at

/* The argument for a field of this name. The form's count: there is none. */
uint32_t protocol_words_find(const struct protocol_words *w, struct tn_bytes name, bool *ret_list);

/* A key of an object, without escapes; false if it is longer than any name. */
#define PROTOCOL_KEY_MAX 64u
bool protocol_words_key(struct tn_bytes key, char out[PROTOCOL_KEY_MAX], struct tn_bytes *ret_key);

/* The words of argument `i`. */
bool protocol_words_put(struct protocol_words *w, uint32_t i);
bool protocol_words_add(struct protocol_words *w, struct tn_bytes word);

#endif
