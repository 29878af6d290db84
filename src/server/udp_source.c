/* Sources of datagrams: addresses, networks, and their rates. */
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "server/udp.h"
#include "server/udp_allow.h"

static const uint8_t four_in_six[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

struct udp_source udp_source_of(const struct sockaddr *address) {
    struct udp_source source;
    if (address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)(const void *)address;
        memcpy(source.at, &six->sin6_addr, 16);
    } else {
        const struct sockaddr_in *four = (const struct sockaddr_in *)(const void *)address;
        memcpy(source.at, four_in_six, 12);
        memcpy(source.at + 12, &four->sin_addr, 4);
    }
    return source;
}

static bool is_four(const struct udp_source *source) {
    return memcmp(source->at, four_in_six, sizeof four_in_six) == 0;
}

/* ---- Networks ---- */

/* ADDRESS or ADDRESS/BITS. */
static bool network_parse(const char *word, size_t len, struct udp_network *ret_network) {
    char text[64];
    struct sockaddr_storage address;
    uint64_t bits;
    if (len == 0 || len >= sizeof text) {
        return false;
    }
    memcpy(text, word, len);
    text[len] = '\0';
    char *slash = strchr(text, '/');
    if (slash != NULL) {
        *slash++ = '\0';
    }
    if (uv_ip4_addr(text, 0, (struct sockaddr_in *)&address) != 0 &&
        uv_ip6_addr(text, 0, (struct sockaddr_in6 *)&address) != 0) {
        return false;
    }
    uint64_t most = address.ss_family == AF_INET6 ? 128 : 32;
    bits = most;
    if (slash != NULL &&
        (!kernel_value_parse(KERNEL_DEC, tn_bytes_of(slash, strlen(slash)), &bits) ||
         bits > most)) {
        return false;
    }
    ret_network->address = udp_source_of((const struct sockaddr *)&address);
    ret_network->bits = (uint32_t)(bits + 128 - most);
    return true;
}

bool udp_networks_parse(const char *text, struct udp_networks *ret_networks, char *reason,
                        size_t room) {
    struct udp_networks networks = {.count = 0};
    for (text += strspn(text, " ,"); *text != '\0'; text += strspn(text, " ,")) {
        size_t len = strcspn(text, " ,");
        if (networks.count == UDP_NETWORKS_MAX) {
            (void)snprintf(reason, room, "more than %u addresses", UDP_NETWORKS_MAX);
            return false;
        }
        if (!network_parse(text, len, &networks.of[networks.count++])) {
            (void)snprintf(reason, room, "'%.*s' is not an address or ADDRESS/BITS",
                           (int)(len < 64 ? len : 64), text);
            return false;
        }
        text += len;
    }
    *ret_networks = networks;
    return true;
}

static bool network_has(const struct udp_network *network, const struct udp_source *source) {
    uint32_t whole = network->bits / 8;
    uint32_t rest = network->bits % 8;
    uint8_t mask = (uint8_t)(0xff00u >> rest);
    return memcmp(network->address.at, source->at, whole) == 0 &&
           (rest == 0 || ((network->address.at[whole] ^ source->at[whole]) & mask) == 0);
}

bool udp_networks_have(const struct udp_networks *networks, const struct udp_source *source) {
    for (uint32_t i = 0; i < networks->count; i++) {
        if (network_has(&networks->of[i], source)) {
            return true;
        }
    }
    return false;
}

bool server_udp_allow_check(const char *text, char *reason, size_t room) {
    struct udp_networks networks;
    return udp_networks_parse(text, &networks, reason, room);
}

bool server_udp_allow_any(const char *text) {
    return text[strspn(text, " ,")] != '\0';
}

/* ---- Rates ---- */

static void bucket_fill(const struct udp_rate *rate, struct udp_bucket *bucket, uint64_t now_ms) {
    uint64_t most = rate->burst * 1000;
    uint64_t gone_ms = now_ms - bucket->filled_ms;
    /* One millisecond at one request a second gives a thousandth of a request. */
    uint64_t more = gone_ms > most ? most : gone_ms * rate->per_second;
    bucket->tokens = bucket->tokens + more > most ? most : bucket->tokens + more;
    bucket->filled_ms = now_ms;
}

/* The bucket of the source, or one that is empty or full and can be reused. */
static struct udp_bucket *bucket_find(struct udp_rate *rate, const struct udp_source *source,
                                      uint64_t now_ms) {
    uint64_t set = tn_hash64(source->at, sizeof source->at, 0) % (UDP_SOURCES / UDP_WAYS);
    struct udp_bucket *set_at = &rate->buckets[set * UDP_WAYS];
    struct udp_bucket *spare = NULL;
    for (uint32_t i = 0; i < UDP_WAYS; i++) {
        struct udp_bucket *bucket = &set_at[i];
        if (bucket->filled_ms != 0) {
            bucket_fill(rate, bucket, now_ms);
            if (memcmp(bucket->source.at, source->at, sizeof source->at) == 0) {
                return bucket;
            }
        }
        if (bucket->filled_ms == 0 || bucket->tokens == rate->burst * 1000) {
            spare = bucket;
        }
    }
    if (spare != NULL) {
        *spare = (struct udp_bucket){
            .source = *source, .filled_ms = now_ms, .tokens = rate->burst * 1000};
    }
    return spare;
}

bool udp_rate_take(struct udp_rate *rate, const struct udp_source *source, uint64_t now_ms) {
    struct udp_source who = *source;
    if (rate->per_second == 0) {
        return true;
    }
    if (!is_four(source)) {
        memset(who.at + 8, 0, 8); /* a host with one address of a /64 has all of them */
    }
    struct udp_bucket *bucket = bucket_find(rate, &who, now_ms > 0 ? now_ms : 1);
    if (bucket == NULL || bucket->tokens < 1000) {
        return false;
    }
    bucket->tokens -= 1000;
    return true;
}
