/* Telling systemd how we are, if it wants to know (NOTIFY_SOCKET is set); else these do nothing. */
#ifndef TN_MAIN_NOTIFY_H
#define TN_MAIN_NOTIFY_H

#include <stdint.h>

void notify_status(const char *text);
void notify_ready(const char *text);
void notify_reloading(void);
void notify_stopping(void);
void notify_alive(void);
/* The interval for notify_alive: half of the watchdog's. 0: never. */
uint32_t notify_alive_ms(void);

#endif
