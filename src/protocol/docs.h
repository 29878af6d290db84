/* COMMAND and its subcommands: the command table as replies in the form that Redis clients expect.
 * */
#ifndef TN_PROTOCOL_DOCS_H
#define TN_PROTOCOL_DOCS_H

#include "protocol/resp.h"

/* The number of commands by first word, as Redis counts; subcommands do not count. */
uint32_t protocol_docs_count(void);
void protocol_docs_list(struct protocol_writer *w);
/* For the named commands, as word or word|sub; for all if count is 0. An unknown command is null in
 * info and omitted in docs. */
void protocol_docs_info(struct protocol_writer *w, const struct tn_bytes *names, uint32_t count);
void protocol_docs_docs(struct protocol_writer *w, const struct tn_bytes *names, uint32_t count);

#endif
