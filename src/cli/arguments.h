/* Converts the command line to the words of a request. Options may appear anywhere among the
 * arguments; the protocol's spelling (`TTL 60`) also works, and both may be mixed. */
#ifndef TN_CLI_ARGUMENTS_H
#define TN_CLI_ARGUMENTS_H

#include "cli/display.h"
#include "protocol/table.h"

/* A growing list of words, whose texts it does not own. `failed`: out of memory. */
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
    struct cli_words words; /* the whole request, without a generated operation id */
    bool takes_opid;
    const char *opid;        /* an operation id among plain words; NULL: none */
    bool is_list;            /* has a cursor */
    bool one_page;           /* the user has asked for one page */
    struct cli_text numbers; /* memory for the counts of values */
};

/* argv[0] and perhaps argv[1] name the command. False: standard error has the reason. */
bool cli_request_make(int argc, char **argv, struct cli_request *ret_request);
void cli_request_free(struct cli_request *request);

#endif
