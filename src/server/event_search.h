/* A search for a text in events, in time proportional to the bytes examined.
 *
 * The naive search takes up to the product of both lengths: with a text of 256 bytes and the
 * longest names and values, that was milliseconds for a few events. This is the algorithm of Knuth,
 * Morris and Pratt. */
#ifndef TN_SERVER_EVENT_SEARCH_H
#define TN_SERVER_EVENT_SEARCH_H

#include "base/bytes.h"
#include "kernel/types.h"

struct server_search {
    uint32_t len;                  /* 0: everything matches */
    uint8_t part[KERNEL_NOTE_MAX]; /* the text in lower case */
    uint16_t again
        [KERNEL_NOTE_MAX]; /* after a mismatch behind i bytes, again[i - 1] of them still match */
    uint64_t looked;       /* bytes examined in all searches */
};

/* The text has at most KERNEL_NOTE_MAX bytes. */
void server_search_set(struct server_search *search, struct tn_bytes part);
/* Whether `whole` contains the text. Upper and lower case of ASCII letters are equal. */
bool server_search_in(struct server_search *search, struct tn_bytes whole);

#endif
