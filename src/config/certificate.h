/* tenured --make-certificate DIR: a set of certificates for trying TLS. */
#ifndef TN_CONFIG_CERTIFICATE_H
#define TN_CONFIG_CERTIFICATE_H

#include "os/os.h"

/* Writes ca.pem, server.pem, client.pem and a key for each (NAME-key.pem, mode 0600) into the directory,
 * which is created if it does not exist. Replaces no file: an existing authority signs the missing certificates. If
 * root calls it, the files belong to the owner of the directory. Returns the program's exit code; standard output
 * or standard error reports the result. */
int config_certificate_make(const struct os *os, const char *dir);

#endif
