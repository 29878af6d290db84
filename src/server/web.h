/* The page's files, which the build puts into the program (tools/embed.cmake). */
#ifndef TN_SERVER_WEB_H
#define TN_SERVER_WEB_H

#include <stddef.h>

struct web_file {
    const char *path; /* of the URL */
    const char *type;
    const char *etag; /* with its quotes */
    const unsigned char *at;
    size_t len;
};

extern const struct web_file web_files[];
extern const unsigned web_file_count;

#endif
