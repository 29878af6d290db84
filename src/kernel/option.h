/* Options of pools as text, following the kernel's table of options. The embedded library uses this
 * file too: the same words everywhere. */
#ifndef TN_KERNEL_OPTION_H
#define TN_KERNEL_OPTION_H

#include "kernel/types.h"

#define PROTOCOL_DETAIL 192       /* bytes for the words that explain a rejection */
#define PROTOCOL_REASON 384       /* the same, with the path of a file in them */
#define PROTOCOL_OPTION_TEXT 4096 /* bytes that any option's text fits in */

/* Adds one option to the patch. False: `detail` (PROTOCOL_DETAIL bytes) says why. */
bool protocol_option_set(const char *name, const char *text, struct kernel_policy_patch *patch,
                         char *detail);

/* Adds spans to the range of the patch: "100-199", "10.0.0.0/24", several with commas. */
bool protocol_range_add(const char *text, struct kernel_policy_patch *patch, char *detail);
/* Whether the word after RANGE is such spans; otherwise it is the first of two values. */
bool protocol_range_is_whole(struct tn_bytes word);

/* The text that protocol_option_set would read as the same value. False if there is no such option. */
bool protocol_option_format(const struct kernel_policy *policy, const char *name, char *out,
                            size_t capacity);

/* What a result's BAD_POLICY says, in words. */
void protocol_fault_format(uint64_t fault, char *out, size_t capacity);

/* A number with up to six decimals, exactly, in millionths. */
bool protocol_micro_parse(const char *text, uint64_t *ret_micro);

/* The words for values of this type, from 0 on; NULL behind the last one, at once if they are numbers. */
const char *protocol_option_word(enum kernel_option_type type, unsigned i);

#endif
