/* Pool options as text, following the table of options in types.h. The configuration, the protocol
 * and the embedded library use these functions, so an option has the same form everywhere. */
#ifndef TN_KERNEL_OPTION_H
#define TN_KERNEL_OPTION_H

#include "kernel/types.h"

#define KERNEL_OPTION_DETAIL 192    /* bytes for the sentence that explains a refused option */
#define KERNEL_OPTION_TEXT_MAX 4096 /* bytes that hold the text of any option */

/* Adds one option to the patch. False: `detail` (KERNEL_OPTION_DETAIL bytes) has the reason. */
bool kernel_option_set(const char *name, const char *text, struct kernel_policy_patch *patch,
                       char *detail);

/* Adds spans to the range of the patch: "100-199", "10.0.0.0/24", several with commas. */
bool kernel_range_add(const char *text, struct kernel_policy_patch *patch, char *detail);
/* Whether the word after RANGE is a list of spans; otherwise it is the first of two values. */
bool kernel_range_is_whole(struct tn_bytes word);

/* The text that kernel_option_set would read as the same value. False if there is no such option.
 * */
bool kernel_option_format(const struct kernel_policy *policy, const char *name, char *out,
                          size_t capacity);
/* The same for the option with this number below KERNEL_OPTION_ALL. */
void kernel_option_show(const struct kernel_policy *policy, unsigned option, char *out,
                        size_t capacity);

/* The name of a field of metadata; the i-th field of a pool's identity_fields (0: no more). */
const char *kernel_identity_name(enum kernel_identity_field field);
enum kernel_identity_field kernel_identity_field_at(uint64_t fields, unsigned i);

/* What a result's BAD_POLICY says, in words. */
void kernel_fault_format(uint64_t fault, char *out, size_t capacity);

/* A number with up to six decimals, exactly, in millionths. */
bool kernel_micro_parse(const char *text, uint64_t *ret_micro);

/* The words for values of this type, from 0 on; NULL behind the last one, at once if they are
 * numbers. */
const char *kernel_option_word(enum kernel_option_type type, unsigned i);

#endif
