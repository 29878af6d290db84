/* Telling systemd how we are, if it wants to know (NOTIFY_SOCKET is set); else these do nothing. */
#ifndef TN_MAIN_NOTIFY_H
#define TN_MAIN_NOTIFY_H

#include <stdint.h>

void notify_status(const char *text);
void notify_ready(const char *text);
void notify_reloading(void);
void notify_stopping(void);
void notify_alive(void);
/* How often notify_alive is due: half of what the watchdog allows. 0: never. */
uint32_t notify_alive_ms(void);

#endif
