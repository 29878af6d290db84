/* The addresses from which clients log in: how many of their log-ins wait, and how many failed
 * recently. For IPv6 the address is its /64, since a client may choose the rest. The table is
 * bounded: a new address replaces the entry of its group that has been silent longest and has no
 * waiting log-in. If all entries of the group have one, the new address shares an entry with others
 * like it. */
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "base/hash.h"
#include "server/login.h"

#define GROUP 8u

/* False: a Unix-domain socket, or closed. */
static bool peer_of(int socket, struct sockaddr_storage *ret_peer) {
    socklen_t len = sizeof *ret_peer;
    memset(ret_peer, 0, sizeof *ret_peer);
    return getpeername(socket, (struct sockaddr *)ret_peer, &len) == 0 &&
           (ret_peer->ss_family == AF_INET || ret_peer->ss_family == AF_INET6);
}

static void key_make(int socket, uint8_t key[16]) {
    struct sockaddr_storage peer;
    memset(key, 0, 16);
    if (!peer_of(socket, &peer)) {
        return;
    }
    if (peer.ss_family == AF_INET) {
        memcpy(key + 12, &((const struct sockaddr_in *)&peer)->sin_addr, 4);
        return;
    }
    const struct in6_addr *six = &((const struct sockaddr_in6 *)&peer)->sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(six)) {
        memcpy(key + 12, six->s6_addr + 12, 4);
    } else {
        memcpy(key, six->s6_addr, 8);
    }
}

struct server_login_address *server_login_address(struct server_logins *logins, int socket,
                                                  uint64_t now_ms) {
    struct server_login_address *oldest = NULL;
    uint8_t key[16];
    key_make(socket, key);
    uint64_t hash = tn_hash64(key, sizeof key, tn_load32(logins->key));
    struct server_login_address *group =
        &logins->addresses[hash % (SERVER_LOGIN_ADDRESSES / GROUP) * GROUP];
    for (uint32_t i = 0; i < GROUP; i++) {
        struct server_login_address *entry = &group[i];
        if (entry->used_ms > 0 && memcmp(entry->key, key, sizeof key) == 0) {
            entry->used_ms = now_ms + 1;
            return entry;
        }
        if (entry->waiting == 0 && (oldest == NULL || entry->used_ms < oldest->used_ms)) {
            oldest = entry;
        }
    }
    if (oldest == NULL) {
        return &logins->addresses[SERVER_LOGIN_ADDRESSES];
    }
    *oldest = (struct server_login_address){.used_ms = now_ms + 1};
    memcpy(oldest->key, key, sizeof key);
    return oldest;
}

void server_login_address_text(int socket, char out[SERVER_LOGIN_ADDRESS_TEXT]) {
    struct sockaddr_storage peer;
    if (!peer_of(socket, &peer)) {
        memcpy(out, "local", 6);
    } else if (peer.ss_family == AF_INET) {
        (void)uv_ip4_name((const struct sockaddr_in *)&peer, out, SERVER_LOGIN_ADDRESS_TEXT);
    } else {
        (void)uv_ip6_name((const struct sockaddr_in6 *)&peer, out, SERVER_LOGIN_ADDRESS_TEXT);
    }
}
