/* Secrets: those in files, and tenured --hash-secret, which turns the secret on standard input into its
 * hash on standard output. */
#ifndef TN_CONFIG_SECRET_H
#define TN_CONFIG_SECRET_H

#include "os/os.h"

/* Reads the first line of a file that other users cannot read, without its end. */
enum tn_status config_secret_read(const struct os *os, const char *path, char *out, size_t room);
/* Describes why config_secret_read has failed. */
const char *config_secret_fault(enum tn_status status);

/* The exit code. */
int config_secret_hash(void);

#endif
