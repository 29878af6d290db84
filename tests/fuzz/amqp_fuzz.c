/* Any bytes as a message about a rule: a routing key up to the first line end, then the body. What is
 * understood becomes a command that can be encoded and that the kernel takes for one. */
#include <string.h>

#include "base/assert.h"
#include "broker/broker.h"
#include "broker/rule_message.h"
#include "protocol/text.h"

static void check_command(const struct rule_message *message) {
    uint8_t encoded[1024];
    struct kernel_command back;
    struct kernel_command command = rule_message_command(message);
    command.user = tn_bytes_of(BROKER_USER, strlen(BROKER_USER));
    command.opid = tn_bytes_of(message->id, message->id_len);
    TN_ASSERT(protocol_name_fault(command.name, KERNEL_RULE_MAX) == NULL);
    uint32_t len = kernel_command_encode(&command, encoded, sizeof encoded);
    TN_ASSERT(len > 0);
    TN_ASSERT(kernel_command_decode(tn_bytes_of(encoded, len), &back));
    TN_ASSERT(back.verb == command.verb && tn_bytes_equal(back.name, command.name));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct rule_message message;
    struct broker_address address;
    char reason[BROKER_REASON_MAX];
    char url[256];
    uint64_t us;
    const uint8_t *end = size > 0 ? memchr(data, '\n', size) : NULL;
    size_t key = end != NULL ? (size_t)(end - data) : 0;
    size_t body = end != NULL ? key + 1 : 0;
    if (rule_message_parse(tn_bytes_of(data + body, size - body), tn_bytes_of(data, key),
                           &message) == NULL) {
        check_command(&message);
    }
    (void)rule_message_time(tn_bytes_of(data, size), &us);
    if (size < sizeof url) {
        memcpy(url, data, size);
        url[size] = '\0';
        if (broker_address_parse(url, &address, reason)) {
            TN_ASSERT(address.port > 0 && address.port < 65536 && *address.host != '\0');
        }
    }
    return 0;
}
