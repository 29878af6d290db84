/* Between check_log.c and order.c: what time implies about positions in the log. */
#ifndef TESTS_NEMESIS_ORDER_H
#define TESTS_NEMESIS_ORDER_H

#include "nemesis/check.h"

/* The positions that a look may have seen: at least everything that had been reported to any client
 * before it began, and the position of its fence; nothing that was asked after it ended. */
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

/* Whether the reported positions respect time and the order of each connection, and whether the
 * log's time and deadlines agree with the clock. */
bool nm_order_check(const struct nm_history *h, struct nm_window *windows,
                    struct nm_report *report);

/* Reports what is wrong, and with which operation; returns false. */
bool nm_blame(const struct nm_history *h, struct nm_report *report, uint32_t op, const char *format,
              ...) __attribute__((format(printf, 4, 5)));

#endif
