/* From the command line to the words of a request. Options may stand anywhere among the arguments;
 * the plain spelling of the protocol (`TTL 60`) works too, and both may be mixed. */
#ifndef TN_CLI_ARGUMENTS_H
#define TN_CLI_ARGUMENTS_H

#include "cli/display.h"
#include "protocol/table.h"

/* Words that grow; total: `failed` says that memory ran out. What they point to is the caller's. */
struct cli_words {
    struct tn_bytes *at;
    uint32_t count, capacity;
    bool failed;
};

void cli_words_add(struct cli_words *words, struct tn_bytes word);
void cli_words_put(struct cli_words *words, const char *word);
void cli_words_free(struct cli_words *words);

struct cli_request {
    const struct protocol_command *row;
    struct cli_words
        words; /* the whole request, but for an operation id that is still to be made */
    bool takes_opid;
    const char *opid;        /* in the plain spelling; NULL: not there */
    bool is_list;            /* has a cursor */
    bool one_page;           /* and the caller said which page */
    struct cli_text numbers; /* where counts of values are written */
};

/* argv[0] and perhaps argv[1] name the command. False: standard error says what is wrong. */
bool cli_request_make(int argc, char **argv, struct cli_request *ret_request);
void cli_request_free(struct cli_request *request);

#endif
