/* Any sequence of commands, in any order and at any time: the kernel answers each by name, keeps every
 * invariant, and a second one that is given the same ends in the same state. */
#include "commands.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct commands first;
    struct commands second;
    char why[256];
    if (size > 4096) {
        return 0;
    }
    commands_begin(&first, data, size);
    commands_begin(&second, data, size);
    while (commands_step(&first)) {
        TN_ASSERT(commands_step(&second));
    }
    bool sound = kernel_check(first.kernel, why, sizeof why);
    if (!sound) {
        (void)fprintf(stderr, "%s\n", why);
    }
    TN_ASSERT(sound);
    TN_ASSERT(kernel_hash(first.kernel) == kernel_hash(second.kernel));
    kernel_destroy(first.kernel);
    kernel_destroy(second.kernel);
    return 0;
}
