/* Which requests are answered while no users are defined. The port is open to this machine only,
 * but a browser on it shows pages from elsewhere, which can send requests here: under a name of
 * their own that resolves to 127.0.0.1 (the header Host shows it), or directly (the header Origin
 * shows it). */
#include <string.h>
#include <strings.h>

#include "server/http_parts.h"
#include "server/listen_address.h"

bool http_host_is_ours(const char *host) {
    char name[64];
    size_t len = strcspn(host, host[0] == '[' ? "]" : ":");
    const char *rest = host + len;
    if (host[0] == '[') {
        if (*rest++ != ']') {
            return false;
        }
        host++;
        len--;
    }
    if (len == 0 || len >= sizeof name ||
        (rest[0] != '\0' && (rest[0] != ':' || rest[1 + strspn(rest + 1, "0123456789")] != '\0'))) {
        return false;
    }
    memcpy(name, host, len);
    name[len] = '\0';
    return strcasecmp(name, "localhost") == 0 || server_address_is_loopback(name);
}

bool http_origin_is_host(const char *origin, const char *host, bool secure) {
    const char *scheme = secure ? "https://" : "http://";
    size_t len = strlen(scheme);
    return host != NULL && strncasecmp(origin, scheme, len) == 0 &&
           strcasecmp(origin + len, host) == 0;
}

/* `curl -d` labels any body as a form, so forms are accepted as JSON. This does not admit other
 * sites' pages: browsers say where a form comes from, and that is judged first. */
bool http_type_is_json(const char *type) {
    static const char form[] = "application/x-www-form-urlencoded";
    size_t len = strcspn(type, "; \t");
    return (len == sizeof form - 1 && strncasecmp(type, form, len) == 0) ||
           (len == 16 && strncasecmp(type, "application/json", len) == 0) ||
           (len > 17 && strncasecmp(type, "application/", 12) == 0 &&
            strncasecmp(type + len - 5, "+json", 5) == 0);
}
