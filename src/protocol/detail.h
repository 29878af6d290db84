/* Sizes of the sentences that explain a rejection. */
#ifndef TN_PROTOCOL_DETAIL_H
#define TN_PROTOCOL_DETAIL_H

#include "kernel/option.h"

#define PROTOCOL_DETAIL \
    KERNEL_OPTION_DETAIL    /* bytes; a refused option explains itself within them */
#define PROTOCOL_REASON 384 /* bytes of an explanation that names a file */

#endif
