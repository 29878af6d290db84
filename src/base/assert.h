/* Assertions that stay on in release builds.
 *
 * A failed TN_ASSERT is a bug in Tenure, never a consequence of input or of the environment: it
 * prints the place and aborts, because state that broke an invariant must not reach the disk. */
#ifndef TN_BASE_ASSERT_H
#define TN_BASE_ASSERT_H

#define TN_LIKELY(x) __builtin_expect(!!(x), 1)
#define TN_UNLIKELY(x) __builtin_expect(!!(x), 0)

#define TN_ASSERT(condition) \
    (TN_LIKELY(condition) ? (void)0 : tn_assert_fail(#condition, __FILE__, __LINE__))

_Noreturn void tn_assert_fail(const char *condition, const char *file, int line);

#endif
