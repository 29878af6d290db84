/* The names of the files in a run's directory, which the server and the guardian both use. */
#ifndef TN_PROCESS_RUN_FILES_H
#define TN_PROCESS_RUN_FILES_H

#define RUN_FILES_RECORD "run"
#define RUN_FILES_TOKEN "token"
#define RUN_FILES_RULES "rules"
#define RUN_FILES_LOG_PREFIX "log." /* a number follows */
#define RUN_FILES_NEW ".new"        /* the suffix of a file's name until the file is complete */

#endif
