/* What secret.h promises. A secret to hash is one line of standard input, so that no command line shows
 * it; a terminal does not show it either. */
#include "config/secret.h"

#include "os/file_whole.h"
#include "server/access.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

enum tn_status config_secret_read(const struct os *os, const char *path, char *out, size_t room) {
    size_t len = 0;
    enum tn_status status = os_file_read(os, path, OS_PRIVATE, out, room - 1, &len);
    out[len] = '\0';
    out[strcspn(out, "\r\n")] = '\0';
    return status;
}

const char *config_secret_fault(enum tn_status status) {
    return status == TN_DENIED
               ? "it must belong to the server's user, with mode 0600, or to root, with mode 0640"
               : tn_status_text(status);
}

/* Returns the length of the line without its end; 0: there is none, or it is too long. */
static size_t line_read(char *out, size_t room) {
    struct termios shown;
    bool terminal = tcgetattr(STDIN_FILENO, &shown) == 0;
    if (terminal) {
        struct termios hidden = shown;
        hidden.c_lflag &= ~(tcflag_t)ECHO;
        /* First, because it discards what was typed. */
        (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &hidden);
        (void)fputs("Secret: ", stderr);
    }
    bool got = fgets(out, (int)room, stdin) != NULL;
    if (terminal) {
        (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &shown);
        (void)fputc('\n', stderr);
    }
    size_t len = got ? strlen(out) : 0;
    if (len > 0 && out[len - 1] == '\n') {
        return len - 1;
    }
    return len < room - 1 ? len : 0;
}

int config_secret_hash(void) {
    char secret[ACCESS_SECRET_MAX + 2];
    char hash[crypto_pwhash_STRBYTES];
    if (sodium_init() < 0) {
        return 2;
    }
    size_t len = line_read(secret, sizeof secret);
    bool made =
        len > 0 && crypto_pwhash_str(hash, secret, len, ACCESS_HASH_OPS, ACCESS_HASH_MEMORY) == 0;
    sodium_memzero(secret, sizeof secret);
    if (!made) {
        (void)fprintf(stderr, "standard input must be one line of 1 to %u bytes\n",
                      ACCESS_SECRET_MAX);
        return 2;
    }
    (void)printf("%s\n", hash);
    return 0;
}
