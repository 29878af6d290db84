/* Users: the keys of a section [user NAME].
 *
 *     role = reader | holder | operator | admin
 *     secret = what `tenured --hash-secret` prints: never the secret itself
 *     pools = ports gpu-*          patterns; without it, all; the key may be repeated
 *     holders = job:*              the same for holders
 *     max_values = 100             the most values that its leases hold together; without it, any */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"

static bool role_set(struct config_user *user, const char *text, char reason[CONFIG_REASON_MAX]) {
    if (user->role != PROTOCOL_NOBODY) {
        return config_refuse(reason, "user %s: role is set twice", user->head.name);
    }
    user->role = protocol_role_parse(tn_bytes_of(text, strlen(text)));
    return user->role != PROTOCOL_NOBODY ||
           config_refuse(reason, "role = reader, holder, operator or admin");
}

/* The value is not repeated in the message: a secret given instead of its hash would get into the
 * log. */
static bool secret_set(struct config_user *user, const char *text, char reason[CONFIG_REASON_MAX]) {
    if (user->hash[0] != '\0') {
        return config_refuse(reason, "user %s: secret is set twice", user->head.name);
    }
    if (strncmp(text, crypto_pwhash_STRPREFIX, strlen(crypto_pwhash_STRPREFIX)) != 0 ||
        strlen(text) >= sizeof user->hash ||
        crypto_pwhash_str_needs_rehash(text, ACCESS_HASH_OPS, ACCESS_HASH_MEMORY) < 0) {
        return config_refuse(reason,
                             "secret is not a hash; use the output of tenured --hash-secret");
    }
    (void)snprintf(user->hash, sizeof user->hash, "%s", text);
    return true;
}

/* An empty list would mean the same as no list, which permits everything. */
static bool patterns_add(char **list, const char *text, char reason[CONFIG_REASON_MAX]) {
    if (text[strspn(text, " \t,")] == '\0') {
        return config_refuse(reason, "the pattern is missing; omit the key, or use * for all");
    }
    size_t old = *list == NULL ? 0 : strlen(*list);
    char *more = realloc(*list, old + strlen(text) + 2);
    if (more == NULL) {
        return config_refuse(reason, "no memory");
    }
    *list = more;
    (void)sprintf(more + old, "%s%s", old > 0 ? " " : "", text);
    return true;
}

static bool quota_set(struct config_user *user, const char *text, char reason[CONFIG_REASON_MAX]) {
    uint64_t number;
    if (user->max_values != 0) {
        return config_refuse(reason, "user %s: max_values is set twice", user->head.name);
    }
    if (!kernel_value_parse(KERNEL_DEC, tn_bytes_of(text, strlen(text)), &number) || number == 0 ||
        number > UINT32_MAX) {
        return config_refuse(reason, "max_values = a whole number from 1 to %u", UINT32_MAX);
    }
    user->max_values = (uint32_t)number;
    return true;
}

bool config_user_set(struct config_user *user, const char *key, const char *text,
                     char reason[CONFIG_REASON_MAX]) {
    if (strcmp(key, "role") == 0) {
        return role_set(user, text, reason);
    }
    if (strcmp(key, "secret") == 0) {
        return secret_set(user, text, reason);
    }
    if (strcmp(key, "pools") == 0 || strcmp(key, "holders") == 0) {
        return patterns_add(*key == 'p' ? &user->pools : &user->holders, text, reason);
    }
    if (strcmp(key, "max_values") == 0) {
        return quota_set(user, text, reason);
    }
    return config_refuse(
        reason, "unknown user key '%.60s'; known: role, secret, pools, holders, max_values", key);
}

bool config_user_check(const struct config_user *user, char reason[CONFIG_REASON_MAX]) {
    if (strncmp(user->head.name, ACCESS_LOCAL_PREFIX, sizeof ACCESS_LOCAL_PREFIX - 1) == 0) {
        return config_refuse(reason, "names that begin with " ACCESS_LOCAL_PREFIX
                                     " are for clients of the Unix-domain socket");
    }
    if (user->role == PROTOCOL_NOBODY) {
        return config_refuse(reason, "it has no role");
    }
    return user->hash[0] != '\0' || config_refuse(reason, "it has no secret");
}

void config_user_print(const struct config_user *user, FILE *out) {
    (void)fprintf(out, "\n[user %s]\nrole = %s\nsecret = %s\n", user->head.name,
                  protocol_role_name(user->role), user->hash);
    if (user->pools != NULL) {
        config_words_print("pools", user->pools, out);
    }
    if (user->holders != NULL) {
        config_words_print("holders", user->holders, out);
    }
    if (user->max_values > 0) {
        (void)fprintf(out, "max_values = %u\n", user->max_values);
    }
}

void config_user_free(struct config_user *user) {
    free(user->pools);
    free(user->holders);
}
