/* Both connections together: made, started, stopped; the address, the figures. */
#include "broker/broker.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "broker/broker_state.h"

const char *broker_outcome_name(enum broker_outcome outcome) {
    static const char *const names[BROKER_OUTCOMES] = {
#define BROKER_OUTCOME_NAME(name, text) [BROKER_##name] = (text),
        BROKER_OUTCOME_TABLE(BROKER_OUTCOME_NAME)
#undef BROKER_OUTCOME_NAME
    };
    TN_ASSERT(outcome < BROKER_OUTCOMES);
    return names[outcome];
}

/* ---- The address ---- */

static bool has_password(const char *url) {
    const char *begin = strstr(url, "://");
    begin = begin != NULL ? begin + 3 : url;
    size_t len = strcspn(begin, "/");
    const char *at = memchr(begin, '@', len);
    return at != NULL && memchr(begin, ':', (size_t)(at - begin)) != NULL;
}

static bool part_copy(char *out, size_t room, const char *part) {
    size_t len = strlen(part);
    if (len == 0 || len >= room) {
        return false;
    }
    memcpy(out, part, len + 1);
    return true;
}

bool broker_address_parse(const char *url, struct broker_address *ret_address,
                          char reason[BROKER_REASON_MAX]) {
    struct amqp_connection_info info;
    struct broker_address address = {0};
    char copy[1024];
    if (has_password(url)) {
        (void)snprintf(reason, BROKER_REASON_MAX,
                       "it must not contain a password; use amqp_password_file");
        return false;
    }
    bool good = part_copy(copy, sizeof copy, url) && amqp_parse_url(copy, &info) == AMQP_STATUS_OK;
    if (good) {
        address.tls = info.ssl != 0;
        address.port = info.port;
        good = part_copy(address.host, sizeof address.host, info.host) &&
               part_copy(address.vhost, sizeof address.vhost,
                         *info.vhost != '\0' ? info.vhost : "/") &&
               part_copy(address.user, sizeof address.user, info.user) && info.port > 0 &&
               info.port < 65536;
    }
    if (!good) {
        (void)snprintf(reason, BROKER_REASON_MAX,
                       "'%.60s' is not amqp[s]://[USER@]HOST[:PORT][/VHOST]", url);
        return false;
    }
    *ret_address = address;
    return true;
}

/* ---- Making and freeing ---- */

/* Every text of the options, so that each can be copied and freed. */
enum { TEXTS = 11 };

static void texts_of(struct broker_options *options, const char **ret_texts[TEXTS]) {
    const char **texts[TEXTS] = {
        &options->password,       &options->ca_file,     &options->cert_file,
        &options->key_file,       &options->exchange,    &options->queue,
        &options->keys,           &options->dead_letter, &options->publish_exchange,
        &options->publish_prefix, &options->dir};
    memcpy(ret_texts, texts, sizeof texts);
}

static bool texts_copy(struct broker_options *options) {
    const char **texts[TEXTS];
    bool good = true;
    texts_of(options, texts);
    for (unsigned i = 0; i < TEXTS; i++) {
        *texts[i] = strdup(*texts[i]);
        good = good && *texts[i] != NULL;
    }
    return good;
}

static void texts_free(struct broker_options *options) {
    const char **texts[TEXTS];
    texts_of(options, texts);
    if (options->password != NULL) {
        sodium_memzero((char *)(uintptr_t)options->password, strlen(options->password));
    }
    for (unsigned i = 0; i < TEXTS; i++) {
        free((char *)(uintptr_t)*texts[i]);
    }
}

enum tn_status broker_make(const struct broker_options *options, struct broker **ret_broker) {
    struct broker *broker = calloc(1, sizeof *broker);
    if (broker == NULL) {
        return TN_NOMEM;
    }
    broker->options = *options;
    (void)pthread_mutex_init(&broker->lock, NULL);
    broker_consumer_init(broker);
    broker_publisher_init(broker);
    bool good = texts_copy(&broker->options);
    good = broker_link_init(&broker->consumer.link) && good;
    good = broker_link_init(&broker->publisher.link) && good;
    broker->stats.consumes = *options->queue != '\0';
    broker->stats.publishes = *options->publish_exchange != '\0';
    enum tn_status status = good ? TN_OK : TN_NOMEM;
    if (good && broker->stats.publishes) {
        status = broker_publisher_open(broker);
    }
    if (status != TN_OK) {
        broker_free(broker);
        return status;
    }
    *ret_broker = broker;
    return TN_OK;
}

enum tn_status broker_start(struct broker *broker) {
    if ((broker->stats.consumes && !broker_link_start(&broker->consumer.link)) ||
        (broker->stats.publishes && !broker_link_start(&broker->publisher.link))) {
        return TN_NOMEM;
    }
    return TN_OK;
}

void broker_stop(struct broker *broker) {
    atomic_store(&broker->stopping, true);
    broker_link_wake(&broker->publisher.link);
    broker_link_stop(&broker->consumer.link);
    broker_link_stop(&broker->publisher.link);
    broker_publisher_close(broker);
}

void broker_free(struct broker *broker) {
    if (broker == NULL) {
        return;
    }
    TN_ASSERT(!broker->consumer.link.running && !broker->publisher.link.running);
    broker_position_close(&broker->publisher.position);
    free(broker->publisher.bytes);
    broker_link_free(&broker->consumer.link);
    broker_link_free(&broker->publisher.link);
    texts_free(&broker->options);
    (void)pthread_mutex_destroy(&broker->lock);
    free(broker);
}

void broker_wake(struct broker *broker) {
    broker_link_wake(&broker->publisher.link);
}

void broker_stats_read(struct broker *broker, struct broker_stats *ret_stats) {
    pthread_mutex_lock(&broker->lock);
    *ret_stats = broker->stats;
    ret_stats->consume_connected = broker->consumer.link.connected;
    ret_stats->publish_connected = broker->publisher.link.connected;
    pthread_mutex_unlock(&broker->lock);
}
