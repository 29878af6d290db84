/* From the configuration to the connections: they are made here, and started when all else is. */
#include "main/wire_broker.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "config/secret.h"
#include "server/event_fields.h"
#include "server/log_line.h"
#include "server/server.h"

#define PASSWORD_MAX 1024u
/* The default user of a new broker, which accepts it only from its own machine. */
#define PASSWORD_STANDARD "guest"

_Static_assert(BROKER_BODY_MAX >= SERVER_EVENT_BYTES, "an event fits into a message");

static size_t render(const struct engine_event *event, struct engine_event_id oldest, uint8_t *out,
                     size_t room) {
    struct protocol_writer w = {.out = tn_writer_of(out, room), .encoding = PROTOCOL_JSON};
    if (event != NULL) {
        server_event_write(&w, event);
    } else {
        server_event_write_lost(&w, oldest);
    }
    return w.out.overflow ? 0 : w.out.len;
}

static void log_line(void *ctx, const char *line) {
    (void)ctx;
    server_log_line(line);
}

static bool refuse(const char *setting, const char *reason) {
    server_log("refused", "where=%s reason=\"%s\"", setting, reason);
    return false;
}

static bool password_read(const struct os *os, const char *path, char out[PASSWORD_MAX]) {
    enum tn_status status = config_secret_read(os, path, out, PASSWORD_MAX);
    if (status != TN_OK) {
        return refuse("amqp_password_file", config_secret_fault(status));
    }
    return *out != '\0' || refuse("amqp_password_file", "it is empty");
}

static bool password_find(const struct config *config, const struct os *os,
                          char out[PASSWORD_MAX]) {
    const char *path = config_text(config, CONFIG_AMQP_PASSWORD);
    const char *given = getenv(CONFIG_AMQP_PASSWORD_VARIABLE);
    if (*path != '\0') {
        return password_read(os, path, out);
    }
    given = given != NULL ? given : PASSWORD_STANDARD;
    if (strlen(given) >= PASSWORD_MAX) {
        return refuse(CONFIG_AMQP_PASSWORD_VARIABLE, "it is too long");
    }
    memcpy(out, given, strlen(given) + 1);
    return true;
}

static struct broker_options options_of(const struct config *config) {
    return (struct broker_options){
        .dir = config_text(config, CONFIG_DATA),
        .ca_file = config_text(config, CONFIG_AMQP_CA),
        .cert_file = config_text(config, CONFIG_AMQP_CERT),
        .key_file = config_text(config, CONFIG_AMQP_KEY),
        .exchange = config_text(config, CONFIG_AMQP_EXCHANGE),
        .queue = config_text(config, CONFIG_AMQP_QUEUE),
        .keys = config_text(config, CONFIG_AMQP_KEYS),
        .dead_letter = config_text(config, CONFIG_AMQP_DEAD_LETTER),
        .publish_exchange = config_text(config, CONFIG_AMQP_PUBLISH),
        .publish_prefix = config_text(config, CONFIG_AMQP_PREFIX),
        .prefetch = (uint16_t)config_number(config, CONFIG_AMQP_PREFETCH),
        .heartbeat_s = (uint16_t)config_number(config, CONFIG_AMQP_HEARTBEAT),
        .retry_min_ms = (uint32_t)config_number(config, CONFIG_AMQP_RETRY),
        .retry_max_ms = (uint32_t)config_number(config, CONFIG_AMQP_RETRY_MAX),
        .render = render,
        .log = log_line};
}

bool wire_broker(const struct config *config, const struct os *os, struct engine *engine,
                 struct broker **ret_broker) {
    const char *url = config_text(config, CONFIG_AMQP_URL);
    struct broker_options options = options_of(config);
    char password[PASSWORD_MAX];
    char reason[BROKER_REASON_MAX];
    *ret_broker = NULL;
    if (*url == '\0') {
        return true;
    }
    options.engine = engine;
    options.os = os;
    options.password = password;
    if (!broker_address_parse(url, &options.address, reason)) {
        return refuse("amqp_url", reason);
    }
    if (options.address.tls && *options.ca_file == '\0') {
        return refuse("amqp_ca_file", "amqps needs the certificate authorities to trust");
    }
    if ((*options.cert_file == '\0') != (*options.key_file == '\0')) {
        return refuse("amqp_cert_file", "amqp_cert_file and amqp_key_file must be set together");
    }
    bool made = password_find(config, os, password);
    if (made) {
        enum tn_status status = broker_make(&options, ret_broker);
        made = status == TN_OK || refuse("amqp_url", tn_status_text(status));
    }
    sodium_memzero(password, sizeof password);
    return made;
}
