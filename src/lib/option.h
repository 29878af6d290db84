/* Options of pools as text, following the kernel's table of options. */
#ifndef TN_LIB_OPTION_H
#define TN_LIB_OPTION_H

#include "kernel/types.h"
#include "tenure.h"

#define LIB_DETAIL 128       /* bytes for the words that explain a rejection */
#define LIB_OPTION_TEXT 1024 /* bytes that any option's text fits in */

/* False: `detail` (LIB_DETAIL bytes) says why. */
bool lib_options_parse(const struct tenure_option *options, uint32_t count,
                       struct kernel_policy_patch *ret_patch, char *detail);

/* The text that lib_options_parse would read as the same value. False if there is no such option. */
bool lib_option_format(const struct kernel_policy *policy, const char *name, char *out,
                       size_t capacity);

#endif
