/* Between check_log.c and order.c: what time says about positions in the log. */
#ifndef TESTS_NEMESIS_ORDER_H
#define TESTS_NEMESIS_ORDER_H

#include "nemesis/check.h"

/* What a look may have seen: everything that somebody had been told before it began, and what it asked
 * for by its fence; nothing that was asked after it ended. */
struct nm_window {
    uint64_t low, high; /* positions */
    uint64_t begun_ms;  /* the log's time when it began, at least; set by nm_order_check */
    bool look;          /* a read, or a refusal that need not be logged */
};

/* Whether the entry of the log at the operation's position is its command. */
bool nm_is_logged(const struct nm_history *h, const struct nm_op *op);
/* One for each operation; the caller frees them. */
struct nm_window *nm_windows(const struct nm_history *h);
/* Operations by the low ends of their windows. */
void nm_windows_sort(const struct nm_window *windows, uint32_t *ops, uint32_t count);

/* Whether the positions that were told respect time and the order of each connection, and the log's time
 * and deadlines the clock. */
bool nm_order_check(const struct nm_history *h, struct nm_window *windows,
                    struct nm_report *report);

/* Says what is wrong, and with which operation; returns false. */
bool nm_blame(const struct nm_history *h, struct nm_report *report, uint32_t op, const char *format,
              ...) __attribute__((format(printf, 4, 5)));

#endif
