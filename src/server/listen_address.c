/* What listen_address.h promises. */
#include "server/listen_address.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <uv.h>

#include "kernel/types.h"

bool server_address_split(const char *text, char host[64], uint16_t *ret_port) {
    const char *colon = strrchr(text, ':');
    uint64_t port;
    if (colon == NULL ||
        !kernel_value_parse(KERNEL_DEC, tn_bytes_of(colon + 1, strlen(colon + 1)), &port) ||
        port > UINT16_MAX) {
        return false;
    }
    size_t len = (size_t)(colon - text);
    if (len > 2 && text[0] == '[' && text[len - 1] == ']') {
        text++;
        len -= 2;
    }
    if (len == 0 || len >= 64) {
        return false;
    }
    memcpy(host, text, len);
    host[len] = '\0';
    if (strcmp(host, "localhost") == 0) {
        (void)snprintf(host, 64, "127.0.0.1");
    }
    *ret_port = (uint16_t)port;
    return true;
}

int server_address_make(const char *host, uint16_t port, struct sockaddr_storage *ret_address) {
    int code = uv_ip4_addr(host, port, (struct sockaddr_in *)ret_address);
    return code == 0 ? 0 : uv_ip6_addr(host, port, (struct sockaddr_in6 *)ret_address);
}

uint16_t server_address_port(const struct sockaddr_storage *address) {
    return ntohs(address->ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)address)->sin6_port
                                                : ((const struct sockaddr_in *)address)->sin_port);
}

bool server_address_is_loopback(const char *host) {
    struct sockaddr_in four;
    struct sockaddr_in6 six;
    if (uv_ip4_addr(host, 0, &four) == 0) {
        return ntohl(four.sin_addr.s_addr) >> 24 == 127;
    }
    return uv_ip6_addr(host, 0, &six) == 0 && IN6_IS_ADDR_LOOPBACK(&six.sin6_addr);
}

bool server_address_check(const char *text, bool anywhere, char *reason, size_t room) {
    char host[64];
    uint16_t port;
    if (!server_address_split(text, host, &port)) {
        (void)snprintf(reason, room, "'%s' is not HOST:PORT", text);
        return false;
    }
    if (!anywhere && !server_address_is_loopback(host)) {
        (void)snprintf(reason, room,
                       "%s: only loopback addresses are allowed here: 127.0.0.1 or [::1]", text);
        return false;
    }
    return true;
}
