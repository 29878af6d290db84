/* COMMAND and its kin: the table as replies, in the shape that clients of Redis expect. */
#ifndef TN_PROTOCOL_DOCS_H
#define TN_PROTOCOL_DOCS_H

#include "protocol/resp.h"
#include "protocol/table.h"

/* How many there are by first word, which is what Redis counts; subcommands are inside. */
uint32_t protocol_docs_count(void);
void protocol_docs_list(struct protocol_writer *w);
/* Of the commands named, by one word or as word|sub; of all, if count is 0. An unknown one is null in
 * info, and left out of docs. */
void protocol_docs_info(struct protocol_writer *w, const struct tn_bytes *names, uint32_t count);
void protocol_docs_docs(struct protocol_writer *w, const struct tn_bytes *names, uint32_t count);

#endif
