/* Both connections together: made, started, stopped; the address, the figures. */
#include "broker/broker.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "broker/broker_state.h"

const char *amqp_outcome_name(enum amqp_outcome outcome) {
    static const char *const names[AMQP_OUTCOMES] = {
#define AMQP_OUTCOME_NAME(name, text) [AMQP_##name] = (text),
        AMQP_OUTCOME_TABLE(AMQP_OUTCOME_NAME)
#undef AMQP_OUTCOME_NAME
    };
    TN_ASSERT(outcome < AMQP_OUTCOMES);
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

bool amqp_address_parse(const char *url, struct amqp_address *ret_address,
                        char reason[AMQP_REASON_MAX]) {
    struct amqp_connection_info info;
    struct amqp_address address = {0};
    char copy[1024];
    if (has_password(url)) {
        (void)snprintf(reason, AMQP_REASON_MAX,
                       "a password has no place in it: use amqp_password_file");
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
        (void)snprintf(reason, AMQP_REASON_MAX,
                       "'%.60s' is not amqp[s]://[USER@]HOST[:PORT][/VHOST]", url);
        return false;
    }
    *ret_address = address;
    return true;
}

/* ---- Making and freeing ---- */

/* Every text of the options, so that each can be copied and freed. */
enum { TEXTS = 11 };

static void texts_of(struct amqp_options *options, const char **ret_texts[TEXTS]) {
    const char **texts[TEXTS] = {
        &options->password,       &options->ca_file,     &options->cert_file,
        &options->key_file,       &options->exchange,    &options->queue,
        &options->keys,           &options->dead_letter, &options->publish_exchange,
        &options->publish_prefix, &options->dir};
    memcpy(ret_texts, texts, sizeof texts);
}

static bool texts_copy(struct amqp_options *options) {
    const char **texts[TEXTS];
    bool good = true;
    texts_of(options, texts);
    for (unsigned i = 0; i < TEXTS; i++) {
        *texts[i] = strdup(*texts[i]);
        good = good && *texts[i] != NULL;
    }
    return good;
}

static void texts_free(struct amqp_options *options) {
    const char **texts[TEXTS];
    texts_of(options, texts);
    if (options->password != NULL) {
        sodium_memzero((char *)(uintptr_t)options->password, strlen(options->password));
    }
    for (unsigned i = 0; i < TEXTS; i++) {
        free((char *)(uintptr_t)*texts[i]);
    }
}

enum tn_status amqp_make(const struct amqp_options *options, struct amqp **ret_amqp) {
    struct amqp *amqp = calloc(1, sizeof *amqp);
    if (amqp == NULL) {
        return TN_NOMEM;
    }
    amqp->options = *options;
    (void)pthread_mutex_init(&amqp->lock, NULL);
    amqp_consumer_init(amqp);
    amqp_publisher_init(amqp);
    bool good = texts_copy(&amqp->options);
    good = amqp_link_init(&amqp->consumer.link) && good;
    good = amqp_link_init(&amqp->publisher.link) && good;
    amqp->stats.consumes = *options->queue != '\0';
    amqp->stats.publishes = *options->publish_exchange != '\0';
    enum tn_status status = good ? TN_OK : TN_NOMEM;
    if (good && amqp->stats.publishes) {
        status = amqp_publisher_open(amqp);
    }
    if (status != TN_OK) {
        amqp_free(amqp);
        return status;
    }
    *ret_amqp = amqp;
    return TN_OK;
}

enum tn_status amqp_start(struct amqp *amqp) {
    if ((amqp->stats.consumes && !amqp_link_start(&amqp->consumer.link)) ||
        (amqp->stats.publishes && !amqp_link_start(&amqp->publisher.link))) {
        return TN_NOMEM;
    }
    return TN_OK;
}

void amqp_stop(struct amqp *amqp) {
    atomic_store(&amqp->stopping, true);
    amqp_link_wake(&amqp->publisher.link);
    amqp_link_stop(&amqp->consumer.link);
    amqp_link_stop(&amqp->publisher.link);
    amqp_publisher_close(amqp);
}

void amqp_free(struct amqp *amqp) {
    if (amqp == NULL) {
        return;
    }
    TN_ASSERT(!amqp->consumer.link.running && !amqp->publisher.link.running);
    amqp_position_close(&amqp->publisher.position);
    free(amqp->publisher.bytes);
    amqp_link_free(&amqp->consumer.link);
    amqp_link_free(&amqp->publisher.link);
    texts_free(&amqp->options);
    (void)pthread_mutex_destroy(&amqp->lock);
    free(amqp);
}

void amqp_wake(struct amqp *amqp) {
    amqp_link_wake(&amqp->publisher.link);
}

void amqp_stats_read(struct amqp *amqp, struct amqp_stats *ret_stats) {
    pthread_mutex_lock(&amqp->lock);
    *ret_stats = amqp->stats;
    ret_stats->consume_connected = amqp->consumer.link.connected;
    ret_stats->publish_connected = amqp->publisher.link.connected;
    pthread_mutex_unlock(&amqp->lock);
}
