/* tenured --hash-secret: from standard input to standard output, a secret becomes its hash. */
#ifndef TN_CONFIG_SECRET_H
#define TN_CONFIG_SECRET_H

/* The exit code. */
int config_secret_hash(void);

#endif
