/* A lookup is shared by the thread and its caller; the last of the two frees it. */
#include "etcd/address.h"

#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct etcd_lookup {
    atomic_int users;
    atomic_bool done;
    int fd;
    int result; /* result of getaddrinfo; valid with `addresses` after `done` */
    struct etcd_endpoint endpoint;
    struct etcd_addresses addresses;
};

/* ---- Endpoints ---- */

static bool port_parse(const char *text, size_t len, char out[6]) {
    unsigned value = 0;
    if (len == 0 || len > 5) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return false;
        }
        value = value * 10 + (unsigned)(text[i] - '0');
    }
    if (value == 0 || value > 65535) {
        return false;
    }
    (void)snprintf(out, 6, "%u", value);
    return true;
}

static bool host_is_plain(const char *text, size_t len, bool brackets) {
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    c == '.' || c == '-' || c == '_' || (brackets && (c == ':' || c == '%'));
        if (!good) {
            return false;
        }
    }
    return len > 0 && len < ETCD_HOST_MAX;
}

bool etcd_endpoint_parse(const char *text, struct etcd_endpoint *ret_endpoint) {
    struct etcd_endpoint endpoint = {.port = "2379"};
    if (strncmp(text, "https://", 8) == 0) {
        endpoint.tls = true;
        text += 8;
    } else if (strncmp(text, "http://", 7) == 0) {
        text += 7;
    } else {
        return false;
    }
    bool brackets = text[0] == '[';
    size_t len = brackets ? strcspn(++text, "]") : strcspn(text, ":/");
    const char *rest = text + len;
    if (!host_is_plain(text, len, brackets) || (brackets && *rest++ != ']')) {
        return false;
    }
    memcpy(endpoint.host, text, len);
    if (*rest == ':') {
        size_t digits = strcspn(++rest, "/");
        if (!port_parse(rest, digits, endpoint.port)) {
            return false;
        }
        rest += digits;
    }
    if (*rest == '/') {
        rest++;
    }
    if (*rest != '\0') {
        return false;
    }
    (void)snprintf(endpoint.authority, sizeof endpoint.authority, brackets ? "[%s]:%s" : "%s:%s",
                   endpoint.host, endpoint.port);
    *ret_endpoint = endpoint;
    return true;
}

/* ---- Addresses ---- */

static void addresses_fill(struct etcd_addresses *out, const struct addrinfo *list) {
    out->count = 0;
    for (; list != NULL && out->count < ETCD_ADDRESSES_MAX; list = list->ai_next) {
        if (list->ai_addrlen <= sizeof out->at[0]) {
            memcpy(&out->at[out->count++], list->ai_addr, list->ai_addrlen);
        }
    }
}

static int look_up(const struct etcd_endpoint *endpoint, int flags, struct etcd_addresses *out) {
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags};
    struct addrinfo *list = NULL;
    int result = getaddrinfo(endpoint->host, endpoint->port, &hints, &list);
    if (result == 0) {
        addresses_fill(out, list);
        freeaddrinfo(list);
    }
    return result;
}

bool etcd_address_numeric(const struct etcd_endpoint *endpoint,
                          struct etcd_addresses *ret_addresses) {
    struct etcd_addresses addresses;
    if (look_up(endpoint, AI_NUMERICHOST | AI_NUMERICSERV, &addresses) != 0 ||
        addresses.count == 0) {
        return false;
    }
    *ret_addresses = addresses;
    return true;
}

static void lookup_drop(struct etcd_lookup *lookup) {
    if (atomic_fetch_sub(&lookup->users, 1) == 1) {
        (void)close(lookup->fd);
        free(lookup);
    }
}

static void *lookup_run(void *ctx) {
    struct etcd_lookup *lookup = ctx;
    lookup->result = look_up(&lookup->endpoint, AI_NUMERICSERV, &lookup->addresses);
    atomic_store(&lookup->done, true);
    (void)eventfd_write(lookup->fd, 1);
    lookup_drop(lookup);
    return NULL;
}

struct etcd_lookup *etcd_lookup_begin(const struct etcd_endpoint *endpoint) {
    struct etcd_lookup *lookup = calloc(1, sizeof *lookup);
    if (lookup == NULL) {
        return NULL;
    }
    pthread_t thread;
    pthread_attr_t attributes;
    lookup->endpoint = *endpoint;
    lookup->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    atomic_init(&lookup->users, 2);
    atomic_init(&lookup->done, false);
    if (lookup->fd < 0 || pthread_attr_init(&attributes) != 0) {
        goto failed;
    }
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    int result = pthread_create(&thread, &attributes, lookup_run, lookup);
    (void)pthread_attr_destroy(&attributes);
    if (result == 0) {
        return lookup;
    }
failed:
    if (lookup->fd >= 0) {
        (void)close(lookup->fd);
    }
    free(lookup);
    return NULL;
}

int etcd_lookup_fd(const struct etcd_lookup *lookup) {
    return lookup->fd;
}

bool etcd_lookup_done(struct etcd_lookup *lookup, struct etcd_addresses *ret_addresses,
                      const char **ret_error) {
    if (!atomic_load(&lookup->done)) {
        return false;
    }
    if (lookup->result != 0 || lookup->addresses.count == 0) {
        *ret_error = lookup->result != 0 ? gai_strerror(lookup->result) : "no address";
        return true;
    }
    *ret_addresses = lookup->addresses;
    *ret_error = NULL;
    return true;
}

void etcd_lookup_end(struct etcd_lookup *lookup) {
    lookup_drop(lookup);
}
